"""Tapered LinUCB: one LinUCB in all features, whose prior says that earlier ones matter more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adadim.arrays import like
from adadim.policies.base import Policy
from adadim.policies.confidence import Bonus, Radius
from adadim.policies.linucb import LinUCB, LinUCBLearner
from adadim.policies.ties import Ties
from adadim.posterior import Form
from adadim.problem import Problem, check_positive
from adadim.randomness import Streams

__all__ = ["TaperedLinUCB"]


@dataclass(frozen=True)
class TaperedLinUCB(Policy):
    """Learn in all features at once, with a ridge that grows with the index: lambda_j = ridge * j^taper.

    A soft truncation: feature j is shrunk harder the later it comes, so late features cost little until the data speak
    for them, and nothing is thrown away. It needs no schedule, no restarts and no mixture-arms. Use it when features
    are ordered by importance and d* is unknown; when late features matter as much as early ones, plain `LinUCB` is
    the better prior.

    Parameters
    ----------
    taper : float
        Exponent s of the ridge. 0 is `LinUCB`; larger values favour small d*.
    ridge : float
        Ridge of the first feature.
    size : float, optional
        Size tau of a leading coefficient of theta. If given, the ridge is (noise / tau)^2 instead of `ridge`, the
        prior in units of the noise, so that one setting serves quiet and noisy rewards.
    bonus, radius, scale, theta_norm, form, ties
        As in `LinUCB`; `theta_norm` bounds the norm of theta after the taper, sum_j j^taper theta_j^2 under the root,
        which is at most d*^(taper/2) if the norm of theta is at most 1.

    Notes
    -----
    It is LinUCB after multiplying feature j by j^(-taper/2), so the bounds of LinUCB hold with the effective dimension
    of the tapered design, ln det(V / Lambda), and the tapered norm of theta; ``radius="oful"`` uses exactly those. No
    adaptive guarantee over d* is claimed.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=300, dim=150, intrinsic_dim=3, horizon=600, replications=range(4))
    >>> published = adadim.simulate(adadim.LinUCBPlusPlus(), instance)
    >>> tapered = adadim.simulate(adadim.TaperedLinUCB(), instance)
    >>> bool(tapered.final.mean() < published.final.mean())
    True
    """

    taper: float = 1.5
    ridge: float = 0.1
    size: float | None = None
    bonus: Bonus = "norm"
    radius: Radius = "noise"
    scale: float = 1.0
    theta_norm: float = 1.0
    form: Form = "auto"
    ties: Ties = "random"

    def __post_init__(self) -> None:
        if isinstance(self.taper, bool) or not np.isfinite(self.taper) or self.taper < 0:
            raise ValueError(f"taper must be a finite number of at least 0, got {self.taper!r}")
        if self.size is not None:
            check_positive(self.size, "size", "the size of a leading coefficient of theta, e.g. 1")
        self._linucb(noise=1.0)

    def _linucb(self, noise: float) -> LinUCB:
        return LinUCB(
            ridge=self.ridge if self.size is None else (noise / self.size) ** 2,
            bonus=self.bonus,
            radius=self.radius,
            scale=self.scale,
            theta_norm=self.theta_norm,
            form=self.form,
            ties=self.ties,
        )

    def _start(self, problem: Problem, streams: Streams) -> LinUCBLearner:
        index = np.arange(1, problem.dim + 1, dtype=float)
        weights = like(index ** (-self.taper / 2), problem.actions.base)
        return LinUCBLearner(self._linucb(problem.noise), problem, streams, problem.actions.weighted(weights))
