"""Two-prior LinUCB: importance that fades with the index, or features that stop mattering; whichever is likelier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, as_numpy
from adadim.core.checks import positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.models.evidence import TunedContextModel
from adadim.models.moments import Moments
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.linear.evidence import EvidenceLearner, EvidenceLinUCB
from adadim.policies.linear.prefix_linucb import PrefixLearner, PrefixLinUCB
from adadim.policies.parameters import BayesFactor, Decay, RadiusScale, Taper

EVEN = 1e-9  # a difference of log evidences that is rounding


@dataclass(frozen=True)
class TwoPriorLinUCB(Policy):
    """Hold two beliefs about the features, both learned from all data, and choose by the one of larger evidence.

    `EvidenceLinUCB` believes that importance fades with the index, `PrefixLinUCB` that it ends after the first d*
    features. Each is good where it is right. This one compares both after 1, 2, 4, 8, ... rounds, and until the next
    time pulls what the likelier would pull.

    Parameters
    ----------
    taper : float
        How fast importance fades, as in `EvidenceLinUCB`.
    decay : float
        Prior of d*, as in `PrefixLinUCB`.
    odds : float
        How much likelier it is beforehand that importance ends than that it fades.
    scale, factor, ties
        As in `EvidenceLinUCB`.

    Notes
    -----
    Evidences are averaged over all ridges, and over all lengths of a prefix. Nothing is proved about its regret.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=200, dim=30, intrinsic_dim=15, horizon=300, noise=0.02)
    >>> outcome = adadim.simulate(adadim.TwoPriorLinUCB(), instance)
    >>> outcome.learner.describe()[0]["belief"]
    'prefix'
    """

    taper: Taper = 1.75
    decay: Decay = 1.0
    odds: Annotated[float, partial(positive, meaning="prior odds of features that stop mattering, e.g. 1")] = 1.0
    scale: RadiusScale = 0.35
    factor: BayesFactor = 20.0
    ties: Ties = "random"

    def beliefs(self) -> tuple[EvidenceLinUCB, PrefixLinUCB]:
        """The two policies inside."""
        shared: dict[str, Any] = {"scale": self.scale, "factor": self.factor, "ties": self.ties}
        return EvidenceLinUCB(self.taper, **shared), PrefixLinUCB(decay=self.decay, **shared)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return TwoPriorLearner(self, problem, streams)


class TwoPriorLearner(Learner):
    """State of `TwoPriorLinUCB`: the learners of both beliefs."""

    no_contexts = ""
    no_disjoint = ""
    contexts_on_devices = True
    takes_new_arms = True

    def __init__(self, policy: TwoPriorLinUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        fading, prefix = policy.beliefs()
        self.advantage = math.log(policy.odds)
        self.fading = EvidenceLearner(fading, problem, streams.child(0))
        self.prefix = PrefixLearner(prefix, problem, streams.child(1))
        self.both = (self.fading, self.prefix)
        self.takes_any_arm = not problem.contextual

    def ends(self) -> np.ndarray[Any, np.dtype[np.bool]]:
        """Whether the features more likely stop mattering than fade, in each replication."""
        return self.prefix.model.totals + self.advantage > self.fading.model.totals + EVEN

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        here = rows.to_numpy()
        if here.features is not None:  # one of them chooses, and both have to know what was offered
            for learner in self.both:
                assert isinstance(learner.model, TunedContextModel)
                learner.model.notice(here.features, here)
        arms = rows.positions * 0
        for end, part, at in rows.split(here.of(self.ends()).astype(np.int64)):
            arms[at], _ = self.both[end].choose(part)
        return self.prefix.model.decided(as_numpy(arms), here)

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        for learner in self.both:
            learner.absorb(arms, rewards, rows, memo)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        for learner in self.both:
            learner.expect(arms, rows, memo)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        for learner in self.both:
            learner.answer(arms, rewards, rows, memo)

    def drop_expected(self) -> None:
        for learner in self.both:
            learner.drop_expected()

    def learn(self, arms: Array, rewards: Array) -> None:
        if self.problem.disjoint or not self.problem.contextual:
            super().learn(arms, rewards)
            return
        for learner in self.both:
            learner.learn(arms, rewards)

    def arms_added(self) -> None:
        for learner in self.both:
            learner.arms_added()

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return self.prefix.pull_sums()

    def context_sums(self) -> list[Moments] | None:
        return self.prefix.context_sums()

    def descriptions(self) -> list[dict[str, Any]]:
        """What the likelier belief says, and which it is."""
        said = zip(self.ends().tolist(), self.fading.descriptions(), self.prefix.descriptions(), strict=True)
        return [
            {"belief": "prefix", **prefix} if ends else {"belief": "fading", **fading} for ends, fading, prefix in said
        ]
