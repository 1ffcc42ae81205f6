"""Generators of instances: the paper's environments and its lower-bound family, and features of other kinds.

A generator takes keywords only. Common parameters are described at `sphere`. Replication r of a seed is the same
instance whatever the other replications are.
"""

from adadim.core.design import interaction_levels, interactions
from adadim.instances import randomised, real
from adadim.instances.choices import ChoiceInstance, ChoiceTable, choices, survey
from adadim.instances.contexts import ContextInstance, contexts
from adadim.instances.delay import Delay
from adadim.instances.drawn import anisotropic, ball, clicks, everyday, growing, polynomials, powers, products, sphere
from adadim.instances.instance import expressive_levels, parameter
from adadim.instances.published import (
    biased_arms,
    end_of_optimism,
    informative,
    interval,
    legendre,
    lower_bound,
    many_best,
    owned_arms,
    shared_contexts,
    sphere_rounds,
)
from adadim.instances.ratings import RatingInstance, RatingTable, movielens, ratings
from adadim.instances.real import RealTable, labelled, pca
from adadim.instances.tables import LoggedInstance, TableInstance, table

__all__ = [
    "ChoiceInstance",
    "ChoiceTable",
    "ContextInstance",
    "Delay",
    "LoggedInstance",
    "RatingInstance",
    "RatingTable",
    "RealTable",
    "TableInstance",
    "anisotropic",
    "ball",
    "biased_arms",
    "choices",
    "clicks",
    "contexts",
    "end_of_optimism",
    "everyday",
    "expressive_levels",
    "growing",
    "informative",
    "interaction_levels",
    "interactions",
    "interval",
    "labelled",
    "legendre",
    "lower_bound",
    "many_best",
    "movielens",
    "owned_arms",
    "parameter",
    "pca",
    "polynomials",
    "powers",
    "products",
    "randomised",
    "ratings",
    "real",
    "shared_contexts",
    "sphere",
    "sphere_rounds",
    "survey",
    "table",
]
