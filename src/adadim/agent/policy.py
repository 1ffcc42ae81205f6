"""What decides: the policy that holds by an agent's log, with a learner that knows what the log says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from adadim import policies
from adadim.agent.log import NOTHING, Log, PolicyRow, Round, Settings, features_of
from adadim.agent.model import Model
from adadim.core.arrays import FloatArray
from adadim.core.checks import positive, shown
from adadim.core.codec import from_table, to_table
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams
from adadim.core.threads import one_thread
from adadim.core.ties import positions_of_largest, tied_for_first
from adadim.dimension import Levels, checked_levels
from adadim.errors import AdadimError, FileError, InvalidTypeError, InvalidValueError
from adadim.policies.base import Learner, Policy
from adadim.policies.linear.evidence import recommended
from adadim.policies.player import EstimatesFromSums, LearnsFromSums

Plugins = Mapping[str, type[Policy]] | None
"""Policy classes of the caller's own, by name."""

PORTION = 2**22  # bytes of features that are made at once
REFRESH_SECONDS = 0.002  # beyond which rewards may be taken in behind decisions
REFRESH_SHARE = 0.25  # largest share of the time that may take
DRAWS = 1000  # further draws, from which the probability of a random choice is estimated


class _Coming(NamedTuple):
    """A learner that is being made, what it will know, what that rests on, and the last decision that it counts."""

    made: Future[tuple[LearnsFromSums, float]]
    known: tuple[int, int | None]
    base: tuple[int, int]
    counted: int


