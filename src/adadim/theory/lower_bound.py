"""Theorem 1, and the family of problems behind it."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from adadim.core.arrays import FloatArray, real_array
from adadim.core.checks import check_fits, flag, integer, number, one_of, require
from adadim.errors import ConditionError, InvalidValueError

ONE = 1.0 + 1e-12  # T^alpha may miss a whole number by an ulp or two


def theorem1_bound(horizon: int, alpha: float, alpha_easy: float, budget: float) -> float:
    """Theorem 1: regret at most ``budget`` on H_T(alpha_easy) forces at least this much on H_T(alpha).

    The value is 2^-10 T^(1+alpha) / budget; `ConditionError` if a condition of the theorem fails.

    Examples
    --------
    >>> theorem1_bound(2500, alpha=0.5, alpha_easy=0.0, budget=50.0)
    2.44140625
    """
    _lower_bound_arms(horizon, alpha, alpha_easy)
    _check_budget(horizon, alpha, budget)
    return float(2.0**-10 * horizon ** (1.0 + alpha) / budget)


@dataclass(frozen=True, slots=True)
class LowerBoundFamily:
    """The problems behind Theorem 1 (Appendix A), which `lower_bound_family` makes.

    The arms are a_0 = e_j, j = ``easy_dim``, and a_i = e_{Kl+i}, i = 1..Kl = ``arms_count``. In instance 0
    theta_0 = (Delta/2) e_j; in instance i theta_i = theta_0 + Delta e_{Kl+i}, where a_i beats a_0 by Delta/2.
    ``zero_arm`` adds an all-zero arm at the end, which makes the action set expressive.

    Examples
    --------
    >>> family = lower_bound_family(16, alpha=0.5, delta=0.25)
    >>> family.features
    array([[1., 0., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    >>> family.thetas @ family.features.T  # means: one row per instance, one column per arm
    array([[0.125, 0.   , 0.   ],
           [0.125, 0.25 , 0.   ],
           [0.125, 0.   , 0.25 ]])
    """

    noise: ClassVar[float] = 0.5  # standard deviation of the Gaussian noise

    horizon: int
    arms_count: int
    delta: float
    easy_dim: int = 1
    zero_arm: bool = False

    @property
    def dim(self) -> int:
        """Ambient dimension, 2 Kl; it is at most T^alpha."""
        return 2 * self.arms_count

    @property
    def features(self) -> FloatArray:
        """Arms a_0, a_1..a_Kl and the zero arm, if any, one a row."""
        check_fits(8 * (self.arms_count + 2) * self.dim, horizon=self.horizon)
        features = np.zeros((self.arms_count + 1 + self.zero_arm, self.dim))
        features[0, self.easy_dim - 1] = 1.0
        features[1 : self.arms_count + 1, self.arms_count :] = np.eye(self.arms_count)
        return features

    @property
    def thetas(self) -> FloatArray:
        """Reward vectors theta_0, theta_1..theta_Kl, one a row."""
        check_fits(8 * (self.arms_count + 1) * self.dim, horizon=self.horizon)
        thetas = np.zeros((self.arms_count + 1, self.dim))
        thetas[:, self.easy_dim - 1] = self.delta / 2.0
        thetas[1:, self.arms_count :] = self.delta * np.eye(self.arms_count)
        return thetas

    def average_regret_bound(self, pulls_under_0: ArrayLike) -> float:
        """Bound any policy's regret, averaged over instances 1..Kl, from below (eq:ave_regret_decomposition).

        ``pulls_under_0`` holds the policy's expected pulls of a_1..a_Kl in instance 0, no zero arm's.
        Estimated counts overstate the bound a little (a mean of square roots is below the root of the mean);
        giving every arm the average count is safe, and never raises the bound (eq:ave_regret_concave).

        Examples
        --------
        >>> lower_bound_family(2500, 0.5).average_regret_bound(np.zeros(25))  # always a_0
        19.53125
        """
        pulls = np.asarray(real_array(pulls_under_0, "pulls_under_0"))
        wants = f"be {self.arms_count} counts >= 0 that sum to at most T = {self.horizon}"
        ok = pulls.shape == (self.arms_count,) and bool(np.all(pulls >= 0.0))
        require(ok and pulls.sum() <= self.horizon * (1.0 + 1e-9), "pulls_under_0", wants, pulls)
        return float(self._bound(1.0 - pulls.mean() / self.horizon, self.delta * np.sqrt(pulls).mean()))

    def average_regret_bound_from_regret(self, regret_0: ArrayLike, form: Literal["paper", "counts"] = "paper") -> Any:
        """Bound it by the regret R_0 in instance 0, which says how often a_1..a_Kl were pulled: n = 2 R_0 / Delta.

        "paper" is (T Delta/2) (1/2 - sqrt(2 Delta R_0/Kl)) (eq:ave_regret). "counts" is never smaller:
        `average_regret_bound` with n/Kl pulls of every arm. An array of regrets gives an array of bounds.

        Examples
        --------
        >>> family = lower_bound_family(2500, 0.5, budget=50.0)
        >>> family.average_regret_bound_from_regret(50.0)  # 2^-8 T Kl / B
        4.8828125
        >>> family.average_regret_bound_from_regret([0.0, 50.0], form="counts").round(3)
        array([19.531, 12.648])
        """
        regret = np.asarray(real_array(regret_0, "regret_0"))
        ok = bool(np.all((regret >= 0.0) & (regret < math.inf)))
        require(ok, "regret_0", "be finite and at least 0", regret_0)
        root = np.sqrt(2.0 * self.delta * regret / self.arms_count)  # Delta sqrt(n/Kl)
        if one_of(form, "form", ("paper", "counts")) == "paper":
            value = self._bound(0.5, root)
        else:
            value = self._bound(1.0 - 2.0 * regret / (self.delta * self.arms_count * self.horizon), root)
        return float(value) if regret.ndim == 0 else value

    def _bound(self, kept: float | FloatArray, root: float | FloatArray) -> float | FloatArray:
        """(T Delta/2) (kept - root); `root` bounds how well the pulls can tell the instances apart."""
        return self.horizon * self.delta / 2.0 * (kept - root)


def lower_bound_family(
    horizon: int,
    alpha: float,
    alpha_easy: float = 0.0,
    budget: float | None = None,
    delta: float | None = None,
    *,
    zero_arm: bool = False,
) -> LowerBoundFamily:
    """Problems on which a policy good at hardness ``alpha_easy`` must be bad at ``alpha`` (Appendix A).

    Give ``budget``, the B of Theorem 1, for Delta = Kl / (32 B), or ``delta`` itself; with neither, B is
    T^alpha, the smallest allowed. The intrinsic dimension is floor(T^alpha_easy) in instance 0 and
    Kl + i in instance i.

    Examples
    --------
    >>> family = lower_bound_family(2500, alpha=0.5, budget=50.0)
    >>> family.arms_count, family.dim, family.delta
    (25, 50, 0.015625)
    """
    count = _lower_bound_arms(horizon, alpha, alpha_easy)
    if delta is None:
        budget = horizon**alpha if budget is None else budget
        _check_budget(horizon, alpha, budget)
        delta = count / (32.0 * budget)
        require(delta > 0.0, "budget", "be small enough for a gap above 0", budget)
    elif budget is not None:
        raise InvalidValueError(f"give budget or delta, not both; got budget = {budget} and delta = {delta}")
    within = 0.0 < number(delta, "delta") <= 2.0 / math.sqrt(5.0)  # ||theta_i|| = sqrt(5) Delta / 2
    require(within, "delta", "lie in (0, 2/sqrt(5)], for norms up to 1", delta)
    easy_dim = math.floor(horizon**alpha_easy * ONE)
    return LowerBoundFamily(int(horizon), count, float(delta), easy_dim, flag(zero_arm, "zero_arm"))


def _lower_bound_arms(horizon: int, alpha: float, alpha_easy: float) -> int:
    """Kl = floor(T^alpha / 2), after checking the conditions of Theorem 1 but for the one on B."""
    horizon = integer(horizon, "horizon")
    require(0.0 <= number(alpha, "alpha") <= 1.0, "alpha", "lie in [0, 1]", alpha)
    require(0.0 <= number(alpha_easy, "alpha_easy") <= 1.0, "alpha_easy", "lie in [0, 1]", alpha_easy)
    if alpha_easy >= alpha:
        raise ConditionError(f"Theorem 1 needs alpha_easy < alpha, but {alpha_easy:g} >= {alpha:g}")
    hard, easy = float(horizon**alpha), float(horizon**alpha_easy)
    count = math.floor(hard / 2.0 * ONE)
    but = f"but T^alpha = {horizon}^{alpha:g} = {hard:.6g} gives {count}"
    if count < 2:  # and count >= 2 implies count >= T^alpha / 4
        raise ConditionError(f"Theorem 1 needs floor(T^alpha / 2) >= 2, {but}; take T^alpha >= 4")
    if easy > count * ONE:
        raise ConditionError(f"Theorem 1 needs floor(T^alpha / 2) >= T^alpha_easy = {easy:.6g}, {but}")
    return count


def _check_budget(horizon: int, alpha: float, budget: float) -> None:
    require(0.0 < number(budget, "budget") < math.inf, "budget", "be positive and finite", budget)
    hard = horizon**alpha
    if hard > budget * ONE:
        raise ConditionError(f"Theorem 1 needs T^alpha <= budget, but {horizon}^{alpha:g} = {hard:.6g} > {budget:.6g}")
