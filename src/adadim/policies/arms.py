"""Policies that ignore the features: `UCB`, `MOSS` (Audibert and Bubeck 2009) and `Random`."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, all_true_on_host, as_numpy, clamp, like, namespace, zeros
from adadim.core.checks import integer, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.models.statistics import Moments
from adadim.policies.arguments import logged_features
from adadim.policies.base import Choice, Learner, Memo, Policy
from adadim.policies.confidence import self_normalised_bonus, subgaussian_bonus, ucb1_bonus
from adadim.policies.parameters import Delta, Index, Ties
from adadim.policies.player import Chooser, Clock, Turn, choosers_one_by_one

UNANSWERED = 1e100  # index of arms without an answered pull: they come first, those pulled least before the others


class ArmStatistics:
    """Pulls and reward sums of unrelated arms in each replication, and the number of pulls without a reward yet."""

    open: Array | None = None  # pulls whose rewards are not known yet, once there are any

    def __init__(self, arms: int, reference: Array) -> None:
        self.arms = arms
        self.counts, self.sums = (zeros(reference, reference.shape[0], arms) for _ in range(2))

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make room for open pulls if a saved state has some."""
        if saved.get("open") is not None:
            self.open = self.counts * 0.0

    def add_pending(self, arms: Array, rows: Replications) -> None:
        """Count one pull per replication whose reward is not known yet."""
        if self.open is None:
            self.open = self.counts * 0.0
        rows.add(self.open, arms, 1.0)

    def add(self, arms: Array, rewards: Array, rows: Replications) -> None:
        """Count one pull per replication."""
        rows.add(self.counts, arms, 1.0)
        rows.add(self.sums, arms, rewards)

    def index(self, rows: Replications, width: Callable[[Array, Any], Array]) -> Array:
        """Mean plus width(n, xp) of every arm, n counting unanswered pulls too; infinite if never pulled."""
        pulls = rows.of(self.counts)
        xp, answered = namespace(pulls), clamp(pulls, 1.0)
        unanswered = None if self.open is None else rows.of(self.open)
        n = answered if unanswered is None else clamp(pulls + unanswered, 1.0)
        index = rows.of(self.sums) / answered + width(n, xp)
        if all_true_on_host(pulls):
            return index
        never = xp.full_like(index, math.inf) if unanswered is None else UNANSWERED / (1.0 + unanswered)
        return xp.where(pulls > 0, index, never)


