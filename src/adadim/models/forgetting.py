"""Models that forget: what a decision taught counts half after so many further decisions.

When decision N of a replication is made, the pull of its decision n has the weight 2^(-(N - n) / memory), whenever its
reward came, and before that in the widths alone; pulls of a log count as decisions in their order. With

    V = Lambda + sum_n w_n x_n x_n^T,   b = sum_n w_n r_n x_n

the sums fade from one decision to the next and the prior Lambda does not, so that no rank-one step leads from one V^-1
to the next: each decision factorises V, d^3 / 3 operations (twice that while pulls are open, K times that where each of
K arms has a parameter). Learning the prior by the evidence takes the spectrum of V besides, about 10 d^3.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, as_numpy, device_of, is_numpy, like, namespace, zeros
from adadim.core.checks import check_fits, positive
from adadim.core.problem import Problem
from adadim.core.rows import Rows
from adadim.errors import InvalidValueError, PrecisionWarning
from adadim.models.context import MOST_INFLATED
from adadim.models.evidence import RIDGES, Tuned, TunedContextModel, in_units, like_units
from adadim.models.factor import FactoredRegression, forward_solve
from adadim.models.fixed import check_precision
from adadim.models.linear import FactorModel, FixedModel, Memo, Model, moments_of
from adadim.models.moments import FORGOTTEN, Moments

EPSILON = float(np.finfo(float).eps)


class FadingRegression(FactoredRegression):
    """Ridge regressions on weighted sums, one for each entry of `reference`; `epoch` is the decision that counts 1.

    What is pulled comes as features (n, d) and numbers (n,) of decisions. `inverse` is L^-1 where V = L L^T, `w` L^-1 b
    and `logdet` ln det(V / ridge), all as of the last `factorise`; `weight` is the sum of the weights.
    """

    streamed = 0

    def __init__(self, reference: Array, dim: int, ridge: float, memory: float) -> None:
        count, xp = len(reference), namespace(reference)
        self.dim, self.memory = dim, memory
        check_fits(16.0 * count * dim**2, dim=dim, replications=count)
        self.ridge = zeros(reference, count) + positive(ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        self.second, self.b = zeros(reference, count, dim, dim), zeros(reference, count, dim)
        self.squares, self.weight, self.epoch, self.total = (zeros(reference, count) for _ in range(4))
        self.first = zeros(reference, count, dim)
        self.pulls = zeros(reference, count, integers=True)
        self.inverse = self.second + xp.eye(dim, dtype=xp.float64, device=device_of(reference)) / math.sqrt(ridge)
        self.w, self.logdet = zeros(reference, count, dim), zeros(reference, count)

    def without_rewards(self) -> FadingRegression:
        regression = FadingRegression(self.w, self.dim, 1.0, self.memory)
        for name in ("ridge", "second", "weight", "epoch", "pulls", "inverse", "logdet"):
            getattr(regression, name)[...] = getattr(self, name)
        return regression

    def fade(self, number: Array, rows: Rows) -> None:
        """Fade all pulls to their weights at the decisions of these numbers (n,), unless the epoch is later."""
        later = namespace(number).maximum(number, rows.of(self.epoch))
        factor = 2.0 ** ((rows.of(self.epoch) - later) / self.memory)
        for sums in (self.second, self.b, self.squares, self.weight, self.first, self.total):
            rows.put(sums, rows.of(sums) * factor.reshape(-1, *[1] * (sums.ndim - 1)))
        rows.put(self.epoch, later)
        if self.asked is not None:
            self.asked.fade(number, rows)

    def answer(self, pulled: tuple[Array, Array], rewards: Array, rows: Rows) -> None:
        x, number = pulled
        self.fade(number, rows)
        weight = 2.0 ** ((number - rows.of(self.epoch)) / self.memory)
        weighted = weight[:, None] * x
        rows.put(self.second, rows.of(self.second) + weighted[:, :, None] * x[:, None, :])
        rows.put(self.b, rows.of(self.b) + weighted * rewards[:, None])
        rows.put(self.squares, rows.of(self.squares) + weight * rewards * rewards)
        rows.put(self.weight, rows.of(self.weight) + weight)
        rows.put(self.first, rows.of(self.first) + weighted)
        rows.put(self.total, rows.of(self.total) + weight * rewards)
        rows.put(self.pulls, rows.of(self.pulls) + 1)

    def expect(self, pulled: tuple[Array, Array], rows: Rows) -> None:
        if self.asked is None:
            self.asked = self.without_rewards()
        self.asked.answer(pulled, pulled[1] * 0.0, rows)

    def factorise(self, rows: Rows) -> None:
        """Make L^-1, `w` and `logdet` anew."""
        xp, ridge = namespace(self.w), rows.of(self.ridge)
        inverse, logdet = inverse_factor(rows.of(self.second), ridge)
        rows.put(self.inverse, inverse)
        rows.put(self.w, xp.matmul(inverse, rows.of(self.b)[..., None])[..., 0])
        rows.put(self.logdet, logdet - self.dim * xp.log(ridge))
        if self.asked is not None:
            self.asked.factorise(rows)

    def moments(self, r: int) -> tuple[Array, Array]:
        """The weighted sums of x x^T and r x of a regression."""
        return as_numpy(self.second[r]), as_numpy(self.b[r])

    def rescale(self, r: int, factors: Array) -> None:
        """Multiply every feature of past pulls by a factor."""
        self.second[r] *= np.outer(factors, factors)
        self.b[r] *= factors
        self.first[r] *= factors
        if self.asked is not None:
            self.asked.rescale(r, factors)

    def refresh(self, r: int, ridge: float) -> None:
        """Use another ridge from the next `factorise` on."""
        self.ridge[r] = ridge
        if self.asked is not None:
            self.asked.refresh(r, ridge)


def inverse_factor(second: Array, ridge: Array) -> tuple[Array, Array]:
    """L^-1 and ln det V of V = L L^T = ridge I + second, (n, d, d), in units in which the diagonal of V is 1."""
    xp, dim = namespace(second), second.shape[-1]
    identity = xp.eye(dim, dtype=xp.float64, device=device_of(second))
    v = second + ridge[:, None, None] * identity
    units = xp.sqrt(xp.linalg.diagonal(v))
    scaled = v / (units[:, :, None] * units[:, None, :])
    try:
        factor = xp.linalg.cholesky(scaled)
    except (np.linalg.LinAlgError, RuntimeError):  # NumPy's error and torch's: the ridge is lost in rounding
        factor = xp.linalg.cholesky(scaled + 4 * dim * EPSILON * identity)
    if is_numpy(factor):
        inverse = np.stack([forward_solve(one, identity) for one in factor])
        inflated = float(np.square(inverse).sum(axis=1).max())  # V_jj (V^-1)_jj
        if inflated > MOST_INFLATED:
            warnings.warn(
                f"some features are so nearly dependent, next to the ridge, that float64 knows widths only to about "
                f"{EPSILON * inflated:.0e}; centre or scale them, leave some out or raise the ridge",
                PrecisionWarning,
                stacklevel=2,
            )
    else:
        inverse = forward_solve(factor, identity.expand(factor.shape))
    logdet = 2.0 * (xp.sum(xp.log(xp.linalg.diagonal(factor)), axis=-1) + xp.sum(xp.log(units), axis=-1))
    return inverse / units[:, None, :], logdet


class Forgetting(Model):
    """What models that forget share: `made`, the decisions of each replication, by which pulls are weighed."""

    fixed_operations = False

    def __init__(self, memory: float, *arguments: Any, **options: Any) -> None:
        self.memory = memory
        super().__init__(*arguments, **options)
        self.made = zeros(self.reference, len(self.problem))

    def regression(self, ridge: float) -> Any:
        """The regressions, before any pull."""
        return FadingRegression(zeros(self.reference, len(self.problem) * self.blocks), self.dim, ridge, self.memory)

    def fade(self, rows: Rows) -> Rows:
        """Fade all pulls to their weights in the decision to be made; returns all regressions of `rows`."""
        regressions, number = self.regressions(rows), rows.of(self.made) + 1.0
        if self.blocks > 1:
            number = like(np.repeat(as_numpy(number), self.blocks), number)
        self.state.fade(number, regressions)
        return regressions

    def prepare_decision(self, rows: Rows) -> None:
        """Fade all pulls and factorise, for the decision to be made."""
        self.state.factorise(self.fade(rows))

    def arms_and_memo(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        arms, memo = super().arms_and_memo(chosen, rows)  # type: ignore[safe-super]
        rows.put(self.made, rows.of(self.made) + 1.0)
        return arms, {**memo, "decision": rows.of(self.made) + 0.0}

    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> tuple[Array, Array]:
        """Features of the arms pulled, and the numbers of the decisions: pulls of a log are decisions of their own."""
        if "decision" not in memo:
            rows.put(self.made, rows.of(self.made) + 1.0)
            memo = {**memo, "decision": rows.of(self.made) + 0.0}
        return super().pulled_inputs(arms, rows, memo), memo["decision"]  # type: ignore[safe-super]

    def restart(self, sums: Moments) -> None:
        """Refuse: sums over a log do not say when each of its decisions was made."""
        raise InvalidValueError("an agent forgets by itself: give memory= to Agent.create, not to the policy")

    def pull_sums(self) -> Any:
        """None: counts and sums of arms do not say when they were pulled; `moments` has the weighted sums."""
        return None

    def moments(self) -> Any:
        """Weighted sums over the features pulled in each replication, where all are learned in."""
        if self.dim < self.problem.dim or self.problem.disjoint or not self.all_arms:
            return None
        return moments_of(self.state, self.state.weight)

    def describe(self, r: int) -> dict[str, Any]:
        weight = self.state.weight.reshape(len(self.problem), -1)[r].sum()
        return {"dim": self.dim, "pulls": int(self.pulls[r]), "effective_pulls": float(weight)}


class ForgettingModel(Forgetting, FactorModel):
    """A model of any offer, by the Cholesky factor of V."""

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        self.prepare_decision(rows)
        return super().predict(rows)

    def sample(self, spread: Array, rows: Rows) -> Array:
        self.prepare_decision(rows)
        return super().sample(spread, rows)


class ForgettingFixedModel(Forgetting, FixedModel):
    """The same arms in every round, or those of them that differ in the first `dim` features."""

    state: Any

    def __init__(
        self, memory: float, problem: Problem, ridge: float, *, supported: bool = False, **options: Any
    ) -> None:
        self.supported = supported
        super().__init__(memory, problem, ridge, supported=supported, make=self._regression, **options)

    def _regression(self, actions: ActionSet, ridge: float) -> Any:
        most = 1.0 + 2.0 * self.memory  # above the sum of all weights
        horizon = math.inf if self.problem.endless else self.problem.horizon
        check_precision(actions, ridge, int(min(most, horizon, 1e6)))
        return FadingRegression(actions.base, actions.dim, ridge, self.memory)

    def _arms(self) -> Array:
        return self.features().truncate(self.dim, supported=self.supported)[0].dense_batch()

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        self.prepare_decision(rows)
        mean, width2 = self.state.predict(rows.of(self._arms()), rows)
        return mean, width2

    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> tuple[Array, Array]:
        within, number = super().pulled_inputs(arms, rows, memo)
        return self._arms()[rows.positions, within], number

    def arms_added(self) -> None:
        return


class TunedForgettingModel(Forgetting, TunedContextModel):
    """Features that come with each round (NumPy), with the prior learned anew for each decision."""

    def log_bound(self, r: int, factor: float, n: float) -> float:
        return math.log(factor)  # as in an agent of the same memory, which learns from sums

    def observe_offer(self, offered: Array, rows: Rows) -> None:
        super().observe_offer(offered, rows)
        self.tune(rows)

    def tune(self, rows: Rows) -> None:
        """Fade all pulls to their weights in the decision to be made, and choose units, ridge and noise by them."""
        state: Any = self.state
        regressions = self.fade(rows)
        for r in rows.ids.tolist():
            weight = float(sum(state.weight[block] for block in self.blocks_of(r)))
            if self._change_units(r, like_units(self.extent[r])):
                self.longest[r] = np.count_nonzero(self.extent[r])  # as where nothing is forgotten
            self.noise[r] = np.nan
            self.changed.append(r)
            self._refresh(r, RIDGES[0] * (float(self.longest[r]) or 1.0))
            if weight >= FORGOTTEN:
                self._update_prior(r, weight)
        state.factorise(regressions)

    def after_learning(self, rows: Rows) -> None:
        return

    def describe(self, r: int) -> dict[str, Any]:
        return Tuned.describe(self, r) | Forgetting.describe(self, r)


class TunedForgettingFixedModel(TunedForgettingModel):
    """The same arms in every round, in the units of `TunedFixedModel`, as if they came with it (NumPy)."""

    def __init__(self, memory: float, problem: Problem, taper: float, factor: float) -> None:
        super().__init__(memory, problem, taper, factor)
        self.longest[:] = 1.0
        self.arms_added()

    def arms_added(self) -> None:
        self.offered_arms = as_numpy(in_units(self.problem).dense_batch()).copy()

    def observe_offer(self, offered: Array, rows: Rows) -> None:
        self.tune(rows)

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        return super().predict(rows.offering(self.offered_arms[rows.ids], None))

    def arms_and_memo(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        return super().arms_and_memo(chosen, rows.offering(self.offered_arms[rows.ids], None))

    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> tuple[Array, Array]:
        return super().pulled_inputs(arms, rows, {**memo, "features": self.offered_arms[rows.ids, arms]})


def forgetting_model(problem: Problem, ridge: float, memory: float, supported: bool, **options: Any) -> Model:
    """As `linear_model`, with pulls that count half after `memory` further decisions."""
    if problem.contextual:
        return ForgettingModel(memory, problem, ridge, **options)
    return ForgettingFixedModel(memory, problem, ridge, supported=supported, **options)


def tuned_forgetting_model(problem: Problem, taper: float, factor: float, memory: float) -> Tuned:
    """As `tuned_model`, with pulls that count half after `memory` further decisions."""
    kind = TunedForgettingModel if problem.contextual else TunedForgettingFixedModel
    return kind(memory, problem, taper, factor)