class Decider:
    """The policy, names of levels and noise as of the last `refresh`, and a learner that is told a model."""

    def __init__(self, log: Log, model: Model, plugins: Plugins) -> None:
        self.log, self.model, self.plugins = log, model, plugins
        self.version = 0
        self._known: tuple[int, int | None] | None = None  # the state of the model that the learner has
        self._base, self._counted = (0, 0), 0  # what it rests on, and the last decision that it has counted
        self._behind: ThreadPoolExecutor | None = None
        self._coming: _Coming | None = None  # a learner that is being made behind decisions
        self._seconds, self._rests_until = 0.0, 0.0  # that taking in rewards took, and until when not to do so again

    @property
    def settings(self) -> Settings:
        """What the agent was created with."""
        return self.log.settings

    def refresh(self) -> None:
        """Take in the policy that holds; in a transaction of the log."""
        later = self.log.policy(since=self.version)
        if later is None:
            return
        version, row = later
        try:
            policy: Policy = from_table(json.loads(row.policy), _kinds(self.plugins))
        except (AdadimError, ValueError) as error:
            raise FileError(f"{self.log.path}: {error}") from error
        self._problem = _problem(self.settings, row.noise)
        learner = policy.start(self._problem)
        assert isinstance(learner, LearnsFromSums)  # checked when it was written
        self._learner: LearnsFromSums = learner
        self.version, self.policy, self.noise = version, policy, row.noise
        self.levels: dict[str, int] | None = None if row.levels is None else json.loads(row.levels)
        self._known = None

    def replacement(
        self, policy: Policy | None, levels: Levels, noise: float | None, settings: Settings | None = None
    ) -> PolicyRow:
        """What is to decide from now on, by other settings if they are given; what is not given stays."""
        policy = self.policy if policy is None else policy
        levels = self.levels if levels is None else levels
        noise = self.noise if noise is None else noise
        return checked_policy(policy, levels, noise, settings or self.settings, self.plugins)

    def prepare(self, number: int, exact: bool = False) -> LearnsFromSums:
        """The learner, brought to what the log says, for decision `number`.

        Behind decisions (`work_behind`), it may still lack rewards, unless it has to be `exact`.
        """
        model, state = self.model, self._state(number)
        self._adopt()
        pending = [one for one in model.recent if one[0] > self._counted]
        if state == self._known or (self._may_wait and not exact):
            restart = len(pending) > model.dim  # so many steps cost more than to start again
        else:
            restart = True
        if restart:
            begun = time.perf_counter()
            model.add_batch()  # the sums have to have what was counted
            with one_thread:
                self._learner.restart(model.sums.at(number))
            self._known, self._base, self._counted = state, self._basis, model.place.number
            self._seconds = time.perf_counter() - begun
        for at, features in () if restart else pending:
            self._learner.expect_features(features)
            self._counted = at
        least = self._counted if self._coming is None else min(self._counted, self._coming.counted)
        model.recent[:] = [one for one in model.recent if one[0] > least]
        return self._learner

    # Refreshing it behind decisions

    def work_behind(self) -> None:
        """From now on, let decisions go on while rewards are taken in, if that takes longer than a decision."""
        if self._behind is None:
            self._behind = ThreadPoolExecutor(1, thread_name_prefix="refresh")

    def is_behind(self, number: int) -> bool:
        """Whether a decision would lack what the model has."""
        return self._may_wait and self._state(number) != self._known

    def catch_up(self, number: int) -> float:
        """Bring the learner to what the log says; gives in how many seconds to call again, 0 if it is there."""
        self._adopt()
        if self._state(number) == self._known:
            return 0.0
        if self._behind is None or not self._may_wait:
            self.prepare(number)
            return 0.0
        if self._coming is None and time.monotonic() >= self._rests_until:
            sums, policy, problem = self.model.sums.at(number).copy(), self.policy, self._problem

            def make() -> tuple[LearnsFromSums, float]:
                begun, learner = time.perf_counter(), policy.start(problem)
                assert isinstance(learner, LearnsFromSums)
                with one_thread:
                    learner.restart(sums)
                return learner, time.perf_counter() - begun

            made = self._behind.submit(make)
            self._coming = _Coming(made, self._state(number), self._basis, self.model.place.number)
        return max(self._seconds, self._rests_until - time.monotonic())

    def close(self) -> None:
        """Let go of the thread that works behind decisions."""
        if self._behind is not None:
            self._behind.shutdown()

    def _adopt(self) -> None:
        """Take the learner that was made behind decisions, if it is ready and still knows more."""
        if self._coming is None or not self._coming.made.done():
            return
        coming, self._coming = self._coming, None
        if coming.made.exception() is not None:
            self._known = None  # the next decision meets the error too, and says so
        elif coming.base == self._basis and (self._known is None or coming.known[0] > self._known[0]):
            self._learner, self._seconds = coming.made.result()
            self._known, self._base, self._counted = coming.known, coming.base, coming.counted
            self._rests_until = time.monotonic() + self._seconds * (1 / REFRESH_SHARE - 1)

    def _state(self, number: int) -> tuple[int, int | None]:
        """What the learner has to know."""
        return self.model.version, number if self.model.half_life else None

    @property
    def _basis(self) -> tuple[int, int]:
        """What no learner survives: another policy, or sums that were taken anew."""
        return self.version, self.model.renewals

    @property
    def _may_wait(self) -> bool:
        """Whether decisions may go on without the latest rewards."""
        long = self._behind is not None and self._seconds > REFRESH_SECONDS and not self.model.half_life
        return long and self._known is not None and self._base == self._basis

    def choose_in_turn(
        self, rounds: Sequence[Round], first: int, draws: Sequence[int] | None = None
    ) -> Iterator[tuple[int, FloatArray, float]]:
        """Position, features and probability of each arm chosen in several rounds, from decision `first` on.

        `draws` are the numbers of their random streams, by default those of the decisions.

        Each decision counts in the rounds after its own, and all but the last in the model, whose `add_batch` has to
        follow. The last is counted when it is read from the log, if it still waits for its reward then.
        """
        streams = range(first, first + sum(asked.decisions for asked in rounds)) if draws is None else draws
        number, last = first, first + len(streams) - 1
        most = max(1, PORTION // (8 * self.settings.dim * max(len(asked.names) * asked.decisions for asked in rounds)))
        for start in range(0, len(rounds), most):
            portion = rounds[start : start + most]
            features, version, scores, row = features_of(portion), -1, None, NOTHING
            end = number + sum(asked.decisions for asked in portion) - 1
            for at, (asked, arms) in enumerate(zip(portion, features, strict=True)):
                if version != self.model.version:
                    learner, version = self.prepare(number), self.model.version
                    turns = _turns(features[at:], portion[at:])
                    scores = None if self.model.half_life else learner.scores_in_turn(turns, number - 1)
                    row = NOTHING if scores is None else next(scores)
                own = streams[number - first : number - first + asked.decisions]
                for chosen, probability in self._fill(asked, arms, None if scores is None else row, number, own):
                    yield chosen, arms[chosen], probability
                    if number < last:
                        self.model.count_decision(number, arms[chosen])
                        if scores is not None and number < end:
                            row, self._counted = scores.send(chosen), number
                    number += 1

    def _fill(
        self, asked: Round, arms: FloatArray, row: FloatArray | None, number: int, draws: Sequence[int]
    ) -> list[tuple[int, float]]:
        """Positions and probabilities of the arms for a round, of a slate one for each slot, in their order.

        Each slot has the best of the arms that are left, by the scores (K,) of `row`, those of decision `number` where
        it is None; a policy that draws its scores draws them for each slot. The probability is given the slots before.
        """
        if row is None:
            chosen, probability, row = self.choose(arms, asked.costs, number, draws[0])
        else:
            row = row if asked.costs is None else row - asked.costs
            chosen, probability = self._largest(row, draws[0])
        filled, left = [(chosen, probability)], list(range(len(arms)))
        for draw in draws[1:]:
            left.remove(chosen)
            if row is None:
                costs = None if asked.costs is None else asked.costs[left]
                at, probability, _ = self.choose(arms[left], costs, number, draw)
            else:
                at, probability = self._largest(row[left], draw)
            chosen = left[at]
            filled.append((chosen, probability))
        return filled

    def _largest(self, scores: FloatArray, draw: int) -> tuple[int, float]:
        """As `choose`, by scores (K,) that are not random."""
        tied = positions_of_largest(scores)
        if len(tied) == 1 or getattr(self.policy, "ties", "random") == "lowest":
            return int(tied[0]), 1.0
        uniform = Streams(self.settings.seed, Purpose.POLICY, [draw]).uniforms()[0]
        return int(tied[int(uniform * len(tied))]), 1 / len(tied)

    def choose(
        self, features: FloatArray, costs: FloatArray | None, number: int, draw: int | None = None
    ) -> tuple[int, float, FloatArray | None]:
        """Position of the arm chosen among arms (K, d), the probability that it was to be chosen, and their scores.

        The scores are None where they are drawn, or there are none. The randomness is that of `draw`, by default the
        number. The probability is exact where the scores are not random: 1, or 1 / k if k arms tie for the first place.
        Where they are drawn, it is the share of draws that choose this arm: the one that decided and 1000 more. It is
        never 0.
        """
        learner = self.prepare(number)
        learner.resume(number - 1, Streams(self.settings.seed, Purpose.POLICY, [number if draw is None else draw]))
        prices = np.zeros(len(features)) if costs is None else costs
        rows = learner.everyone.offering(features[None], None, prices)
        chosen = int(learner.choose(rows)[0][0])
        if rows.scores is None:  # it looked at none, and so at no arm before another
            return chosen, 1 / len(features), None
        chances = self._chances(rows.scores, chosen)
        more = learner.more_scores(rows, DRAWS)
        if more is not None:
            chances = np.concatenate([chances, self._chances(more if costs is None else more - costs, chosen)])
        return chosen, float(chances.mean()), rows.scores[0] if more is None else None

    def _chances(self, scores: FloatArray, chosen: int) -> FloatArray:
        """Probability (n,) that an arm is chosen by scores (n, K)."""
        tied = tied_for_first(scores)
        if getattr(self.policy, "ties", "random") == "lowest":
            tied = tied & (tied.cumsum(axis=1) == 1)  # the first of them alone
        chances: FloatArray = tied[:, chosen] / tied.sum(axis=1)
        return chances

    def estimates(self, features: FloatArray, number: int) -> tuple[FloatArray, FloatArray]:
        """Means of arms and their standard deviations; the recommended policy's, where this one estimates nothing."""
        learner: Any = self.prepare(number, exact=True)
        if not isinstance(learner, EstimatesFromSums):
            learner = recommended(self._problem).start(self._problem)
            learner.restart(self.model.sums.at(number))
        means, deviations = learner.estimates(features)
        return means, deviations

    def describe(self, number: int) -> dict[str, Any]:
        """What the learner has learned, for people."""
        learner = self.prepare(number, exact=True)
        described = learner.describe() if isinstance(learner, Learner) else {}
        described.pop("replication", None)
        return described


def _turns(features: Any, rounds: Sequence[Round]) -> Any:
    """Features (K, d) of the arms in each round, once for each of its decisions."""
    if all(asked.slots is None for asked in rounds):
        return features
    return [arms for arms, asked in zip(features, rounds, strict=True) for _ in range(asked.decisions)]


def checked_policy(
    policy: Policy | None, levels: Levels, noise: float | None, settings: Settings, plugins: Plugins
) -> PolicyRow:
    """A policy that can decide for an agent, levels and noise, as they are written to the log; others are refused."""
    if noise is not None:
        noise = float(
            positive(noise, "noise", "the standard deviation of the rewards' noise, e.g. 0.1, or None if unknown")
        )
    problem = _problem(settings, noise)
    chosen = recommended(problem) if policy is None else policy
    if not isinstance(chosen, Policy):
        raise InvalidTypeError(f"policy must be a policy such as adadim.LinUCB(), got {shown(chosen)}")
    _check_playable(chosen, problem)
    try:
        table = json.dumps(to_table(chosen))
        if from_table(json.loads(table), _kinds(plugins)) != chosen:
            raise InvalidValueError("it does not come back from a file as it was")
    except (TypeError, AdadimError) as error:
        name = type(chosen).__name__
        raise InvalidValueError(f"an agent cannot play {name}: it cannot be written to a file ({error})") from error
    if levels is None and settings.design is not None:
        levels = settings.design.levels
    return PolicyRow(table, None if levels is None else json.dumps(checked_levels(levels, settings.dim)), noise)


def _problem(settings: Settings, noise: float | None) -> Problem:
    """The problem that an agent's learner plays."""
    return Problem(arms=settings.arms, dim=settings.dim, horizon=None, noise=noise)


def _kinds(plugins: Plugins) -> dict[str, Any]:
    """What the log may name: the policies of the library and the caller's own."""
    return {**policies.kinds(), **policies.parts(), **(plugins or {})}


def _check_playable(policy: Policy, problem: Problem) -> None:
    """Refuse a policy that cannot play the problem of an agent, and say why."""
    name = type(policy).__name__
    if getattr(policy, "memory", None) is not None:
        raise InvalidValueError(
            f"an agent cannot play {name} with a memory: it forgets by its own, Agent.create(memory=)"
        )
    try:
        return _check_learner(policy.start(problem))
    except InvalidValueError as error:
        refusal = error
    # What would it need? One that starts once it knows the noise needs that; else the error says what is wrong.
    told = Problem(
        arms=problem.arms, dim=problem.dim, horizon=None, noise=problem.noise if problem.noise_known else 1.0
    )
    try:
        _check_learner(policy.start(told.with_horizon(10**6)))
        _check_learner(policy.start(told))
    except InvalidValueError as error:
        raise InvalidValueError(f"an agent cannot play {name}: {error}") from error
    raise InvalidValueError(
        f"{name} needs to know the noise: give noise=, the standard deviation of the rewards of one arm, or let "
        "EvidenceLinUCB play, which estimates it"
    ) from refusal


def _check_learner(learner: Learner) -> None:
    if not learner.takes_late_rewards:
        raise InvalidValueError(
            "it needs each reward before its next decision, and an agent's rewards come late; EvidenceLinUCB, LinUCB "
            "and LinTS take them in any order"
        )
    if not isinstance(learner, LearnsFromSums):
        raise InvalidValueError(
            "it keeps more than a regression, so no log of decisions and rewards gives its state back; EvidenceLinUCB, "
            "LinUCB and LinTS can be rebuilt from one"
        )
