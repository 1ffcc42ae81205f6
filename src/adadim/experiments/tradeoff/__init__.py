"""What adapting must cost: the Pareto frontier, the lower bound, measured rates.

`frontier` gives the curves of the paper's Figure 1. `lower_bound_study` and `lower_bound_checks` check policies against
the inequality behind Theorem 1. `rates_study` and `rate_estimates` measure the exponents of T that theory speaks of.
"""

from adadim.experiments.tradeoff.analysis import (
    BoundCheck,
    RateEstimate,
    Slope,
    bound_at,
    bounds_table,
    closed_forms,
    fit_slope,
    frontier,
    lower_bound_checks,
    rate_estimates,
    rate_points,
    rates_table,
)
from adadim.experiments.tradeoff.figures import draw_bounds, draw_frontier, draw_rates
from adadim.experiments.tradeoff.plan import Problem, default_deltas, lower_bound_study, rate_policies, rates_study

__all__ = [
    "BoundCheck",
    "Problem",
    "RateEstimate",
    "Slope",
    "bound_at",
    "bounds_table",
    "closed_forms",
    "default_deltas",
    "draw_bounds",
    "draw_frontier",
    "draw_rates",
    "fit_slope",
    "frontier",
    "lower_bound_checks",
    "lower_bound_study",
    "rate_estimates",
    "rate_points",
    "rate_policies",
    "rates_study",
    "rates_table",
]
