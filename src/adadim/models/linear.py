"""Models of the arms offered in a round: mean and width of each, whatever kind of offer it is.

There are three kinds of offers: the same arms in every round (`FixedModel`), features that come with the round
(`ContextModel`), and one context for all arms, each of which has a parameter of its own (`DisjointModel`). A rule sees
none of that: it calls `predict` for mean and squared width of every arm, and hands what was pulled back to `absorb`. A
model that computes with NumPy whatever the problem's library (`on_host`) takes and returns NumPy arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, as_numpy, at_each, is_numpy, like, zeros
from adadim.core.problem import Problem
from adadim.core.rows import Rows
from adadim.errors import ForeignArmError, InvalidValueError
from adadim.models import Form, context_posterior, posterior
from adadim.models.context import ContextPosterior
from adadim.models.factor import ContextFactor
from adadim.models.fixed import Posterior, check_precision
from adadim.models.moments import Moments

Memo = Mapping[str, Array]
"""What has to be remembered of a decision: arrays with an entry for each replication that it concerns."""


@lru_cache(maxsize=2**12)
def row_alone(position: int, count: int) -> Rows:
    """The rows of one among `count` regressions (NumPy)."""
    return Rows(np.array([position]), _numbers(count))


@lru_cache(maxsize=8)
def _numbers(count: int) -> Array:
    return np.arange(count)


class Model(ABC):
    """Ridge regression `state` on what was pulled, asked about what is offered; a radius has to cover `arms` arms."""

    on_host = False  # whether it computes with NumPy whatever the library of the problem
    fixed_operations = True  # whether a round is always the same array operations, which a device can record
    streamed = 0  # bytes that a pull reads for each replication
    all_arms = True  # whether it covers all arms offered; otherwise see `offered` and `check_arms`
    blocks = 1  # regressions of a replication: arm k of replication r is number r K + k in `state` where each has one
    state: Any

    def __init__(self, problem: Problem, dim: int) -> None:
        self.problem, self.dim, self.arms = problem, dim, problem.arms
        self.converts = self.on_host and not is_numpy(problem.reference)  # tensors come in and go out

    @property
    def reference(self) -> Array:
        """An array of the library that it computes with; its first axis counts replications."""
        return np.zeros(len(self.problem)) if self.on_host else self.problem.reference

    @abstractmethod
    def predict(self, rows: Rows) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered to `rows`, (n, K); open pulls count in the width."""

    @abstractmethod
    def arms_and_memo(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        """The arms at the positions chosen, and what has to be remembered of them."""

    @abstractmethod
    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        """What the regression takes of the arms pulled: their positions in it, or their features."""

    @property
    def pulls(self) -> Array:
        """How many answered pulls each replication has, (R,)."""
        return self.state.pulls if self.blocks == 1 else self._added_up(self.state.pulls)

    @property
    def logdet(self) -> Array:
        """ln det(V / ridge) of each replication, (R,)."""
        return self.state.logdet if self.blocks == 1 else self._added_up(self.state.logdet)

    def _added_up(self, values: Array) -> Array:
        return values.reshape(len(self.problem), -1).sum(axis=1)

    def regressions(self, rows: Rows, arms: Array | None = None) -> Rows:
        """The regressions of these replications: of the arms pulled in each, or else all, an arm after the other."""
        if self.blocks == 1:
            return rows
        reference = self.state.pulls
        if arms is not None and len(arms) == 1 and is_numpy(reference):  # the usual case, and quick
            return row_alone(rows.ids.item() * self.blocks + arms.item(), len(reference))
        blocks = np.arange(self.blocks) if arms is None else as_numpy(arms)[:, None]
        return Rows.some((rows.ids[:, None] * self.blocks + blocks).ravel(), reference)

    def offered(self, rows: Rows) -> Rows:
        """The rows with a mask over the arms that `predict` covers."""
        return rows

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        """Learn from pulls that `expect` has not counted, one for each of `rows`."""
        state = self.state
        self.learn_by(state.answer if state.asked is None else state.absorb, arms, rewards, rows, memo)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        """Count pulls whose rewards are not known yet."""
        self.state.expect(self.pulled_inputs(arms, rows, memo), self.regressions(rows, arms))

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        """Learn the rewards of pulls that `expect` has counted."""
        self.learn_by(self.state.answer, arms, rewards, rows, memo)

    def learn_by(self, learn: Callable[..., None], arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        """Let the regression learn from pulls, by one of its methods."""
        inputs = self.pulled_inputs(arms, rows, memo)
        learn(inputs, rewards, rows if self.blocks == 1 else self.regressions(rows, arms))

    def drop_expected(self) -> None:
        """Count only the pulls that are answered."""
        self.state.drop_expected()

    def describe(self, r: int) -> dict[str, Any]:
        """What it has learned in one replication, as entries of `Learner.describe`."""
        return {"dim": self.dim, "pulls": int(self.pulls[r])}

    def check_arms(self, arms: Array) -> None:
        """Raise unless it can learn from these arms of the problem."""
        return

    def arms_added(self) -> None:
        """Update the state after arms were added to the problem."""
        return

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        """Pulls and sums of rewards of every arm, and sums of squared rewards, where arms stay."""
        return None

    def moments(self) -> list[Moments] | None:
        """Sums over the features pulled in each replication, where they come with the round and all are learned in."""
        return None


class FixedModel(Model):
    """The same arms in every round, or those of them that differ in the first `dim` features."""

    state: Posterior
    keeps_ridge = True  # whether the ridge at the start is that of all rounds

    def __init__(
        self,
        problem: Problem,
        ridge: float,
        *,
        dim: int | None = None,
        form: Form = "auto",
        supported: bool = False,
        weights: Array | None = None,
        make: Callable[[ActionSet, float], Posterior] | None = None,
    ) -> None:
        self.weights = weights
        super().__init__(problem, problem.dim if dim is None else dim)
        actions, self._real = self.features().truncate(self.dim, supported=supported)
        self.dim, self.arms = actions.dim, actions.arms
        self.all_arms = actions.arms == problem.arms
        if not self.all_arms:
            within = np.full(problem.arms, -1)  # where each arm is in the truncated set; -1: nowhere
            within[as_numpy(self._real)] = np.arange(actions.arms)
            self._within = like(within, actions.base)
        if make is None:
            self.state = posterior(actions, ridge, form)
            horizon = None if problem.endless else problem.horizon
            check_precision(actions, ridge, horizon, self.state.width2, warn=self.keeps_ridge)
        else:
            self.state = make(actions, ridge)
        self.streamed = self.state.streamed
        if weights is not None and problem.growing:
            self.weighted = actions.base  # a copy, to which arms are added in place: it is state

    def features(self) -> ActionSet:
        """The features of all arms that it learns from."""
        return self.problem.actions if self.weights is None else self.problem.actions.weighted(self.weights)

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        return rows.of(self.state.mean), rows.of(self.state.open_width2)

    def offered(self, rows: Rows) -> Rows:
        if self.all_arms or rows.allowed is None:
            return rows
        allowed = rows.allowed[:, self._real]
        if not self.problem.growing and not as_numpy(allowed).any(axis=1).all():
            raise InvalidValueError(f"no arm allowed is one that LinUCB(dim={self.dim}) uses")
        return rows.offering(None, allowed)

    def arms_and_memo(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        return (chosen if self.all_arms else self._real[chosen]), {}

    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        return arms if self.all_arms else self._within[arms]

    def check_arms(self, arms: Array) -> None:
        if not self.all_arms and (as_numpy(self._within[arms]) < 0).any():
            raise ForeignArmError(
                f"arms {as_numpy(arms).tolist()} include one that LinUCB(dim={self.dim}) does not use"
            )

    def arms_added(self) -> None:
        state, actions = self.state, self.features()
        if actions is not self.problem.actions:
            state.actions.base[...] = actions.base
        state.refactor(state.everyone)

    def pull_sums(self) -> tuple[Array, Array, Array]:
        state = self.state
        if self.all_arms:
            return state.counts, state.sums, state.squares
        shape = (len(self.problem), self.problem.arms)
        counts, sums = zeros(self.reference, *shape, integers=True), zeros(self.reference, *shape)
        counts[:, self._real], sums[:, self._real] = state.counts, state.sums
        return counts, sums, state.squares

    def estimates(self) -> tuple[Array, Array, Array]:
        """Mean and squared width of every arm by answered pulls, (R, K), and sums of squared residuals, (R,) (NumPy).

        NaN for arms that it does not cover.
        """
        state, shape = self.state, (len(self.problem), self.problem.arms)
        mean, width2 = np.full(shape, np.nan), np.full(shape, np.nan)
        covered = as_numpy(self._real)
        mean[:, covered], width2[:, covered] = as_numpy(state.mean), as_numpy(state.width2)
        residuals = as_numpy(state.squares) - np.vecdot(as_numpy(state.sums), as_numpy(state.mean))
        return mean, width2, np.maximum(residuals, 0.0)

    def describe(self, r: int) -> dict[str, Any]:
        n = as_numpy(self.state.counts[r])
        return {
            "dim": self.dim,
            "distinct_arms_pulled": int((n > 0).sum()),
            "pulls": int(n.sum()),
            "most_pulled_arm": int(as_numpy(self._real)[n.argmax()]),
            "pulls_of_that_arm": int(n.max()),
        }


class ContextModel(Model):
    """Features that come with each round, multiplied by `weights` if there are any; or one context for all arms.

    The latter (`Problem.disjoint`) is one regression on the products of every arm with every covariate, whose V has a
    block for each arm: a decision costs K d^2 in place of K (K d)^2.
    """

    def __init__(self, problem: Problem, ridge: float, *, dim: int | None = None, weights: Array | None = None) -> None:
        self.blocks = problem.arms if problem.disjoint else 1
        super().__init__(problem, problem.dim if dim is None else dim)
        self.weights = as_numpy(weights) if self.on_host and weights is not None else weights
        self.state = self.regression(ridge)

    def regression(self, ridge: float) -> Any:
        """The regressions of all replications, before any pull."""
        return context_posterior(zeros(self.reference, len(self.problem) * self.blocks), self.dim, ridge)

    def inputs(self, features: Any) -> Array:
        """Inputs of the regression: the first `dim` of these features, times the weights."""
        first = features if self.dim == self.problem.dim else features[..., : self.dim]
        return first if self.weights is None else first * self.weights

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        return self.predict_inputs(self.inputs(rows.features), rows)

    def predict_inputs(self, inputs: Array, rows: Rows) -> tuple[Array, Array]:
        """As `predict`, from the inputs of what is offered: (n, K, d), or (n, d) of one context for all arms."""
        if self.problem.disjoint:
            return self.state.predict_each(inputs, rows, self.blocks)  # type: ignore[no-any-return]
        return self.state.predict(inputs, rows)  # type: ignore[no-any-return]

    def predict_answered(self, features: Array) -> tuple[Array, Array]:
        """Mean and squared width (K,) of arms (K, d) in the first replication, by answered pulls alone."""
        mean, width2 = self.state.predict_answered(self.inputs(features[None]), Rows.all(self.reference))
        return mean[0], width2[0]

    def predict_in_turn(self, rounds: Array | Sequence[Array]) -> Generator[tuple[Array, Array], int, None] | None:
        """Mean and squared width (K,) of the arms (K, d) of several rounds in one replication; None if it cannot.

        The position of the arm pulled is sent back, and counts as open in the rounds after it.
        """
        if type(self.state) is not ContextPosterior or len(self.state.ridge) != 1:
            return None
        if isinstance(rounds, np.ndarray):
            return self.state.predict_in_turn(self.inputs(rounds[None])[0])
        return self.state.predict_in_turn([self.inputs(arms[None])[0] for arms in rounds])

    def arms_and_memo(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        return chosen, {"features": self.inputs(self.features_of(chosen, rows))}

    def features_of(self, chosen: Array, rows: Rows) -> Array:
        """Features (n, d) of the arms chosen, to be kept: where each has a parameter, the context of them all."""
        assert rows.features is not None
        if not self.problem.disjoint:
            return at_each(rows.features, chosen)
        return rows.features.copy() if is_numpy(rows.features) else rows.features.clone()

    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        return memo["features"]

    def logged_memo(self, features: Array) -> Memo:
        """The memo of logged pulls of these features, (n, d)."""
        return {"features": self.inputs(like(features, self.problem.reference))}

    def restart(self, sums: Moments) -> None:
        """Replace everything learned by what these sums determine (one replication)."""
        if sums.asked is None:
            self.drop_expected()
        self.state.restart(0, sums, self.weights)
        self.state.refresh(0, float(self.state.ridge[0]))

    def residual(self) -> float:
        """Regularised sum of squared residuals of the first replication."""
        return float(self.state.residual(0))

    def moments(self) -> list[Moments] | None:
        all_features = self.dim == self.problem.dim and self.problem.contextual and not self.problem.disjoint
        return moments_of(self.state, self.state.pulls) if all_features and hasattr(self.state, "moments") else None

    def describe(self, r: int) -> dict[str, Any]:
        entries = super().describe(r)
        if self.problem.disjoint:
            entries["pulls_of_each_arm"] = self.state.pulls.reshape(len(self.problem), -1)[r].tolist()
        return entries


class DisjointModel(ContextModel):
    """One context for all arms (NumPy, whatever the problem's library)."""

    fixed_operations = False
    on_host = True


def moments_of(state: Any, pulls: Array) -> list[Moments]:
    """The sums of each regression, over `pulls` (R,)."""
    sums = []
    for r, (squares, n) in enumerate(zip(state.squares.tolist(), pulls.tolist(), strict=True)):
        second, moment = state.moments(r)
        first, total = as_numpy(state.first[r]), float(state.total[r])
        sums.append(Moments.of(second, moment, squares, n, first, total))
    return sums


def linear_model(problem: Problem, ridge: float, form: Form = "auto", supported: bool = False, **options: Any) -> Model:
    """The model for what a problem offers; `options` are the number of features `dim` (default: all) and `weights`."""
    if problem.contextual:
        return (DisjointModel if problem.disjoint else ContextModel)(problem, ridge, **options)
    return FixedModel(problem, ridge, form=form, supported=supported, **options)


class FactorModel(ContextModel):
    """A model by the Cholesky factor, from which parameters can be drawn; of fixed arms too, without weights."""

    fixed_operations = False

    def __init__(self, problem: Problem, ridge: float, *, dim: int | None = None, weights: Array | None = None) -> None:
        super().__init__(problem, ridge, dim=dim, weights=weights)
        if not problem.contextual:
            shape = len(problem), problem.arms
            self.counts, self.sums = zeros(self.reference, *shape, integers=True), zeros(self.reference, *shape)

    def regression(self, ridge: float) -> Any:
        return ContextFactor(zeros(self.reference, len(self.problem) * self.blocks), self.dim, ridge)

    def inputs(self, features: Any) -> Array:
        return super().inputs(like(features, self.reference) if self.problem.disjoint else features)

    def sample(self, spread: Array, rows: Rows) -> Array:
        """theta_hat + spread L^-1 (n, m, d) of spreads, for all regressions of `rows`; open pulls count in L alone."""
        state, regressions = self.state, self.regressions(rows)
        mean, inverse = regressions.of(state.w)[:, None, :], regressions.of(state.inverse)
        if state.asked is None:
            return (mean + spread) @ inverse * state.weights
        return (mean @ inverse + spread @ regressions.of(state.asked.inverse)) * state.weights

    def sampled_means(self, spread: Array, features: Array) -> Array:
        """Means (m, K) of arms (K, d) by m parameters as `sample` draws them, of spreads (m, d), in one replication.

        The arms are multiplied by L^-1, not the draws, which are many more.
        """
        state, inputs = self.state, self.inputs(features[None])
        z = state.whiten(inputs)[0]
        means = spread @ (z if state.asked is None else state.asked.whiten(inputs)[0])
        means += state.w[0] @ z
        return means

    def means(self, theta: Array, rows: Rows) -> Array:
        """Means of the arms offered, (n, K), by parameters (n, d), or (n K, d) where each arm has one."""
        if rows.features is None and rows.everyone and self.dim == self.problem.dim:
            return self.problem.actions.project(theta)
        if rows.features is None:
            theta_of_all = zeros(self.reference, len(self.problem), self.problem.dim)
            theta_of_all[rows.index, : self.dim] = theta
            return rows.of(self.problem.actions.project(theta_of_all))
        inputs = self.inputs(rows.features)
        if self.problem.disjoint:
            return (theta.reshape(len(rows), -1, self.dim) @ inputs[..., None])[..., 0]
        return (inputs @ theta[..., None])[..., 0]

    def predict(self, rows: Rows) -> tuple[Array, Array]:
        if self.problem.contextual:
            return super().predict(rows)
        mean, width2 = self.state.predict(rows.of(self.problem.actions.dense_batch()[..., : self.dim]), rows)
        return mean, width2

    def predict_answered(self, features: Array) -> tuple[Array, Array]:
        z = self.state.whiten(self.inputs(features[None]))[0]
        return self.state.w[0] @ z, (z * z).sum(axis=0)

    def arms_and_memo(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        return super().arms_and_memo(chosen, rows) if self.problem.contextual else (chosen, {})

    def pulled_inputs(self, arms: Array, rows: Rows, memo: Memo) -> Array:
        if self.problem.contextual:
            return memo["features"]
        if rows.everyone:
            return self.problem.actions.vectors(arms)[:, : self.dim]
        arms_of_all = zeros(self.reference, len(self.problem), integers=True)
        rows.put(arms_of_all, arms)
        return rows.of(self.problem.actions.vectors(arms_of_all))[:, : self.dim]

    def learn_by(self, learn: Callable[..., None], arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        if not self.problem.contextual:
            rows.add(self.counts, arms, 1)
            rows.add(self.sums, arms, rewards)
        super().learn_by(learn, arms, rewards, rows, memo)

    def restart(self, sums: Moments) -> None:
        state, everyone = self.state, Rows.all(self.reference)
        second, moment = sums.truncated(self.dim, None)
        squares, pulls = np.array([sums.squares]), np.array([round(sums.weight)])
        state.rebuild(second[None], moment[None], squares, pulls, everyone)
        state.first[0], state.total[0] = sums.first[: self.dim] * state.weights, sums.total
        state.drop_expected()
        if sums.asked is not None:
            second, zero_moment = sums.without_rewards().truncated(self.dim, None)
            state.asked = state.without_rewards()
            state.asked.rebuild(second[None], zero_moment[None], squares * 0.0, pulls, everyone)

    def residual(self) -> float:
        return float(self.state.residuals[0, -1])

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return None if self.problem.contextual else (self.counts, self.sums, self.state.squares)
