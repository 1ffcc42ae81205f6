"""Tapered LinUCB: one LinUCB in all features, whose prior says that earlier ones matter more."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import numpy as np

from adadim.core.arrays import like
from adadim.core.checks import between
from adadim.core.codec import ADDED_LATER
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.ties import Ties
from adadim.models import Form
from adadim.models.evidence import taper_weights
from adadim.policies.base import Learner, Policy
from adadim.policies.confidence import Bonus, Radius
from adadim.policies.linear.linucb import LinUCB, LinUCBLearner
from adadim.policies.parameters import HalfLife, RadiusScale, Ridge, Taper, ThetaNorm


@dataclass(frozen=True)
class TaperedLinUCB(Policy):
    """Learn in all features at once, with a ridge that grows with the index: lambda_j = ridge * j^taper.

    A soft truncation: feature j is shrunk harder the later it comes, so late features cost little until the data speak
    for them, and nothing is thrown away. It needs no schedule, no restarts and no mixture-arms. Use it when features
    are ordered by importance, d* is unknown and a guarantee is wanted; `EvidenceLinUCB`, which learns the ridge, has
    less regret. When late features matter as much as early ones, plain `LinUCB` is the better prior.

    Parameters
    ----------
    taper : float
        Exponent s of the ridge. 0 is `LinUCB`; larger values favour small d*.
    ridge : float
        Ridge of the first feature.
    size : float, optional
        Size tau of a leading coefficient of theta. If given, the ridge is (noise / tau)^2 instead of `ridge`, the
        prior in units of the noise, so that one setting serves quiet and noisy rewards.
    bonus, radius, scale, theta_norm, form, ties, memory
        As in `LinUCB`; `theta_norm` bounds the norm of theta after the taper, sum_j j^taper theta_j^2 under the root,
        which is at most d*^(taper/2) if the norm of theta is at most 1.

    Notes
    -----
    It is LinUCB after multiplying feature j by j^(-taper/2), so the bounds of LinUCB hold with the effective dimension
    of the tapered design, ln det(V / Lambda), and the tapered norm of theta; ``radius="oful"`` uses exactly those. The
    effective dimension grows as T^(1 / (1 + taper)) however large d is (`adadim.theory.tapered_information`), which
    gives the rate `adadim.theory.tapered_rate`; docs/which-policy.md has the proof. That rate is not Pareto optimal.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=300, dim=150, intrinsic_dim=3, horizon=600, replications=range(4))
    >>> published = adadim.simulate(adadim.LinUCBPlusPlus(), instance)
    >>> tapered = adadim.simulate(adadim.TaperedLinUCB(), instance)
    >>> bool(tapered.final.mean() < published.final.mean())
    True
    """

    taper: Taper = 1.5
    ridge: Ridge = 0.1
    size: Annotated[float, partial(between, low=1e-100, high=1e100)] | None = None
    bonus: Bonus = "norm"
    radius: Radius = "noise"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    form: Form = "auto"
    ties: Ties = "random"
    memory: HalfLife | None = field(default=None, metadata=ADDED_LATER)

    def linucb(self, noise: float) -> LinUCB:
        """The LinUCB that it is, on tapered features."""
        return LinUCB(
            ridge=self.ridge if self.size is None else max((noise / self.size) ** 2, np.finfo(float).tiny),
            bonus=self.bonus,
            radius=self.radius,
            scale=self.scale,
            theta_norm=self.theta_norm,
            form=self.form,
            ties=self.ties,
            memory=self.memory,
        )

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        policy = self.linucb(noise=1.0 if self.size is None else problem.noise)
        weights = like(taper_weights(self.taper, problem.dim), problem.reference)
        return LinUCBLearner(policy, problem, streams, policy.model(problem, weights))
