"""Generators of instances: the paper's environments and its lower-bound family, and features of other kinds.

A generator takes keywords only. Replication r of a seed is the same instance whatever the other replications are.
"""

from adadim.instances import real
from adadim.instances.arms import many_best
from adadim.instances.contexts import ContextInstance, contexts
from adadim.instances.data import pca
from adadim.instances.degrees import polynomials, products
from adadim.instances.delay import Delay
from adadim.instances.growing import growing
from adadim.instances.interactions import interaction_levels, interactions
from adadim.instances.interval import interval
from adadim.instances.parameters import expressive_levels, parameter
from adadim.instances.points import anisotropic, ball, clicks, sphere
from adadim.instances.powers import powers
from adadim.instances.published import biased_arms, owned_arms, shared_contexts, sphere_rounds
from adadim.instances.real import RealTable, labelled
from adadim.instances.tables import LoggedInstance, TableInstance, table
from adadim.instances.theorem import lower_bound

__all__ = [
    "ContextInstance",
    "Delay",
    "LoggedInstance",
    "RealTable",
    "TableInstance",
    "anisotropic",
    "ball",
    "biased_arms",
    "clicks",
    "contexts",
    "expressive_levels",
    "growing",
    "interaction_levels",
    "interactions",
    "interval",
    "labelled",
    "lower_bound",
    "many_best",
    "owned_arms",
    "parameter",
    "pca",
    "polynomials",
    "powers",
    "products",
    "real",
    "shared_contexts",
    "sphere",
    "sphere_rounds",
    "table",
]
