"""Algorithms, those of one idea in one file; `base` says what a policy is, and `player` what every learner has.

`linear` has those for rewards linear in the features, `plusplus` those with mixture-arms, `masters` those that run
others, and `arms` those that ignore features.
"""

from adadim.policies import released
from adadim.policies.arms import MOSS, UCB, Random
from adadim.policies.base import Decision, Learner, Policy
from adadim.policies.certificate import Certificate
from adadim.policies.certified import Certified
from adadim.policies.guarded import Guarded
from adadim.policies.linear.alexp import ALEXP
from adadim.policies.linear.epoch_balancing import EpochBalancing
from adadim.policies.linear.evidence import EvidenceLinUCB, PrefixLinUCB, TwoPriorLinUCB
from adadim.policies.linear.feel_good import FeelGood
from adadim.policies.linear.ids import IDS
from adadim.policies.linear.linmed import LinMED
from adadim.policies.linear.linucb import Greedy, LinTS, LinUCB, RegretBalancingLinear, TaperedLinUCB
from adadim.policies.linear.max_ratio import MaxRatio
from adadim.policies.linear.modcb import ModCB, Residual, estimate_residual
from adadim.policies.linear.osom import OSOM, ALBDim, ALBNorm
from adadim.policies.linear.prior_balancing import PriorBalancing
from adadim.policies.linear.prior_elimination import PriorElimination
from adadim.policies.linear.prior_thompson import PriorThompson
from adadim.policies.linear.radius_exp3 import RadiusExp3
from adadim.policies.linear.radius_mixture import RadiusMixture
from adadim.policies.linear.suplinucb import SupLinUCB
from adadim.policies.masters.balancing import D3RB, ED2RB, BoundBalancing, DynamicBalancing, RegretBalancing
from adadim.policies.masters.base import Bound, LinearBound, PowerBound, SqrtBound, SqrtLogBound
from adadim.policies.masters.corral import Corral, TsallisCorral
from adadim.policies.masters.optimistic import BanditCombiner, UCBCorral
from adadim.policies.masters.smooth_corral import SmoothCorral
from adadim.policies.plusplus.linucbpp import LinUCBPlusPlus, LinUCBPlusPlusCorral
from adadim.policies.plusplus.mosspp import EmpMOSSPlusPlus, MeDZO, MOSSPlusPlus, ParallelMOSS
from adadim.policies.single import Single

__all__ = [
    "ALEXP",
    "D3RB",
    "ED2RB",
    "IDS",
    "MOSS",
    "OSOM",
    "UCB",
    "ALBDim",
    "ALBNorm",
    "BanditCombiner",
    "Bound",
    "BoundBalancing",
    "Certificate",
    "Certified",
    "Corral",
    "Decision",
    "DynamicBalancing",
    "EmpMOSSPlusPlus",
    "EpochBalancing",
    "EvidenceLinUCB",
    "FeelGood",
    "Greedy",
    "Guarded",
    "Learner",
    "LinMED",
    "LinTS",
    "LinUCB",
    "LinUCBPlusPlus",
    "LinUCBPlusPlusCorral",
    "LinearBound",
    "MOSSPlusPlus",
    "MaxRatio",
    "MeDZO",
    "ModCB",
    "ParallelMOSS",
    "Policy",
    "PowerBound",
    "PrefixLinUCB",
    "PriorBalancing",
    "PriorElimination",
    "PriorThompson",
    "RadiusExp3",
    "RadiusMixture",
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
    """Every policy class of the library by name, those of `released` included: what a file may name."""
    public = {name: globals()[name] for name in __all__}
    public |= {name: getattr(released, name) for name in dir(released) if name.startswith("Released")}
    classes = {name: value for name, value in public.items() if isinstance(value, type)}
    return {name: kind for name, kind in classes.items() if issubclass(kind, Policy) and kind is not Policy}


def parts() -> dict[str, type[Bound]]:
    """What is no policy but may be a parameter of one, by name: the candidate bounds of masters."""
    return {kind.__name__: kind for kind in (LinearBound, PowerBound, SqrtBound, SqrtLogBound)}
