"""What adapting must cost: the Pareto frontier, the lower bound, measured rates.

`frontier` gives the curves of the paper's Figure 1. `lower_bound_study` and `lower_bound_checks` check policies against
the inequality behind Theorem 1. `rates_study` and `rate_estimates` measure the exponents of T that theory speaks of.
"""

from typing import TYPE_CHECKING

from adadim.core.on_demand import on_demand as _on_demand
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
from adadim.experiments.tradeoff.plan import RateCase, default_deltas, lower_bound_study, rate_policies, rates_study

__all__ = [
    "BoundCheck",
    "RateCase",
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

if TYPE_CHECKING:
    from adadim.experiments.tradeoff.figures import draw_bounds, draw_frontier, draw_rates
else:  # these need matplotlib
    __getattr__, __dir__ = _on_demand(
        __name__,
        {name: f"{__name__}.figures:{name}" for name in __all__ if name not in globals()},
        former={"Problem": "RateCase"},
    )
