"""What is offered in a round, as inputs of a regression.

Either the same arms in every round, which the regression knows by their positions (`StayingArms`), or rows of features
(`ArrivingRows`): those that come with the round, one context for all arms, each of which has a parameter of its own, or
arms that stay taken as rows. An offer holds its regression, gives the sums over the data of a replication, and states a
belief to the regression.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, FloatArray, as_numpy, at_each, copied, like, same_library, zeros
from adadim.core.problem import Problem
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.errors import ForeignArmError, InvalidValueError
from adadim.models import Form, context_posterior, posterior
from adadim.models.fixed import Posterior, check_precision
from adadim.models.parts import Memory, Prediction
from adadim.models.priors import RAW_FACTOR, Belief, Prior, like_units
from adadim.models.statistics import ArmSums, Moments
from adadim.models.sums import SumsRegression

Memo = Mapping[str, Array]
"""What has to be remembered of a decision: arrays with an entry for each replication that it concerns."""

SETTLED_PULLS = 64  # after so many a new mean of the rewards alone is not worth a factorisation


class Offer(Prediction):
    """What the arms of a round are to a regression, and what the regression knows of the data.

    What it predicts by itself is what the regression does.
    """

    regression: Any
    real: Array  # arms of the problem that the regression covers, where arms stay
    all_arms = True  # whether it covers all of them
    blocks = 1  # regressions of a replication: arm k of replication r is number r K + k where each has one
    keeps_sums = False  # whether the regression keeps its sums alone, and has to factorise them
    fixed_operations = False  # whether a round is always the same array operations, which a device can record
    counts: Array | None = None  # pulls by arm, which `count` counts where the regression does not

    def __init__(self, problem: Problem, prior: Prior, dim: int) -> None:
        self.problem, self.prior, self.dim, self.arms = problem, prior, dim, problem.arms

    def cover(self, actions: ActionSet, dim: int, supported: bool) -> ActionSet:
        """The arms reduced to their first `dim` features without duplicates, by which the regression knows them."""
        actions, self.real = actions.truncate(dim, supported=supported)
        self.arms, self.all_arms = actions.arms, actions.arms == self.problem.arms
        if not self.all_arms:
            within = np.full(self.problem.arms, -1)  # where each arm is in the truncated set; -1: nowhere
            within[as_numpy(self.real)] = np.arange(actions.arms)
            self._within = like(within, actions.base)
        return actions

    def check_restored(self) -> None:
        """Refuse arms that are not there."""
        if not self.all_arms:
            check_positions(self, real=self.problem.arms)
            if int(as_numpy(self._within).max()) >= self.arms:
                raise InvalidValueError(f"{type(self).__name__}._within must be below {self.arms}")

    def mask(self, rows: Replications) -> Replications:
        """The rows with a mask over the arms that `predict` covers."""
        if self.all_arms or rows.allowed is None:
            return rows
        allowed = rows.allowed[:, self.real]
        if not self.problem.growing and not as_numpy(allowed).any(axis=1).all():
            raise InvalidValueError(f"no arm allowed is one that is used in the first {self.dim} features")
        return rows.with_offer(None, allowed)

    def check_arms(self, arms: Array) -> None:
        """Raise unless it can learn from these arms of the problem."""
        if not self.all_arms and (as_numpy(self._within[arms]) < 0).any():
            raise ForeignArmError(
                f"arms {as_numpy(arms).tolist()} include one that is not used in the first {self.dim} features"
            )

    def positions(self, arms: Array) -> Array:
        """Positions of arms of the problem among those that the regression covers."""
        return arms if self.all_arms else self._within[arms]

    def choice(self, chosen: Array, rows: Replications) -> tuple[Array, Memo]:
        """The arms of the problem at the positions chosen, and what has to be remembered of them."""
        return (chosen if self.all_arms else self.real[chosen]), {}

    def regressions(self, rows: Replications, arms: Array | None = None) -> Replications:
        """The regressions of these replications: of the arms pulled in each, or else all, an arm after the other."""
        if self.blocks == 1:
            return rows
        reference = self.regression.pulls
        if arms is not None and len(arms) == 1 and rows.on_host:  # the usual case, and quick
            return _row_alone(rows.ids.item() * self.blocks + arms.item(), len(reference))
        blocks = np.arange(self.blocks) if arms is None else as_numpy(arms)[:, None]
        return Replications.some((rows.ids[:, None] * self.blocks + blocks).ravel(), reference)

    def total(self, values: Array) -> Array:
        """A number of each regression, summed over those of each replication, (R,)."""
        return values if self.blocks == 1 else values.reshape(len(self.problem), -1).sum(axis=1)

    def prepare(self, rows: Replications) -> None:
        self.regression.factorise(self.regressions(rows))

    @abstractmethod
    def pulled(self, arms: Array, rows: Replications, memo: Memo) -> Any:
        """What the regression takes of the arms pulled: their positions in it, or their features."""

    @abstractmethod
    def data(self, r: int) -> Sequence[Moments | ArmSums]:
        """The sums over the data of a replication, rewards less its offset; one entry for each parameter."""

    @abstractmethod
    def basis(self, r: int) -> tuple[float, FloatArray]:
        """Squared length of the longest row of a replication, and the units that its columns are divided by."""

    @abstractmethod
    def restate(self, r: int, belief: Belief) -> float:
        """Let the regression of a replication follow a belief; returns by how much its offset has changed."""

    def arms_added(self) -> None:
        """Update the state after arms were added to the problem."""
        return

    def expect_few_pulls(self) -> None:
        """Compute only what each pull needs, where that is cheaper while these are few."""
        return

    def update_units(self, r: int) -> None:
        """Find the units of the columns again, where they are not known beforehand."""
        return

    def count(self, arms: Array, rewards: Array, rows: Replications) -> None:
        """Count answered pulls by arm, where there are `counts`."""
        return

    def pull_sums(self, offset: Array) -> tuple[Array, Array, Array] | None:
        """Pulls and sums of rewards of every arm, and sums of squared rewards, where arms stay."""
        return None

    def moments(self, offset: Array) -> list[Moments] | None:
        """Sums over the features pulled in each replication, where all are learned in and they are kept so."""
        return None


@lru_cache(maxsize=2**12)
def _row_alone(position: int, count: int) -> Replications:
    """The rows of one among `count` regressions (NumPy)."""
    return Replications(np.array([position]), _counting(count))


@lru_cache(maxsize=8)
def _counting(count: int) -> Array:
    return np.arange(count)


class StayingArms(Offer):
    """The same arms in every round, or those of them that differ in the first `dim` features.

    Where the prior is learned, the arms are multiplied by their scales in place, so that the ridge is 1: `scale` are
    those of the columns over the root of the ridge, (R, d), or (R, 1 + d) behind a constant.
    """

    regression: Posterior
    fixed_operations = True

    def __init__(self, problem: Problem, prior: Prior, dim: int, form: Form, supported: bool) -> None:
        super().__init__(problem, prior, dim)
        belief = prior([], 1.0, np.ones(problem.dim), 0)
        told = belief.scale is not None and not prior.learns
        self.weights = like(belief.scale, problem.reference) if told else None
        if prior.learns:
            self.scale = np.tile(_folded(belief), (len(problem), 1))
        actions = self.cover(self.features(), dim + prior.constant, supported)
        ridge = 1.0 if prior.learns else belief.ridge
        self.regression = posterior(actions, ridge, form)
        self.regression.lazy_gram = prior.constant
        horizon = None if problem.endless else problem.horizon
        check_precision(actions, ridge, horizon, self.regression.width2, warn=not prior.learns)
        if prior.learns or (self.weights is not None and problem.growing):
            self.scaled_features = actions.base  # a copy that is written to: it is state

    def expect_few_pulls(self) -> None:
        self.regression.lazy_gram = True

    def features(self) -> ActionSet:
        """The features of all arms as the regression has them."""
        problem = self.problem
        if not self.prior.learns:
            return problem.actions if self.weights is None else problem.actions.weighted(self.weights)
        actions = in_units(problem, self.prior.constant)
        return actions.with_base(actions.base * like(self.scale, problem.reference)[:, None, :])

    def predict(self, rows: Replications) -> tuple[Array, Array]:
        return rows.of(self.regression.mean), rows.of(self.regression.open_width2)

    def pulled(self, arms: Array, rows: Replications, memo: Memo) -> Array:
        return arms if self.all_arms else self._within[arms]

    def data(self, r: int) -> list[ArmSums]:
        state = self.regression
        counts, sums = as_numpy(state.counts[r]), as_numpy(state.sums[r])
        at = np.flatnonzero(counts)
        features = as_numpy(state.actions.dense(r)[like(at, state.squares)]) / self.scale[r]
        return [ArmSums(features[:, int(self.prior.constant) :], counts[at], sums[at], float(state.squares[r]))]

    def basis(self, r: int) -> tuple[float, FloatArray]:
        return 1.0, np.ones(self.problem.dim)

    def restate(self, r: int, belief: Belief) -> float:
        state, scale = self.regression, _folded(belief)
        unchanged, n = bool((scale == self.scale[r]).all()), int(state.pulls[r])
        if unchanged and (not self.prior.constant or n > SETTLED_PULLS):
            return 0.0
        squares = max(
            float(state.squares[r]) - belief.offset * (2.0 * float(state.sums[r].sum()) - n * belief.offset), 0.0
        )
        if unchanged:
            state.shift(r, belief.offset, squares)
            return belief.offset
        self.scaled_features[r] *= like(scale / self.scale[r], state.squares)
        self.scale[r] = scale
        state.relearn(r, state.sums[r] - belief.offset * state.counts[r], squares)
        return belief.offset

    def arms_added(self) -> None:
        state, actions = self.regression, self.features()
        if actions is not self.problem.actions:
            state.actions.base[...] = actions.base
        state.refactor(state.everyone)

    def pull_sums(self, offset: Array) -> tuple[Array, Array, Array]:
        state, xp, reference = self.regression, self.problem.xp, self.problem.reference
        counts, sums = state.counts, state.sums
        if self.prior.constant:
            sums = sums + offset[:, None] * counts
        squares = state.squares + offset * (2.0 * xp.sum(state.sums, axis=1) + offset * xp.sum(counts, axis=1))
        if self.all_arms:
            return counts, sums, squares
        shape = (len(self.problem), self.problem.arms)
        all_counts, all_sums = zeros(reference, *shape, integers=True), zeros(reference, *shape)
        all_counts[:, self.real], all_sums[:, self.real] = counts, sums
        return all_counts, all_sums, squares


def _folded(belief: Belief) -> FloatArray:
    """What columns are multiplied by so that the ridge is 1."""
    assert belief.scale is not None
    return belief.scale / math.sqrt(belief.ridge)


class ArrivingRows(Offer):
    """Rows of features that come with each round, or arms that stay taken as rows.

    One context for all arms (`Problem.disjoint`) is one regression on the products of every arm with every covariate,
    whose V has a block for each arm: a decision costs K d^2 in place of K (K d)^2.

    Where the prior is learned and rows come with the round, they are not known beforehand. The ridges are relative to
    the longest row offered so far; and columns in raw units are divided by their largest value offered so far, as of
    the last update of the prior.
    """

    def __init__(
        self,
        problem: Problem,
        prior: Prior,
        dim: int,
        reference: Array,
        sums: type[SumsRegression] | None,
        memory: Memory,
        supported: bool | None,
    ) -> None:
        super().__init__(problem, prior, dim)
        self.reference, self.supported = reference, supported
        # Whether arms that stay are taken as NumPy arrays.
        converted = not same_library(reference, problem.reference)
        self.on_host = prior.learns or prior.constant or memory.on_host or converted
        self.blocks = problem.arms if problem.disjoint else 1
        count, columns = len(problem), dim + prior.constant
        self.longest, self.extent = np.full(count, 0.0 if problem.contextual else 1.0), np.zeros((count, dim))
        self.units = np.ones((count, dim))
        belief = prior([], 1.0, np.ones(dim), 0)
        self.weights = None if belief.scale is None else like(belief.scale, reference)
        if prior.learns:
            assert belief.scale is not None
            self.scale = np.tile(belief.scale, (count, 1))
        each, self.keeps_sums = zeros(reference, count * self.blocks), sums is not None
        if sums is not None:
            self.regression = sums(each, columns, belief.ridge, memory.half_life)
        else:
            self.regression = context_posterior(each, columns, belief.ridge)
            self.fixed_operations = not prior.learns and not problem.disjoint
        self.staying: Array | None = None  # the arms that stay, as rows
        if not problem.contextual:
            self.arms_added()
            if not memory.forgets:
                self.counts = zeros(reference, count, problem.arms, integers=True)
                self.sums = zeros(reference, count, problem.arms)
            if memory.half_life is not None and not prior.learns:
                most = int(min(1.0 + 2.0 * memory.half_life, math.inf if problem.endless else problem.horizon, 1e6))
                check_precision(self._staying_actions, belief.ridge, most)  # pulls that count, at most

    def arms_added(self) -> None:
        if self.problem.contextual:
            return
        problem = self.problem
        actions = in_units(problem, False) if self.prior.learns else problem.actions
        if self.supported is not None:
            actions = self.cover(actions, self.dim, self.supported)
        self._staying_actions = actions
        if self.on_host:
            self.staying = as_numpy(actions.dense_batch()[..., : self.dim]).copy()

    def offered(self, rows: Replications) -> Array:
        """Features (n, K, d) of the arms offered, or (n, d) of one context for all arms."""
        if rows.features is not None:
            return rows.features if self.dim == self.problem.dim else rows.features[..., : self.dim]
        if self.staying is not None:
            return rows.of(self.staying)
        return rows.of(self._staying_actions.dense_batch()[..., : self.dim])

    def inputs(self, features: Array, rows: Replications) -> Array:
        """Inputs of the regression: features (n, ..., d) behind the constant, multiplied by their scales."""
        if not self.prior.learns and not self.prior.constant:
            return features if self.weights is None else features * self.weights
        scale = rows.of(self.scale) if self.prior.learns else as_numpy(self.weights)[None]
        scale = scale.reshape(len(scale), *[1] * (features.ndim - 2), -1)
        if not self.prior.constant:
            return features * scale
        extended = np.empty((*features.shape[:-1], self.dim + 1))
        extended[..., :1] = scale[..., :1]
        np.multiply(features, scale[..., 1:], out=extended[..., 1:])
        return extended

    def predict(self, rows: Replications) -> tuple[Array, Array]:
        return self.predict_inputs(self.offered_inputs(rows), rows)

    def offered_inputs(self, rows: Replications) -> Array:
        """Inputs (n, K, d) of the arms offered, or (n, d) of one context for all arms."""
        return self.inputs(self.offered(rows), rows)

    def predict_inputs(self, inputs: Array, rows: Replications) -> tuple[Array, Array]:
        """As `predict`, from the inputs of what is offered."""
        if self.problem.disjoint:
            return self.regression.predict_each(inputs, rows, self.blocks)  # type: ignore[no-any-return]
        return self.regression.predict(inputs, rows)  # type: ignore[no-any-return]

    def choice(self, chosen: Array, rows: Replications) -> tuple[Array, Memo]:
        if rows.features is None:
            return super().choice(chosen, rows)
        if not self.problem.disjoint:
            features = at_each(rows.features, chosen)
        else:
            features = copied(rows.features)
        return chosen, {"features": features[..., : self.dim]}  # unscaled: the scales may change

    def pulled_features(self, arms: Array, rows: Replications, memo: Memo) -> Array:
        """Features (n, d) of the arms pulled."""
        if self.problem.contextual:
            return memo["features"]
        at = self.positions(arms)
        if self.staying is not None:
            return self.staying[rows.ids, at]
        if rows.everyone:
            return self._staying_actions.vectors(at)[:, : self.dim]
        arms_of_all = zeros(self.reference, len(self.problem), integers=True)
        rows.put(arms_of_all, at)
        return rows.of(self._staying_actions.vectors(arms_of_all))[:, : self.dim]

    def pulled(self, arms: Array, rows: Replications, memo: Memo) -> Any:
        return self.inputs(self.pulled_features(arms, rows, memo), rows)

    def count(self, arms: Array, rewards: Array, rows: Replications) -> None:
        rows.add(self.counts, arms, 1)
        rows.add(self.sums, arms, rewards)

    def pull_sums(self, offset: Array) -> tuple[Array, Array, Array] | None:
        return None if self.counts is None else (self.counts, self.sums, self.regression.squares)

    def blocks_of(self, r: int) -> range:
        """The regressions that belong to a replication."""
        return range(r * self.blocks, (r + 1) * self.blocks)

    def observe(self, offered: Array, rows: Replications) -> list[int]:
        """Record the largest values offered, (n, K, d) or (n, d); gives replications without a reward that change."""
        offered = offered.reshape(len(offered), -1, self.dim)
        largest = np.maximum.reduce(np.abs(offered), axis=1)
        concerned: set[int] = set()
        if np.logical_or.reduce(largest > rows.of(self.extent), axis=None):
            rows.put(self.extent, np.maximum(rows.of(self.extent), largest))
            for r in rows.ids.tolist():
                if not self._has_pulls(r):
                    self.units[r] = like_units(self.extent[r])
                    concerned.add(r)
        if np.logical_and.reduce(self.units == 1, axis=None):
            lengths = np.vecdot(offered, offered)
        else:
            scaled = offered / rows.of(self.units)[:, None, :]
            lengths = np.vecdot(scaled, scaled)
        for r, squared in zip(rows.ids.tolist(), np.maximum.reduce(lengths, axis=1).tolist(), strict=True):
            if squared > self.longest[r]:
                self.longest[r] = squared
                if not self._has_pulls(r):
                    concerned.add(r)
        return sorted(concerned)

    def _has_pulls(self, r: int) -> bool:
        return bool(self.regression.pulls[r * self.blocks : (r + 1) * self.blocks].any())

    def begin(self, sums: Moments) -> None:
        """Take the sizes of the features from these sums (one replication)."""
        self.extent[0] = sums.extent
        self.longest[0], self.units[0] = basis_of(sums.longest, sums.extent)

    def update_units(self, r: int) -> None:
        # Columns in raw units are divided by their largest values so far.
        units = like_units(self.extent[r]) if self.problem.contextual else self.units[r]
        if (units != self.units[r]).any():
            # Earlier arms are not kept: no value is above 1 in these units, and no squared length above the number.
            self.units[r], self.longest[r] = units, np.count_nonzero(self.extent[r])

    def basis(self, r: int) -> tuple[float, FloatArray]:
        return float(self.longest[r]) or 1.0, self.units[r]

    def data(self, r: int) -> list[Moments]:
        return [self._moments(block, self.scale[r]) for block in self.blocks_of(r)]

    def _moments(self, block: int, scale: FloatArray | None) -> Moments:
        """The sums over the data of a regression, features without scale, rewards less the offset."""
        sums, pending = self._sums_of(self.regression, block, scale), self.regression.pending
        return sums if pending is None else replace(sums, pending=self._sums_of(pending, block, scale))

    def _sums_of(self, state: Any, block: int, scale: FloatArray | None) -> Moments:
        second, moment = state.moments(block)
        first, total, weight = as_numpy(state.first[block]), state.total[block], _pull_weights(state)[block]
        if scale is not None:
            second, moment, first = second / (scale[:, None] * scale), moment / scale, first / scale
        squares = float(state.squares[block])
        if self.prior.constant:
            return Moments.of(second[1:, 1:], moment[1:], squares, float(second[0, 0]), second[0, 1:], float(moment[0]))
        return Moments.of(second, moment, squares, float(weight), first, float(total))

    def restate(self, r: int, belief: Belief) -> float:
        self.load(r, self.data(r), belief)
        return belief.offset

    def load(self, r: int, data: Sequence[Moments], belief: Belief) -> None:
        """Set the regressions of a replication to these sums, rewards less the offset of the belief."""
        if self.prior.learns:
            assert belief.scale is not None
            self.scale[r] = belief.scale
        weights = self.scale[r] if self.prior.learns else None if self.weights is None else as_numpy(self.weights)
        for block, sums in zip(self.blocks_of(r), data, strict=True):
            if self.prior.constant:
                sums = sums.less(belief.offset, nothing=math.isnan(belief.noise)).with_constant()
            self.regression.restart(block, sums, weights)
            self.regression.refresh(block, belief.ridge)

    def moments(self, offset: Array) -> list[Moments] | None:
        all_features = self.dim == self.problem.dim and self.all_arms and not self.problem.disjoint
        if not all_features or self.counts is not None or not hasattr(self.regression, "moments"):
            return None
        told = None if self.weights is None else as_numpy(self.weights)
        sums = [self._moments(r, self.scale[r] if self.prior.learns else told) for r in range(len(self.problem))]
        return [one.less(-by) for one, by in zip(sums, offset.tolist(), strict=True)] if self.prior.constant else sums


def basis_of(longest: float, extent: FloatArray) -> tuple[float, FloatArray]:
    """As `Offer.basis`, where these are the largest squared length of a row and the largest values of the columns."""
    units = like_units(extent)
    return (float(np.count_nonzero(extent)) if (units != 1).any() else longest), units


def _pull_weights(state: Any) -> Array:
    """Sum of the weights of each regression's pulls."""
    return state.weight if isinstance(state, SumsRegression) else state.pulls


