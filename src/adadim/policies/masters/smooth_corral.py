"""Smooth Corral (Pacchiano et al. 2020): a corral of smoothed base learners, by log-barrier or by EXP3.P.

Every round is one step of a base and one replay of its past. Step 1 plays what the base proposes, and the base learns
from it. Step 2 plays one of the base's proposals so far, uniformly at random; its expected regret is the base's average
so far, which is what an adversarial master can trust. On a fixed action set a past policy is the arm it played, so
storing integers is enough; where features come with each round it is a regression.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import Array, as_numpy, indices, like, namespace, zeros
from adadim.core.checks import positive, shown
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.recording import on_host
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.core.ties import sampled
from adadim.errors import InvalidValueError
from adadim.models.context import ContextPosterior
from adadim.policies.base import Choice, Memo
from adadim.policies.linear.learner import LinearLearner
from adadim.policies.linear.rules import Optimism
from adadim.policies.masters.base import Bases, Master, MasterLearner
from adadim.policies.masters.corral import LearningRate, LogBarrier
from adadim.policies.parameters import Beta, LossRange, loss
from adadim.policies.player import merged, part_of, without_prefix

RoundFeedback = Literal["step2", "mean", "sum"]

CHECKPOINT_INTERVAL = 32  # pulls; memory then grows by d^2 / 32 numbers a pull


@dataclass(frozen=True)
class SmoothCorral(Master):
    """Let an adversarial master find the best of several base learners, each smoothed by replaying its past.

    By default the bases are `LinUCB` in 1, 2, 4, ... features. Use it when the candidates differ in kind and the
    best is unknown; on nested dimensions `LinUCBPlusPlus` has less regret in the paper's experiments, since a master
    pays for every base it tries and for the replays.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    beta : float in [0.5, 1)
        Learning rate eta = T^-beta, which is where on the Pareto frontier the guarantee lies.
    eta : float, optional
        Learning rate, instead of T^-beta; with ``tuning="single-rate"`` that of EXP3.P, instead of q/M.
    master : {"corral", "exp3p"}
        Log-barrier mirror descent or EXP3.P, which explores and learns at the rates of `tuning`.
    tuning : {"textbook", "single-rate"}
        Of EXP3.P. "textbook": bias and learning rate of order sqrt(ln(M) / (M T)), uniform mass M times that.
        "single-rate": uniform mass q and bias q/2, q = T^(-1/3), with learning rate q/M (``eta=1`` is the source's,
        with which one gain at a small probability decides the rest of the run).
    base_regret : float, optional
        c, if the bases have regret c sqrt(t): then q = T^(-1/3) (c/M)^(2/3).
    feedback : {"step2", "mean", "sum"}
        Which losses of a two-step round the master sees: the replay's, the mean or the sum of both.
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0. The safe (-1, 1) leaves losses close together when rewards are; a
        tighter range discriminates better.
    replay : bool
        False drops the second step of every round: Stochastic Corral, without the guarantee.

    Notes
    -----
    With bases whose regret is O~(sqrt(d_i t)) with high probability, the regret is O~(T^max(beta, 1 + alpha - beta))
    for d* = T^alpha (appendix C of the paper), without an expressive action set. With EXP3.P and bases of regret d t^a
    it is O~(sqrt(MT) + M^((1-a)/(2-a)) T^(1/(2-a)) d), T^(2/3) for a = 1/2, which is off the frontier; how exactly the
    source sets EXP3.P's learning rate and bias is unverified. Where features come with each round, a replay asks one of
    the base's past regressions about the arms of the new round; the guarantee then needs rounds that are independent
    and alike.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.SmoothCorral(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    beta: Beta = 0.5
    eta: LearningRate | None = None
    master: Literal["corral", "exp3p"] = "corral"
    tuning: Literal["textbook", "single-rate"] = "textbook"
    base_regret: Annotated[float, partial(positive, meaning="c in the bases' regret c sqrt(t), or None")] | None = None
    feedback: RoundFeedback = "step2"
    loss_range: LossRange = (-1.0, 1.0)
    replay: bool = True

    def distribution(self, bases: int, horizon: int, reference: Array) -> LogBarrier | Exp3P:
        """Fresh master probabilities for a run of `horizon` steps, in the library of `reference` (R, ...)."""
        rounds = master_rounds(horizon, self.replay)
        if self.master == "exp3p":
            if self.tuning == "textbook":
                return Exp3P(reference, bases, rounds)
            q = exploration_rate(rounds, bases, self.base_regret)
            return Exp3P(reference, bases, rounds, (self.eta or q / bases, q, q / 2))
        return LogBarrier(reference, bases, self.eta or horizon**-self.beta, rounds)

    def learner(self, problem: Problem, streams: Streams) -> SmoothCorralLearner:
        return SmoothCorralLearner(self, problem, streams)


class SmoothCorralLearner(MasterLearner):
    """State of `SmoothCorral`."""

    needs_sets = "iid"
    no_allowed = (
        "a replay is an arm of an earlier round, so this policy needs all arms in every round; use "
        "adadim.recommended(problem) with allowed="
    )

    def __init__(self, policy: SmoothCorral, problem: Problem, streams: Streams) -> None:
        if problem.contextual:  # a replay is an old regression, asked about the arms of this round
            self.no_allowed = ""
        super().__init__(policy, problem, streams)
        master = policy.distribution(len(self.bases), problem.horizon, problem.reference)
        smoothed = StoredPolicies if problem.contextual else SmoothedBases
        self.smoothed = smoothed(policy, self.bases, master, problem.horizon, streams)

    def choose(self, rows: Replications) -> Choice:
        return self.smoothed.choose(rows)

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        self.smoothed.absorb(arms, rewards, rows, memo)

    def sequence(self) -> Hashable:
        return self.smoothed.sequence()

    def pull_sums(self) -> None:
        return None  # the bases do not learn from replays

    def descriptions(self) -> list[dict[str, Any]]:
        p = self.smoothed.master.probabilities(self.everyone)
        return self.describe_bases(probabilities=p, rounds_of_each_base=self.smoothed.counts)


def exploration_rate(rounds: int, bases: int, base_regret: float | None = None) -> float:
    """The single rate of EXP3.P: T^(-1/3) for T rounds, times (c/M)^(2/3) if bases have regret c sqrt(t)."""
    rate: float = rounds ** (-1 / 3)
    if base_regret is not None:
        rate *= (base_regret / bases) ** (2 / 3)
    return min(1.0, rate)


class Exp3P:
    """EXP3.P: exponential weights on optimistic gains, mixed with the uniform; by default rates of the textbook."""

    def __init__(self, reference: Array, bases: int, horizon: int, rates: tuple[float, ...] | None = None) -> None:
        rate = math.sqrt(math.log(max(bases, 2)) / (horizon * bases))
        textbook = 0.95 * rate, min(1.0, 1.05 * bases * rate), rate
        # Learning rate, mass of the uniform distribution, bias of the estimates.
        self.eta, self.gamma, self.bias = textbook if rates is None else rates
        self.gains = zeros(reference, len(reference), bases)

    def probabilities(self, rows: Replications) -> Array:
        xp, weights = namespace(self.gains), self.eta * rows.of(self.gains)
        weights = xp.exp(weights - xp.max(weights, axis=-1)[:, None])
        weights = weights / xp.sum(weights, axis=-1)[:, None]
        return (1.0 - self.gamma) * weights + self.gamma / weights.shape[1]

    def update(self, chosen: Array, losses: Array, rows: Replications) -> None:
        p = self.probabilities(rows)
        gain = p * 0.0 + self.bias
        gain[indices(p), chosen] += 1.0 - losses
        rows.put(self.gains, rows.of(self.gains) + gain / p)


def master_rounds(steps: int, replay: bool) -> int:
    """Rounds of a master in so many steps."""
    return math.ceil(steps / 2) if replay else steps


class SmoothedBases:
    """Bases wrapped by smoothing under a master: rounds of each (`counts`), and the arms it played (`history`)."""

    changes_shape = ("history",)

    def __init__(self, policy: Any, bases: Bases, master: LogBarrier | Exp3P, horizon: int, streams: Streams) -> None:
        self.bases, self.master = bases, master
        self.replay, self.feedback, self.loss_range = policy.replay, policy.feedback, policy.loss_range
        reference, count = bases.reference, int(bases.reference.shape[0])
        self.streams, self.horizon = streams, horizon
        self.counts = zeros(reference, count, len(bases), integers=True)
        self.history = zeros(reference, count, len(bases), master_rounds(horizon, policy.replay), integers=True)
        # Between the two steps of a round: the base that played the first, and its loss.
        self.base = zeros(reference, count, integers=True)
        self.first_loss = zeros(reference, count)
        self.played = np.zeros(count, dtype=np.int64)
        self.replaying = np.zeros(count, dtype=bool)

    def check_restored(self) -> None:
        """Refuse bases that are not there, and more rounds than are kept."""
        if tuple(self.history.shape[:2]) != tuple(self.counts.shape):
            raise InvalidValueError(f"SmoothedBases.history must have the arms of {self.counts.shape[1]} bases")
        check_positions(self, base=len(self.bases))
        self.check_kept()

    def check_kept(self) -> None:
        """Refuse more rounds of a base than arms of it are kept."""
        check_positions(self, counts=int(self.history.shape[2]) + 1)

    def choose(self, rows: Replications) -> Choice:
        parts = []
        for again, members, at in rows.split(self.replaying[rows.ids]):
            if again:
                arms, memo = self._repeat(members)
            else:  # step 1: what a base drawn by the master proposes
                base = sampled(self.master.probabilities(members), self._draw(members))
                arms, memo, *_ = self.bases.choose(base, members)
            parts.append((at, {"arms": arms, **memo}))
        memo = dict(merged(parts, len(rows)))
        return Choice(memo.pop("arms"), memo)

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        losses = loss(rewards, self.loss_range)
        for again, members, at in rows.split(self.replaying[rows.ids]):
            if again:
                self._feed(losses[at], members)
            else:
                self._learn(arms[at], rewards[at], losses[at], members, part_of(memo, at))
        on_host(self._count_step, rows.ids)

    def sequence(self) -> Hashable:
        """As `Learner.sequence`."""
        if self.replaying.any() != self.replaying.all():
            return None
        within = self.bases.sequence()
        return None if within is None else (bool(self.replaying[0]), within)

    def _count_step(self, ids: np.ndarray[Any, Any]) -> None:
        again = self.replaying[ids]
        self.played[ids[~again]] += 1
        if self.replay:
            self.replaying[ids] = ~again
            ids = ids[again]  # the replications whose base proposes next
        if (self.played[ids] == self.history.shape[2]).any():
            self.make_room()

    def make_room(self) -> None:
        """Make room for more policies than were expected."""
        self.history = namespace(self.history).concat([self.history, self.history * 0], axis=2)

    def _draw(self, rows: Replications) -> Array:
        return self.streams.source(self.horizon).uniforms(rows)

    def _repeat(self, rows: Replications) -> tuple[Array, Memo]:
        """Step 2: one of the chosen base's proposals so far."""
        base, xp = rows.of(self.base), namespace(self.counts)
        nth = xp.astype(self._draw(rows) * rows.at(self.counts, base), xp.int64)
        return self.recall(base, nth, rows), {}

    def recall(self, base: Array, nth: Array, rows: Replications) -> Array:
        """What the nth policy (from 0) of a base chooses now."""
        return self.history[rows.positions, base, nth]

    def store(self, base: Array, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Keep the policies that have just been played."""
        self.history[rows.positions, base, rows.at(self.counts, base)] = arms

    def _learn(self, arms: Array, rewards: Array, losses: Array, rows: Replications, memo: Memo) -> None:
        base = memo["base"]
        self.bases.absorb(base, arms, rewards, rows, memo)
        self.store(base, arms, rewards, rows, memo)
        rows.add(self.counts, base, 1)
        if self.replay:
            rows.put(self.base, base)
            rows.put(self.first_loss, losses)
        else:
            self.master.update(base, losses, rows)

    def _feed(self, losses: Array, rows: Replications) -> None:
        if self.feedback == "mean":
            losses = 0.5 * (losses + rows.of(self.first_loss))
        elif self.feedback == "sum":
            losses = losses + rows.of(self.first_loss)
        self.master.update(rows.of(self.base), losses, rows)


class PastRegression:
    """The regression of one base after each number of pulls, from V^-1 and theta at checkpoints among them."""

    changes_shape = ("x", "rewards", "inverse", "theta", "logdet")

    def __init__(self, replications: int, dim: int, ridge: float) -> None:
        self.dim, self.ridge = dim, ridge
        self.pulls = np.zeros(replications, dtype=np.int64)
        self.x, self.rewards = (
            np.zeros((replications, CHECKPOINT_INTERVAL, dim)),
            np.zeros((replications, CHECKPOINT_INTERVAL)),
        )
        self.inverse, self.theta = np.zeros((replications, 0, dim, dim)), np.zeros((replications, 0, dim))
        self.logdet = np.zeros((replications, 0))

    def check_restored(self) -> None:
        """Refuse arrays that do not have room for the pulls."""
        count, room, dim, marks = len(self.pulls), self.x.shape[1], self.dim, self.theta.shape[1]
        shapes = [part.shape for part in (self.x, self.rewards, self.inverse, self.theta, self.logdet)]
        if shapes != [(count, room, dim), (count, room), (count, marks, dim, dim), (count, marks, dim), (count, marks)]:
            raise InvalidValueError("the arrays of a PastRegression do not fit each other")
        check_positions(self, pulls=min(room, marks * CHECKPOINT_INTERVAL + CHECKPOINT_INTERVAL - 1) + 1)

    def add(self, r: int, x: Array, reward: float) -> None:
        """Keep a pull."""
        n = int(self.pulls[r])
        if n == self.x.shape[1]:
            self.x, self.rewards = (np.concatenate([p, np.zeros_like(p)], axis=1) for p in (self.x, self.rewards))
        self.x[r, n], self.rewards[r, n] = x, reward
        self.pulls[r] = n + 1
        if (n + 1) % CHECKPOINT_INTERVAL == 0:
            self._mark(r, (n + 1) // CHECKPOINT_INTERVAL - 1)

    def _mark(self, r: int, place: int) -> None:
        if place == self.theta.shape[1]:
            self.inverse, self.theta, self.logdet = (
                np.concatenate([part, np.zeros((len(part), max(1, place), *part.shape[2:]))], axis=1)
                for part in (self.inverse, self.theta, self.logdet)
            )
        state = self.after(r, (place + 1) * CHECKPOINT_INTERVAL)
        for name in ("inverse", "theta", "logdet"):
            getattr(self, name)[r, place] = getattr(state, name)[0]

    def after(self, r: int, pulls: int) -> ContextPosterior:
        """The regression on the first `pulls` pulls of replication `r`, as one of a single replication."""
        state = ContextPosterior(1, self.dim, self.ridge)
        marked_pulls = (pulls - 1) // CHECKPOINT_INTERVAL * CHECKPOINT_INTERVAL if pulls else 0
        if marked_pulls:
            place = marked_pulls // CHECKPOINT_INTERVAL - 1
            state.inverse[0], state.theta[0] = self.inverse[r, place], self.theta[r, place]
            state.logdet[0] = self.logdet[r, place]
        row = Replications.all(state.theta)
        for n in range(marked_pulls, pulls):
            state.absorb(self.x[r, n : n + 1], self.rewards[r, n : n + 1], row)
        state.pulls[0] = pulls
        return state


class StoredPolicies(SmoothedBases):
    """`SmoothedBases` where features come with each round: a past policy is the regression on its first pulls."""

    def __init__(self, policy: Any, bases: Bases, master: LogBarrier | Exp3P, horizon: int, streams: Streams) -> None:
        super().__init__(policy, bases, master, horizon, streams)
        self.history = self.history[:, :, :1]  # arms of earlier rounds are not needed
        self.stored = learners = check_stored(bases.learners)
        count = len(self.played)
        self.past = [PastRegression(count, one.model.dim, float(one.model.ridge[0])) for one in learners]

    def check_kept(self) -> None:
        if (as_numpy(self.counts) > np.stack([one.pulls for one in self.past], axis=1)).any():
            raise InvalidValueError("a base of StoredPolicies has more rounds than pulls of it are kept")

    def recall(self, base: Array, nth: Array, rows: Replications) -> Array:
        arms = np.empty(len(rows), dtype=np.int64)
        for i, (b, n) in enumerate(zip(base.tolist(), nth.tolist(), strict=True)):
            row, learner = rows.pick(like([i], self.base)), self.stored[b]
            state = self.past[b].after(int(row.ids[0]), n)
            offer: Any = learner.model.offer
            inputs = as_numpy(offer.inputs(offer.offered(row), row))
            rule: Any = learner.rule
            scores = rule.past_scores(*state.predict(inputs, Replications.all(state.theta)), state.logdet, state.pulls)
            arms[i] = int(learner.largest(like(scores, self.base), row, rule.ties)[0])
        return like(arms, self.base)

    def store(self, base: Array, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        for i, (r, b) in enumerate(zip(rows.ids.tolist(), base.tolist(), strict=True)):
            offer: Any = self.stored[b].model.offer
            x = offer.inputs(without_prefix(memo, b)["features"][i : i + 1], rows.pick(like([i], self.base)))
            self.past[b].add(r, as_numpy(x)[0], float(rewards[i]))

    def make_room(self) -> None:
        return

    def sequence(self) -> None:
        """None: a replay reads the past on the host."""


def check_stored(learners: Sequence[Any]) -> list[LinearLearner]:
    """The base learners, if their past choices can be replayed: optimism over a prior that is told."""
    for one in learners:
        if not (isinstance(one, LinearLearner) and _can_be_replayed(one)):
            raise InvalidValueError(
                "where features come with each round, SmoothCorral replays past regressions: each base must be "
                "optimistic over one regression whose prior is given and which forgets nothing, got "
                f"{shown(one.policy or one)}"
            )
    return list(learners)


def _can_be_replayed(learner: LinearLearner) -> bool:
    told = not learner.model.prior.learns and not learner.model.memory.forgets
    return told and type(learner.rule) is Optimism and learner.rule.clock is None
