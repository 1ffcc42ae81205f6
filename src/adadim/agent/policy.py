"""What decides: the policy in force by an agent's log, and a learner that follows the log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from adadim import policies
from adadim.agent.log import AgentSettings, Log, LogPosition, PolicyRow, Round, features_of
from adadim.agent.model import Model
from adadim.agent.reading import policy_since
from adadim.core.arrays import FloatArray
from adadim.core.checks import is_number, positive, require, shown
from adadim.core.codec import from_table, to_table
from adadim.core.levels import ColumnLevels, Levels, checked_levels
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams
from adadim.core.threads import one_thread
from adadim.errors import AdadimError, FileError, InvalidTypeError, InvalidValueError
from adadim.policies.arms import Random
from adadim.policies.base import Choice, Learner, Policy
from adadim.policies.linear.evidence import recommended
from adadim.policies.linear.learner import LinearLearner
from adadim.policies.player import EstimatesFromSums, LearnsFromSums

Plugins = Mapping[str, type[Policy]] | None
"""Policy classes of the caller by name."""

PORTION_BYTES = 2**18  # of features that are built at once: more would be given back to the system and asked for again
REFRESH_SECONDS = 0.002  # that a refresh of the learner must take to be done in the background
REFRESH_SHARE = 0.25  # largest share of the time that refreshes in the background may take
PROBABILITY_DRAWS = 1000  # further draws, from which the probability of a random choice is estimated


class _BackgroundRefresh(NamedTuple):
    """A learner that is being made in the background; the other fields are as in `Decider`."""

    learner: Future[tuple[LearnsFromSums, float]]  # with the seconds that it took
    state: tuple[int, int | None]
    basis: tuple[int, int]
    last_counted: int


class Decider:
    """The policy, names of levels and noise as of the last `refresh`, and a learner that follows a model."""

    def __init__(self, log: Log, model: Model, plugins: Plugins) -> None:
        self.log, self.model, self.plugins = log, model, plugins
        self.version = 0
        self._state: tuple[int, int | None] | None = None  # `Model.state` as of the learner's last restart
        self._basis = (0, 0)  # `_model_basis` as of then
        self._last_counted = 0  # the last decision that the learner has counted
        self._background_thread: ThreadPoolExecutor | None = None
        self._background_refresh: _BackgroundRefresh | None = None
        self._refresh_seconds, self._next_refresh = 0.0, 0.0  # of the last refresh; the earliest time of the next one

    def refresh(self, place: LogPosition) -> None:
        """Read the policy in force; in a transaction of the log, which goes up to this place."""
        if place.policy == self.version > 0:
            return
        later = policy_since(self.log, self.version)
        if later is None:
            return
        version, row = later
        try:
            policy: Policy = from_table(json.loads(row.policy), _policy_kinds(self.plugins))
        except (AdadimError, ValueError) as error:
            raise FileError(f"{self.log.path}: {error}") from error
        levels: dict[str, int] | None = None if row.levels is None else json.loads(row.levels)
        problem = _agent_problem(self.log.settings, row.noise, levels)
        learner = policy.start(problem)
        assert isinstance(learner, LearnsFromSums)  # checked when it was written
        linear: Any = learner if isinstance(learner, LinearLearner) else recommended(problem).start(problem)
        prior = linear.model.prior
        # At the end, without a call in between at which a signal could be noticed: all of it or nothing.
        self._state, self.problem, self.policy, self.noise, self.levels = None, problem, policy, row.noise, levels
        self.explore = row.explore or 0.0
        self.learner: LearnsFromSums = learner
        self.model.prior = prior
        self.version = version

    def invalidate(self) -> None:
        """Let the next refresh make a new learner, since this one may not be what its state says."""
        self.version, self._state = 0, None

    def replacement(
        self,
        policy: Policy | None = None,
        levels: Levels = None,
        noise: float | None = None,
        explore: float | None = None,
        settings: AgentSettings | None = None,
    ) -> PolicyRow:
        """A version of the policy in which what is given replaces what is in force."""
        policy = self.policy if policy is None else policy
        levels = self.levels if levels is None else levels
        noise = self.noise if noise is None else noise
        explore = self.explore if explore is None else explore
        return checked_policy(policy, levels, noise, explore, settings or self.log.settings, self.plugins)

    def prepare(self, number: int, exact: bool = False) -> LearnsFromSums:
        """The learner, brought up to date with the log, for decision `number`.

        With `enable_background_refresh` it may still lack rewards, unless it has to be `exact`.
        """
        model, state = self.model, self.model.state(number)
        self._take_refreshed_learner()
        pending = [one for one in model.recent if one[0] > self._last_counted]
        if state == self._state or (self._may_lack_rewards and not exact):
            restart = len(pending) > self.log.settings.dim  # so many steps cost more than to start again
        else:
            restart = True
        learner_state, self._state = self._state, None  # in case of an exception below
        if restart:
            begun = time.perf_counter()
            model.add_batch()  # the learner restarts from the sums
            with one_thread:
                self.learner.restart(model.sums.at(number))
            self._refresh_seconds = time.perf_counter() - begun
            learner_state, self._basis, self._last_counted = state, self._model_basis, model.place.number
        for at, features in () if restart else pending:
            self.learner.expect_features(features)
            self._last_counted = at
        self._state = learner_state
        background = self._background_refresh
        least = self._last_counted if background is None else min(self._last_counted, background.last_counted)
        model.recent[:] = [one for one in model.recent if one[0] > least]
        return self.learner

    # Refreshing the learner in the background

    def enable_background_refresh(self) -> None:
        """From now on, let `refresh_learner` work in a thread, if that takes longer than a decision."""
        if self._background_thread is None:
            self._background_thread = ThreadPoolExecutor(1, thread_name_prefix="refresh")

    def is_behind(self, number: int) -> bool:
        """Whether a decision now would lack rewards that the model has."""
        return self._may_lack_rewards and self.model.state(number) != self._state

    def refresh_learner(self, number: int) -> float:
        """Bring the learner up to date with the model; gives in how many seconds to call again, 0 if it is."""
        self._take_refreshed_learner()
        if self.model.state(number) == self._state:
            return 0.0
        if self._background_thread is None or not self._may_lack_rewards:
            self.prepare(number)
            return 0.0
        if self._background_refresh is None and time.monotonic() >= self._next_refresh:
            sums, policy, problem = self.model.sums.at(number).copy(), self.policy, self.problem

            def make() -> tuple[LearnsFromSums, float]:
                begun, learner = time.perf_counter(), policy.start(problem)
                assert isinstance(learner, LearnsFromSums)
                with one_thread:
                    learner.restart(sums)
                return learner, time.perf_counter() - begun

            learner = self._background_thread.submit(make)
            state, place = self.model.state(number), self.model.place
            self._background_refresh = _BackgroundRefresh(learner, state, self._model_basis, place.number)
        return max(self._refresh_seconds, self._next_refresh - time.monotonic())

    def close(self) -> None:
        """End the thread that refreshes the learner."""
        if self._background_thread is not None:
            self._background_thread.shutdown()

    def _take_refreshed_learner(self) -> None:
        """Use the learner that was made in the background, if it is ready and has more rewards than the present one."""
        if self._background_refresh is None or not self._background_refresh.learner.done():
            return
        refresh, self._background_refresh = self._background_refresh, None
        if refresh.learner.exception() is not None:
            self._state = None  # the next decision meets the error too, and raises it
        elif refresh.basis == self._model_basis and (self._state is None or refresh.state[0] > self._state[0]):
            self.learner, self._refresh_seconds = refresh.learner.result()
            _, self._state, self._basis, self._last_counted = refresh
            self._next_refresh = time.monotonic() + self._refresh_seconds * (1 / REFRESH_SHARE - 1)

    @property
    def _model_basis(self) -> tuple[int, int]:
        """What changes whenever the learner must not be used any more: the policy, or a reset of the sums."""
        return self.version, self.model.resets

    @property
    def _may_lack_rewards(self) -> bool:
        """Whether decisions may be made without the latest rewards."""
        background = self._background_thread is not None and not self.model.fades_always
        long = background and self._refresh_seconds > REFRESH_SECONDS
        return long and self._state is not None and self._basis == self._model_basis

    def choose_in_turn(
        self, rounds: Sequence[Round], first: int, draws: Sequence[int] | None = None
    ) -> Iterator[tuple[int, FloatArray, float | None]]:
        """Position, features and probability of each arm chosen in several rounds, from decision `first` on.

        `draws` are the numbers of their random streams, by default those of the decisions. Each decision counts in the
        later rounds, and all but the last in the model, whose `add_batch` has to follow. The last one is counted when
        it is read from the log, if it still waits for its reward then.
        """
        draws = range(first, first + sum(asked.decisions for asked in rounds)) if draws is None else draws
        number, last, model = first, first + len(draws) - 1, self.model
        fades = model.fades_always  # old pulls have other weights in each round
        largest = max(len(asked.names) * asked.decisions for asked in rounds)
        most = max(1, PORTION_BYTES // (8 * self.log.settings.dim * largest))  # rounds at once
        for start in range(0, len(rounds), most):
            portion = rounds[start : start + most]
            features, state = features_of(portion), None
            taken: list[int]
            for at, asked in enumerate(portion):
                if state != model.state(number):
                    learner, state = self.prepare(number), model.state(number)
                    together = slice(at, at + 1 if fades else None)
                    choosers = learner.choosers(features[together], portion[together], number - 1, self._drawn)
                    choose = next(choosers)
                arms, taken = features[at], []
                for _ in range(asked.decisions):
                    draw = draws[number - first]
                    arm, probability = self.choose(choose(taken, draw), taken, len(arms), draw)
                    yield arm, arms[arm], probability
                    taken.append(arm)
                    if number < last:
                        model.count_decision(number, arms[arm])
                    number += 1
                if at + 1 < len(portion) and not fades:
                    choose, self._last_counted = choosers.send(taken), number - 1

    def _drawn(self, draw: int) -> Streams:
        """The random numbers of the policy for a decision."""
        return Streams(self.log.settings.seed, Purpose.POLICY, [draw])

    def choose(self, choice: Choice, taken: Sequence[int], arms: int, draw: int) -> tuple[int, float | None]:
        """The policy's choice, or with probability `explore` any of the arms not taken; and the arm's probability.

        The policy's own probability is exact where its scores are not random: 1, or 1 / k if k arms tie for the first
        place. Where they are drawn, it is the share of draws that choose this arm: the one made and 1000 more. It is 0
        only for an arm that was explored, and None where the policy does not know it.
        """
        arm, left = int(choice.arms[0]), arms - len(taken)
        if self.explore:
            share, position = Streams(self.log.settings.seed, Purpose.EXPLORATION, [draw]).table(2)[0]
            if share < self.explore:
                arm = [k for k in range(arms) if k not in taken][int(position * left)]
        probabilities = choice.estimated_probabilities(PROBABILITY_DRAWS)
        if probabilities is None:
            return arm, None
        return arm, self.explore / left + (1 - self.explore) * float(probabilities[0, arm])

    def estimates(self, features: FloatArray, number: int) -> tuple[FloatArray, FloatArray]:
        """Means of arms and their standard deviations; of the recommended policy, where this one estimates nothing."""
        learner: Any = self.prepare(number, exact=True)
        if not isinstance(learner, EstimatesFromSums):
            learner = recommended(self.problem).start(self.problem)
            learner.restart(self.model.sums.at(number))
        means, deviations = learner.estimates(features)
        return means, deviations

    def describe(self, number: int) -> dict[str, Any]:
        """What the learner has learned, for people."""
        learner = self.prepare(number, exact=True)
        described = learner.describe() if isinstance(learner, Learner) else {}
        described.pop("replication", None)
        return described


def checked_policy(
    policy: Policy | None,
    levels: Levels,
    noise: float | None,
    explore: float,
    settings: AgentSettings,
    plugins: Plugins,
) -> PolicyRow:
    """A version of the policy as it is written to the log; a policy that cannot decide for an agent is refused."""
    explore = checked_explore(explore)
    if noise is not None:
        noise = float(
            positive(noise, "noise", "the standard deviation of the rewards' noise, e.g. 0.1, or None if unknown")
        )
    if levels is None and settings.design is not None:
        levels = settings.design.levels
    named = None if levels is None else checked_levels(levels, settings.dim)
    problem = _agent_problem(settings, noise, named)
    chosen = recommended(problem) if policy is None else policy
    if not isinstance(chosen, Policy):
        raise InvalidTypeError(f"policy must be a policy such as adadim.LinUCB(), got {shown(chosen)}")
    _check_playable(chosen, problem)
    try:
        table = json.dumps(to_table(chosen))
        if from_table(json.loads(table), _policy_kinds(plugins)) != chosen:
            raise InvalidValueError("it changes when it is written to a file and read back")
    except (TypeError, AdadimError) as error:
        name = type(chosen).__name__
        raise InvalidValueError(f"an agent cannot play {name}: it cannot be written to a file ({error})") from error
    return PolicyRow(table, None if named is None else json.dumps(named), noise, explore or None)


def checked_explore(explore: Any) -> float:
    """The share of decisions that are drawn uniformly."""
    within = is_number(explore) and 0 <= explore <= 1
    require(within, "explore", "be a share of decisions from 0 to 1, e.g. 0.02", explore)
    return float(explore)


def _agent_problem(settings: AgentSettings, noise: float | None, levels: dict[str, int] | None) -> Problem:
    """The problem that an agent's learner plays; the levels of the features that it makes come with their ranks."""
    design = settings.design
    made = design is not None and design.levels == levels
    columns: Levels | ColumnLevels = design.column_levels if design is not None and made else levels
    kind = settings.rewards
    return Problem(arms=settings.arms, dim=settings.dim, horizon=None, noise=noise, rewards=kind, levels=columns)


