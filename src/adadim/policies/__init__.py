"""One file per algorithm."""

from adadim.policies.base import Learner, Policy
from adadim.policies.evidence import EvidenceLinUCB
from adadim.policies.greedy import Greedy
from adadim.policies.linucb import LinUCB
from adadim.policies.linucbpp import LinUCBPlusPlus
from adadim.policies.masters import Corral, DynamicBalancing, LinUCBPlusPlusCorral, SmoothCorral
from adadim.policies.single import Single
from adadim.policies.suplinucb import SupLinUCB
from adadim.policies.tapered import TaperedLinUCB
from adadim.policies.ucb import UCB
from adadim.policies.uniform import Random

__all__ = [
    "UCB",
    "Corral",
    "DynamicBalancing",
    "EvidenceLinUCB",
    "Greedy",
    "Learner",
    "LinUCB",
    "LinUCBPlusPlus",
    "LinUCBPlusPlusCorral",
    "Policy",
    "Random",
    "Single",
    "SmoothCorral",
    "SupLinUCB",
    "TaperedLinUCB",
]
