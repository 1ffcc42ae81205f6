"""ED2RB, estimating data-driven regret balancing (Pacchiano, Dann and Gentile 2024)."""

from __future__ import annotations

from dataclasses import dataclass

from adadim.backend.arrays import Array
from adadim.backend.rows import Rows
from adadim.policies.base import Learner
from adadim.policies.masters.data_driven import DataDriven, DataDrivenLearner
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["ED2RB"]


@dataclass(frozen=True)
class ED2RB(DataDriven):
    """Balance the regrets of base learners by coefficients estimated from the data.

    As `D3RB`, but dhat_i is the regret per sqrt(n_i) that the rewards prove, and a potential at most doubles from one
    play to the next. It follows a base that recovers, which D3RB's doubled coefficients do not; otherwise the two
    differ little.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions.
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a nested base in all d features.
    d_min : float
        Least coefficient, for rewards in [0, 1]; T^(beta - 1/2) moves along the Pareto frontier.
    delta : float, optional
        Confidence; by default 1/sqrt(T), and 0.01 in the released variant.
    c : float
        Factor on the width of a mean.
    reward_scale : float, optional
        Factor on `d_min` and widths, 1 for rewards in [0, 1]; by default sigma + range/2 (range 1 where it is unknown).
    variant : {"printed", "released"}
        The algorithm as published, or as the authors' code has it: another width, and sums divided by sqrt(n) in the
        estimate. The released one is far quicker to give up a base, and nothing is proved of it.

    Notes
    -----
    The guarantee is that of `D3RB`, d being the least realised coefficient at the end. The largest potential is never
    above twice the least.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> outcome = adadim.simulate(adadim.ED2RB(variant="released"), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    200
    """

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return ED2RBLearner(self, problem, streams)


class ED2RBLearner(DataDrivenLearner):
    """State of `ED2RB`."""

    def updated(self, rows: Rows) -> tuple[Array, Array]:
        xp, phi, least = self.xp, rows.of(self.potential), rows.of(self.least)
        if self.settings.variant == "released":
            n, estimate = self.released_estimate(rows)
            root = xp.sqrt(n)
            phi = xp.maximum(xp.maximum(xp.minimum(estimate, 2.0 * phi), phi), least * root)
            return phi / root, phi
        n, mean, width, best = self.known(rows)
        root = xp.sqrt(n)
        dhat = xp.maximum(least, root * (best - mean - width))
        # Clipped to [phi, 2 phi], so that potentials stay balanced.
        return dhat, xp.minimum(xp.maximum(dhat * root, phi), 2.0 * phi)
