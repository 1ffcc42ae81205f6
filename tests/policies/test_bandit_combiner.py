"""Bandit Combiner: oracles, the plain version in lock step, and what always holds of deviations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import BanditCombiner, LinUCB
from adadim.policies.masters.optimistic import promise_factor
from counting_runs import bases, in_lock_step, nested_bases, play_bases, plays
from reference.counting import BanditCombiner as Reference
from small_problems import in_torch, small
from stepping import Stepper

EXACT = {"rel": 0, "abs": 1e-10}


def started(horizon, count, **settings_):
    policy = BanditCombiner(bases=bases(count), delta=0.05, reward_scale=1.0, **settings_)
    return policy.start(adadim.Problem(np.full((2, 4), 0.1), horizon=horizon, noise=0.1))


def test_constants_f14():
    learner = started(1000, 4, coefficients=(2.0,) * 4, targets=(150.0,) * 4)
    assert learner.log == pytest.approx(25.105292471620, abs=1e-10)
    factors = promise_factor(np.array([1 / 2, 2 / 3, 3 / 4]))
    assert factors == pytest.approx([2.25, 1.521451548625, 1.462211897698], **EXACT)
    learner.plays[0, :2], learner.rewards[0, :2] = [400, 100], [160, 40]
    index = learner.index(learner.everyone)[0]
    assert index == pytest.approx([1.058594277025, 1.25, 0.85, 0.85], **EXACT)
    for z, expected in [(3, 340.631091036561), (6, 641.262182073122), (3 * math.sqrt(8), 890.313132429850)]:
        learner = started(1000, 4, coefficients=(2.0,) * 4, z=z)
        learner.plays[0, 0] = 400
        assert learner.thresholds(learner.everyone)[0, 0] == pytest.approx(expected, abs=1e-10)


def test_targets_f15():
    C, a = np.array([1.0, 4.0]), np.array([0.5, 0.5])
    policy = BanditCombiner(delta=0.05, targets="theory")
    assert policy.log_term(10**6, 2) == pytest.approx(45.135411128007, abs=1e-10)
    expected = [229046.034845854912, 232342.053331078147]
    assert policy.target(C, a, 10**6) == pytest.approx(expected, rel=1e-14)
    slow = BanditCombiner(delta=0.05, targets="theory", weights=(0.001, 0.001)).target(C, a, 10**6)
    assert slow == pytest.approx([13003248.404865946621, 13039998.404865946621], rel=1e-14)
    assert BanditCombiner().target(C, a, 10**6).tolist() == [1000, 4000]
    assert BanditCombiner(targets=(7.0, 8.0)).target(C, a, 10**6).tolist() == [7, 8]


def test_the_first_base_is_kept_for_long_f16():
    policy = BanditCombiner(bases=bases(2), coefficients=(1.0, 2.0), delta=0.05, reward_scale=1.0)
    picks, counts = [], {}
    for t, chosen, learner in play_bases(policy, (0.3, 0.6), 5000):
        picks.append(chosen)
        counts[t] = plays(learner)
    assert picks.index(1) == 565
    assert (counts[1000], counts[5000]) == ((565, 435), (863, 4137))
    assert learner.deviation[0] == pytest.approx([-0.3, -0.6], abs=1e-9)
    assert learner.active.all()


def test_a_broken_promise_f16():
    policy = BanditCombiner(bases=bases(2), coefficients=(1.0, 1.0), targets=(70.0, 70.0), delta=0.05, reward_scale=1.0)
    count = [0, 0]

    def reward(base, t):
        count[base] += 1
        return 0.3 if base else float(count[0] <= 1000)

    for t, _, learner in play_bases(policy, reward, 3423, horizon=5000):
        assert learner.active.all() == (t < 3423)
    assert plays(learner) == (2276, 1147)
    assert learner.active[0].tolist() == [False, True]
    assert learner.deviation[0, 0] == pytest.approx(821.699899854905, abs=1e-9)


def test_lock_step():
    promises = [(0.1, 0.5), (0.2, 0.6), (0.3, 0.5), (0.4, 0.7)]
    targets = (1.0, 2.0, 4.0, 3.0)

    def compare(learner, reference):
        assert learner.active[0].tolist() == reference.active
        np.testing.assert_allclose(learner.deviation[0], reference.dev, rtol=0, atol=1e-10)
        np.testing.assert_allclose(learner.scores(learner.everyone)[0], reference.scores(), rtol=1e-10)

    policy = BanditCombiner(
        bases=nested_bases(),
        coefficients=tuple(C for C, _ in promises),
        exponents=tuple(a for _, a in promises),
        targets=targets,
        delta=0.1,
        z=0.02,
        reward_scale=0.05,
    )
    removed = []
    picked = in_lock_step(
        policy,
        lambda plain: Reference(plain, 0.05, promises, targets, 250, 0.1, 0.02),
        lambda *both: (compare(*both), removed.append(not all(both[1].active))),
    )
    assert removed[-1]
    assert len(set(picked)) > 1


@settings(max_examples=30)
@given(
    rewards=st.lists(st.floats(-1, 1), min_size=1, max_size=4),
    scale=st.floats(0.1, 2.0),
    unplayed=st.floats(-1, 1),
)
def test_deviations_telescope(rewards, scale, unplayed):
    """For constant rewards a base's deviation is what its first play made it, and nobody is dropped for it."""
    policy = BanditCombiner(bases=bases(len(rewards)), reward_scale=scale, unplayed=unplayed)
    for _, _, learner in play_bases(policy, rewards, 60, False):
        expected = np.where(learner.plays[0] > 0, unplayed - np.array(rewards), 0.0)
        np.testing.assert_allclose(learner.deviation[0], expected, rtol=0, atol=1e-12)
        index = learner.index(learner.everyone)[0]
        most = learner.estimates(learner.everyone)[0] + scale * (1 - learner.handicap)
        assert (index <= most + 1e-12).all()


def test_the_last_base_stays():
    policy = BanditCombiner(bases=bases(2), z=1e-3, coefficients=(1e-3, 1e-3), reward_scale=0.01)
    rng = np.random.default_rng(0)
    for _, _, learner in play_bases(policy, lambda i, t: -0.01 * t + rng.normal(), 200):  # worse and worse
        assert learner.active.any()
    assert learner.active.sum() == 1


@pytest.mark.parametrize("changes", [{"reward_scale": 0.1}, {"bases": (LinUCB(dim=3), adadim.UCB())}])
def test_torch_does_the_same(changes, torch):
    policy = BanditCombiner(**changes)
    instance = small(range(2), horizon=120)
    assert Stepper(policy, in_torch(instance, torch)).run().arms == Stepper(policy, instance).run().arms


@pytest.mark.parametrize(
    "changes",
    [
        {"coefficients": (1.0, -1.0)},
        {"exponents": (0.4,)},
        {"exponents": (1.0,)},
        {"targets": "best"},
        {"targets": (0.0,)},
        {"weights": (0.0,)},
        {"constant": 0},
        {"z": -1},
        {"delta": 2},
        {"unplayed": math.nan},
    ],
)
def test_bad_hyper_parameters(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        BanditCombiner(**changes)


@pytest.mark.parametrize(
    "changes", [{"coefficients": (1.0,)}, {"exponents": (0.5,)}, {"targets": (1.0,)}, {"weights": (1.0,)}]
)
def test_one_number_for_each_base(changes):
    name = next(iter(changes))
    with pytest.raises(ValueError, match=f"{name} must have one entry for each of the 5 bases, got 1"):
        BanditCombiner(**changes).start(small().problem)
