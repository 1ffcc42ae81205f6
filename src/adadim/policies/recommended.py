"""The policy to start with."""

from __future__ import annotations

from adadim.core.problem import Problem
from adadim.errors import InvalidTypeError
from adadim.policies.base import Policy
from adadim.policies.linear.evidence import EvidenceLinUCB
from adadim.policies.linear.linucb import LinUCB

__all__ = ["recommended"]


def recommended(problem: Problem) -> Policy:
    """Policy for `problem` that a practitioner should start with: `EvidenceLinUCB` with its default parameters.

    It needs the features in their order of importance and the number of rounds, and nothing else. It was chosen by a
    rule: of the candidates, the smallest worst ratio of its regret to the oracle's over the development families and
    the paper's configurations (see docs/which-policy.md). Where each arm has a parameter of its own (`disjoint`) it is
    `LinUCB`, which must be told the noise.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> features = np.random.default_rng(0).normal(size=(200, 50)) / 10
    >>> problem = adadim.Problem(features, horizon=1000)  # the noise is unknown
    >>> learner = adadim.recommended(problem).start(problem)
    >>> learner.update(learner.select(), 0.3)
    """
    if not isinstance(problem, Problem):
        raise InvalidTypeError(f"recommended needs an adadim.Problem, got {type(problem).__name__}")
    return LinUCB() if problem.disjoint else EvidenceLinUCB()
