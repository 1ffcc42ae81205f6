"""The quantities of the paper's theorems: hardness, schedules, rate functions, bounds, the lower-bound family.

``eq:...``, ``thm:...`` and ``corollary:...`` are labels in the source of the paper. A name that ends in
``_order`` gives the expression inside the paper's ``O(.)``, whose constant is unspecified: compare such
values with each other, never with a measured regret.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from adadim.core.arrays import FloatArray, real_array
from adadim.core.checks import check_fits, flag, integer, number, one_of, require
from adadim.errors import ConditionError, InvalidTypeError, InvalidValueError

__all__ = [
    "ConditionError",
    "Iteration",
    "LowerBoundFamily",
    "Schedule",
    "confidence_radius",
    "dominates",
    "frontier",
    "hardness",
    "linucbpp_bound_order",
    "lower_bound_family",
    "modified_linucb_bound_order",
    "nonadaptive_rate",
    "pareto_rate",
    "rate_lower_bound",
    "recommended_beta",
    "schedule",
    "tapered_information",
    "tapered_rate",
    "theorem1_bound",
]

F = TypeVar("F", float, FloatArray)
ROUND_UP = 1.0 + 1e-12  # a factor: T^alpha may miss a whole number by an ulp or two


@dataclass(frozen=True, slots=True)
class Iteration:
    """Iteration i of Algorithm 1 as far as the horizon lets it run: rounds ``start <= t < stop``, 0-based.

    ``index`` is i, from 1; ``dim`` is d_i; ``length`` is DeltaT_i, whether or not all of it is played.

    Examples
    --------
    >>> last = schedule(2500, 0.5, 600).iterations[-1]
    >>> last
    Iteration(index=5, dim=8, length=2048, start=1920, stop=2500)
    >>> last.complete, last.lifted_dim
    (False, 12)
    """

    index: int
    dim: int
    length: int
    start: int
    stop: int

    @property
    def complete(self) -> bool:
        """Whether all DeltaT_i rounds are played; only then is there a virtual mixture-arm of it."""
        return self.stop - self.start == self.length

    @property
    def lifted_dim(self) -> int:
        """Dimension d_i + i - 1 of the modified problem, virtual dimensions included."""
        return self.dim + self.index - 1


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of Algorithm 1: all p dimensions and lengths, and the iterations reached by round T.

    Examples
    --------
    >>> plan = schedule(100, 0.5, 600)
    >>> plan.p, plan.dims, plan.lengths
    (4, (32, 16, 8, 4), (32, 64, 100, 100))
    >>> [(iteration.start, iteration.stop) for iteration in plan.iterations]
    [(0, 32), (32, 96), (96, 100)]
    """

    p: int
    dims: tuple[int, ...]
    lengths: tuple[int, ...]
    iterations: tuple[Iteration, ...]


def hardness(intrinsic_dim: int, horizon: int) -> float:
    """Hardness level psi = ln d_star / ln T (Section 2); above 1 when d_star > T.

    Examples
    --------
    >>> round(hardness(12, 2500), 4)
    0.3176
    """
    d_star, horizon = integer(intrinsic_dim, "intrinsic_dim"), integer(horizon, "horizon", least=2)
    return math.log(d_star) / math.log(horizon)


def schedule(horizon: int, beta: float, dim: int) -> Schedule:
    """Dimensions and lengths of LinUCB++'s iterations (Algorithm 1, line 1), for ambient dimension ``dim``.

    Examples
    --------
    >>> schedule(2500, 0.5, 600).dims
    (128, 64, 32, 16, 8, 4)
    """
    horizon, dim = integer(horizon, "horizon"), integer(dim, "dim")
    # p = ceil(log2 T^beta); the slack keeps T^beta = 2^k at k when the logarithm rounds up.
    p = max(1, math.ceil(_checked_beta(beta) * math.log2(horizon) - 1e-9))
    dims = tuple(min(2 ** (p + 2 - i), dim) for i in range(1, p + 1))
    lengths = tuple(min(2 ** (p + i), horizon) for i in range(1, p + 1))
    iterations: list[Iteration] = []
    start = 0
    for i, (d_i, length) in enumerate(zip(dims, lengths, strict=True), start=1):
        if start < horizon:
            stop = min(start + length, horizon)
            iterations.append(Iteration(i, d_i, length, start, stop))
            start = stop
    return Schedule(p, dims, lengths, tuple(iterations))


