"""EXP3.P as the master of Smooth Corral: its textbook tuning and the single exploration rate."""

import numpy as np
import pytest

from adadim import SmoothCorral
from adadim.core.rows import Replications
from adadim.policies.masters.smooth_corral import Exp3P, exploration_rate
from small_problems import small

EXACT = {"rel": 0, "abs": 1e-10}
ROWS = Replications.all(np.zeros((1, 1)))


def test_rates_f35():
    master = Exp3P(np.zeros(1), 4, 1000)
    found = (master.bias, master.eta, master.gamma)
    assert found == pytest.approx((0.018616487055, 0.017685662703, 0.078189245632), **EXACT)
    assert exploration_rate(1000, 4) == pytest.approx(0.1, abs=1e-10)
    assert exploration_rate(1000, 4, 1.0) == pytest.approx(0.039685026299, abs=1e-10)
    assert exploration_rate(1000, 4, 4.0) == pytest.approx(0.1, abs=1e-10)


def test_three_rounds_f36():
    master, seen = Exp3P(np.zeros(1), 4, 1000), []
    for base, gain in [(2, 0.7), (0, 0.2), (2, 1.0)]:
        master.update(np.array([base]), np.array([1 - gain]), ROWS)
        seen.append(master.probabilities(ROWS)[0])
    expected = [
        [0.247111838882, 0.247111838882, 0.258664483355, 0.247111838882],
        [0.249577462339, 0.246308288382, 0.257805960898, 0.246308288382],
        [0.245432386660, 0.242226021206, 0.270115570928, 0.242226021206],
    ]
    for found, row in zip(seen, expected, strict=True):
        assert found == pytest.approx(row, **EXACT)


@pytest.mark.parametrize(
    ("given", "q"), [({}, 150 ** (-1 / 3)), ({"base_regret": 2.0}, 150 ** (-1 / 3) * 0.4 ** (2 / 3))]
)
def test_single_rate_in_smooth_corral(given, q):
    """M = 5 nested bases, 300 steps, so 150 rounds of the master."""
    policy = SmoothCorral(master="exp3p", tuning="single-rate", **given)
    master = policy.start(small().problem).smoothed.master
    assert (master.gamma, master.bias, master.eta) == pytest.approx((q, q / 2, q / 5), rel=1e-12)
    fast = SmoothCorral(master="exp3p", tuning="single-rate", eta=1.0).start(small().problem).smoothed.master
    assert fast.eta == 1.0
    assert SmoothCorral(master="exp3p", eta=1.0).start(small().problem).smoothed.master.eta < 0.1  # textbook's own


def test_gain_estimates_are_unbiased_up_to_the_bias():
    gains, total = np.array([0.3, 0.9, 0.5]), np.zeros(3)
    start = Exp3P(np.zeros(1), 3, 100)
    start.gains[0] = [1.0, 4.0, 2.0]
    p = start.probabilities(ROWS)[0]
    for base in range(3):
        master = Exp3P(np.zeros(1), 3, 100)
        master.gains[0] = [1.0, 4.0, 2.0]
        master.update(np.array([base]), 1 - gains[[base]], ROWS)
        total += p[base] * (master.gains[0] - [1.0, 4.0, 2.0])
    np.testing.assert_allclose(total, gains + start.bias / p, rtol=1e-12)
    assert (p >= start.gamma / 3).all()


@pytest.mark.parametrize("changes", [{"tuning": "best"}, {"base_regret": 0.0}])
def test_bad_hyper_parameters(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        SmoothCorral(**changes)
