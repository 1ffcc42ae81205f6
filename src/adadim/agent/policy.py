"""What decides: the policy that holds by an agent's log, with a learner that knows what the log says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from adadim import policies
from adadim.agent.log import FloatArray, Log, PolicyRow, Settings
from adadim.agent.model import Model
from adadim.core.checks import positive, shown
from adadim.core.codec import from_table, to_table
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams
from adadim.core.ties import tied_for_first
from adadim.dimension import Levels, checked_levels
from adadim.errors import AdadimError, FileError, InvalidTypeError, InvalidValueError
from adadim.policies.base import Learner, Policy
from adadim.policies.linear.evidence import recommended
from adadim.policies.player import EstimatesFromSums, LearnsFromSums

Plugins = Mapping[str, type[Policy]] | None
"""Policy classes of the caller's own, by name."""

DRAWS = 1000  # further draws, from which the probability of a random choice is estimated


class Decider:
    """The policy, names of levels and noise as of the last `refresh`, and a learner that is told a model."""

    def __init__(self, log: Log, model: Model, plugins: Plugins) -> None:
        self.log, self.model, self.plugins = log, model, plugins
        self.version = 0
        self._known: Any = None  # the state of the model that the learner has

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

    def prepare(self, number: int) -> LearnsFromSums:
        """The learner, brought to what the log says, for decision `number`."""
        model = self.model
        state = (model.version, number if model.half_life else None)
        if state != self._known:
            self._learner.restart(model.sums.at(number))
            self._known = state
        else:  # only decisions have been made since
            for features in model.expected:
                self._learner.expect_features(features)
        model.expected.clear()
        return self._learner

    def choose(self, features: FloatArray, costs: FloatArray | None, number: int) -> tuple[int, float]:
        """Position of the arm chosen among arms (K, d), and the probability that it was to be chosen.

        The randomness is that of the number. The probability is exact where the scores are not random: 1, or 1 / k if
        k arms tie for the first place. Where they are drawn, it is the share of draws that choose this arm: the one
        that decided and 1000 more. It is never 0.
        """
        learner = self.prepare(number)
        learner.resume(number - 1, Streams(self.settings.seed, Purpose.POLICY, [number]))
        prices = np.zeros(len(features)) if costs is None else costs
        rows = learner.everyone.offering(features[None], None, prices)
        chosen = int(learner.choose(rows)[0][0])
        if rows.scores is None:  # it looked at none, and so at no arm before another
            return chosen, 1 / len(features)
        chances = self._chances(rows.scores, chosen)
        more = learner.more_scores(rows, DRAWS)
        if more is not None:
            chances = np.concatenate([chances, self._chances(more if costs is None else more - costs, chosen)])
        return chosen, float(chances.mean())

    def _chances(self, scores: FloatArray, chosen: int) -> FloatArray:
        """Probability (n,) that an arm is chosen by scores (n, K)."""
        tied = tied_for_first(scores)
        if getattr(self.policy, "ties", "random") == "lowest":
            tied = tied & (tied.cumsum(axis=1) == 1)  # the first of them alone
        chances: FloatArray = tied[:, chosen] / tied.sum(axis=1)
        return chances

    def estimates(self, features: FloatArray, number: int) -> tuple[FloatArray, FloatArray]:
        """Means of arms and their standard deviations; the recommended policy's, where this one estimates nothing."""
        learner: Any = self.prepare(number)
        if not isinstance(learner, EstimatesFromSums):
            learner = recommended(self._problem).start(self._problem)
            learner.restart(self.model.sums.at(number))
        means, deviations = learner.estimates(features)
        return means, deviations

    def describe(self, number: int) -> dict[str, Any]:
        """What the learner has learned, for people."""
        learner = self.prepare(number)
        described = learner.describe() if isinstance(learner, Learner) else {}
        described.pop("replication", None)
        return described


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