def _checked_beta(beta: float) -> float:
    """The parameter of LinUCB++, in [1/2, 1)."""
    require(0.5 <= number(beta, "beta") < 1.0, "beta", "lie in [1/2, 1)", beta)
    return float(beta)


def nonadaptive_rate(alpha: F) -> F:
    """Rate (1 + alpha)/2 of LinUCB that knows alpha (Section 2); ``alpha`` is a number or an array.

    Examples
    --------
    >>> nonadaptive_rate(0.5)
    0.75
    """
    return _like(alpha, (1.0 + _checked_alphas(alpha)) / 2.0)


def pareto_rate(alpha: F, beta: float) -> F:
    """Pareto optimal rate theta_beta(alpha) = min(max(beta, 1 + alpha - beta), 1) (Theorem 4).

    Examples
    --------
    >>> pareto_rate(0.25, beta=0.5)
    0.75
    >>> pareto_rate(np.array([0.0, 0.5, 1.0]), beta=0.75)
    array([0.75, 0.75, 1.  ])
    """
    return rate_lower_bound(alpha, _checked_beta(beta))


def frontier(alpha: F, beta: float | None = None) -> F:
    """Rate on the Pareto frontier at hardness ``alpha``, for a policy that is not told alpha.

    With ``beta`` it is `pareto_rate`, that of one policy for all alphas. Without, it is the least over all betas, which
    beta = (1 + alpha)/2 attains: the rate of a policy that is told alpha, `nonadaptive_rate`. No single beta attains it
    at more than one alpha.

    Examples
    --------
    >>> frontier(0.3, beta=0.5), frontier(0.3, beta=0.75), frontier(0.3)
    (0.8, 0.75, 0.65)
    """
    return nonadaptive_rate(alpha) if beta is None else pareto_rate(alpha, beta)


def rate_lower_bound(alpha: F, rate_at_zero: float) -> F:
    """Least rate at ``alpha`` of any algorithm whose rate at 0 is ``rate_at_zero`` (Theorem 2).

    Examples
    --------
    >>> rate_lower_bound(0.25, rate_at_zero=1.0)
    1.0
    """
    require(0.5 <= number(rate_at_zero, "rate_at_zero") <= 1.0, "rate_at_zero", "lie in [1/2, 1]", rate_at_zero)
    # In this order the sum is exactly >= 1 whenever alpha >= rate_at_zero.
    rising = 1.0 + (_checked_alphas(alpha) - rate_at_zero)
    return _like(alpha, np.minimum(np.maximum(rate_at_zero, rising), 1.0))


def dominates(
    rate_a: Callable[[FloatArray], ArrayLike],
    rate_b: Callable[[FloatArray], ArrayLike],
    grid: ArrayLike | None = None,
) -> bool:
    """Whether ``rate_a <= rate_b`` on the whole grid and ``<`` somewhere on it (the order of Definition 2).

    ``grid`` is 1001 even points of [0, 1] unless given; differences up to 1e-12 count as equality.

    Examples
    --------
    >>> dominates(nonadaptive_rate, lambda alpha: pareto_rate(alpha, 0.5))
    True
    >>> dominates(lambda alpha: pareto_rate(alpha, 0.6), lambda alpha: pareto_rate(alpha, 0.5))
    False
    """
    points = np.asarray(real_array(np.linspace(0.0, 1.0, 1001) if grid is None else grid, "grid"))
    require(bool(np.all((points >= 0.0) & (points <= 1.0))), "grid", "be alphas in [0, 1]", grid)
    require(points.ndim == 1 and points.size > 0, "grid", "be a non-empty list of alphas", grid)
    a, b = _rates(rate_a, "rate_a", points), _rates(rate_b, "rate_b", points)
    return bool(np.all(a <= b + 1e-12) and np.any(a < b - 1e-12))


def _rates(rate: Callable[[FloatArray], ArrayLike], name: str, points: FloatArray) -> FloatArray:
    require(callable(rate), name, "be a function of an array of alphas", rate, InvalidTypeError)
    try:
        rates = rate(points)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must map an array of alphas to as many rates, but raised: {error}") from error
    values = np.asarray(real_array(rates, name))
    ok = values.shape == points.shape and bool(np.all(np.isfinite(values)))
    require(ok, name, f"map {points.size} alphas to as many rates", values)
    return values


