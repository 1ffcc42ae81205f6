"""The authors' released code where it departs from the paper's text: for reproducing its figures, not for use.

The squared bonus is a parameter of the policies themselves; the index of UCB on mixture-arms and the reference of
Dynamic Balancing too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from adadim.core.arrays import Array, all_true_on_host, clamp, namespace
from adadim.policies.confidence import optimism
from adadim.policies.linear.linucb import LinUCB
from adadim.policies.linear.rules import Confidence, Pulls
from adadim.policies.masters.balancing import DynamicBalancing
from adadim.policies.parameters import Bonus
from adadim.policies.plusplus.linucbpp import LinUCBPlusPlus


@dataclass(frozen=True)
class ReleasedLinUCB(LinUCB):
    """LinUCB whose first arm is drawn uniformly, as the released code has the base learners of Dynamic Balancing.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> features = np.array([[1.0, 0.0], [0.0, 0.1]])  # by its score the longer arm would come first
    >>> problem = adadim.Problem(np.broadcast_to(features, (50, 2, 2)), horizon=9, noise=0.1)
    >>> sorted(set(ReleasedLinUCB().start(problem).select().tolist()))
    [0, 1]
    """

    @property
    def confidence(self) -> Confidence:
        return replace(super().confidence, score=first_at_random)


def first_at_random(mean: Array, width2: Array, radius: Any, bonus: Bonus, pulls: Pulls) -> Array:
    """Optimistic scores, all alike before the first pull."""
    scores, count = optimism(mean, width2, radius, bonus), pulls()
    if all_true_on_host(count):
        return scores
    xp = namespace(scores)
    return xp.where((count > 0)[:, None], scores, xp.zeros_like(scores))


@dataclass(frozen=True)
class ReleasedLinUCBPlusPlus(LinUCBPlusPlus):
    """LinUCB++ that divides the truncated features by the largest norm among them.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=40, intrinsic_dim=2, horizon=300)
    >>> adadim.simulate(ReleasedLinUCBPlusPlus(bonus="squared"), instance).regret.shape
    (1, 100)
    """

    rescales: ClassVar[bool] = True


@dataclass(frozen=True)
class ReleasedDynamicBalancing(DynamicBalancing):
    """Dynamic Balancing with a width that is 0 at the first play, and ties drawn among inactive bases too."""

    def confidence(self, plays: Array, bases: int, delta: float) -> Array:
        xp = namespace(plays)
        log = xp.log(clamp(bases * xp.log(plays) / delta, 1.0))
        return self.c * xp.sqrt(log / plays)

    def candidates(self, tied: Array, active: Array) -> Array:
        return tied
