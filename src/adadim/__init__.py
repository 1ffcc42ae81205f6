"""Linear bandits whose features are ordered, when nobody knows how many of them matter.

>>> import adadim
>>> instance = adadim.instances.sphere(arms=100, dim=30, intrinsic_dim=4, horizon=500)
>>> outcome = adadim.simulate(adadim.LinUCB(dim=4), instance)
>>> outcome.regret.shape
(1, 100)
"""

from adadim import startup as _startup  # noqa: F401 (first: it sees to Ctrl-C during the imports below)

# isort: split
from importlib.metadata import version as _version
from typing import TYPE_CHECKING

from adadim import instances, policies, theory
from adadim.core.actions import ActionSet
from adadim.core.design import Features
from adadim.core.features import interaction_levels, interactions
from adadim.core.on_demand import on_demand as _on_demand
from adadim.core.problem import Problem
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
from adadim.instances.instance import Instance
from adadim.play.evaluation import Evaluation, evaluate
from adadim.play.simulate import Outcome, Replay, simulate
from adadim.policies import *  # noqa: F403 (every policy is public here too)
from adadim.policies.loading import load
from adadim.policies.recommended import recommended

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
    "Features",
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
    from adadim import experiments, paper, report, serve, study
    from adadim.agent import Agent
    from adadim.study import run
else:
    __getattr__, __dir__ = _on_demand(
        __name__,
        {
            "Agent": "adadim.agent:Agent",
            "agent": "adadim.agent",
            "experiments": "adadim.experiments",
            "paper": "adadim.paper",
            "report": "adadim.report",
            "run": "adadim.study:run",
            "serve": "adadim.serve",
            "study": "adadim.study",
        },
    )
