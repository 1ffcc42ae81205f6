"""Evidence LinUCB: one tapered LinUCB in all features, which learns its prior and the noise as it goes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, zeros
from adadim.core.codec import ADDED_LATER
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.recording import on_host
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.errors import InvalidValueError
from adadim.models import Form
from adadim.models.evidence import Tuned, TunedContextModel, TunedFixedModel, tuned_model
from adadim.models.forgetting import tuned_forgetting_model
from adadim.models.moments import Moments
from adadim.models.shaped import ShapedFixedModel, shaped_model
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import noise_radius
from adadim.policies.inputs import logged_features
from adadim.policies.linear.linucb import LinUCB, LinUCBLearner
from adadim.policies.parameters import BayesFactor, HalfLife, Probes, RadiusScale, Tapers
from adadim.policies.player import Clock

FIRST_PROBES = 8  # pulls


@dataclass(frozen=True)
class EvidenceLinUCB(Policy):
    """Learn in all features, with a ridge lambda_j = lambda j^taper that grows with the index and is learned too.

    The policy to start with: `adadim.recommended` gives it with several exponents to choose from, a free constant and
    probes. It need not be told d*, the noise or the range of the means: it reads neither `Problem.noise` nor
    `Problem.reward_range`, and multiplying all rewards or all features by a number changes none of its choices. Columns
    in raw units (some column more than 10 times as large as an earlier one) are divided by their root mean square
    first, so that powers 1, x, x^2 can be given as they are; where features come with each round, by the largest value
    seen so far, after rounds 1, 2, 4, ... Without `intercept` rewards should be centred. Prefer `TaperedLinUCB` with
    ``radius="oful"`` where a guarantee matters more than regret, and `LinUCB` where d* is known.

    Parameters
    ----------
    taper : float or tuple of float
        Exponent s of the ridge; larger values favour small d*, 0 says that the order of the features means nothing. Of
        several, the data choose after rounds 1, 2, 4, ...; see `doubt`.
    scale : float
        Factor on the radius.
    factor : float
        Bayes factor that rules a ridge out. The smallest ridge not ruled out is used, the one that explores most; 1
        would trust the likeliest.
    form, ties
        As in `LinUCB`.
    intercept : bool
        Whether the rewards have a constant of their own, about which nothing is believed beforehand. Adding a number to
        all rewards then changes none of its choices. Several exponents need it.
    doubt : float
        Bayes factor that rules an exponent out; the smallest not ruled out is used. 1 trusts the likeliest.
    probes : int
        How many of the rounds after 8, 16, 32, ... rewards are played with the whole radius, as if `scale` were 1. They
        are `probes` times the logarithm of the horizon in all, and free most of the runs that an unlucky first reward
        would have kept from the best arm.
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
    end (``horizon=None``) the number t of the round takes the place of T in it. With `intercept` a constant with a flat
    prior is integrated out too: features and rewards are then less their means, and n - 1 stands for n.

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

    taper: Tapers = 1.75
    scale: RadiusScale = 0.35
    factor: BayesFactor = 20.0
    form: Form = "auto"
    ties: Ties = "random"
    intercept: bool = field(default=False, metadata=ADDED_LATER)
    doubt: BayesFactor = field(default=1.0, metadata=ADDED_LATER)
    probes: Probes = field(default=0, metadata=ADDED_LATER)
    memory: HalfLife | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.taper, tuple) and not self.intercept:
            raise InvalidValueError(f"taper: one of {self.taper} is chosen by the data only with intercept=True")
        if self.intercept and self.memory is not None:
            raise InvalidValueError("memory: a model that forgets has no intercept; leave one of the two out")

    def model(self, problem: Problem) -> Tuned:
        """Its model of what a problem offers."""
        if self.intercept:
            exponents = self.taper if isinstance(self.taper, tuple) else (self.taper,)
            return shaped_model(problem, tuple(sorted(exponents)), self.doubt, self.factor, self.form)
        assert not isinstance(self.taper, tuple)
        if self.memory is not None:
            return tuned_forgetting_model(problem, self.taper, self.factor, self.memory)
        return tuned_model(problem, self.taper, self.factor, self.form)

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
        self.scale, self.probes = policy.scale, policy.probes
        self.radii = zeros(self.model.reference, len(problem), 1) + 1.0
        self.probing: list[int] = []  # replications that probe in their next round

    def make_clock(self) -> Clock | None:
        return Clock(self.model.reference) if self.problem.endless else None

    def sequence(self) -> str | None:
        return type(self).__name__ if isinstance(self.model, TunedFixedModel) else None

    def radius(self, rows: Rows, t: Array | None = None) -> Array:
        if self.model.changed:  # by predicting, where the model forgets
            self._update_radii()
        if self.clock is None:
            return rows.of(self.radii)
        if t is None:
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
        if not (self.model.changed or self.probing):
            return
        problem, noises, pulls = self.problem, self.model.noise, self.model.pulls
        probing = []
        for r in {*self.model.changed, *self.probing}:
            noise, scale = float(noises[r]), self.scale
            if self.probes and probes_next(int(pulls[r]), self.probes):
                scale = 1.0
                probing.append(r)
            known = noise if problem.endless else noise_radius(noise, problem.horizon, problem.arms)
            self.radii[r] = 1.0 if math.isnan(noise) else scale * known
        self.model.changed.clear()
        self.probing = probing

    def descriptions(self) -> list[dict[str, Any]]:
        found = super().descriptions()
        if isinstance(self.model, ShapedFixedModel):
            state = self.model.state
            for r, entry in enumerate(found):
                if entry["noise"] is not None:
                    rounds = max(1, int(self.model.pulls[r])) if self.problem.endless else self.problem.horizon
                    radius = noise_radius(entry["noise"], rounds, self.problem.arms)
                    mean, widths = as_numpy(state.mean[r]), np.sqrt(np.maximum(as_numpy(state.width2[r]), 0.0))
                    entry["arms_not_ruled_out"] = int((mean + radius * widths >= (mean - radius * widths).max()).sum())
        return found

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


def probes_next(pulls: int, probes: int) -> bool:
    """Whether the next round is one of the `probes` after 8, 16, 32, ... pulls.

    Examples
    --------
    >>> [n for n in range(40) if probes_next(n, 3)]
    [8, 9, 10, 16, 17, 18, 32, 33, 34]
    """
    return pulls >= FIRST_PROBES and pulls - (1 << (pulls.bit_length() - 1)) < probes
