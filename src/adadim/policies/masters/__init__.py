"""Algorithms that run other algorithms."""

from adadim.policies.masters.balancing import DynamicBalancing
from adadim.policies.masters.bandit_combiner import BanditCombiner
from adadim.policies.masters.bound_balancing import BoundBalancing
from adadim.policies.masters.corral import Corral
from adadim.policies.masters.d3rb import D3RB
from adadim.policies.masters.ed2rb import ED2RB
from adadim.policies.masters.epoch_balancing import EpochBalancing
from adadim.policies.masters.linucbpp_corral import LinUCBPlusPlusCorral
from adadim.policies.masters.parallel_moss import ParallelMOSS
from adadim.policies.masters.regret_balancing import RegretBalancing
from adadim.policies.masters.smooth_corral import SmoothCorral
from adadim.policies.masters.tsallis_corral import TsallisCorral
from adadim.policies.masters.ucb_corral import UCBCorral

__all__ = [
    "D3RB",
    "ED2RB",
    "BanditCombiner",
    "BoundBalancing",
    "Corral",
    "DynamicBalancing",
    "EpochBalancing",
    "LinUCBPlusPlusCorral",
    "ParallelMOSS",
    "RegretBalancing",
    "SmoothCorral",
    "TsallisCorral",
    "UCBCorral",
]
