"""Columns in raw units: the recommended policy copes with them, and the engine refuses what it cannot hold."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.core.actions import ActionSet
from adadim.errors import InvalidValueError
from adadim.models.statistics import Moments

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


@pytest.mark.parametrize("policy", [adadim.LinUCB(), adadim.SupLinUCB(), adadim.LinUCBPlusPlus()])
def test_what_float64_cannot_hold_is_refused_at_the_start(policy):
    features = np.linspace(0, 1000, 40)[:, None] ** np.arange(8)
    problem = adadim.Problem(features, horizon=2000, noise=0.1)
    message = r"float64 cannot hold a ridge of (0\.1|1) .*\(columns 7\) over 2000 rounds; divide these columns"
    with pytest.raises(InvalidValueError, match=message):
        policy.start(problem)
    learner = adadim.recommended(problem).start(problem)
    for _ in range(50):
        learner.update(learner.select(), 0.5)


def test_a_device_refuses_what_needs_refactoring(torch):
    features = np.linspace(0, 10, 40)[:, None] ** np.arange(8)
    adadim.LinUCB().start(adadim.Problem(features, horizon=2000, noise=0.1))
    with pytest.raises(InvalidValueError, match=r"float64 on a device cannot hold .* use NumPy arrays or"):
        adadim.LinUCB().start(adadim.Problem(torch.from_numpy(features), horizon=2000, noise=0.1))


def test_features_that_overflow_are_refused():
    with pytest.raises(InvalidValueError, match=r"features must be smaller than 1e\+100"):
        adadim.Problem(np.eye(3) * 1e200, horizon=20)


@pytest.mark.parametrize("form", ["gram", "feature"])
def test_a_run_on_raw_powers_goes_on_after_saving(tmp_path, form):
    """Six powers of 100: what a refactored posterior holds is saved with it."""
    features = np.linspace(0, 100, 40)[:, None] ** np.arange(6)
    problem = adadim.Problem(features, horizon=200, noise=0.1)
    learner = adadim.LinUCB(form=form).start(problem)
    rng = np.random.default_rng(0)
    for reward in rng.standard_normal(20):
        learner.update(learner.select(), reward)
    learner.save(tmp_path / "learner.npz")
    restored = adadim.load(tmp_path / "learner.npz", problem)
    for reward in rng.standard_normal(50):
        arm = learner.select()
        assert restored.select() == arm
        learner.update(arm, reward)
        restored.update(arm, reward)
    np.testing.assert_array_equal(learner.model.regression.width2, restored.model.regression.width2)


MEANS = {"falling": [0.9, -0.8 / 30, 0, 0], "in the middle": [0.1, 3.2 / 30, -3.2 / 900, 0]}


@pytest.mark.parametrize("theta", MEANS.values(), ids=MEANS)
@pytest.mark.parametrize("late", [0, 3])
def test_raw_powers_that_come_with_each_round_are_learned(theta, late):
    """Regret above 70 before, where playing at random loses 100; rewards may come after the units have changed."""
    problem = adadim.Problem(arms=40, dim=4, horizon=300, noise=0.1)
    draw, learner, lost, waiting = np.random.default_rng(0), adadim.recommended(problem).start(problem, seed=1), 0.0, []
    for _ in range(300):
        features = draw.uniform(0, 30, 40)[:, None] ** np.arange(4)
        means = features @ theta
        decision = learner.ask(features)
        arm = int(np.asarray(decision.arms).item())
        lost += means.max() - means[arm]
        waiting.append((decision, means[arm] + 0.1 * draw.standard_normal()))
        if len(waiting) > late:
            learner.tell(*waiting.pop(0))
    assert lost < 12


def test_the_units_of_rounds_are_those_of_the_sums():
    """A learner made from sums of raw features is in the state of one that saw the pulls one by one."""
    problem = adadim.Problem(arms=40, dim=4, horizon=300, noise=0.1)
    draw = np.random.default_rng(2)
    x = draw.uniform(0, 30, 64)[:, None] ** np.arange(4)
    rewards = x @ [0.9, -0.8 / 30, 0, 0] + 0.1 * draw.standard_normal(64)
    one, other = (adadim.EvidenceLinUCB().start(problem) for _ in range(2))
    one.learn(x, rewards)
    sums = Moments.zeros(4)
    sums.add(x[:10], rewards[:10])
    sums.add(x[10:], rewards[10:])
    other.restart(sums)
    np.testing.assert_array_equal(one.model.offer.units, other.model.offer.units)
    np.testing.assert_allclose(one.model.offer.units[0], np.abs(x).max(axis=0))
    assert one.describe() == pytest.approx(other.describe(), rel=1e-9)
    for a, b in zip(one.estimates(POWERS), other.estimates(POWERS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
