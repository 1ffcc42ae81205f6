"""LinTS: Thompson sampling with ridge regression (Agrawal and Goyal 2013), in all features or the first few."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import numpy as np

from adadim.core.arrays import Array, like
from adadim.core.checks import integer, positive
from adadim.core.codec import ADDED_LATER
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.models.forgetting import ForgettingModel
from adadim.models.linear import FactorModel
from adadim.policies.base import Policy
from adadim.policies.linear.linucb import LinearLearner
from adadim.policies.parameters import Dim, HalfLife, Ridge, Ties


@dataclass(frozen=True)
class LinTS(Policy):
    """Draw a parameter from the posterior in every round, and pull the arm that is best for it.

    Use it where many arms are nearly as good as the best, since it spreads its choices over them, or where rewards come
    late and in batches; `LinUCB` has less regret in most of the problems measured here. Of the adaptive policies,
    prefer `EvidenceLinUCB` when the number of features that matter is unknown.

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares: theta ~ N(0, sigma^2 / lambda) beforehand.
    scale : float
        Factor on the standard deviation of the draw. 1 is the posterior itself; the proof below needs more.
    memory : float, optional
        Half-life in decisions, as in `LinUCB`: the draw is that of the posterior of the weighted data.

    Notes
    -----
    The draw is theta_hat + scale sigma L^-T xi with V = L L^T and xi standard normal. Agrawal and Goyal prove regret
    O~(d^(3/2) sqrt(T)) for a scale of order sqrt(d ln T), which is far too wide in practice; with scale 1 the Bayesian
    regret is O~(d sqrt(T)) if theta comes from the prior (Russo and Van Roy 2014).

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=60, dim=10, intrinsic_dim=2, horizon=300, replications=range(4))
    >>> sampled = adadim.simulate(adadim.LinTS(dim=2), instance)
    >>> bool(sampled.final.mean() < adadim.simulate(adadim.Random(), instance).final.mean() / 5)
    True
    """

    ridge: Ridge = 0.1
    scale: Annotated[float, partial(positive, meaning="a factor on the standard deviation of the draw")] = 1.0
    dim: Dim | None = None
    ties: Ties = "random"
    memory: HalfLife | None = field(default=None, metadata=ADDED_LATER)


class LinTSLearner(LinearLearner, of=LinTS):
    """State of `LinTS`: a model from which parameters can be drawn."""

    model: FactorModel

    def __init__(self, policy: LinTS, problem: Problem, streams: Streams) -> None:
        self.policy, self.deviation = policy, policy.scale * problem.noise
        dim = problem.dim if policy.dim is None else integer(policy.dim, "dim", most=problem.dim)
        if policy.memory is None:
            model = FactorModel(problem, policy.ridge, dim=dim)
        else:
            model = ForgettingModel(policy.memory, problem, policy.ridge, dim=dim)
        super().__init__(problem, streams, model)
        self.normal_streams = streams.child(0)

    def sample(self, rows: Rows) -> Array:
        """Parameters drawn from the posteriors, (n, d); (n * K, d) if each arm has one."""
        generators, dim = self.normal_streams.generators, self.model.dim
        count = self.model.blocks * dim
        drawn = np.array([generators[r].standard_normal(count) for r in rows.ids.tolist()]).reshape(-1, dim)
        return self.model.sample(self.deviation * like(drawn, self.problem.reference)[:, None], rows)[:, 0]

    def scores(self, rows: Rows) -> Array:
        return self.model.means(self.sample(rows), rows)

    def resume(self, decided: int, streams: Streams) -> None:
        super().resume(decided, streams)
        self.normal_streams = streams.child(0)

    def more_scores(self, rows: Rows, draws: int) -> Array | None:
        assert rows.features is not None
        spread = self.deviation * self.normal_streams.generators[0].standard_normal((draws, self.model.dim))
        return self.model.sample(spread[None], rows)[0] @ rows.features[0, :, : self.model.dim].T
