"""What plays the rounds of a problem: it decides on arms and absorbs their rewards, for many replications at once.

This module has what the author of a policy writes (`choose`, `absorb` and attributes of the class) and the helpers to
write it with. It is also all that a loop or a master calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from adadim.core.arrays import Array, all_true_on_host, as_numpy, device_of, like, namespace, same_library, zeros
from adadim.core.deprecated import warn_renamed
from adadim.core.problem import Problem
from adadim.core.randomness import Draws, LateDraws, Streams
from adadim.core.rows import EVERY, Replications
from adadim.core.ties import Ties, argmax, equal_probabilities, positions_of_largest, sampled, tie_probabilities
from adadim.errors import DeviceError, InvalidValueError
from adadim.models.offers import Memo as Memo
from adadim.models.statistics import Moments
from adadim.policies.assumptions import Need

FORMER_METHODS = {"expect": "add_pending", "answer": "resolve", "drop_expected": "clear_pending"}

OpenChoice = tuple[np.ndarray[Any, Any], Array, Memo]
"""Positions of replications, their arms, and what to remember of it."""


class Choice(NamedTuple):
    """What a learner chooses in some replications, one arm in each."""

    arms: Array
    """Arms to pull, (n,)."""
    memo: Memo
    """What `absorb` needs to know of this choice: arrays with an entry for each replication."""
    scores: Array | None = None
    """Scores (n, K) of which the largest was chosen: less costs, -inf for arms not allowed. None if it has none."""
    distribution: Callable[[], Array] | None = None
    """Computes `probabilities`; None where they are not known."""
    estimate: Callable[[int], Array] | None = None
    """Estimates `probabilities` (1, K) where scores are random: by so many further draws of them and the one made."""

    @property
    def probabilities(self) -> Array | None:
        """Probability (n, K) of each arm to be chosen by what was learned before; None where it is not known."""
        return None if self.distribution is None else self.distribution()

    def estimated_probabilities(self, draws: int) -> Array | None:
        """As `probabilities`; or `estimate` of them, by so many draws."""
        if self.estimate is not None:
            return self.estimate(draws)
        return None if self.distribution is None else self.distribution()


@dataclass(frozen=True, eq=False)
class Decision:
    """What a learner has decided; give it back with the rewards, at once or later.

    Attributes
    ----------
    arms : int or int array
        Arm to pull: one for each replication it concerns, or a plain int if the problem is a single one.
    number : int
        How many decisions the learner made before this one.
    rows : int array
        Positions of the replications it concerns.
    memo : mapping
        What the learner needs besides, to learn from the rewards: arrays with an entry for each replication.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.LinUCB(ties="lowest").start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    >>> first, second = learner.ask(), learner.ask()
    >>> learner.tell(second, 0.2)  # late, and in any order
    >>> learner.tell(first, 0.4)
    """

    arms: Any
    number: int
    rows: np.ndarray[Any, Any]
    memo: Memo = field(repr=False)

    @property
    def id(self) -> int:
        """The same as `number`, by the name that decisions of an `adadim.Agent` have for theirs."""
        return self.number


class Player(ABC):
    """State of a policy on R replications, as loops and masters use it."""

    takes_any_arm = True
    """Whether it can learn from arms that it did not choose."""

    takes_late_rewards = True
    """Whether several decisions may be open at once, and be answered in any order."""

    no_allowed = ""
    """Why no arm may be left out in a round; empty if some may."""

    no_contexts = (
        "this policy knows arms by their number, which means nothing where features come with each round; use "
        "adadim.recommended(problem)"
    )
    """Why it cannot play where features come with each round; empty if it can."""

    no_disjoint = (
        "this policy learns one parameter for all arms: multiply arms and covariates out, "
        "ask(adadim.interactions(context, arms)) on Problem(arms=, dim=), or use adadim.recommended(problem)"
    )
    """Why it cannot play where each arm has a parameter of its own; empty if it can."""

    contexts_on_devices = False
    """Whether it can play with torch where features come with each round."""

    no_growing: str | None = None
    """Why it cannot play where arms arrive; by default for the reason that no arm may be left out."""

    takes_new_arms = False
    """Whether arms can be added that were not announced (`add_arms`); `arms_added` is then called."""

    needs_sets: Need = "any"
    """What the guarantee needs of the action sets, a key of `assumptions.NEEDS`; starting it elsewhere warns."""

    fixed_operations = False
    """Whether `choose` and `absorb` always do the same array operations: the data enter through values, indices and
    masks, never through shapes, loops or `if`. Rounds can then be recorded and replayed where a device can do that."""

    bytes_per_round = 0
    """Bytes that every round reads anew for each replication."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for old, new in FORMER_METHODS.items():
            if old in vars(cls) and new not in vars(cls):
                warn_renamed(f"{cls.__name__}.{old}", new, stacklevel=4)
                setattr(cls, new, vars(cls)[old])

    def __init__(self, problem: Problem, streams: Streams) -> None:
        if problem.contextual and self.no_contexts:
            raise InvalidValueError(self.no_contexts)
        if problem.contextual and not (problem.on_host or self.contexts_on_devices):
            raise DeviceError(
                "where features come with each round this policy is computed with NumPy, not with torch; use "
                "adadim.recommended(problem)"
            )
        if problem.disjoint and self.no_disjoint:
            raise InvalidValueError(self.no_disjoint)
        if problem.growing and (reason := self.no_allowed if self.no_growing is None else self.no_growing):
            raise InvalidValueError(reason)
        self.problem, self.streams = problem, streams
        self.everyone = Replications.all(problem.reference)
        if problem.growing:
            # When each arm arrives, what round it is, and the features, to which arms are added in place.
            self.arrives = like(problem.arrives.copy(), problem.reference)
            self.calendar, self.features_there = Clock(problem.reference), problem.actions.base

    @abstractmethod
    def choose(self, rows: Replications) -> Choice:
        """Arms to pull in the replications of `rows`, with their scores and probabilities as far as there are some.

        A policy of your own may also return the pair (arms, memo).
        """

    @abstractmethod
    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Learn from the rewards of arms, one for each replication of `rows`."""

    def add_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        """Count pulls that were decided and whose rewards are not known yet, wherever these are not needed."""
        return

    def resolve(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Learn from the rewards of arms that `add_pending` has counted, one for each replication of `rows`."""
        self.absorb(arms, rewards, rows, memo)

    def clear_pending(self) -> None:
        """Stop counting pulls whose rewards are not known."""
        return

    @property
    def learns_from_others(self) -> bool:
        """Whether it can learn from a round in which another arm was pulled in the place of the one that it chose."""
        return self.takes_any_arm

    def memo_of_other(self, arms: Array, rows: Replications, memo: Memo) -> Memo:
        """The memo of such a round: `memo` is that of its own choice, `arms` are those pulled."""
        return memo

    def resume(self, decided: int, streams: Streams) -> None:
        """Continue as if `decided` decisions had been made, with the random numbers of these streams."""
        self.streams = streams
        self.__dict__.pop("draws", None)  # cached, from the streams before

    def arms_added(self) -> None:
        """Update the state after arms were added to the features of the problem."""
        return

    def with_available_arms(self, rows: Replications) -> Replications:
        """The same rows in the round that begins, offered the arms that have arrived."""
        if not self.problem.growing:
            return rows
        t = self.calendar.decided
        available = rows.of(self.arrives) <= rows.of(t)[:, None] + 1
        self.calendar.tick(rows)
        if rows.allowed is not None:
            available = available & rows.allowed
        return rows if all_true_on_host(available) else rows.with_offer(None, available)

    def sequence(self) -> Hashable:
        """Name of the array operations of the next round, replayed where it is equal; None if the data decide."""
        return type(self).__name__ if self.fixed_operations else None

    def check_arms(self, arms: Array) -> None:
        """Raise unless it can learn from these arms, all of them arms of the problem."""
        return

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        """Pulls and sums of rewards of all arms, (R, K), and sums of squared rewards, (R,); None if it keeps none."""
        return None

    def shifted_sums(self) -> tuple[Array, Array, Array] | list[Moments] | None:
        """As `context_sums` or else `pull_sums`, of rewards less a number, for which a learner may know them better."""
        moments = self.context_sums()
        return self.pull_sums() if moments is None and not self.problem.contextual else moments

    def context_sums(self) -> list[Moments] | None:
        """Sums over the features pulled (perhaps times factors), where they come with rounds; None if it keeps none."""
        return None

    def descriptions(self) -> list[dict[str, Any]]:
        """What `Learner.describe` says of each replication; `described` makes it."""
        return self.described()

    def described(self, **columns: Any) -> list[dict[str, Any]]:
        """One dict per replication, its number and an entry of each of `columns`, which are arrays or lists."""
        lists = [values if isinstance(values, list) else as_numpy(values).tolist() for values in columns.values()]
        each = zip(self.problem.replications, *lists, strict=True)
        return [{"replication": number, **dict(zip(columns, values, strict=True))} for number, *values in each]

    @property
    def xp(self) -> Any:
        """Array namespace of the problem."""
        return self.problem.xp

    @cached_property
    def draws(self) -> Draws:
        """Random numbers of this learner, in the library of the problem."""
        return self.streams.source(self.problem.draws_at_once)

    def zeros(self, *shape: int, integers: bool = False) -> Array:
        """Zeros of shape (R, *shape), for state."""
        return zeros(self.problem.reference, len(self.problem), *shape, integers=integers)

    def choose_largest(self, scores: Array, rows: Replications, ties: Ties = "random") -> Choice:
        """Choose the arm with the largest score in each row, less costs and among the arms allowed."""
        return choose_largest(scores, rows, self.draws, ties)

    def largest(self, scores: Array, rows: Replications, ties: Ties = "random") -> Array:
        """The arms that `choose_largest` chooses."""
        return choose_largest(scores, rows, self.draws, ties).arms