def recommended_beta(alpha_hat: float) -> float:
    """Choose beta = (1 + alpha_hat)/2, as the paper does given an estimate of the hardness (Section 5).

    With it theta_beta meets the non-adaptive rate at alpha_hat. As beta = 1 is not allowed, an estimate of 1
    or more gives the largest number below 1.

    This is about rates, which are limits. At the paper's size (T = 2500, alpha = 0.32) beta = 0.66 more than doubles
    the regret of LinUCB++ in the released variant and raises it by 73% in the theory variant, and up to T = 10,000 the
    ratio does not fall (`adadim study footnote`, docs/tradeoff.md): unless T is far larger, take beta = 0.5.

    Examples
    --------
    >>> recommended_beta(0.5)
    0.75
    """
    require(0.0 <= number(alpha_hat, "alpha_hat") < math.inf, "alpha_hat", "be finite and at least 0", alpha_hat)
    return min((1.0 + float(alpha_hat)) / 2.0, math.nextafter(1.0, 0.0))


def confidence_radius(horizon: int, arms: int, failure: float | None = None, norm_bound: float | None = None) -> float:
    """Width multiplier alpha + 2 ln T of the modified LinUCB, alpha = 2 sqrt(ln(2TK/delta)) (eq:lm_bound).

    For ridge 1 and sqrt(2)-sub-Gaussian noise. ``failure`` is delta, 1/sqrt(T) unless given; ``norm_bound``
    replaces 2 ln T, the paper's bound on the norm of the reward vector, and 0 leaves alpha alone.

    Examples
    --------
    >>> round(confidence_radius(2500, arms=1200), 6)
    24.484221
    """
    horizon, arms = integer(horizon, "horizon", least=2), integer(arms, "arms")
    delta = 1.0 / math.sqrt(horizon) if failure is None else _checked_failure(failure)
    norm = 2.0 * math.log(horizon) if norm_bound is None else float(number(norm_bound, "norm_bound"))
    require(0.0 <= norm < math.inf, "norm_bound", "be finite and at least 0", norm)
    return 2.0 * math.sqrt(math.log(2.0 * horizon * arms / delta)) + norm


def modified_linucb_bound_order(horizon: int, arms: int, dim: int, failure: float | None = None) -> float:
    """Order ln^2(K T ln T / delta) sqrt(d T) of the modified LinUCB's regret (thm:modified_linucb).

    Given ``failure``, delta, it is for the bound that holds with probability 1 - delta; otherwise for the one
    on the expected regret, where delta drops out (corollary:linucb). The constant is unspecified.

    Examples
    --------
    >>> round(modified_linucb_bound_order(2500, arms=1200, dim=12))
    49888
    """
    delta = 1.0 if failure is None else _checked_failure(failure)
    log = _log_ktlogt(horizon, arms) - math.log(delta)
    return log**2 * math.sqrt(integer(dim, "dim") * horizon)


def linucbpp_bound_order(horizon: int, arms: int, beta: float, alpha: float) -> float:
    """Order ln^(7/2)(K T ln T) T^theta_beta(alpha) of LinUCB++'s regret on H_T(alpha) (Theorem 3).

    The constant is unspecified.

    Examples
    --------
    >>> round(linucbpp_bound_order(2500, arms=1200, beta=0.5, alpha=0.0))
    1006874
    """
    return float(_log_ktlogt(horizon, arms) ** 3.5 * horizon ** pareto_rate(float(number(alpha, "alpha")), beta))


def tapered_information(horizon: int, dim: int, taper: float, ridge: float) -> float:
    """Upper bound on ln det(V / Lambda) after `horizon` pulls of arms of norm at most 1.

    By Hadamard's inequality it is at most the largest sum_j ln(1 + T_j / (lambda j^s)) with sum_j T_j <= T. The first J
    terms are at most J ln(1 + T / (lambda J)), the others at most T / (lambda (J + 1)^s) together, for every J; the
    best J of 1, ..., d is taken. It grows as (T / lambda)^(1 / (1 + s)) up to a logarithm, until it meets the d ln T of
    d features.

    Examples
    --------
    >>> round(tapered_information(2500, dim=600, taper=0.0, ridge=1.0))  # all features alike
    985
    >>> round(tapered_information(2500, dim=600, taper=1.5, ridge=1.0))
    116
    """
    rounds, dim = integer(horizon, "horizon"), integer(dim, "dim")
    require(0.0 <= number(taper, "taper") < np.inf, "taper", "be finite and at least 0", taper)
    require(0.0 < number(ridge, "ridge") < np.inf, "ridge", "be finite and positive", ridge)
    check_fits(32 * dim, dim=dim)
    j = np.arange(1.0, dim + 1)
    tail = rounds / (ridge * (j + 1) ** taper)
    tail[-1] = 0.0
    return float(np.min(j * np.log1p(rounds / (ridge * j)) + tail))


