"""What no policy can do, and where policies sit: the Pareto frontier, the lower bound, measured rates.

`frontier` gives the curves of the paper's Figure 1. `lower_bound_study` and `lower_bound_checks` hold policies against
the inequality behind Theorem 1. `rates_study` and `rate_estimates` measure the exponents of T that theory speaks of.
"""

from adadim.limits.frontier import frontier
from adadim.limits.lower_bound import (
    BoundCheck,
    bound_at,
    closed_forms,
    default_deltas,
    lower_bound_checks,
    lower_bound_study,
)
from adadim.limits.rates import Problem, rate_policies, rates_study
from adadim.limits.slopes import RateEstimate, Slope, fit_slope, rate_estimates, rate_points

__all__ = [
    "BoundCheck",
    "Problem",
    "RateEstimate",
    "Slope",
    "bound_at",
    "closed_forms",
    "default_deltas",
    "fit_slope",
    "frontier",
    "lower_bound_checks",
    "lower_bound_study",
    "rate_estimates",
    "rate_points",
    "rate_policies",
    "rates_study",
]
