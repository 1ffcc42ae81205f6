"""The loop that plays, for all replications in lock step, and the one that replays a log."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from adadim.core.arrays import Array, FloatArray, IntArray, as_numpy, like, zeros
from adadim.core.checks import is_integer, require, shown
from adadim.core.codec import text_of
from adadim.core.display import Bar, html_table
from adadim.core.frames import Tabular
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams, check_seed
from adadim.core.recording import Recorder
from adadim.core.rows import Replications
from adadim.core.threads import one_thread
from adadim.errors import ForeignArmError, InvalidTypeError, InvalidValueError
from adadim.instances.contexts import ContextInstance
from adadim.instances.delay import NEVER, Delay, DelayLike, as_delay
from adadim.instances.instance import Instance
from adadim.instances.tables import LoggedInstance
from adadim.policies.base import Choice, Learner, Memo, Policy
from adadim.policies.player import merged, part_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RECORDED_ROUNDS = 100  # by default
LONGEST_POLICY = 100  # characters of a policy in the text of an outcome
Band = Literal["ci", "std"]
"""Shading around a mean: its 95% confidence interval, or one standard deviation of the trials."""
Record = int | Sequence[int] | None
RoundProgress = Callable[[int, int], None]
ProgressOption = RoundProgress | bool | None
CACHE_BYTES = 8_000_000  # measured: two replications of 3.8 MB at a time are fastest, more than twice as fast as 25


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Tabular):
    """Results of running a policy on an instance; as a table, a row for each replication and recorded round.

    Attributes
    ----------
    times : int array (n,)
        Rounds at which the regret was recorded.
    regret : float array (R, n)
        Cumulative pseudo-regret after that many rounds: the sum of mu* - mu[arm] over the real arms pulled, where mu*
        is that of the best arm there is in the round. Of a single problem, one given as (K, d) features, (n,).
    pulls : int array (R, K)
        How often each arm was pulled; (K,) of a single problem.
    learner : Learner
        The learner after the last round.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> instance = adadim.Instance(np.eye(2), theta=[0.9, 0.1], horizon=50, noise=0.1)
    >>> outcome = adadim.simulate(adadim.UCB(), instance)
    >>> bool(outcome.final == outcome.regret[-1]), int(outcome.pulls.sum())
    (True, 50)
    >>> outcome
    Outcome of UCB()
      problem: 2 arms, 2 features, noise 0.1
      rounds: 50, the regret recorded after each
      regret: ... after the last round
      see: times, regret (50,), pulls (2,), final, learner, plot(), to_polars(), to_pandas()
    """

    times: IntArray
    regret: FloatArray
    pulls: IntArray
    learner: Learner = field(repr=False)

    @property
    def final(self) -> Any:
        """Regret after the last recorded round, (R,); a number for a single problem."""
        return self.regret[..., -1]

    def _columns(self) -> dict[str, Any]:
        regret = np.atleast_2d(self.regret)
        numbers = np.asarray(self.learner.problem.replications)
        columns = {"replication": np.repeat(numbers, len(self.times)), "time": np.tile(self.times, len(numbers))}
        return {**columns, "regret": regret.ravel()}

    @overload
    def plot(self, ax: None = None, band: Band = "ci", title: str | None = None) -> Figure: ...

    @overload
    def plot(self, ax: Axes, band: Band = "ci", title: str | None = None) -> Axes: ...

    def plot(self, ax: Axes | None = None, band: Band = "ci", title: str | None = None) -> Figure | Axes:
        """Draw the mean regret over the rounds; `adadim.plot`, which has the parameters, draws several outcomes.

        Examples
        --------
        >>> import adadim, numpy as np
        >>> instance = adadim.Instance(np.eye(2), theta=[0.9, 0.1], horizon=50, noise=0.1)
        >>> figure = adadim.simulate(adadim.UCB(), instance).plot()
        >>> figure.axes[0].get_xlabel()
        'round $t$'
        """
        # By its name: what draws stands above this room, and is loaded by those who draw.
        drawn: Figure | Axes = import_module("adadim.report.figures").plot(self, ax, band, title)
        return drawn

    def __repr__(self) -> str:
        problem = self.learner.problem
        noise = f"noise {problem.noise:g}" if problem.noise_known else "unknown noise"
        rounds, recorded = int(self.times[-1]), len(self.times)
        when = "each" if recorded == rounds else f"{recorded} of them"
        lines = (
            f"Outcome of {_policy_text(self.learner)}",
            f"problem: {problem.arms} arms, {problem.dim} features, {noise}",
            f"rounds: {rounds}, the regret recorded after {when}",
            f"regret: {self._final_text()} after the last round",
            f"see: times, regret {self.regret.shape}, pulls {self.pulls.shape}, final, learner, plot(), to_polars(), "
            "to_pandas()",
        )
        return "\n  ".join(lines)

    def _final_text(self) -> str:
        return _mean_with_deviation(np.atleast_1d(self.final))

    def _repr_html_(self) -> str:
        policy, rounds = repr(self.learner.policy), int(self.times[-1])
        return html_table("Outcome", {"policy": policy, "rounds": rounds, "regret": self._final_text()})


def _policy_text(learner: Learner) -> str:
    """The policy of a learner, without what has its default; cut where it is long."""
    policy = learner.policy
    text = type(learner).__name__ if policy is None else text_of(policy, defaults=False)
    return text if len(text) <= LONGEST_POLICY else f"{text[:LONGEST_POLICY]} ..."


def _mean_with_deviation(values: FloatArray) -> str:
    """The mean of values, one for each replication, and their standard deviation."""
    deviation = f" (std {values.std(ddof=1):.3g} over {len(values)} replications)" if len(values) > 1 else ""
    return f"{values.mean():.4g}{deviation}"


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """Results of replaying logged choices to a policy.

    Attributes
    ----------
    mean : float array (R,)
        Mean reward of the rows in which the policy chose the logged arm: what it would have earned per round. Not a
        number where there is no such row.
    matched : int array (R,)
        How many rows that were.
    times : int array (n,)
        Rows after which the sums were recorded.
    rewards, matches : float array (R, n), int array (R, n)
        Sum of the rewards, and number of the matching rows, up to then.
    pulls : int array (R, K)
        How often each arm was chosen in a matching row.
    learner : Learner
        The learner after the last row.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> drug = rng.integers(2, size=1000)
    >>> frame = {"drug": drug, "better": (rng.random(1000) < np.where(drug == 1, 0.8, 0.2)).astype(float)}
    >>> trial = adadim.instances.table(frame, reward="better", arm="drug", features=[], replications=range(5))
    >>> outcome = adadim.simulate(adadim.recommended(trial.problem), trial)
    >>> bool(outcome.mean.mean() > 0.7), bool((abs(outcome.matched - 500) < 60).all())
    (True, True)
    """

    times: IntArray
    rewards: FloatArray
    matches: IntArray
    pulls: IntArray
    learner: Learner = field(repr=False)

    @property
    def matched(self) -> IntArray:
        """Number of rows in which the policy chose the logged arm, (R,)."""
        return self.matches[:, -1]

    @property
    def mean(self) -> FloatArray:
        """Mean reward of these rows, (R,)."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.rewards[:, -1] / self.matched)

    def __repr__(self) -> str:
        few, many = int(self.matched.min()), int(self.matched.max())
        lines = (
            f"Replay of {_policy_text(self.learner)}",
            f"rows: {int(self.times[-1])}, of which {few if few == many else f'{few} to {many}'} had the arm it chose",
            f"mean reward of these: {_mean_with_deviation(self.mean)}",
            "see: mean, matched, times, rewards, matches, pulls, learner",
        )
        return "\n  ".join(lines)