class ArmLearner(Learner):
    """A learner that keeps nothing but the statistics of unrelated arms."""

    fixed_operations = True
    statistics: ArmStatistics

    def positions(self, arms: Array, memo: Memo) -> Array:
        """Where arms stand in the statistics."""
        return arms

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        self.statistics.add(self.positions(arms, memo), rewards, rows)

    def add_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        self.statistics.add_pending(self.positions(arms, memo), rows)

    def resolve(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        rows.add(self.statistics.open, self.positions(arms, memo), -1.0)
        self.absorb(arms, rewards, rows, memo)

    def clear_pending(self) -> None:
        self.statistics.open = None

    def descriptions(self) -> list[dict[str, Any]]:
        n = as_numpy(self.statistics.counts).astype(np.int64)
        return self.described(pulls=n.sum(axis=1), most_pulled_arm=n.argmax(axis=1), pulls_of_that_arm=n.max(axis=1))


@dataclass(frozen=True)
class UCB(Policy):
    """Pull the arm with the largest empirical mean plus confidence width; every arm once first.

    Use it for few arms whose features say nothing; with K >> d features that do, prefer `LinUCB`.

    Parameters
    ----------
    index : {"self-normalised", "subgaussian", "ucb1", "released"}
        "self-normalised" is valid at all times at once; "subgaussian" is sigma sqrt(2 ln(1/delta)/n); "ucb1" assumes
        rewards in [0, 1]; "released" is the index of the paper's released code, kept for comparison.
    delta : float, optional
        Confidence; by default 1/T^2 for "subgaussian" and 1/sqrt(T) otherwise. On a problem without end
        (``horizon=None``) the number t of the round takes the place of T.
    scale : float
        Factor on the width.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Regret O(sqrt(K T ln T)) for sub-Gaussian noise of the scale the problem states.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.UCB(ties="lowest").start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    >>> for reward in (0.1, 0.5, 0.2):
    ...     learner.update(learner.select(), reward)
    >>> learner.select()
    1
    """

    uses_features = False

    index: Index = "self-normalised"
    delta: Delta | None = None
    scale: Annotated[float, partial(positive, meaning="a factor on the width")] = 1.0
    ties: Ties = "random"

    def confidence(self, horizon: Any) -> Any:
        """The delta in force for a horizon, or for each number of a round."""
        if self.delta is not None:
            return self.delta
        if self.index == "subgaussian":
            return horizon**-2.0
        return 1 / math.sqrt(horizon) if isinstance(horizon, int) else horizon**-0.5

    def learner(self, problem: Problem, streams: Streams) -> UCBLearner:
        return UCBLearner(self, problem, streams)


class UCBStatistics(ArmStatistics):
    """The statistics of `UCB`; `scale` is the sub-Gaussian scale of the rewards: one number, or an array (R, arms)."""

    def __init__(self, policy: UCB, arms: int, scale: float | Array, horizon: int | None, reference: Array) -> None:
        super().__init__(arms, reference)
        self.policy, self.scale, self.horizon = policy, scale, horizon

    def scores(self, rows: Replications, t: Array | None = None) -> Array:
        """UCB index of every arm. Without a horizon `t` is what `Clock.now` gives."""
        policy = self.policy
        delta = policy.confidence(self.horizon if t is None else t)
        scale = self.scale if isinstance(self.scale, float) else rows.of(self.scale)

        def width(n: Array, xp: Any) -> Array:
            if policy.index == "subgaussian":
                return policy.scale * subgaussian_bonus(n, scale, delta)
            if policy.index == "ucb1":
                total = xp.sum(rows.of(self.counts), axis=-1)
                return policy.scale * ucb1_bonus(n, clamp(total, 1.0)[:, None])
            released = policy.index == "released"
            return policy.scale * self_normalised_bonus(n, self.arms, scale, delta, released=released)

        return self.index(rows, width)


class UCBLearner(ArmLearner):
    """State of `UCB`."""

    policy: UCB
    takes_new_arms = True
    statistics: UCBStatistics

    def __init__(self, policy: UCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        horizon = None if problem.endless else problem.horizon
        self.statistics = UCBStatistics(policy, problem.arms, problem.noise, horizon, problem.reference)
        self.clock = Clock(problem.reference) if problem.endless else None

    def choose(self, rows: Replications) -> Choice:
        t = None
        if self.clock is not None:
            t = self.clock.now(rows, self.xp.sum(self.statistics.counts, axis=-1))
            self.clock.tick(rows)
        return self.choose_largest(self.statistics.scores(rows, t), rows, self.policy.ties)


MOSSScale = Annotated[float, partial(positive, meaning="a factor on the width, 1 for rewards in [0, 1], or None")]


@dataclass(frozen=True)
class MOSS(Policy):
    """Pull the arm with the largest mean plus sqrt(max(ln(T / (K n)), 0) / n); every arm once first.

    Use it for unrelated arms when T is known: it saves the logarithm that `UCB` pays. With many more arms than rounds
    and many good ones among them, let it play on a random `sample`; where it is unknown how many are good,
    `MOSSPlusPlus`. It ignores the features: with K >> d features that say something, prefer `LinUCB`.

    Parameters
    ----------
    sample : int, optional
        Play only this many arms, drawn uniformly without replacement in each replication; all of them by default.
    scale : float, optional
        Factor on the width; 2 sigma by default, which is 1 for rewards in [0, 1] (sigma = 1/2).
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Regret O(sqrt(KT)) over the arms in play, for sub-Gaussian noise of known scale. If m of n arms are best and
    n/m <= 2 T^alpha, a sample of 2 T^alpha ln(sqrt(T)) arms holds a best one with probability 1 - 1/sqrt(T), and the
    regret is O~(T^((1 + alpha)/2)).

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.MOSS(ties="lowest").start(adadim.Problem(np.eye(3), horizon=9, noise=0.5))
    >>> for reward in (0.1, 0.5, 0.2):
    ...     learner.update(learner.select(), reward)
    >>> learner.select()
    1
    """

    uses_features = False

    sample: Annotated[int, partial(integer, meaning="the number of arms to play, or None for all")] | None = None
    scale: MOSSScale | None = None
    ties: Ties = "random"

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        all_arms = self.sample is None or self.sample >= problem.arms
        return (MOSSLearner if all_arms else SampledMOSSLearner)(self, problem, streams)


def moss_width(n: Array, xp: Any, horizon: float, arms: int, scale: Any) -> Array:
    """scale sqrt(max(ln(T / (K n)), 0) / n)."""
    return scale * xp.sqrt(clamp(xp.log(horizon / (arms * n)), 0.0) / n)


def sampled_arms(streams: Streams, count: int, arms: int, reference: Array) -> Array:
    """`count` arms without replacement in each replication, (R, count), by streams not drawn from; or all in order."""
    if count >= arms:
        return like(np.tile(np.arange(arms), (len(streams.generators), 1)), reference)
    return like(np.argsort(streams.table(arms), axis=1)[:, :count].copy(), reference)


class MOSSLearner(ArmLearner):
    """State of `MOSS` on all arms."""

    policy: MOSS

    def __init__(self, policy: MOSS, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        self.count = min(policy.sample or problem.arms, problem.arms)
        self.scale = 2.0 * problem.noise if policy.scale is None else policy.scale
        self.horizon = problem.horizon  # asked for now: a problem without end is refused at the start
        self.statistics = ArmStatistics(self.count, problem.reference)

    def choose(self, rows: Replications) -> Choice:
        width = partial(moss_width, horizon=self.horizon, arms=self.count, scale=self.scale)
        return self.choose_largest(self.statistics.index(rows, width), rows, self.policy.ties)

    def descriptions(self) -> list[dict[str, Any]]:
        rows = super().descriptions()
        return [{"replication": row["replication"], "arms_in_play": self.count, **row} for row in rows]


class SampledMOSSLearner(MOSSLearner):
    """State of `MOSS` on a sample of the arms, whose statistics it keeps."""

    takes_any_arm = False  # it has no statistics of those outside the sample
    no_allowed = "MOSS draws its sample of the arms once, so all arms must be there in every round; use MOSS() on all"

    def __init__(self, policy: MOSS, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        self.sample = sampled_arms(streams.child(0), self.count, problem.arms, problem.reference)

    def check_restored(self) -> None:
        super().check_restored()
        check_positions(self, sample=self.problem.arms)

    def choose(self, rows: Replications) -> Choice:
        local = super().choose(rows).arms
        return Choice(rows.at(self.sample, local), {"local": local})

    def positions(self, arms: Array, memo: Memo) -> Array:
        return memo["local"]

    def descriptions(self) -> list[dict[str, Any]]:
        rows = super().descriptions()
        for sample, row in zip(as_numpy(self.sample), rows, strict=True):
            row["most_pulled_arm"] = int(sample[row["most_pulled_arm"]])
        return rows


@dataclass(frozen=True)
class Random(Policy):
    """Pull an arm uniformly at random, whatever the rewards.

    The floor that every learner should beat.

    Notes
    -----
    Its mean regret is T (mu* - mean of mu).

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=5, intrinsic_dim=2, horizon=20)
    >>> adadim.simulate(adadim.Random(), instance).regret.shape
    (1, 20)
    """

    uses_features = False

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return RandomLearner(problem, streams)


class RandomLearner(Learner):
    """State of `Random`: nothing but its random numbers."""

    fixed_operations = True
    takes_new_arms = True
    no_contexts = ""
    no_disjoint = ""
    contexts_on_devices = True

    def choose(self, rows: Replications) -> Choice:
        xp, draws = self.xp, self.draws.uniforms(rows)
        if rows.allowed is None:
            offered = None if self.problem.disjoint else rows.features
            arms = self.problem.arms if offered is None else offered.shape[1]
            chosen = xp.astype(draws * arms, xp.int64)
            return Choice(chosen, {}, None, lambda: zeros(draws, len(rows), arms) + 1 / arms)
        allowed = xp.astype(rows.allowed, xp.int64)
        rank = xp.cumulative_sum(allowed, axis=-1)
        wanted = xp.astype(draws * rank[:, -1], xp.int64) + 1
        chosen = xp.argmax(xp.astype(rank >= wanted[:, None], xp.int64), axis=-1)
        return Choice(chosen, {}, None, lambda: allowed / rank[:, -1:])

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        return

    def learn(self, arms: Array, rewards: Array) -> None:
        """Do nothing: it does not learn."""
        if not self.problem.contextual or self.problem.disjoint:
            super().learn(arms, rewards)  # which checks them
            return
        for _ in logged_features(self.problem, arms, rewards):
            pass

    def choosers(
        self, features: Array | Sequence[Array], rounds: Sequence[Turn], decided: int, streams: Callable[[int], Streams]
    ) -> Generator[Chooser, Sequence[int], None]:
        """As `LearnsFromSums.choosers`."""
        return choosers_one_by_one(self, features, rounds, decided, streams)

    def restart(self, sums: Moments) -> None:
        """Do nothing: it does not learn."""

    def expect_features(self, features: Array) -> None:
        """Do nothing: it does not learn."""
