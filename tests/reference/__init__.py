"""Plain per-replication implementations of the algorithms: slow, direct, used as oracles in tests."""

from .balancing import DynamicBalancing, NestedDynamicBalancing
from .common import Algorithm, Base, Run, argmax_ties, run
from .corral import Corral, CorralMaster, SmoothCorral, SmoothMaster, log_barrier_omd, nested_dims
from .linucbpp import LinUCBPP, Mixtures, closure_levels, expressive_closure, schedule, usable_rows
from .linucbpp_corral import LinUCBPPCorral
from .ridge import LinUCB, noise_radius
from .suplinucb import SupLinUCB
from .ucb import UCB

__all__ = [
    "UCB",
    "Algorithm",
    "Base",
    "Corral",
    "CorralMaster",
    "DynamicBalancing",
    "LinUCB",
    "LinUCBPP",
    "LinUCBPPCorral",
    "Mixtures",
    "NestedDynamicBalancing",
    "Run",
    "SmoothCorral",
    "SmoothMaster",
    "SupLinUCB",
    "argmax_ties",
    "closure_levels",
    "expressive_closure",
    "log_barrier_omd",
    "nested_dims",
    "noise_radius",
    "run",
    "schedule",
    "usable_rows",
]
