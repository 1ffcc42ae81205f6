"""How many of the features matter: the posterior of d*, from past choices and their rewards."""

from adadim.dimension.posterior import (
    Dimension,
    Levels,
    Prior,
    checked_levels,
    dimension,
    dimension_of_arms,
    dimension_of_moments,
    dimension_of_sums,
)

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
