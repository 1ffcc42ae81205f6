"""One file per algorithm."""

from adadim.policies import released
from adadim.policies.alb_dim import ALBDim
from adadim.policies.alb_norm import ALBNorm
from adadim.policies.base import Decision, Learner, Policy
from adadim.policies.emp_mosspp import EmpMOSSPlusPlus
from adadim.policies.evidence import EvidenceLinUCB
from adadim.policies.greedy import Greedy
from adadim.policies.lints import LinTS
from adadim.policies.linucb import LinUCB
from adadim.policies.linucbpp import LinUCBPlusPlus
from adadim.policies.masters import (
    D3RB,
    ED2RB,
    BanditCombiner,
    BoundBalancing,
    Corral,
    DynamicBalancing,
    EpochBalancing,
    LinUCBPlusPlusCorral,
    ParallelMOSS,
    RegretBalancing,
    SmoothCorral,
    TsallisCorral,
    UCBCorral,
)
from adadim.policies.masters.bounds import Bound, LinearBound, PowerBound, SqrtBound, SqrtLogBound
from adadim.policies.medzo import MeDZO
from adadim.policies.modcb import ModCB
from adadim.policies.moss import MOSS
from adadim.policies.mosspp import MOSSPlusPlus
from adadim.policies.osom import OSOM
from adadim.policies.prefix_linucb import PrefixLinUCB
from adadim.policies.regret_balancing_linear import RegretBalancingLinear
from adadim.policies.residual import Residual, estimate_residual
from adadim.policies.single import Single
from adadim.policies.suplinucb import SupLinUCB
from adadim.policies.tapered import TaperedLinUCB
from adadim.policies.two_prior import TwoPriorLinUCB
from adadim.policies.ucb import UCB
from adadim.policies.uniform import Random

__all__ = [
    "D3RB",
    "ED2RB",
    "MOSS",
    "OSOM",
    "UCB",
    "ALBDim",
    "ALBNorm",
    "BanditCombiner",
    "Bound",
    "BoundBalancing",
    "Corral",
    "Decision",
    "DynamicBalancing",
    "EmpMOSSPlusPlus",
    "EpochBalancing",
    "EvidenceLinUCB",
    "Greedy",
    "Learner",
    "LinTS",
    "LinUCB",
    "LinUCBPlusPlus",
    "LinUCBPlusPlusCorral",
    "LinearBound",
    "MOSSPlusPlus",
    "MeDZO",
    "ModCB",
    "ParallelMOSS",
    "Policy",
    "PowerBound",
    "PrefixLinUCB",
    "Random",
    "RegretBalancing",
    "RegretBalancingLinear",
    "Residual",
    "Single",
    "SmoothCorral",
    "SqrtBound",
    "SqrtLogBound",
    "SupLinUCB",
    "TaperedLinUCB",
    "TsallisCorral",
    "TwoPriorLinUCB",
    "UCBCorral",
    "estimate_residual",
]


def kinds() -> dict[str, type[Policy]]:
    """Every policy class of the library by name, those of `released` included: what a file may name.

    Examples
    --------
    >>> kinds()["UCB"](delta=0.1)
    UCB(index='self-normalised', delta=0.1, scale=1.0, ties='random')
    """
    public = {name: globals()[name] for name in __all__} | {name: getattr(released, name) for name in released.__all__}
    classes = {name: value for name, value in public.items() if isinstance(value, type)}
    return {name: kind for name, kind in classes.items() if issubclass(kind, Policy) and kind is not Policy}


def parts() -> dict[str, type[Bound]]:
    """What is no policy but may be a parameter of one, by name: the candidate bounds of masters.

    Examples
    --------
    >>> parts()["SqrtBound"](c=0.5)
    SqrtBound(c=0.5)
    """
    return {kind.__name__: kind for kind in (LinearBound, PowerBound, SqrtBound, SqrtLogBound)}