def choose_largest(scores: Array, rows: Replications, draws: Draws | LateDraws, ties: Ties) -> Choice:
    """As `Player.choose_largest`, for the parts of a learner; a draw settles ties."""
    if rows.allowed is not None or rows.costs is not None:
        scores = rows.apply_costs_and_mask(scores)
    uniforms = draws.uniforms(rows) if ties == "random" else None
    if isinstance(scores, np.ndarray) and len(scores) == 1:  # the usual case of an agent, and quick
        tied = positions_of_largest(scores[0])
        tied = tied[:1] if uniforms is None else tied
        chosen = tied[0] if uniforms is None or len(tied) == 1 else tied[int(uniforms.item(0) * len(tied))]
        return Choice(np.array([chosen]), {}, scores, partial(equal_probabilities, tied, scores.shape[1]))
    return Choice(argmax(scores, uniforms), {}, scores, partial(tie_probabilities, scores, ties))


def choose_drawn(probabilities: Array, uniforms: Array) -> Choice:
    """A position drawn from each row of `probabilities`, which sum to 1."""
    return Choice(sampled(probabilities, uniforms), {}, None, lambda: probabilities)


class Clock:
    """Counts the rounds of each replication, answered or not and logged ones too, where t takes the place of T."""

    def __init__(self, reference: Array) -> None:
        self.decided = zeros(reference, reference.shape[0], integers=True)

    def now(self, rows: Replications, pulls: Array) -> Array:
        """Number t of the round to be decided, (n, 1), given the pulls (R,) that the learner has learned from."""
        xp = namespace(self.decided)
        t = xp.maximum(rows.of(self.decided), xp.astype(rows.of(pulls), xp.int64)) + 1
        return xp.astype(t, xp.float64)[:, None]

    def tick(self, rows: Replications) -> None:
        """Count a decision in each replication of `rows`."""
        rows.put(self.decided, rows.of(self.decided) + 1)

    def set(self, rows: Replications, decided: int) -> None:
        """Set the number of decisions made in each replication of `rows`."""
        rows.put(self.decided, rows.of(self.decided) * 0 + decided)