def tapered_rate(alpha: F, taper: float, target: float) -> F:
    """Rate that is proved for `TaperedLinUCB` with ``radius="oful"``, tuned to hardness `target`.

    With theta_norm = T^(s target / 2) and ridge T^(1 - (1 + s) g), g = (1 + s target) / (2 + s), the regret is of order
    T^(1/2 + g) up to logarithms for every alpha <= target, and nothing is known above.

    Examples
    --------
    >>> tapered_rate(0.0, taper=2.0, target=0.0)
    0.75
    >>> tapered_rate(np.array([0.0, 0.25, 0.3]), taper=6.0, target=0.25)
    array([0.8125, 0.8125, 1.    ])
    """
    require(0.0 <= number(taper, "taper") < np.inf, "taper", "be finite and at least 0", taper)
    require(0.0 <= number(target, "target") <= 1.0, "target", "lie in [0, 1]", target)
    flat = min(0.5 + (1.0 + taper * target) / (2.0 + taper), 1.0)
    return _like(alpha, np.where(_checked_alphas(alpha) <= target, flat, 1.0))


def _log_ktlogt(horizon: int, arms: int) -> float:
    horizon = integer(horizon, "horizon", least=2)
    return math.log(integer(arms, "arms") * horizon * math.log(horizon))


def _like(alpha: F, values: FloatArray) -> F:
    return cast(F, values if np.ndim(cast(Any, alpha)) else float(values))


def _checked_alphas(alpha: ArrayLike) -> FloatArray:
    values: FloatArray = np.asarray(real_array(alpha, "alpha"))
    wrong = values[~((values >= 0.0) & (values <= 1.0))]
    require(wrong.size == 0, "alpha", "lie in [0, 1]", wrong)
    return values


def _checked_failure(failure: float) -> float:
    require(0.0 < number(failure, "failure") < 1.0, "failure", "lie in (0, 1)", failure)
    return float(failure)


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
        wanted = f"be {self.arms_count} counts >= 0 that sum to at most T = {self.horizon}"
        ok = pulls.shape == (self.arms_count,) and bool(np.all(pulls >= 0.0))
        require(ok and pulls.sum() <= self.horizon * (1.0 + 1e-9), "pulls_under_0", wanted, pulls)
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
    easy_dim = math.floor(horizon**alpha_easy * ROUND_UP)
    return LowerBoundFamily(int(horizon), count, float(delta), easy_dim, flag(zero_arm, "zero_arm"))


def _lower_bound_arms(horizon: int, alpha: float, alpha_easy: float) -> int:
    """Kl = floor(T^alpha / 2), after checking the conditions of Theorem 1 but for the one on B."""
    horizon = integer(horizon, "horizon")
    require(0.0 <= number(alpha, "alpha") <= 1.0, "alpha", "lie in [0, 1]", alpha)
    require(0.0 <= number(alpha_easy, "alpha_easy") <= 1.0, "alpha_easy", "lie in [0, 1]", alpha_easy)
    if alpha_easy >= alpha:
        raise ConditionError(f"Theorem 1 needs alpha_easy < alpha, but {alpha_easy:g} >= {alpha:g}")
    hard, easy = float(horizon**alpha), float(horizon**alpha_easy)
    count = math.floor(hard / 2.0 * ROUND_UP)
    actual = f"but T^alpha = {horizon}^{alpha:g} = {hard:.6g} gives {count}"
    if count < 2:  # and count >= 2 implies count >= T^alpha / 4
        raise ConditionError(f"Theorem 1 needs floor(T^alpha / 2) >= 2, {actual}; take T^alpha >= 4")
    if easy > count * ROUND_UP:
        raise ConditionError(f"Theorem 1 needs floor(T^alpha / 2) >= T^alpha_easy = {easy:.6g}, {actual}")
    return count


def _check_budget(horizon: int, alpha: float, budget: float) -> None:
    require(0.0 < number(budget, "budget") < math.inf, "budget", "be positive and finite", budget)
    hard = horizon**alpha
    if hard > budget * ROUND_UP:
        raise ConditionError(f"Theorem 1 needs T^alpha <= budget, but {horizon}^{alpha:g} = {hard:.6g} > {budget:.6g}")
