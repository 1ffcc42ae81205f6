"""Policies whose regrets on the lower-bound family are known exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tradeoff_cases import ALPHA, DELTAS, HORIZON

from adadim.experiments import tradeoff
from adadim.theory import lower_bound_family


@given(
    horizon=st.integers(16, 10**6),
    alpha=st.floats(0.5, 1.0),
    delta=st.floats(1e-4, 0.8),
)
def test_closed_forms_obey_the_inequality(horizon, alpha, delta):
    uniform, stubborn = tradeoff.closed_forms(horizon, alpha, [delta])
    assert uniform.verdict == stubborn.verdict == "holds"
    assert uniform.slack > 0
    assert stubborn.slack == pytest.approx(0, abs=1e-9 * horizon * delta)
    family = lower_bound_family(horizon, alpha, delta=delta)
    count = family.arms_count
    exact = family.average_regret_bound(np.full(count, horizon / (count + 1)))
    assert uniform.bound == pytest.approx(max(exact, 0.0), abs=1e-9 * horizon)
    weaker = family.average_regret_bound_from_regret(uniform.easy)
    assert tradeoff.bound_at(family, uniform.easy, "paper") == pytest.approx(max(weaker, 0.0), abs=1e-9 * horizon)
    assert tradeoff.bound_at(family, uniform.easy, "paper") <= uniform.bound + 1e-9 * horizon


def test_closed_forms_of_c27():
    uniform, stubborn = tradeoff.closed_forms(2500, 0.5, [0.015625])
    found = [uniform.easy, uniform.hard, uniform.bound]
    np.testing.assert_allclose(found, [18.780048, 36.808894, 15.787553], atol=1e-6)
    family = lower_bound_family(2500, 0.5, delta=0.015625)
    assert tradeoff.bound_at(family, uniform.easy, "paper") == pytest.approx(6.773130, abs=1e-6)
    assert (stubborn.easy, stubborn.hard, stubborn.bound) == (0.0, 19.53125, 19.53125)


def test_simulated_uniform_and_stubborn_policies_meet_their_closed_forms(bound_checks):
    measured = {(c.policy, c.delta): c for c in bound_checks}
    for exact in tradeoff.closed_forms(HORIZON, ALPHA, DELTAS):
        found = measured[{"uniform": "Random"}.get(exact.policy, exact.policy), exact.delta]
        assert found.easy == pytest.approx(exact.easy, rel=0.02, abs=1e-9)
        assert found.hard == pytest.approx(exact.hard, rel=0.02)
