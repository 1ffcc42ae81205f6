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

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares.
    bonus : {"norm", "squared"}
        Width sqrt(a^T V^-1 a) as in the theory, or its square, as in the authors' released code.
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    radius : {"noise", "full", "paper", "oful", "oful-2011"} or float
        Multiplier of the width. "noise": sigma sqrt(2 ln(2 T^1.5 K)). "full": that plus sqrt(ridge) times `theta_norm`,
        the bound for a fixed design. "paper": the constants of the paper's corollary, which assume ridge 1 and unit
        noise. "oful": sqrt(sigma^2 (ln det(V/ridge) + 2 ln sqrt(T)) + ridge theta_norm^2), valid for adaptive designs.
        "oful-2011": that bound as published, the sum of the roots of both terms, which is up to 1.41 times as large. On
        a problem without end (``horizon=None``) the number t of the round takes the place of T, so that the radius
        grows.
    scale : float
        Factor on the radius.
    theta_norm : float
        Bound on the norm of theta, where the radius has one.
    only_supported : bool
        On an expressive set with `dim` < d: use only the arms that are zero after the first `dim` features, for which
        the model is still linear, instead of all arms that differ in those.
    form : {"auto", "gram", "feature"}
        How the posterior is held; the choices are the same.
    ties : {"random", "lowest"}
        How equal scores are resolved.
    memory : float or "auto", optional
        Half-life in decisions, for rewards that drift: what a decision taught counts half after so many further ones.
        With "auto" it is found by the data: of several, for ever among them, the longest that predicts the rewards
        about as well as the best. The weights are exact, a decision costs a factorisation (d^3 / 3), and no theorem of
        the library covers a learner that forgets. By default it forgets nothing.
    likelihood : {"gaussian", "bernoulli"}
        What a reward is. "bernoulli": a click, 0 or 1 (or a share in [0, 1]), whose logit is linear in the features,
        with a constant; scores are then logits, noise need not be known, and costs of arms are in units of probability.
        See docs/clicks.md.

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

    Parameters
    ----------
    beta : float in [0.5, 1)
        Where on the Pareto frontier to be: the regret is of order T^max(beta, 1 + alpha - beta) for d* = T^alpha. 0.5
        favours easy problems; (1 + alpha) / 2 is best if alpha is known.
    ridge : float
        Regularisation lambda of the least squares.
    bonus : {"norm", "squared"}
        Width sqrt(a^T V^-1 a) as in the theory, or its square, as in the authors' released code.
    radius : {"noise", "full", "paper"} or float
        Multiplier of the width, as in `LinUCB`, with the length of the iteration as the horizon. Mixture-arms use the
        same rule with their own noise scale (see Notes).
    scale : float
        Factor on the radius.
    theta_norm : float
        Bound on the norm of theta, where the radius has one.
    expressive : bool, optional
        Pull arms cut to the iteration's features, which keeps the model linear; needs an action set closed under
        truncation. By default whatever the action set allows.
    solver : {"linucb", "suplinucb"}
        What runs in an iteration; the theorem is about "suplinucb" (with ``ridge=1, radius="paper"``).
    reuse : bool
        Keep the data: an iteration starts from all earlier pulls instead of none, and a mixture-arm from the rewards
        that made it. Less regret in every setting measured, and no longer the algorithm of the theorem (see Notes).
    form : {"auto", "gram", "feature"}
        How the posterior is held; the choices are the same.
    ties : {"random", "lowest"}
        How equal scores are resolved.

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
    """Dynamic Balancing with a width that is 0 at the first play, and ties drawn among inactive bases too.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    bound : {"log", "sqrt"} or callable
        Candidate bounds R_i(n) for a base in d_i features. "log", the paper's:
        max(sqrt(d_i n ln(max(K n^1.5 ln n, 1))^3), 1). "sqrt": max(sqrt(d_i), T^(beta - 1/2)) sqrt(n). A callable gets
        (d_i, n, K) as arrays and returns an array.
    beta : float in [0.5, 1)
        Place on the Pareto frontier, for ``bound="sqrt"``.
    scalings : tuple of float, optional
        v_i (default 1) and b_i (default 0): how often each base is tried, and how much better it must look to count.
    biases : tuple of float, optional
        v_i (default 1) and b_i (default 0): how often each base is tried, and how much better it must look to count.
    delta : float, optional
        Confidence; 1/sqrt(T) by default.
    c : float
        Factor on the width, 1 for rewards within an interval of length 1.
    reference : {"lower", "upper"}
        What a base is compared with: the largest lower confidence value, as the proof needs, or the largest upper
        one, as in the released code.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.policies.released.ReleasedDynamicBalancing(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    def confidence(self, plays: Array, bases: int, delta: float) -> Array:
        xp = namespace(plays)
        log = xp.log(clamp(bases * xp.log(plays) / delta, 1.0))
        return self.c * xp.sqrt(log / plays)

    def candidates(self, tied: Array, active: Array) -> Array:
        return tied
