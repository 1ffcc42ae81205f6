"""What decides: the policy that holds by an agent's file, with a learner that knows what the log says."""

from __future__ import annotations

from typing import Any

import numpy as np

from adadim.agent.file import File
from adadim.agent.model import Model
from adadim.agent.policy import Plugins, checked_policy, policy_version, problem_of, read_policy
from adadim.agent.settings import Settings
from adadim.backend.ties import argmax, tied_for_first
from adadim.dimension import Levels
from adadim.policies.base import Learner, Policy
from adadim.policies.recommended import recommended
from adadim.policies.sums import EstimatesFromSums, LearnsFromSums
from adadim.randomness import Purpose, Streams

__all__ = ["Decider"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

DRAWS = 1000  # further draws, from which the probability of a random choice is estimated


class Decider:
    """The policy, names of levels and noise as of the last look at a file, and a learner that is told a model."""

    def __init__(self, file: File, model: Model, settings: Settings, plugins: Plugins) -> None:
        self.file, self.model, self.settings, self.plugins = file, model, settings, plugins
        self.version = 0
        self._known: Any = None  # the state of the model that the learner has

    def look(self) -> None:
        """Take in the policy that holds; in a transaction of the file."""
        if policy_version(self.file) == self.version:
            return
        version, policy, levels, noise = read_policy(self.file, self.plugins)
        self._problem = problem_of(self.settings, noise)
        learner = policy.start(self._problem)
        assert isinstance(learner, LearnsFromSums)  # checked when it was written
        self._learner: LearnsFromSums = learner
        self.version, self.policy, self.levels, self.noise = version, policy, levels, noise
        self._known = None

    def replacement(
        self, policy: Policy | None, levels: Levels, noise: float | None
    ) -> tuple[str, str | None, float | None]:
        """What `write_policy` is to write; what is not given stays."""
        policy = self.policy if policy is None else policy
        levels = self.levels if levels is None else levels
        noise = self.noise if noise is None else noise
        return checked_policy(policy, levels, noise, self.settings, self.plugins)

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
        learner, ties = self.prepare(number), getattr(self.policy, "ties", "random")
        generator = Streams(self.settings.seed, Purpose.POLICY, [number]).generators[0]
        uniform = np.array([generator.random()])
        scores = learner.scores_of(features, number - 1, generator, 1 + DRAWS if learner.draws_scores else 1)
        if costs is not None:
            scores = scores - costs
        chosen = int(argmax(scores[:1], uniform if ties == "random" else None)[0])
        tied = tied_for_first(scores)
        if ties == "lowest":
            return chosen, float((tied.argmax(axis=1) == chosen).mean())
        return chosen, float((tied[:, chosen] / tied.sum(axis=1)).mean())

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