def in_units(problem: Problem, constant: bool) -> ActionSet:
    """The arms in units in which those of round 1 are alike and the longest has norm 1; behind a constant if wanted."""
    first = problem.first_arms
    actions = problem.actions.in_like_units(RAW_FACTOR, first)
    return with_constant(actions, first) if constant else actions.rescaled(first)


def with_constant(actions: ActionSet, among: Any) -> ActionSet:
    """The arms behind a feature of 1, divided by the longest norm of what varies in them; `among` as in `rescaled`."""
    xp, base = actions.xp, actions.base
    counted = None if among is None else like(among.astype(float), base)[:, :, None] > 0
    low, high = (xp.amin, xp.amax) if hasattr(xp, "amin") else (xp.min, xp.max)
    smallest = low(base if counted is None else xp.where(counted, base, xp.full_like(base, np.inf)), axis=1)
    largest = high(base if counted is None else xp.where(counted, base, xp.full_like(base, -np.inf)), axis=1)
    varying = xp.astype(largest > smallest, xp.float64)
    squared = actions.with_base(base * varying[:, None, :]).squared_norms()
    if among is not None:
        squared = squared * like(np.tile(among, (1, len(actions.levels))), base)
    longest = xp.sqrt(xp.max(squared, axis=-1))
    longest = xp.where(longest > 0, longest, xp.ones_like(longest))[:, None, None]
    scaled = xp.permute_dims(base / longest, (0, 2, 1))  # feature by feature, as arms lie in memory
    extended = actions.with_base(xp.permute_dims(xp.concat([xp.ones_like(scaled[:, :1]), scaled], axis=1), (0, 2, 1)))
    extended.dim, extended.levels, extended._cuts = actions.dim + 1, tuple(level + 1 for level in actions.levels), None
    return extended
