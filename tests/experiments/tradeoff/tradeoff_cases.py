"""Small studies of the lower bound and of rates."""

import dataclasses
import inspect

import adadim
from adadim import Policy
from adadim.experiments import tradeoff

# 3 hard problems. In fewer rounds a third of the policies never leave a_0, and would be checked for nothing else.
# At the small gap the bound is almost sharp and finds wrong accounting; at the large one policies find the hidden arm.
HORIZON, ALPHA, DELTAS, TRIALS = 100, 0.4, (0.04, 0.6), 12
HARD = 3
KINDS = ("png", "pdf", "svg", "csv")


class Always:
    """Pulls the arm of a_0 for ever."""

    def __init__(self, problem, rng):
        pass

    def select(self):
        return 0

    def update(self, arm, reward):
        pass


def every_policy():
    """Every public policy, made by default where it can be."""
    found = {"always a_0": adadim.Single(Always)}
    for name in adadim.policies.__all__:
        kind = getattr(adadim, name)
        if inspect.isclass(kind) and issubclass(kind, Policy) and not inspect.isabstract(kind) and name != "Single":
            missing = dataclasses.MISSING
            assert all(f.default is not missing or f.default_factory is not missing for f in dataclasses.fields(kind))
            found[name] = kind()
    return found


def small_rates(**changes):
    policies = tradeoff.rate_policies([0.5], [])
    settings = {"horizons": [16, 64, 256], "alphas": [0.0, 0.5], "dim": 16, "arms": 24, "trials": 6}
    return tradeoff.rates_study(policies, **{**settings, **changes})
