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
from adadim.errors import (
    AdadimError,
    ConditionError,
    DecisionError,
    DeviceError,
    FileError,
    ForeignArmError,
    InvalidTypeError,
    InvalidValueError,
    NormWarning,
    NotSelectedError,
    RunError,
    StoreError,
    StudyError,
)
from adadim.policies import (
    UCB,
    Corral,
    DynamicBalancing,
    EvidenceLinUCB,
    Greedy,
    Learner,
    LinUCB,
    LinUCBPlusPlus,
    LinUCBPlusPlusCorral,
    Policy,
    Random,
    Single,
    SmoothCorral,
    SupLinUCB,
    TaperedLinUCB,
)
from adadim.policies.recommended import recommended
from adadim.problem import Instance, Problem
from adadim.simulate import Outcome, simulate

__version__ = _version("adadim")

__all__ = [
    "UCB",
    "ActionSet",
    "AdadimError",
    "ConditionError",
    "Corral",
    "DecisionError",
    "DeviceError",
    "DynamicBalancing",
    "EvidenceLinUCB",
    "FileError",
    "ForeignArmError",
    "Greedy",
    "Instance",
    "InvalidTypeError",
    "InvalidValueError",
    "Learner",
    "LinUCB",
    "LinUCBPlusPlus",
    "LinUCBPlusPlusCorral",
    "NormWarning",
    "NotSelectedError",
    "Outcome",
    "Policy",
    "Problem",
    "Random",
    "RunError",
    "Single",
    "SmoothCorral",
    "StoreError",
    "StudyError",
    "SupLinUCB",
    "TaperedLinUCB",
    "instances",
    "recommended",
    "simulate",
    "theory",
]