def _policy_kinds(plugins: Plugins) -> dict[str, Any]:
    """The classes that the log may name: policies of the library and those of the caller."""
    return {**policies.kinds(), **policies.parts(), **(plugins or {})}


def _check_playable(policy: Policy, problem: Problem) -> None:
    """Refuse a policy that cannot play the problem of an agent, and say why."""
    name, likelihood = type(policy).__name__, getattr(policy, "likelihood", "gaussian")
    if likelihood != problem.rewards and not isinstance(policy, Random):
        wanted = (
            f"create the agent with rewards={likelihood!r} to play {name} with likelihood={likelihood!r}"
            if problem.rewards == "gaussian"
            else f"use one that has it, such as LinUCB(likelihood={problem.rewards!r}), instead of {name}, "
            "or leave policy= out"
        )
        raise InvalidValueError(f"this agent's rewards are {problem.rewards!r}: {wanted}")
    if getattr(policy, "memory", None) is not None:
        raise InvalidValueError(
            f"an agent cannot play {name} with a memory: it forgets by its own, Agent.create(memory=)"
        )
    try:
        return _check_learner(policy.start(problem))
    except InvalidValueError as error:
        refusal = error
    # If the policy starts with a known noise, it needs the noise; otherwise the error says what is wrong.
    noise = problem.noise if problem.noise_known else 1.0
    with_noise = Problem(arms=problem.arms, dim=problem.dim, horizon=None, noise=noise)
    try:
        _check_learner(policy.start(with_noise.with_horizon(10**6)))
        _check_learner(policy.start(with_noise))
    except InvalidValueError as error:
        raise InvalidValueError(f"an agent cannot play {name}: {error}") from error
    raise InvalidValueError(
        f"{name} needs to know the noise: give noise=, the standard deviation of the rewards of one arm, or leave "
        "policy= out for the recommended one, which estimates it"
    ) from refusal


def _check_learner(learner: Learner) -> None:
    if not learner.takes_late_rewards:
        raise InvalidValueError(
            "it needs each reward before its next decision, and an agent's rewards are delayed; leave policy= out "
            "for the recommended one, which takes them in any order"
        )
    remembers = isinstance(learner, LinearLearner) and learner.rule.remembers
    if remembers or not isinstance(learner, LearnsFromSums):
        raise InvalidValueError(
            "it keeps more than a regression, so no log of decisions and rewards gives its state back; leave policy= "
            "out for the recommended one, which can be rebuilt from it"
        )
