"""What the paper proves, as numbers: hardness, schedules, rate functions, bounds, the lower-bound family.

``eq:...``, ``thm:...`` and ``corollary:...`` are labels in the source of the paper. A name that ends in
``_order`` gives the expression inside the paper's ``O(.)``, whose constant is unspecified: compare such
values with each other, never with a measured regret.
"""

from adadim.errors import ConditionError
from adadim.theory.iterations import Iteration, Schedule, hardness, schedule
from adadim.theory.lower_bound import LowerBoundFamily, lower_bound_family, theorem1_bound
from adadim.theory.rates import (
    confidence_radius,
    dominates,
    linucbpp_bound_order,
    modified_linucb_bound_order,
    nonadaptive_rate,
    pareto_rate,
    rate_lower_bound,
    recommended_beta,
    tapered_information,
    tapered_rate,
)

__all__ = [
    "ConditionError",
    "Iteration",
    "LowerBoundFamily",
    "Schedule",
    "confidence_radius",
    "dominates",
    "hardness",
    "linucbpp_bound_order",
    "lower_bound_family",
    "modified_linucb_bound_order",
    "nonadaptive_rate",
    "pareto_rate",
    "rate_lower_bound",
    "recommended_beta",
    "schedule",
    "tapered_information",
    "tapered_rate",
    "theorem1_bound",
]
