"""Linear bandits whose features are ordered, when nobody knows how many of them matter.

>>> import adadim
>>> instance = adadim.instances.sphere(arms=100, dim=30, intrinsic_dim=4, horizon=500)
>>> outcome = adadim.simulate(adadim.LinUCB(dim=4), instance)
>>> outcome.regret.shape
(1, 100)
"""

from importlib.metadata import version as _version

from adadim import instances, theory
from adadim.actions import ActionSet
from adadim.errors import ForeignArmError, NormWarning, NotSelectedError
from adadim.policies import UCB, Greedy, Learner, LinUCB, Policy, Random, Single, SupLinUCB
from adadim.problem import Instance, Problem
from adadim.simulate import Outcome, simulate

__version__ = _version("adadim")

__all__ = [
    "UCB",
    "ActionSet",
    "ForeignArmError",
    "Greedy",
    "Instance",
    "Learner",
    "LinUCB",
    "NormWarning",
    "NotSelectedError",
    "Outcome",
    "Policy",
    "Problem",
    "Random",
    "Single",
    "SupLinUCB",
    "instances",
    "simulate",
    "theory",
]
