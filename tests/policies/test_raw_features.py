"""Columns in raw units: the recommended policy copes with them, and the engine refuses what it cannot hold."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.actions import ActionSet
from adadim.errors import InvalidValueError
from adadim.posterior.base import check_precision

pytestmark = pytest.mark.filterwarnings("ignore::adadim.NormWarning")

X = np.linspace(0, 30, 40)
POWERS = np.stack([X**j for j in range(4)], axis=1)


def instance(features, theta, replications=6):
    shared = np.broadcast_to(features, (replications, *features.shape))
    return adadim.Instance(shared, theta=theta, horizon=2000, noise=0.1)


def test_raw_powers_are_learned():
    """The case of an attack: regret 1600 before, where playing at random loses 800."""
    raw = instance(POWERS, [0.9, -0.8 / 30, 0, 0])
    assert adadim.simulate(adadim.recommended(raw.problem), raw).final.max() < 5
    assert adadim.simulate(adadim.Random(), raw).final.mean() > 700


def test_units_do_not_matter_once_they_are_raw():
    scaled = POWERS * [1.0, 1e-2, 1e3, 1e6]
    one, other = (
        adadim.simulate(adadim.EvidenceLinUCB(), instance(features, [0.9, -0.8 / 30 * POWERS[0, 0], 0, 0]))
        for features in (POWERS, scaled)
    )
    assert one.regret.shape == other.regret.shape
    actions = [ActionSet(features).in_like_units(10.0).base for features in (POWERS, scaled)]
    np.testing.assert_allclose(actions[0], actions[1], rtol=1e-12)


def test_what_is_not_raw_stays_as_it_is():
    rng = np.random.default_rng(0)
    for features in (
        rng.standard_normal((30, 8)),
        rng.standard_normal((30, 8)) * 10.0 ** -np.arange(8),
        np.column_stack([np.zeros(30), rng.standard_normal((30, 3))]),
    ):
        actions = ActionSet(features)
        assert actions.in_like_units(10.0) is actions


def test_replications_are_judged_one_by_one(torch):
    both = np.stack([POWERS, np.random.default_rng(1).standard_normal((40, 4))])
    for features in (both, torch.from_numpy(both)):
        base = np.asarray(ActionSet(features).in_like_units(10.0).base)
        np.testing.assert_array_equal(base[1], both[1])
        np.testing.assert_allclose(np.sqrt(np.mean(base[0] ** 2, axis=0)), 1.0)


@pytest.mark.parametrize(
    ("features", "columns"),
    [
        (np.stack([np.linspace(0, 100, 40) ** j for j in range(6)], axis=1), "5"),
        (np.stack([np.linspace(0, 10, 40) ** j for j in range(8)], axis=1), "7"),
    ],
)
def test_what_float64_cannot_hold_is_refused_at_the_start(features, columns):
    problem = adadim.Problem(features, horizon=2000, noise=0.1)
    message = rf"float64 cannot hold a ridge of 0\.1 .*\(columns {columns}\) over 2000 rounds; divide these columns"
    with pytest.raises(InvalidValueError, match=message):
        adadim.LinUCB().start(problem)
    learner = adadim.recommended(problem).start(problem)
    for _ in range(50):
        learner.update(learner.select(), 0.5)


def test_features_that_overflow_are_refused():
    with pytest.raises(InvalidValueError, match=r"features must be smaller than 1e\+100"):
        adadim.Problem(np.eye(3) * 1e200, horizon=20)


def test_what_it_can_hold_is_right_to_four_digits():
    """Cubes of 30 next to a ridge of 0.1, after 2000 pulls, against a solve in long double."""
    features = np.stack([np.linspace(0, 30, 12) ** j for j in range(4)], axis=1)
    check_precision(ActionSet(features), 0.1, 2000)
    learner = adadim.LinUCB().start(adadim.Problem(features, horizon=2000, noise=0.1))
    rng = np.random.default_rng(0)
    arms, rewards = rng.integers(12, size=2000), rng.standard_normal(2000)
    learner.learn(arms, rewards)
    counts = np.bincount(arms, minlength=12).astype(np.longdouble)
    sums = np.bincount(arms, rewards, minlength=12).astype(np.longdouble)
    wide = features.astype(np.longdouble)
    v = 0.1 * np.eye(4, dtype=np.longdouble) + wide.T @ (counts[:, None] * wide)
    solved = gauss(v, np.column_stack([wide.T @ sums, wide.T]))
    np.testing.assert_allclose(learner.posterior.mean[0], (wide @ solved[:, 0]).astype(float), atol=1e-4)
    width2 = (wide * solved[:, 1:].T).sum(axis=1).astype(float)
    np.testing.assert_allclose(learner.posterior.width2[0], width2, rtol=1e-3)


def gauss(a, b):
    """Solve a x = b in the precision of the input: NumPy's solver knows no long double."""
    a, b = a.copy(), b.copy()
    for i in range(len(a)):
        pivot = i + int(np.argmax(np.abs(a[i:, i])))
        a[[i, pivot]], b[[i, pivot]] = a[[pivot, i]], b[[pivot, i]]
        for j in range(len(a)):
            if j != i:
                factor = a[j, i] / a[i, i]
                a[j], b[j] = a[j] - factor * a[i], b[j] - factor * b[i]
    return b / np.diag(a)[:, None]