def choice_like(choice: Choice, reference: Array) -> Choice:
    """A choice with arms and memo in the library of `reference`; scores and probabilities stay where they are."""
    if same_library(choice.arms, reference):
        return choice
    memo = {key: like(values, reference) for key, values in choice.memo.items()}
    return choice._replace(arms=like(choice.arms, reference), memo=memo)


def pulls_to_numpy(
    arms: Array, rewards: Array, rows: Replications, memo: Memo
) -> tuple[Array, Array, Replications, Memo]:
    """The arguments of `absorb` as NumPy's arrays, for statistics that are kept on the host whatever the library."""
    return as_numpy(arms), as_numpy(rewards), rows.to_numpy(), {key: as_numpy(part) for key, part in memo.items()}


def merged(parts: Sequence[tuple[Any, Memo]], count: int) -> Memo:
    """One memo of `count` replications from the memos of parts of them; entries that a part lacks are zero."""
    if len(parts) == 1:
        return parts[0][1]
    merged_memo: dict[str, Array] = {}
    for at, memo in parts:
        for key, values in memo.items():
            if key not in merged_memo:
                shape, device = (count, *values.shape[1:]), device_of(values)
                merged_memo[key] = namespace(values).zeros(shape, dtype=values.dtype, device=device)
            merged_memo[key][at] = values
    return merged_memo


