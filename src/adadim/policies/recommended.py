"""The policy to start with."""

from __future__ import annotations

from adadim.core.problem import Problem
from adadim.errors import InvalidTypeError
from adadim.policies.base import Policy
from adadim.policies.linear.evidence import EvidenceLinUCB

__all__ = ["RECOMMENDED", "recommended"]

RECOMMENDED = EvidenceLinUCB(taper=(0.0, 0.9, 1.75), intercept=True, doubt=3.0, probes=2)


def recommended(problem: Problem) -> Policy:
    """Policy for `problem` that a practitioner should start with: `EvidenceLinUCB`, which learns the order's worth too.

    It needs the features, best in their order of importance, and the number of rounds, and nothing else: how much the
    order means, the noise and a constant in the rewards are learned. It was chosen by a rule that was written down
    before the numbers (see docs/which-policy.md). Where each arm has a parameter of its own (`disjoint`) the same rule
    chose `EvidenceLinUCB` with its default parameters.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> features = np.random.default_rng(0).normal(size=(200, 50)) / 10
    >>> problem = adadim.Problem(features, horizon=1000)  # the noise is unknown
    >>> learner = adadim.recommended(problem).start(problem)
    >>> learner.update(learner.select(), 1000.3)  # rewards need not be centred
    """
    if not isinstance(problem, Problem):
        raise InvalidTypeError(f"recommended needs an adadim.Problem, got {type(problem).__name__}")
    return EvidenceLinUCB() if problem.disjoint else RECOMMENDED