PolicyLike = Policy | Callable[[Problem], Policy]


@overload
def simulate(
    policy: PolicyLike,
    instance: Instance | ContextInstance,
    seed: int = 0,
    record: Record = None,
    progress: ProgressOption = None,
    delay: DelayLike = None,
) -> Outcome: ...


@overload
def simulate(
    policy: PolicyLike, instance: LoggedInstance, seed: int = 0, record: Record = None, progress: ProgressOption = None
) -> Replay: ...


def simulate(
    policy: PolicyLike,
    instance: Instance | ContextInstance | LoggedInstance,
    seed: int = 0,
    record: Record = None,
    progress: ProgressOption = None,
    delay: DelayLike = None,
) -> Outcome | Replay:
    """Run a policy on every replication of an instance; of logged choices it gives a `Replay`, else an `Outcome`.

    Parameters
    ----------
    policy : Policy, or callable
        What to run; or a function from the instance's problem to a policy, such as `adadim.recommended`.
    instance : Instance, ContextInstance or LoggedInstance
        Where to run it; its horizon is the number of rounds. Where features come with each round, the regret is against
        the best arm of each. Logged choices are replayed, row by row.
    seed : int
        Seed of the reward noise and of the policy's own randomness. Every policy run with the same seed meets the
        same noise in the same replication.
    record : int or sequence of int, optional
        Rounds after which to record the regret: a number of evenly spaced ones (100 by default; never more than the
        horizon), or the rounds themselves.
    progress : callable or bool, optional
        Called as ``progress(rounds_done, horizon)`` at every record point; if replications are played in turns, with
        the rounds done on average. By default a bar with the time left shows in terminals and notebooks once the run
        has taken two seconds; True shows it at once, False never.
    delay : Delay, int or table, optional
        How many rounds a reward takes to come, see `adadim.instances.Delay`; by default what the instance says. Regret
        counts when an arm is pulled, the noise is that of the same run without delay, and delays of replication r
        depend on (seed, r) alone. Rewards that have not come when the last round is decided are not seen.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=60, dim=10, intrinsic_dim=2, horizon=200, replications=range(3))
    >>> outcome = adadim.simulate(adadim.LinUCB(dim=2), instance, record=[50, 200])
    >>> outcome.times, outcome.regret.shape
    (array([ 50, 200]), (3, 2))
    """
    if not isinstance(instance, Instance | ContextInstance | LoggedInstance):
        raise InvalidTypeError(f"instance must be an adadim.Instance, got {type(instance).__name__}")
    policy = policy_for(policy, instance.problem)
    if instance.problem.endless:
        raise InvalidValueError("simulate needs a number of rounds, but this instance has no end; give it a horizon")
    seed = check_seed(seed)
    late = as_delay(delay)
    if not isinstance(instance, LoggedInstance):
        rounds, late = instance.problem.horizon, instance.delay if late is None else late
    elif late is None:
        rounds = len(instance.rewards)
    else:
        raise InvalidValueError(f"logged choices are replayed row by row and take no delay, got {shown(delay)}")
    times = record_points(record, rounds)
    # One BLAS thread: the products are small, and their last bit must not depend on the machine's load.
    with contextlib.ExitStack() as stack, one_thread:
        report = progress if callable(progress) else stack.enter_context(Bar(type(policy).__name__, progress)).update
        learner = policy.start(instance.problem, seed=seed)
        if isinstance(instance, LoggedInstance):
            return _replay_log(learner, instance, times, report)
        check_takes_late(learner, late)
        waits = None if late is None or late.at_once else LateRewards(learner, late, seed)
        return _play(learner, instance, seed, times, report, waits)


