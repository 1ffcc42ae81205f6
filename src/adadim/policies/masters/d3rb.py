"""D3RB, doubling data-driven regret balancing (Pacchiano, Dann and Gentile 2024)."""

from __future__ import annotations

from dataclasses import dataclass

from adadim.backend.arrays import Array, clamp
from adadim.backend.rows import Rows
from adadim.policies.base import Learner
from adadim.policies.masters.data_driven import DataDriven, DataDrivenLearner
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["D3RB"]

LARGEST_RELEASED = 1e4
"""Where the released code stops doubling."""


@dataclass(frozen=True)
class D3RB(DataDriven):
    """Balance the regrets of base learners by coefficients that are doubled when the data refute them.

    Base i is believed to have regret dhat_i sqrt(n_i), and the base with the least is played; when its rewards fall
    short of what another base is sure to have achieved, dhat_i doubles. Use it when no regret bounds are known, or when
    bases do better in some runs than in others: what counts is the regret realised. `ED2RB` estimates the coefficient
    instead of doubling it. With bounds that can be trusted, `DynamicBalancing` drops bases sooner.

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
        The algorithm as published, or as the authors' code has it: another width, sums divided by sqrt(n) in the test,
        no doubling above 10^4. The released one is far quicker to give up a base, and nothing is proved of it.

    Notes
    -----
    With d_min >= 1, on a fixed set or i.i.d. ones, the regret is O~(d M sqrt(T) + d^2 sqrt(M T)) with probability
    1 - delta at all times, d being the least realised coefficient (its running maximum). Nothing but the scale of the
    rewards must be known. The largest potential is never above three times the least.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> outcome = adadim.simulate(adadim.D3RB(), instance)
    >>> sum(outcome.learner.describe()[0]["rounds_of_each_base"])
    200
    """

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return D3RBLearner(self, problem, streams)


class D3RBLearner(DataDrivenLearner):
    """State of `D3RB`."""

    def updated(self, rows: Rows) -> tuple[Array, Array]:
        xp, dhat = self.xp, rows.of(self.coefficients)
        if self.settings.variant == "released":
            n, estimate = self.released_estimate(rows)
            doubled = clamp(2.0 * dhat, None, LARGEST_RELEASED)
            dhat = xp.where(estimate > dhat * xp.sqrt(n), doubled, dhat)
        else:
            n, mean, width, best = self.known(rows)
            # The misspecification test of Algorithm 1: even dhat sqrt(n) more reward would not be enough.
            dhat = xp.where(mean + dhat / xp.sqrt(n) + width < best, 2.0 * dhat, dhat)
        return dhat, dhat * xp.sqrt(n)
