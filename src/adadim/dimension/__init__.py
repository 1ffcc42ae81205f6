"""How many of the features matter: the posterior of d*, from past choices and their rewards."""

from adadim.dimension.answer import Dimension
from adadim.dimension.inputs import Levels, Prior, checked_levels
from adadim.dimension.posterior import dimension, dimension_of_arms, dimension_of_moments, dimension_of_sums

__all__ = [
    "Dimension",
    "Levels",
    "Prior",
    "checked_levels",
    "dimension",
    "dimension_of_arms",
    "dimension_of_moments",
    "dimension_of_sums",
]
