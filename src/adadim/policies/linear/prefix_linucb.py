"""Prefix LinUCB: optimism or Thompson sampling with predictions averaged over how many features matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from adadim.core.arrays import Array
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.models.averaged import PrefixModel, prefix_model
from adadim.policies.base import Learner, Policy
from adadim.policies.confidence import noise_radius
from adadim.policies.linear.linucb import LinUCB, LinUCBLearner
from adadim.policies.parameters import BayesFactor, Decay, RadiusScale, Taper


@dataclass(frozen=True)
class PrefixLinUCB(Policy):
    """Learn in all prefixes of the features at once and weigh each by how likely it is that d* is its length.

    Like `EvidenceLinUCB` it need not be told d*, the noise or the range of the means. It is better where the signal
    ends after few features, d* = 1 above all, and worse where it fades slowly or hides; docs/which-policy.md has both.

    Parameters
    ----------
    rule : {"optimism", "thompson"}
        Pull the arm with the largest mean plus radius times width; or draw d* and the parameters from their posterior
        and pull the arm that is best for them.
    taper : float
        Exponent s of the ridge lambda j^s inside every prefix.
    decay : float
        P(d* = m) is m^-decay beforehand, up to a constant.
    scale : float, optional
        Factor on the radius, by default 0.35; for "thompson" on the standard deviation of the draw, by default 0.7.
    factor : float
        Bayes factor that rules a ridge out. The smallest ridge not ruled out is used, as in `EvidenceLinUCB`.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    With L the Cholesky factor of V, z = L^-1 a, w = L^-1 b and tail_j = P(d* >= j | data), the average over all
    prefixes of an arm's mean is sum_j tail_j z_j w_j, its variance given d* sigma^2 sum_j tail_j z_j^2, and the
    variance of the mean between prefixes is added to that. One factor holds all of it, and features whose tail has
    vanished cost nothing. If each arm has a parameter of its own, they share d*, the ridge and the noise, and the
    evidence of a prefix is prod_k det(V_k / Lambda)^(-1/2) (sum_k S_k)^(-n/2) over the arms k. Nothing is proved about
    its regret.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=100, dim=40, intrinsic_dim=1, horizon=300, replications=range(4))
    >>> averaged = adadim.simulate(adadim.PrefixLinUCB(), instance)
    >>> bool(averaged.final.mean() < adadim.simulate(adadim.LinUCB(), instance).final.mean() / 3)
    True
    """

    rule: Literal["optimism", "thompson"] = "optimism"
    taper: Taper = 0.0
    decay: Decay = 0.0
    scale: RadiusScale | None = None
    factor: BayesFactor = 20.0
    ties: Ties = "random"

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return PrefixLearner(self, problem, streams)


class PrefixLearner(LinUCBLearner):
    """State of `PrefixLinUCB`: LinUCB over a model that averages over the prefixes, or draws from its posterior."""

    model: PrefixModel

    def __init__(self, policy: PrefixLinUCB, problem: Problem, streams: Streams) -> None:
        thompson = policy.rule == "thompson"
        self.scale = policy.scale if policy.scale is not None else 0.7 if thompson else 0.35
        radius = self.scale * noise_radius(1.0, problem.horizon, problem.arms)
        model = prefix_model(problem, policy.taper, policy.factor, policy.decay)
        super().__init__(LinUCB(ridge=1.0, radius=radius, ties=policy.ties), problem, streams, model)
        self.normal_streams = streams.child(0) if thompson else None

    def scores(self, rows: Rows) -> Array:
        if self.normal_streams is None:
            return super().scores(rows)
        return self.model.sample(rows, self.normal_streams.generators, self.scale)