def _play(
    learner: Learner,
    instance: Instance | ContextInstance,
    seed: int,
    times: IntArray,
    progress: RoundProgress,
    late: LateRewards | None,
) -> Outcome:
    """Play all rounds: offer arms, choose, pull, learn the reward now or later, and record the regret."""
    problem, everyone = instance.problem, instance.everyone
    # A memo may refer to what was offered, and is kept until its reward comes.
    environment = instance.environment(seed, keeps_offers=late is not None)
    absorb = learner.absorb if late is None else late.absorb
    regret = zeros(problem.reference, len(problem))
    pulls = zeros(problem.reference, len(problem), problem.arms, integers=True)

    def play(rows: Replications = everyone) -> None:
        offer = environment.offer(rows)
        arms, memo, *_ = learner.choose(learner.with_available_arms(offer))
        absorb(arms, environment.pull(arms, offer), offer, memo)
        regret[rows.index] += environment.regret(arms, rows)
        rows.add(pulls, arms, 1)

    play_recorded = Recorder(play, problem.reference)
    records = play_recorded.records and late is None
    strips = cache_sized_strips(learner, regret) if environment.in_turns else [everyone]
    recorded = np.empty((len(problem), len(times)))
    for strip, rows in enumerate(strips):
        points = enumerate(times.tolist())
        column, due = next(points)
        for t in range(1, problem.horizon + 1):
            environment.next_round()
            if late is not None:
                late.answer_due(t)
            if rows.everyone:
                play_recorded(learner.sequence() if records else None)
            else:
                play(rows)
            if t == due:
                recorded[rows.index, column] = as_numpy(rows.of(regret))
                column, due = next(points, (0, 0))
                progress((strip * problem.horizon + t) // len(strips), problem.horizon)
    counts = as_numpy(pulls)
    play_recorded.close()
    if isinstance(instance, Instance):
        if problem.growing:  # the best arm of a round is one that is there
            recorded -= instance.unreachable()[:, times]
        if problem.single:
            return Outcome(times, recorded[0], counts[0], learner)
    return Outcome(times, recorded, counts, learner)


class _Pulls(NamedTuple):
    """Pulls of one round that are answered together."""

    ids: IntArray  # positions of their replications
    arms: Array
    rewards: Array
    memo: Memo


class LateRewards:
    """Replaces a learner's `absorb` where rewards come late, and answers pulls in the order of the rounds."""

    def __init__(self, learner: Learner, delay: Delay, seed: int) -> None:
        self.learner, self.delay, self.everyone = learner, delay, learner.everyone
        self.streams = Streams(seed, Purpose.DELAY, learner.problem.replications)
        self.round = 0
        self.due: dict[int, list[_Pulls]] = defaultdict(list)  # by the round before which the rewards come

    def answer_due(self, t: int) -> None:
        """Learn the rewards that have come since the decision before that of round `t`."""
        if t == 1:  # the next replications begin
            self.due.clear()
        self.round = t
        for pulls in self._one_of_each(self.due.pop(t, [])):
            self.learner.resolve(pulls.arms, pulls.rewards, self._rows(pulls.ids), pulls.memo)

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Learn the rewards that come at once, and count the pulls whose rewards come later or never."""
        if rows.everyone:
            rows = self.everyone  # without the offer, which the memo has
        rounds = self.delay.draw(self.streams, rows)
        for waits, part, at in rows.split(rounds != 0):
            if waits:
                self.learner.add_pending(arms[at], part, part_of(memo, at))
            else:
                self.learner.absorb(arms[at], rewards[at], part, part_of(memo, at))
        for wait, part, at in rows.split(rounds):
            due = self.round + wait + 1
            if wait not in (0, NEVER) and due <= self.learner.problem.horizon:
                self.due[due].append(_Pulls(part.ids, arms[at], rewards[at], part_of(memo, at)))

    def _one_of_each(self, pulls: Sequence[_Pulls]) -> Iterator[_Pulls]:
        """The same pulls put together so that a replication has at most one in each, the earliest first."""
        if len(pulls) < 2:
            yield from pulls
            return
        ids = np.concatenate([pull.ids for pull in pulls])
        starts = np.cumsum([0, *(len(pull.ids) for pull in pulls)])
        spans = [slice(start, stop) for start, stop in itertools.pairwise(starts.tolist())]
        xp = self.learner.xp
        arms, rewards = (xp.concat([getattr(pull, name) for pull in pulls]) for name in ("arms", "rewards"))
        memo = merged([(span, pull.memo) for span, pull in zip(spans, pulls, strict=True)], len(ids))
        earlier: Counter[int] = Counter()
        turns: dict[int, list[int]] = {}
        for position, r in enumerate(ids.tolist()):
            turns.setdefault(earlier[r], []).append(position)
            earlier[r] += 1
        for positions in turns.values():
            chosen = np.array(positions)[np.argsort(ids[positions])]
            at = like(chosen, arms)
            yield _Pulls(ids[chosen], arms[at], rewards[at], part_of(memo, at))

    def _rows(self, ids: IntArray) -> Replications:
        everyone = self.everyone
        if len(ids) == len(everyone):  # in their order, see `_one_of_each`
            return everyone
        if len(ids) == 1:  # a slice makes views where an index makes copies
            return Replications(slice(int(ids[0]), int(ids[0]) + 1), everyone.positions)
        return Replications.some(ids, everyone.positions)


def check_takes_late(learner: Learner, delay: Delay | None) -> None:
    """Raise if rewards come late and the learner needs each before its next decision."""
    if delay is not None and not delay.at_once and not learner.takes_late_rewards:
        name = type(learner.policy or learner).__name__
        raise InvalidValueError(
            f"{name} needs each reward before its next decision and cannot play where rewards are delayed; "
            "adadim.recommended(problem) can"
        )


def _replay_log(learner: Learner, instance: LoggedInstance, times: IntArray, progress: RoundProgress) -> Replay:
    count, last = len(instance.problem), int(times[-1])
    earned, pulls = np.zeros(count), np.zeros((count, instance.problem.arms), dtype=np.int64)
    sums, matches = np.empty((count, len(times))), np.empty((count, len(times)), dtype=np.int64)
    due = {t: column for column, t in enumerate(times.tolist())}
    choices = replayed(learner, itertools.islice(instance.logged(), last))
    for t, (choice, chosen, rewards) in enumerate(choices, start=1):
        arms = choice.arms
        matching = arms == chosen
        if matching.any():
            earned[matching] += rewards[matching]
            pulls[matching, arms[matching]] += 1
        if t in due:
            sums[:, due[t]], matches[:, due[t]] = earned, pulls.sum(axis=1)
            progress(t, last)
    return Replay(times, sums, matches, pulls, learner)


def policy_for(policy: PolicyLike, problem: Problem) -> Policy:
    """The policy itself, or the one that a function makes for a problem."""
    candidate: Any = policy(problem) if callable(policy) and not isinstance(policy, Policy | type) else policy
    require(
        isinstance(candidate, Policy), "policy", "be an adadim policy such as LinUCB()", candidate, InvalidTypeError
    )
    return candidate  # type: ignore[no-any-return]


def replayed(
    learner: Learner, log: Iterable[tuple[FloatArray | None, IntArray, FloatArray]], every: bool = False
) -> Iterator[tuple[Choice, IntArray, FloatArray]]:
    """Show a learner the rows of a log, features, choices and rewards; it learns where it chooses the logged arm.

    Features are None where the problem has the same arms in each row. Gives each row with the learner's choice in place
    of the features, before it learns. With `every` and R = 1 it learns from all rows, if it can.
    """
    for features, chosen, rewards in log:
        rows = learner.everyone if features is None else learner.everyone.with_offer(features, None)
        choice = Choice(*learner.choose(rows))
        yield choice, chosen, rewards
        arms, memo = choice.arms, choice.memo
        if every:
            try:
                learner.learn(chosen if features is None else features[:, chosen[0]], rewards)
            except ForeignArmError:
                every = False  # it learns from its own choices only
        if not every:
            matching = (arms == chosen).nonzero()[0]
            if len(matching) == len(arms):
                learner.absorb(arms, rewards, rows, memo)
            elif len(matching):
                learner.absorb(arms[matching], rewards[matching], rows.pick(matching), part_of(memo, matching))


def cache_sized_strips(learner: Learner, reference: Array) -> list[Replications]:
    """Groups of replications to play together, whose data of one round are still in the cache in the next."""
    everyone = Replications.all(reference)
    size = max(1, CACHE_BYTES // max(1, learner.bytes_per_round))
    if size >= len(everyone) or not everyone.on_host:
        return [everyone]
    ids = everyone.ids
    return [Replications(slice(start, min(start + size, len(ids))), ids) for start in range(0, len(ids), size)]


def record_points(record: int | Sequence[int] | None, horizon: int) -> IntArray:
    """Rounds at which the regret is recorded, increasing."""
    if record is None:
        record = RECORDED_ROUNDS
    if isinstance(record, int | np.integer) and is_integer(record):
        require(record >= 1, "record", "be at least 1, or a sequence of rounds", record)
        count = min(int(record), horizon)
        return np.array([horizon * (i + 1) // count for i in range(count)])
    times = np.asarray(record)
    listed = times.ndim == 1 and times.size > 0 and times.dtype.kind in "iu"
    require(listed, "record", "be an integer or a non-empty sequence of rounds", record)
    increasing = times[0] >= 1 and times[-1] <= horizon and not (np.diff(times) <= 0).any()
    require(increasing, "record", f"hold increasing rounds in 1..{horizon} (the horizon)", times.tolist())
    return times.astype(np.int64)
