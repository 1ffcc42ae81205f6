"""Evidence LinUCB: one tapered LinUCB in all features, which learns its prior and the noise as it goes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from adadim.core.arrays import Array, zeros
from adadim.core.codec import ADDED_LATER
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.recording import on_host
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.models import Form
from adadim.models.evidence import Tuned, TunedContextModel, TunedFixedModel, tuned_model
from adadim.models.forgetting import tuned_forgetting_model
from adadim.models.moments import Moments
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import noise_radius
from adadim.policies.inputs import logged_features
from adadim.policies.linear.linucb import LinUCB, LinUCBLearner
from adadim.policies.parameters import BayesFactor, HalfLife, RadiusScale, Taper
from adadim.policies.player import Clock


@dataclass(frozen=True)
class EvidenceLinUCB(Policy):
    """Learn in all features, with a ridge lambda_j = lambda j^taper that grows with the index and is learned too.

    The policy to start with (`adadim.recommended`). It need not be told d*, the noise or the range of the means: it
    reads neither `Problem.noise` nor `Problem.reward_range`, and multiplying all rewards or all features by a number
    changes none of its choices. Columns in raw units (some column more than 10 times as large as an earlier one) are
    divided by their root mean square first, so that powers 1, x, x^2 can be given as they are; where features come with
    each round, by the largest value seen so far, after rounds 1, 2, 4, ... Rewards should be centred, or the first
    feature be a constant. Prefer `TaperedLinUCB` with ``radius="oful"`` where a guarantee matters more than regret, and
    `LinUCB` where d* is known or the order of the features says nothing.

    Parameters
    ----------
    taper : float
        Exponent s of the ridge; larger values favour small d*.
    scale : float
        Factor on the radius.
    factor : float
        Bayes factor that rules a ridge out. The smallest ridge not ruled out is used, the one that explores most; 1
        would trust the likeliest.
    form, ties
        As in `LinUCB`.
    memory : float, optional
        Half-life in decisions, as in `LinUCB`. Ridge and noise are then chosen for every decision, by the evidence of
        the weighted data with the sum of the weights for n, at about 10 d^3 operations.

    Notes
    -----
    After rounds 1, 2, 4, 8, ... it takes stock. With theta_j ~ N(0, sigma^2 / (lambda j^s)) and Gaussian noise the data
    of n rounds have the evidence

        det(V / Lambda)^(-1/2) S^(-n/2),   S = sum_t r_t^2 - b^T V^-1 b,

    up to a constant, once sigma^2 has been integrated out under the prior 1/sigma^2 (Lambda is diagonal with entries
    lambda j^s, V = Lambda + sum_t a_t a_t^T, b = sum_t r_t a_t). Of the ridges whose evidence is within `factor` of
    the largest it takes the smallest, and estimates sigma^2 by S/n, plus one standard error sqrt(2/n) of itself. Until
    it takes stock again it is LinUCB with these and the radius scale sigma sqrt(2 ln(2 T^1.5 K)). On a problem without
    end (``horizon=None``) the number t of the round takes the place of T in it.

    Nothing is proved about its regret. If theta came from the prior with a known ridge and noise, the radius would hold
    with ``scale=1`` for all arms and rounds with probability 1 - 1/sqrt(T); the default scale is smaller, and chosen by
    experiment.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=300, dim=150, intrinsic_dim=3, horizon=600, replications=range(4))
    >>> published = adadim.simulate(adadim.LinUCBPlusPlus(), instance)
    >>> outcome = adadim.simulate(adadim.EvidenceLinUCB(), instance)
    >>> bool(outcome.final.mean() < published.final.mean() / 2)
    True
    >>> round(outcome.learner.describe()[0]["noise"], 2)  # it was 0.1
    0.1
    """

    taper: Taper = 1.75
    scale: RadiusScale = 0.35
    factor: BayesFactor = 20.0
    form: Form = "auto"
    ties: Ties = "random"
    memory: HalfLife | None = field(default=None, metadata=ADDED_LATER)

    def model(self, problem: Problem) -> Tuned:
        """Its model of what a problem offers."""
        if self.memory is None:
            return tuned_model(problem, self.taper, self.factor, self.form)
        return tuned_forgetting_model(problem, self.taper, self.factor, self.memory)

    def linucb(self) -> LinUCB:
        """The LinUCB inside, whose learner scales the features and widens the radius itself."""
        return LinUCB(ridge=1.0, radius=0.0, form=self.form, ties=self.ties)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return EvidenceLearner(self, problem, streams)


class EvidenceLearner(LinUCBLearner):
    """State of `EvidenceLinUCB`: LinUCB over a model that learns its prior and the noise."""

    model: Tuned

    def __init__(self, policy: EvidenceLinUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.linucb(), problem, streams, policy.model(problem))
        self.scale = policy.scale
        self.radii = zeros(self.model.reference, len(problem), 1) + 1.0

    def make_clock(self) -> Clock | None:
        return Clock(self.model.reference) if self.problem.endless else None

    def sequence(self) -> str | None:
        return type(self).__name__ if isinstance(self.model, TunedFixedModel) else None

    def radius(self, rows: Rows) -> Array:
        if self.model.changed:  # by predicting, where the model forgets
            self._update_radii()
        if self.clock is None:
            return rows.of(self.radii)
        t = self.clock.now(rows, self.model.pulls)
        return rows.of(self.radii) * noise_radius(1.0, t, self.problem.arms)

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.model.absorb(arms, rewards, rows, memo)
        on_host(self._update_radii)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self.model.answer(arms, rewards, rows, memo)
        on_host(self._update_radii)

    def _update_radii(self) -> None:
        """Follow the noise that the model estimates; where there is no end, the number of the round comes in later."""
        problem, noises = self.problem, self.model.noise
        for r in self.model.changed:
            noise = float(noises[r])
            known = noise if problem.endless else noise_radius(noise, problem.horizon, problem.arms)
            self.radii[r] = 1.0 if math.isnan(noise) else self.scale * known
        self.model.changed.clear()

    def learn(self, arms: Array, rewards: Array) -> None:
        model = self.model
        if isinstance(model, TunedContextModel) and self.problem.contextual and not self.problem.disjoint:
            pulls = [np.asarray(x, dtype=float) for x, _ in logged_features(self.problem, arms, rewards)]
            if pulls:
                model.notice(np.stack(pulls, axis=1), self.everyone.to_numpy())
        super().learn(arms, rewards)

    def restart(self, sums: Moments) -> None:
        super().restart(sums)
        self._update_radii()
