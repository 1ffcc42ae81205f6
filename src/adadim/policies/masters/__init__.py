"""Algorithms that run other algorithms."""

from adadim.policies.masters.balancing import DynamicBalancing
from adadim.policies.masters.corral import Corral
from adadim.policies.masters.linucbpp_corral import LinUCBPlusPlusCorral
from adadim.policies.masters.smooth_corral import SmoothCorral

__all__ = ["Corral", "DynamicBalancing", "LinUCBPlusPlusCorral", "SmoothCorral"]
