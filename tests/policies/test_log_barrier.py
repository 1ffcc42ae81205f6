"""One step of mirror descent with the log-barrier."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from adadim.core.barrier import log_barrier_step
from reference import log_barrier_omd


def step(p, losses, eta):
    """One distribution, moved; and lambda."""
    p = np.array([p], dtype=float)
    new, multiplier = log_barrier_step(p, np.array([losses], dtype=float), np.broadcast_to(eta, p.shape).astype(float))
    return new[0], float(multiplier[0])


@pytest.mark.parametrize(
    ("p", "losses", "eta", "multiplier", "expected"),
    [
        ([0.5, 0.5], [1, 0], 1.0, 0.3819660113, [0.3819660113, 0.6180339887]),
        ([0.5, 0.5], [2, 0], 0.1, 0.9501243789, [0.4750621894, 0.5249378106]),
        ([1 / 3] * 3, [3, 0, 0], 0.5, 0.7250827824, [0.2416942608, 0.3791528696, 0.3791528696]),
        (
            [0.2, 0.3, 0.5],
            [0, 1 / 0.3, 0],
            [0.1, 0.2, 0.3],
            0.5097969700,
            [0.2020601935, 0.2565391439, 0.5414006626],
        ),
        # The pole, 1/(2 * .9), lies between the smallest and the largest loss.
        ([0.9, 0.1], [0, 10], 2.0, 0.0382685522, [0.9665814079, 0.0334185921]),
    ],
)
def test_fixed_points_c18(p, losses, eta, multiplier, expected):
    new, found = step(p, losses, eta)
    assert found == pytest.approx(multiplier, abs=1e-10)
    np.testing.assert_allclose(new, expected, rtol=0, atol=1e-10)


def test_golden_ratio():
    new, multiplier = step([0.5, 0.5], [1, 0], 1.0)
    golden = (3 - math.sqrt(5)) / 2
    assert multiplier == pytest.approx(golden, abs=1e-13)
    np.testing.assert_allclose(new, [golden, 1 - golden], rtol=0, atol=1e-13)


@pytest.mark.parametrize("level", [0.0, 0.7, 1e6])
def test_equal_losses_change_nothing(level):
    new, multiplier = step([0.2, 0.3, 0.5], [level] * 3, [0.1, 2.0, 7.0])
    np.testing.assert_allclose(new, [0.2, 0.3, 0.5], rtol=0, atol=1e-15)
    assert multiplier == level


def random_case(rng, bases):
    p = rng.dirichlet(np.full(bases, 0.7)) + 1e-3
    losses = rng.uniform(0, 3, bases)
    if rng.random() < 0.5:
        losses *= np.arange(bases) == rng.integers(bases)
    return p / p.sum(), losses, rng.uniform(0.05, 2.0, bases)


@pytest.mark.parametrize("seed", range(20))
def test_against_a_generic_optimiser(seed):
    """argmin over the simplex of <l, q> plus the Bregman divergence of sum_i -ln(p_i)/eta_i."""
    rng = np.random.default_rng(seed)
    p, losses, eta = random_case(rng, int(rng.integers(2, 6)))

    def objective(q):
        return losses @ q + ((q / p - 1 - np.log(q / p)) / eta).sum()

    def slope(q):
        return losses + (1 / p - 1 / q) / eta

    found = minimize(
        objective,
        np.full(len(p), 1 / len(p)),
        jac=slope,
        method="SLSQP",
        bounds=[(1e-6, 1.0)] * len(p),
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success
    new, _ = step(p, losses, eta)
    np.testing.assert_allclose(new, found.x, rtol=0, atol=2e-6)
    assert objective(new) <= objective(found.x) + 1e-10
    assert np.abs(new - p).max() > 1e-5


@st.composite
def states(draw, most_loss=1e6):
    """p (entries down to 1e-9), one loss vector and learning rates."""
    bases = draw(st.integers(2, 8))
    weights = draw(st.lists(st.floats(-9.0, 0.0), min_size=bases, max_size=bases))
    p = 10.0 ** np.array(weights)
    eta = draw(st.lists(st.floats(1e-3, 10.0), min_size=bases, max_size=bases))
    sizes = st.floats(0.0, 1.0) | st.floats(0.0, most_loss)
    if draw(st.booleans()):
        losses = np.zeros(bases)
        losses[draw(st.integers(0, bases - 1))] = draw(sizes)
    else:
        losses = np.array(draw(st.lists(sizes, min_size=bases, max_size=bases)))
    return p / p.sum(), losses, np.array(eta)


@given(states())
def test_step_solves_its_equation(state):
    p, losses, eta = state
    new, multiplier = step(p, losses, eta)
    assert (new > 0).all()
    assert abs(new.sum() - 1) <= 1e-12
    assert losses.min() <= multiplier <= losses.max()
    slack = 1 / p + eta * (losses - multiplier)
    assert (slack > 0).all()
    # 1e-12, or what the rounding of l - lambda leaves of it.
    rounding = 4e-16 * (eta * (losses + multiplier) * new**2).sum()
    assert abs((1 / slack).sum() - 1) <= 1e-12 + rounding
    np.testing.assert_allclose(new, log_barrier_omd(p, losses, eta)[0], rtol=1e-9 + 10 * rounding, atol=0)


@given(states(), st.integers(0, 7), st.floats(0.0, 1.0) | st.floats(0.0, 1e6))
def test_selected_base_loses_and_the_others_gain(state, chosen, size):
    p, _, eta = state
    chosen %= len(p)
    losses = np.zeros(len(p))
    losses[chosen] = size
    new, multiplier = step(p, losses, eta)
    others = np.arange(len(p)) != chosen
    assert new[chosen] <= p[chosen] * (1 + 1e-12)
    assert (new[others] >= p[others] * (1 - 1e-12)).all()
    assert 0 <= multiplier <= size
    assert abs(new.sum() - 1) <= 1e-12


@given(states())
def test_pole_inside_the_bracket(state):
    p, losses, eta = state
    pole = (losses + 1 / (eta * p)).min()
    assume(losses.min() < pole < losses.max())
    new, multiplier = step(p, losses, eta)
    assert multiplier < pole
    assert np.isfinite(new).all()
    assert abs(new.sum() - 1) <= 1e-12


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("least", [1e-9, 1e-15])
def test_extremes(least, size):
    for p in ([least, 1 - least], [1 - least, least], [least, least, 1 - 2 * least]):
        for chosen in range(len(p)):
            new, multiplier = step(p, size * (np.arange(len(p)) == chosen), 1.0)
            assert (new > 0).all()
            assert abs(new.sum() - 1) <= 1e-12
            assert 0 <= multiplier <= size


def test_rows_do_not_touch_each_other():
    """To the last bit: a hard row needs many more steps than an easy one."""
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.full(4, 0.3), size=200) + 1e-9
    p /= p.sum(axis=1, keepdims=True)
    losses = (np.arange(4) == rng.integers(4, size=(200, 1))) * rng.random((200, 1)) / rng.random((200, 1)) ** 3
    eta = rng.uniform(0.01, 2.0, (200, 4))
    new, multiplier = log_barrier_step(p, losses, eta)
    for r in range(200):
        alone, shift = log_barrier_step(p[r : r + 1], losses[r : r + 1], eta[r : r + 1])
        np.testing.assert_array_equal(new[r], alone[0])
        assert multiplier[r] == shift[0]
