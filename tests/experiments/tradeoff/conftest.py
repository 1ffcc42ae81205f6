import os

import pytest
from tradeoff_cases import ALPHA, DELTAS, HORIZON, TRIALS, every_policy, small_rates

from adadim.experiments import tradeoff
from adadim.study import run


@pytest.fixture(scope="session")
def bounds(tmp_path_factory):
    """Every policy of the library on the whole family, for a sweep of Delta; processes of tests share the work."""
    plan = tradeoff.lower_bound_study(every_policy(), horizon=HORIZON, alpha=ALPHA, deltas=DELTAS, trials=TRIALS)
    root = tmp_path_factory.getbasetemp()
    return run(plan, (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "bounds", jobs=1, batch=TRIALS)


@pytest.fixture(scope="session")
def bound_checks(bounds):
    """What is said of the regrets in `bounds`; its intervals are a bootstrap each."""
    return tradeoff.lower_bound_checks(bounds)


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """A small study of rates."""
    return run(small_rates(), tmp_path_factory.mktemp("rates"), jobs=1)
