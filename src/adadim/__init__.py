"""Linear bandits whose features are ordered, when nobody knows how many of them matter.

>>> import adadim
>>> instance = adadim.instances.sphere(arms=100, dim=30, intrinsic_dim=4, horizon=500)
>>> outcome = adadim.simulate(adadim.LinUCB(dim=4), instance)
>>> outcome.regret.shape
(1, 100)
"""

from adadim import startup as _startup  # noqa: F401 (first: it sees to Ctrl-C during the imports below)

# isort: split
from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING

from adadim import instances, policies, theory
from adadim.actions import ActionSet
from adadim.agent import Agent
from adadim.dimension import Dimension, dimension
from adadim.errors import (
    AdadimError,
    ConditionError,
    DecisionError,
    DeviceError,
    EvaluationWarning,
    FileError,
    ForeignArmError,
    InvalidTypeError,
    InvalidValueError,
    NormWarning,
    NotSelectedError,
    PrecisionWarning,
    RunError,
    ServiceError,
    SetsWarning,
    StoreError,
    StoreWarning,
    StudyError,
    UnknownDecisionError,
)
from adadim.evaluate import Evaluation, evaluate
from adadim.instances import interaction_levels, interactions
from adadim.instances.instance import Instance
from adadim.policies import *  # noqa: F403 (every policy is public here too)
from adadim.policies.loading import load
from adadim.policies.recommended import recommended
from adadim.problem import Problem
from adadim.simulate import Outcome, Replay, simulate

__version__ = _version("adadim")

__all__ = [
    "ActionSet",
    "AdadimError",
    "Agent",
    "ConditionError",
    "DecisionError",
    "DeviceError",
    "Dimension",
    "Evaluation",
    "EvaluationWarning",
    "FileError",
    "ForeignArmError",
    "Instance",
    "InvalidTypeError",
    "InvalidValueError",
    "NormWarning",
    "NotSelectedError",
    "Outcome",
    "PrecisionWarning",
    "Problem",
    "Replay",
    "RunError",
    "ServiceError",
    "SetsWarning",
    "StoreError",
    "StoreWarning",
    "StudyError",
    "UnknownDecisionError",
    "dimension",
    "evaluate",
    "experiments",
    "instances",
    "interaction_levels",
    "interactions",
    "load",
    "paper",
    "policies",
    "recommended",
    "report",
    "run",
    "serve",
    "simulate",
    "study",
    "theory",
]
__all__ += policies.__all__

if TYPE_CHECKING:
    from adadim import experiments, report, serve, study
    from adadim.experiments import paper
    from adadim.study import run
else:  # rooms that need more are imported when first asked for, so that ``import adadim`` is fast
    _ON_DEMAND = {
        "experiments": "adadim.experiments",
        "paper": "adadim.experiments.paper",
        "report": "adadim.report",
        "serve": "adadim.serve",
        "study": "adadim.study",
    }

    def __getattr__(name):
        if name == "run":
            return _import_module("adadim.study").run
        if name in _ON_DEMAND:
            return _import_module(_ON_DEMAND[name])
        raise AttributeError(f"module 'adadim' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *_ON_DEMAND, "run"})
