"""ModCB (Foster, Krishnamurthy and Luo 2019): go on in a larger class of features when a test asks for it.

Within a class it plays SquareCB, LinUCB, or Exp4-IX over linear policies. The test asks how much of the reward the
smaller class leaves unexplained (`estimate_residual`). With Sig the second moment of the features and Sig_1 its leading
block, R = blockdiag(Sig_1^-1, 0) - Sig^-1 and W = R Sig R, the mean of x_s^T W x_t y_s y_t over pairs s != t of
uniformly explored arms is an unbiased estimate of E (<x, theta> - <x_1, theta_1>)^2. It needs sqrt(d) samples where
estimating theta needs d. Two sums are enough:

    (s^T W s - tr(W Q)) / (n (n - 1)),   s = sum x y,   Q = sum x x^T y^2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpocon, dpotrf

from adadim.core.arrays import BoolArray, FloatArray, IntArray, as_numpy, real_array
from adadim.core.checks import between, integer, not_negative, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import check_positions, stateless
from adadim.core.ties import sampled, tie_probabilities
from adadim.errors import InvalidValueError
from adadim.policies.base import Choice, Memo, Policy
from adadim.policies.confidence import noise_radius
from adadim.policies.linear.round_learner import ClassDims, Offers, RoundLearner, RoundRegression, class_dims
from adadim.policies.parameters import Delta, LossRange, Ridge, loss
from adadim.policies.player import merged, part_of, with_prefix, without_prefix

SINGULAR = 1e-10  # directions with less than this share of the largest second moment count as absent
LEAST_CONDITION = 1e-6  # of a second moment to be factored: every direction is far from counting as absent


@dataclass(frozen=True)
class Residual:
    """An estimate of the mean squared reward that a smaller class leaves unexplained.

    Attributes
    ----------
    value : float
        The estimate; unbiased, and so sometimes below 0.
    error : float
        Its standard error if the smaller class explains everything.
    """

    value: float
    error: float


def estimate_residual(explored: Any, rewards: Any, dim: int, contexts: Any = None, *, floor: float = 0.0) -> Residual:
    """How much of the reward features after the first `dim` explain, by pulls of uniformly random arms.

    Parameters
    ----------
    explored : array (n, d)
        Features of arms that were chosen uniformly at random, n >= 2.
    rewards : array (n,)
        Their rewards.
    dim : int
        Number of features of the smaller class, below d; 0 for no features at all.
    contexts : array (..., d), optional
        Features of all arms seen, chosen or not; they tell the second moment. By default those explored.
    floor : float
        Raise the eigenvalues of second moments to at least this much, for features that are nearly dependent.

    Returns
    -------
    Residual

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((400, 6))
    >>> y = x @ [0.5, 0.3, 0.4, 0, 0, 0] + 0.1 * rng.standard_normal(400)
    >>> round(estimate_residual(x, y, dim=2).value, 2)  # 0.4^2, give or take
    0.18
    >>> enough = estimate_residual(x, y, dim=3)
    >>> abs(enough.value) < 2 * enough.error
    True
    """
    x, y = (as_numpy(real_array(v, name)) for v, name in ((explored, "explored"), (rewards, "rewards")))
    if x.ndim != 2 or len(x) < 2 or y.shape != (len(x),):
        raise InvalidValueError(
            f"explored must be (n, d) and rewards (n,) with n of at least 2, got shapes {x.shape} and {y.shape}"
        )
    dim = integer(dim, "dim", least=0, most=x.shape[1] - 1, meaning="features of the smaller class")
    arms = x if contexts is None else as_numpy(real_array(contexts, "contexts"))
    if arms.ndim < 2 or arms.shape[-1] != x.shape[1]:
        raise InvalidValueError(f"contexts must have {x.shape[1]} features on their last axis, got shape {arms.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all() and np.isfinite(arms).all()):
        raise InvalidValueError("explored, rewards and contexts must be finite")
    rows = arms.reshape(-1, x.shape[1])
    form = residual_form(rows.T @ rows / len(rows), dim, not_negative(floor, "floor"))
    q, n = (x * (y * y)[:, None]).T @ x, len(x)
    fourth = float(np.square(np.vecdot(x @ form, x) * y * y).sum())
    return Residual(residual_value(form, y @ x, q, n), residual_error(form, q, n, fourth))


def residual_form(second: FloatArray, dim: int, floor: float = 0.0) -> FloatArray:
    """W = R Sig R for the class of the first `dim` features; where Sig is singular, by inverses on its range."""
    return form_of_inverses(*raised(second, floor), raised(second[:dim, :dim], floor)[1] if dim else None)


def form_of_inverses(second: FloatArray, inverse: FloatArray, leading: FloatArray | None) -> FloatArray:
    """W from Sig and its inverse, as `raised` gives them, and the inverse of its leading block (None if empty)."""
    r = -inverse
    if leading is not None:
        r[: len(leading), : len(leading)] += leading
    return r @ second @ r


def residual_value(form: FloatArray, s: FloatArray, q: FloatArray, n: int) -> float:
    """The estimate, from s = sum x y and q = sum x x^T y^2 over n explored arms."""
    return float((s @ form @ s - np.vdot(form, q)) / (n * (n - 1)))


def residual_error(form: FloatArray, q: FloatArray, n: int, fourth: float = 0.0) -> float:
    """Its standard error; too large without `fourth`, the sum of (x^T W x y^2)^2 (a sample paired with itself)."""
    product = form @ q
    spread = max(float(np.vdot(product.T, product)) - fourth, 0.0) / (n * (n - 1))
    return float(np.sqrt(2.0 * spread / (n * (n - 1))))


def raised(second: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """A second moment with its eigenvalues raised to `floor`, and the inverse of that (on its range)."""
    values, vectors = np.linalg.eigh(second)
    values = np.maximum(values, floor)
    usable = values > SINGULAR * max(float(values[-1]), 1e-300)
    inverses = np.where(usable, 1.0 / np.where(usable, values, 1.0), 0.0)
    return (vectors * values) @ vectors.T, (vectors * inverses) @ vectors.T


class ExploredSums:
    """Sums over the arms that ModCB explores in each replication, in the `dim` features of its largest class.

    With the Cholesky factor L of the second moment Sig, whose leading blocks are the factors of Sig's leading blocks,
    and z = L^-1 x, the form of the class of `small` features within that of `large` is

        x^T W x = x^T Sig^-1 x - x_1^T Sig_1^-1 x_1 = z_(small+1)^2 + ... + z_large^2.

    On a fixed set that has such a factor, sums over z answer for all pairs of classes at once. Where features come with
    each round, or are nearly dependent, or eigenvalues are raised to `floor`, sums over x do, and a W for each pair.
    """

    def __init__(self, problem: Problem, offers: Offers, dim: int, floor: float) -> None:
        replications, self.dim, self.floor = len(problem), dim, floor
        self.sets = None if offers.fixed is None else _FixedSets(offers.fixed[..., :dim], floor)
        self.count = np.zeros(replications, dtype=np.int64)
        self.moment = np.zeros((replications, dim))  # s = sum y x, or of z
        self.fourth = np.zeros((replications, dim, dim))  # Q = sum y^2 x x^T
        self.diagonal, self.weights = np.zeros((replications, dim)), np.zeros((replications, problem.arms))  # see `add`
        self.second, self.seen = np.zeros((replications, dim, dim)), np.zeros(replications, dtype=np.int64)

    def offered(self, features: FloatArray, rows: Replications) -> None:
        """Add the features (n, K, d) of a round to the second moment; that of a fixed set is known."""
        if self.sets is None:
            x = features[..., : self.dim]
            self.second[rows.ids] += x.swapaxes(-1, -2) @ x
            self.seen[rows.ids] += features.shape[1]

    def add(self, r: int, arm: int, x: FloatArray, reward: float) -> None:
        """Learn the reward of an arm with features x (d,), explored in replication r."""
        self.count[r] += 1
        whitened = self._whitened(r)
        if whitened is None:
            x = x[: self.dim]
            self.moment[r] += reward * x
            self.fourth[r] += reward**2 * np.outer(x, x)
        else:  # the diagonal of Q is enough for `residual`; `error` takes the rest from the weights y^2 of the arms
            z = whitened[arm]
            self.moment[r] += reward * z
            self.diagonal[r] += reward**2 * (z * z)
            self.weights[r, arm] += reward**2

    def residual(self, r: int, small: int, large: int) -> tuple[float, float]:
        """Estimate of what the class of `small` features leaves to that of `large`, and tr(W Q)."""
        n = int(self.count[r])
        if self._whitened(r) is None:
            form, s = self._form(r, small, large), self.moment[r, :large]
            square, trace = float(s @ form @ s), float(np.vdot(form, self.fourth[r, :large, :large]))
        else:
            s = self.moment[r, small:large]
            square, trace = float(s @ s), float(self.diagonal[r, small:large].sum())
        return (square - trace) / (n * (n - 1)), trace

    def error(self, r: int, small: int, large: int) -> float:
        """Standard error of that estimate if the smaller class explains everything, or a bit more."""
        n, whitened = int(self.count[r]), self._whitened(r)
        if whitened is None:
            return residual_error(self._form(r, small, large), self.fourth[r, :large, :large], n)
        arms = np.flatnonzero(self.weights[r])
        z = np.sqrt(self.weights[r, arms])[:, None] * whitened[arms, small:large]
        products = z @ z.T if len(arms) < large - small else z.T @ z
        return math.sqrt(2.0 * float(np.vdot(products, products))) / (n * (n - 1))

    def _whitened(self, r: int) -> FloatArray | None:
        return None if self.sets is None else self.sets.whitened[r]

    def _form(self, r: int, small: int, large: int) -> FloatArray:
        if self.sets is not None:
            return self.sets.form(r, small, large)
        return residual_form(self.second[r, :large, :large] / self.seen[r], small, self.floor)


@stateless
class _FixedSets:
    """What depends on nothing but the arms of a fixed set: all z, or the matrices W, made when first needed."""

    def __init__(self, features: FloatArray, floor: float) -> None:
        self.features, self.floor = features, floor
        # z of every arm (K, d) of each replication; None where L is not to be trusted.
        self.whitened = [None if floor else whiten(x) for x in features]
        self.forms: dict[tuple[int, int, int], FloatArray] = {}
        self.inverses: dict[tuple[int, int], tuple[FloatArray, FloatArray]] = {}

    def form(self, r: int, small: int, large: int) -> FloatArray:
        """W of replication r for the class of `small` features within that of `large`."""
        if (r, small, large) not in self.forms:
            for outgrown in [key for key in self.forms if key[0] == r and key[1] < small]:
                del self.forms[outgrown]
            self.forms[r, small, large] = form_of_inverses(*self._inverse(r, large), self._inverse(r, small)[1])
        return self.forms[r, small, large]

    def _inverse(self, r: int, dim: int) -> tuple[FloatArray, FloatArray]:
        if (r, dim) not in self.inverses:
            x = self.features[r, :, :dim]
            self.inverses[r, dim] = raised(x.T @ x / len(x), self.floor)
        return self.inverses[r, dim]


def whiten(x: FloatArray) -> FloatArray | None:
    """Rows L^-1 x, L L^T the second moment of the rows x (K, d); None if that is nearly singular."""
    second = x.T @ x / len(x)
    factor, failed = dpotrf(second, lower=1)
    if failed or not dpocon(factor, np.abs(second).sum(axis=0).max(), uplo="L")[0] > LEAST_CONDITION:
        return None
    return np.asarray(solve_triangular(factor, x.T, lower=True).T)


TestConstant = Annotated[float, partial(positive, meaning="a constant of the theory's test, e.g. 1")]


@dataclass(frozen=True)
class ModCB(Policy):
    """Play in a small class of features until pulls of random arms show that a larger one explains more.

    A share of the rounds pulls an arm at random; from these, `adadim.estimate_residual` tells how much of the reward
    the current class leaves unexplained, with sqrt(d) samples where estimating theta would need d. Use it where sets
    are drawn anew each round and uniform exploration is affordable; `EvidenceLinUCB` has much less regret in the
    problems measured here, since it does not set rounds aside.

    Parameters
    ----------
    dims : tuple of int, optional
        Dimensions of the nested classes, increasing; by default 1, 2, 4, ... and d.
    base : {"squarecb", "linucb", "exp4-ix"}
        What plays in a class. SquareCB degrades gracefully while the class is too small, LinUCB does not. Exp4-IX is
        what the theory has, over exponentially many linear policies; here over `experts` random ones.
    test : {"error", "theory"}
        When a class is left: the residual is above `q` standard errors with q = sqrt(2 ln(M T / delta)), or above
        twice the theory's threshold, which at practical horizons never happens.
    kappa : float
        Round t explores with probability min(1, `exploration` t^-kappa); 1/3 or 1/4 in the theory.
    exploration : float, optional
        As above; None for the theory's K^kappa.
    every : int, optional
        Rounds between tests; by default T/100 for "error", and 1 for "theory".
    delta : float, optional
        Confidence; 1/sqrt(T) by default.
    ridge : float
        Regularisation lambda of the least squares.
    gamma : float
        Factor on SquareCB's sqrt(K T / (d ln T)) / sigma.
    floor : float
        Eigenvalues of second moments are raised to at least this much; above 0 it is the variant for features that are
        nearly dependent.
    c1, c2, tau, gam : float
        Constants of the "theory" test: its factors, the sub-Gaussian scale of the features and the least eigenvalue
        of their second moment.
    experts : int
        Number of policies of "exp4-ix", which alone has a `loss_range`.
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0.

    Notes
    -----
    For i.i.d. sets whose arm-averaged second moment is at least gam, and the theory's base and test: regret
    O~(T^(2/3) d*^(1/3)) with kappa = 1/3, O~(T^(3/4) + sqrt(T d*)) with 1/4. Known beforehand: T, gam and tau. The
    constants c1, c2, the powers of tau and gam and the first rounds of tests are unverified against the source. A fixed
    set is an i.i.d. one that happens to repeat; its second moment may be singular, and inverses are then those on
    its range.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.contexts(arms=5, dim=16, intrinsic_dim=6, horizon=600, noise=0.05)
    >>> outcome = adadim.simulate(adadim.ModCB(), instance)
    >>> outcome.learner.describe()[0]["dim"]
    8
    """

    dims: ClassDims | None = None
    base: Literal["squarecb", "linucb", "exp4-ix"] = "squarecb"
    test: Literal["error", "theory"] = "error"
    kappa: Annotated[float, partial(between, low=0, high=1, ends="()")] = 1 / 3
    exploration: Annotated[float, partial(positive, meaning="c in c t^-kappa, or None for K^kappa")] | None = 1.0
    every: Annotated[int, partial(integer, meaning="rounds between tests, or None")] | None = None
    delta: Delta | None = None
    ridge: Ridge = 1.0
    gamma: Annotated[float, partial(positive, meaning="a factor on SquareCB's learning rate, e.g. 1")] = 1.0
    floor: Annotated[float, not_negative] = 0.0
    c1: TestConstant = 1.0
    c2: TestConstant = 1.0
    tau: TestConstant = 1.0
    gam: TestConstant = 1.0
    experts: Annotated[int, partial(integer, most=10**6, meaning="the number of linear policies")] = 100
    loss_range: LossRange = (-1.0, 1.0)

    def exploration_rate(self, t: Any, arms: int) -> Any:
        """Probability mu_t that round t pulls a random arm."""
        factor = arms**self.kappa if self.exploration is None else self.exploration
        return np.minimum(1.0, factor * np.asarray(t, dtype=float) ** -self.kappa)

    def threshold(self, dim: int, t: float, arms: int, classes: int, horizon: int) -> float:
        """a_{m,t} of the theory: twice this much residual makes it leave a class."""
        log = math.log(2 / self._delta0(classes, horizon))
        spread = math.sqrt(dim) * math.log(2 * dim / self._delta0(classes, horizon)) ** 2
        first = self.tau**6 / self.gam**4 * spread / (arms**self.kappa * t ** (1 - self.kappa))
        return float(self.c1 * (first + self.tau**10 / self.gam**8 * dim * log / t))

    def first_test(self, dim: int, arms: int, classes: int, horizon: int) -> float:
        """tmin_m of the theory: no test against a class of this dimension is made before."""
        log = math.log(2 / self._delta0(classes, horizon))
        return float(self.c2 * (self.tau**4 / self.gam**2 * dim * log + log ** (1 / (1 - self.kappa)) + arms) + 1)

    def quantile(self, classes: int, horizon: int) -> float:
        """How many standard errors of residual make it leave a class."""
        return math.sqrt(2 * math.log(classes * horizon / self.confidence(horizon)))

    def confidence(self, horizon: int) -> float:
        """delta, by default 1/sqrt(T)."""
        return self.delta or min(0.5, 1 / math.sqrt(horizon))

    def _delta0(self, classes: int, horizon: int) -> float:
        return self.confidence(horizon) / (10 * classes**2 * horizon**2)

    def learner(self, problem: Problem, streams: Streams) -> ModCBLearner:
        return ModCBLearner(self, problem, streams)


class ModCBLearner(RoundLearner):
    """State of `ModCB`: the class, what was explored, and a learner for each class."""

    policy: ModCB
    needs_sets = "iid"

    def __init__(self, policy: ModCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.dims = policy, class_dims(policy.dims, problem.dim)
        self.current = np.zeros(len(problem), dtype=np.int64)
        self.explored = ExploredSums(problem, self.offers, self.dims[-1], policy.floor)
        self.every = policy.every or (1 if policy.test == "theory" else math.ceil(problem.horizon / 100))
        self.learners = [self._class_learner(d_m, streams.child(m + 1)) for m, d_m in enumerate(self.dims)]

    def check_restored(self) -> None:
        super().check_restored()
        check_positions(self, current=len(self.dims))

    def _class_learner(self, dim: int, streams: Streams) -> ClassLearner:
        policy, problem = self.policy, self.problem
        if policy.base == "squarecb":
            return SquareCB(problem, dim, policy.ridge, policy.gamma)
        if policy.base == "linucb":
            return ClassLinUCB(problem, dim, policy.ridge)
        delta = policy.confidence(problem.horizon)
        return LinearPolicies(problem, dim, policy.experts, delta, policy.loss_range, streams)

    def decide(self, features: FloatArray, rows: Replications) -> Choice:
        allowed = self.offered_mask(features, rows)
        explore, uniforms = self.chance.uniforms(rows), self.chance.uniforms(rows)
        rate = self.policy.exploration_rate(self.clock[rows.ids] + 1, self.problem.arms)
        self.explored.offered(features, rows)
        labels = np.where(explore < rate, -1, self.current[rows.ids])
        arms = np.zeros(len(rows), dtype=np.int64)
        parts: list[tuple[Any, Memo]] = []
        for label, members, at in rows.split(labels):
            memo: Memo = {}
            if label < 0:
                arms[at] = sampled(allowed[at].astype(float), uniforms[at])
            else:
                x = features[..., : self.dims[label]][at]
                arms[at], memo = self.learners[label].decide(x, allowed[at], members, uniforms[at])
            parts.append((at, with_prefix(memo, label)))
        memo = {"label": labels, **merged(parts, len(rows))}
        return Choice(arms, memo, None, lambda: self._arm_probabilities(features, allowed, rows, rate))

    def _arm_probabilities(
        self, features: FloatArray, allowed: BoolArray, rows: Replications, rate: FloatArray
    ) -> FloatArray:
        """Probability (n, K) of each arm: uniform with probability `rate`, otherwise that of the current class."""
        probabilities: FloatArray = rate[:, None] * allowed / allowed.sum(axis=-1, keepdims=True)
        for label, members, at in rows.split(self.current[rows.ids]):
            learner, x = self.learners[label], features[..., : self.dims[label]][at]
            probabilities[at] += (1 - rate[at])[:, None] * learner.probabilities(x, allowed[at], members)
        return probabilities

    def learn_from(self, x: FloatArray, arms: IntArray, rewards: FloatArray, rows: Replications, memo: Memo) -> None:
        labels = memo["label"]
        for label, members, at in rows.split(labels):
            if label >= 0:
                self.learners[label].learn(x[at], rewards[at], members, part_of(without_prefix(memo, label), at))
                continue
            pulls = zip(rows.ids[at].tolist(), arms[at].tolist(), x[at], rewards[at].tolist(), strict=True)
            for r, arm, features, reward in pulls:
                self.explored.add(r, arm, features, reward)
        for r in rows.ids.tolist():
            if self.clock[r] % self.every == 0:
                self._test_class(r)

    def _test_class(self, r: int) -> None:
        """Go on in the smallest class that the test finds to explain more than the current one."""
        policy, n, t = self.policy, int(self.explored.count[r]), float(self.clock[r])
        if n < (20 if policy.test == "error" else 2):
            return
        classes, horizon, arms = len(self.dims), self.problem.horizon, self.problem.arms
        small = self.dims[self.current[r]]
        for i in range(int(self.current[r]) + 1, classes):
            d = self.dims[i]
            if policy.test == "theory" and t < policy.first_test(d, arms, classes, horizon):
                continue
            value, trace = self.explored.residual(r, small, d)
            if policy.test == "theory":
                threshold = 2 * policy.threshold(d, t, arms, classes, horizon)
            else:
                # tr((W Q)^2) is at least tr(W Q)^2 / rank, which spares most tests the product of matrices.
                threshold = policy.quantile(classes, horizon) * math.sqrt(2 / min(n, d)) * trace / (n * (n - 1))
                if value >= threshold:
                    threshold = policy.quantile(classes, horizon) * self.explored.error(r, small, d)
            if value >= threshold > 0:
                self.current[r] = i
                return

    def descriptions(self) -> list[dict[str, Any]]:
        dims = [self.dims[m] for m in self.current]
        classes = [list(self.dims) for _ in dims]
        return self.described(dim=dims, dims=classes, pulls=self.clock, explored=self.explored.count)


class ClassLearner(ABC):
    """What ModCB plays within one class of features; by default by a regression."""

    regression: RoundRegression

    @abstractmethod
    def probabilities(self, features: FloatArray, allowed: BoolArray, rows: Replications) -> FloatArray:
        """Probability (n, K) of each arm offered to `rows`."""

    def decide(
        self, features: FloatArray, allowed: BoolArray, rows: Replications, uniforms: FloatArray
    ) -> tuple[IntArray, Memo]:
        """Arms for `rows`; `uniforms` are the randomness, one for each."""
        arms: IntArray = sampled(self.probabilities(features, allowed, rows), uniforms)
        return arms, {"arm": arms}

    def learn(self, x: FloatArray, rewards: FloatArray, rows: Replications, memo: Memo) -> None:
        """Learn from the rewards of arms with features x."""
        self.regression.absorb(memo["arm"], x, rewards, rows)


def inverse_gap_weights(predicted: FloatArray, allowed: BoolArray, g: FloatArray) -> FloatArray:
    """Probabilities 1 / (K + g gap) of all arms but the best by prediction, which has the rest (SquareCB)."""
    masked = np.where(allowed, predicted, -np.inf)
    best = np.argmax(masked, axis=-1)
    gaps = np.where(allowed, masked.max(axis=-1, keepdims=True) - predicted, np.inf)
    # With g = 0 the arms left out would have inf * 0.
    weights = np.where(
        allowed, 1.0 / (allowed.sum(axis=-1, keepdims=True) + g[:, None] * np.where(allowed, gaps, 0)), 0
    )
    each = np.arange(len(best))
    weights[each, best] = 0.0
    weights[each, best] = 1.0 - weights.sum(axis=-1)
    return weights


class SquareCB(ClassLearner):
    """Ridge regression, and arms drawn with less probability the worse they look (Foster and Rakhlin 2020)."""

    def __init__(self, problem: Problem, dim: int, ridge: float, gamma: float) -> None:
        self.regression = RoundRegression(problem, dim, ridge, widths=False)
        horizon = max(2, problem.horizon)
        self.g = gamma / problem.noise * math.sqrt(problem.arms * horizon / (dim * math.log(horizon)))

    def probabilities(self, features: FloatArray, allowed: BoolArray, rows: Replications) -> FloatArray:
        return inverse_gap_weights(self.regression.means(features, rows), allowed, np.full(len(rows), self.g))


class ClassLinUCB(ClassLearner):
    """LinUCB in the first features."""

    def __init__(self, problem: Problem, dim: int, ridge: float) -> None:
        self.regression = RoundRegression(problem, dim, ridge)
        self.radius = noise_radius(problem.noise, problem.horizon, problem.arms)

    def probabilities(self, features: FloatArray, allowed: BoolArray, rows: Replications) -> FloatArray:
        mean, width2 = self.regression.predict(features, rows)
        scores = np.where(allowed, mean + self.radius * np.sqrt(width2), -np.inf)
        return np.asarray(tie_probabilities(scores, "random"))


class LinearPolicies(ClassLearner):
    """Exp4-IX over random linear policies: expert k takes the arm with the largest product with its own vector."""

    def __init__(
        self, problem: Problem, dim: int, experts: int, delta: float, loss_range: tuple[float, float], streams: Streams
    ) -> None:
        drawn = np.stack([g.standard_normal((experts, dim)) for g in streams.generators])
        self.vectors = drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
        self.dim, self.loss_range = dim, loss_range
        logs = math.log(experts) + math.log((problem.arms + 1) / delta)
        self.eta = math.sqrt(2 * logs / (problem.horizon * problem.arms))
        self.losses = np.zeros((len(problem), experts))

    def weights(self, rows: Replications) -> FloatArray:
        """Weights q of the experts, (n, N)."""
        losses = self.losses[rows.ids]
        raw = np.exp(-self.eta * (losses - losses.min(axis=-1, keepdims=True)))
        return np.asarray(raw / raw.sum(axis=-1, keepdims=True))

    def advice(self, features: FloatArray, allowed: BoolArray, rows: Replications) -> IntArray:
        """The arm that each expert takes, (n, N)."""
        values = self.vectors[rows.ids] @ features[..., : self.dim].swapaxes(-1, -2)  # (n, N, K)
        return np.asarray(np.argmax(np.where(allowed[:, None, :], values, -np.inf), axis=-1))

    def probabilities(self, features: FloatArray, allowed: BoolArray, rows: Replications) -> FloatArray:
        return self._followed(self.advice(features, allowed, rows), features.shape[1], rows)

    def _followed(self, advice: IntArray, arms: int, rows: Replications) -> FloatArray:
        """Probability (n, K) of each arm: the weights of the experts that take it."""
        probabilities = np.zeros((len(rows), arms))
        np.add.at(probabilities, (np.arange(len(rows))[:, None], advice), self.weights(rows))
        return probabilities

    def decide(
        self, features: FloatArray, allowed: BoolArray, rows: Replications, uniforms: FloatArray
    ) -> tuple[IntArray, Memo]:
        advice = self.advice(features, allowed, rows)
        probabilities = self._followed(advice, features.shape[1], rows)
        arms: IntArray = sampled(probabilities, uniforms)
        advised = (advice == arms[:, None]).astype(float)
        return arms, {"advised": advised, "probability": probabilities[np.arange(len(arms)), arms]}

    def learn(self, x: FloatArray, rewards: FloatArray, rows: Replications, memo: Memo) -> None:
        charged = loss(rewards, self.loss_range) / (memo["probability"] + 0.5 * self.eta)
        self.losses[rows.ids] += memo["advised"] * charged[:, None]
