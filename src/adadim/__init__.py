"""Linear bandits whose features are ordered, when it is unknown how many of them matter.

>>> import adadim
>>> instance = adadim.instances.sphere(arms=100, dim=30, intrinsic_dim=4, horizon=500)
>>> outcome = adadim.simulate(adadim.LinUCB(dim=4), instance)
>>> outcome.regret.shape
(1, 100)
"""

from adadim import startup as _startup  # noqa: F401 (first, so that Ctrl-C during the imports below ends in one line)

# isort: split
from importlib.metadata import version as _version
from typing import TYPE_CHECKING

from adadim import errors, instances, policies, theory
from adadim.core.actions import ActionSet
from adadim.core.columns import Category
from adadim.core.design import Features, interaction_levels, interactions
from adadim.core.on_demand import on_demand as _on_demand
from adadim.core.problem import Problem
from adadim.dimension import Dimension, dimension
from adadim.errors import *  # noqa: F403 (every error is public here too)
from adadim.instances.instance import Instance
from adadim.play.evaluation import Evaluation, evaluate
from adadim.play.simulate import Outcome, Replay, simulate
from adadim.policies import *  # noqa: F403 (every policy is public here too)
from adadim.policies import EvidenceLinUCB, Greedy, LinTS, LinUCB, LinUCBPlusPlus, Random
from adadim.policies.linear.evidence import recommended
from adadim.policies.loading import load

__version__ = _version("adadim")

# What a newcomer needs; dir(adadim) shows everything that can be had from here.
__all__ = [
    "Agent",
    "EvidenceLinUCB",
    "Greedy",
    "LinTS",
    "LinUCB",
    "LinUCBPlusPlus",
    "Problem",
    "Random",
    "dimension",
    "errors",
    "evaluate",
    "experiments",
    "instances",
    "load",
    "paper",
    "plot",
    "policies",
    "recommended",
    "report",
    "serve",
    "simulate",
    "study",
    "testing",
    "theory",
]

if TYPE_CHECKING:
    from adadim import experiments, paper, report, serve, study, testing
    from adadim.agent import Agent
    from adadim.report.figures import plot
    from adadim.study import run

    # What can be imported from here too: types that functions give, every policy, every error.
    __all__ += [
        "ActionSet",
        "Category",
        "Dimension",
        "Evaluation",
        "Features",
        "Instance",
        "Outcome",
        "Replay",
        "interaction_levels",
        "interactions",
        "run",
    ]
    __all__ += errors.__all__
    __all__ += policies.__all__
else:
    __getattr__ = _on_demand(
        __name__,
        {"Agent": "adadim.agent:Agent", "plot": "adadim.report.figures:plot", "run": "adadim.study:run"}
        | {room: f"adadim.{room}" for room in ("agent", "experiments", "paper", "report", "serve", "study", "testing")},
    )[0]

    def __dir__() -> list[str]:
        hidden = {"TYPE_CHECKING", *(name for name, value in globals().items() if type(value) is type(errors))}
        about = ("__all__", "__doc__", "__file__", "__name__", "__path__", "__version__")
        return sorted({*__all__, "run", *about, *(n for n in globals() if not n.startswith("_") and n not in hidden)})