def part_of(memo: Memo, at: Any) -> Memo:
    """The memo of the replications at some positions."""
    if at is EVERY:
        return memo
    return {key: values[at] for key, values in memo.items()}


def with_prefix(memo: Memo, mark: int) -> Memo:
    """The memo with a number before every key, which tells it from those of other learners."""
    return {f"{mark}.{key}": values for key, values in memo.items()}


def without_prefix(memo: Memo, mark: int) -> Memo:
    """The part of a memo that `with_prefix` made with this number."""
    start = f"{mark}."
    return {key.removeprefix(start): values for key, values in memo.items() if key.startswith(start)}


class Solver(Protocol):
    """What plays one iteration, as a `Learner` would. A choice below K is that real arm; K + j is mixture-arm j."""

    def choose(self, rows: Replications) -> Choice: ...

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None: ...

    def sequence(self) -> Hashable:
        """As `Learner.sequence`, of one that always does the same operations."""
        return type(self).__name__


class Turn(Protocol):
    """A round of one replication among several that are decided together."""

    @property
    def costs(self) -> Array | None:
        """Costs (K,) of its arms, if they have some."""

    @property
    def decisions(self) -> int:
        """How many arms are wanted, no arm twice."""


Chooser = Callable[[Sequence[int], int], Choice]
"""Chooses in one round, given the arms taken in it and the number by which its random stream is found."""


def offered(everyone: Replications, features: Array, turn: Turn, taken: Sequence[int]) -> Replications:
    """What a round offers: the arms, of features (K, d), that are not taken."""
    allowed = None
    if taken:
        allowed = np.ones((1, len(features)), dtype=bool)
        allowed[0, taken] = False
    return everyone.with_offer(features[None], allowed, turn.costs)


def choosers_one_by_one(
    learner: LearnsFromSums,
    features: Array | Sequence[Array],
    rounds: Sequence[Turn],
    decided: int,
    streams: Callable[[int], Streams],
) -> Generator[Chooser, Sequence[int], None]:
    """As `LearnsFromSums.choosers`, by `choose` and `expect_features`."""
    for arms, turn in zip(features, rounds, strict=True):

        def choose(
            taken: Sequence[int], position: int, arms: Array = arms, turn: Turn = turn, decided: int = decided
        ) -> Choice:
            learner.resume(decided, streams(position))
            return Choice(*learner.choose(offered(learner.everyone, arms, turn, taken)))

        for arm in (yield choose):
            learner.expect_features(arms[arm])
        decided += turn.decisions


@runtime_checkable
class LearnsFromSums(Protocol):
    """A learner on one replication of a contextual problem, as `adadim.Agent`, which keeps the data, uses it.

    The methods without a docstring are those of `Player`.
    """

    everyone: Replications

    def resume(self, decided: int, streams: Streams) -> None: ...

    def choose(self, rows: Replications) -> Choice: ...

    def choosers(
        self, features: Array | Sequence[Array], rounds: Sequence[Turn], decided: int, streams: Callable[[int], Streams]
    ) -> Generator[Chooser, Sequence[int], None]:
        """What chooses in each of several rounds, of arms with these features (K, d), after `decided` decisions.

        The arms taken in a round are sent back; they count as pending in the rounds after it. `streams` gives the
        random numbers of a decision.
        """

    def restart(self, sums: Moments) -> None:
        """Replace everything learned by what these sums determine."""

    def expect_features(self, features: Array) -> None:
        """Count a pull of features (d,) whose reward is not known yet."""


@runtime_checkable
class EstimatesFromSums(LearnsFromSums, Protocol):
    """A learner that estimates the means of arms besides."""

    def estimates(self, features: Array) -> tuple[Array, Array]:
        """Estimated mean (K,) of arms (K, d) and its standard deviation (K,), infinite while the noise is unknown."""
