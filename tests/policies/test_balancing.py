"""Dynamic Balancing: oracles, the reference in lock step, and what always holds of potentials and active sets."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adadim import DynamicBalancing, LinUCB
from adadim.policies.released import ReleasedDynamicBalancing, ReleasedLinUCB
from balancing_runs import balance, plays
from reference import NestedDynamicBalancing as Reference
from small_problems import small
from stepping import Stepper

# Oracles


@pytest.mark.parametrize("lowest", [True, False])
def test_balanced_counts_c19(lowest):
    """Equal rewards: nobody is dropped and n_i d_i is balanced, however ties fall."""
    counts = {}
    for t, _, learner in balance((1, 4, 16), (0.5, 0.5, 0.5), 2100, lowest, delta=0.1):
        counts[t] = plays(learner)
        assert sum(counts[t]) == t
        assert learner.active.all()
    assert counts[42] == (32, 8, 2)
    assert counts[210] == (160, 40, 10)
    assert counts[2100] == (1600, 400, 100)


@pytest.mark.parametrize(
    ("reference", "first", "at_first", "at_50"),
    [("lower", 20, (16, 4), (16, 34)), ("upper", 6, (5, 1), (8, 42))],
)
def test_elimination_c19(reference, first, at_first, at_50):
    dropped = None
    for t, _, learner in balance((1, 4), (0.2, 0.6), 50, delta=0.1, c=0.1, reference=reference):
        if dropped is None and not learner.active[0, 0]:
            dropped = (t, plays(learner))
        assert learner.active[0, 1]
    assert dropped == (first, at_first)
    assert plays(learner) == at_50


def test_candidate_bounds_and_widths_c19():
    policy = ReleasedDynamicBalancing()

    def bound(dims, n):
        return policy.candidate(np.array(dims, dtype=float), np.array(n, dtype=float), 1200, 2500).tolist()

    assert bound([1, 16, 512], [1, 1, 1]) == [1.0, 1.0, 1.0]
    assert bound([1, 16], [2, 2]) == pytest.approx([30.590267, 122.361068], abs=1e-6)
    assert bound([1, 1], [10, 100]) == pytest.approx([121.366309, 611.713276], abs=1e-6)
    assert bound([1, 16], [0, 0]) == [0.0, 0.0]
    n = np.array([1.0, 2.0, 10.0, 100.0])
    widths = policy.confidence(n, 10, 1 / 50)
    np.testing.assert_allclose(widths, [0.0, 1.709985, 0.839562, 0.278241], rtol=0, atol=1e-6)
    guarded = DynamicBalancing().confidence(n, 10, 1 / 50)
    np.testing.assert_allclose(guarded[2:], widths[2:], rtol=1e-12)
    np.testing.assert_allclose(guarded[:2], np.sqrt(math.log(500) / n[:2]), rtol=1e-12)
    np.testing.assert_allclose(DynamicBalancing(c=0.3).confidence(n, 10, 1 / 50), 0.3 * guarded, rtol=1e-12)


# In lock step with the reference


@pytest.mark.parametrize("variant", ["theory", "released"])
@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_lock_step(variant, bonus):
    """With the draws handed over: same arms, potentials and active sets; the reference might draw the same bases."""
    released = variant == "released"
    instance = small(noise=0.02, arms=10)
    policy = (ReleasedDynamicBalancing if released else DynamicBalancing)(
        base=(ReleasedLinUCB if released else LinUCB)(bonus=bonus, ties="lowest"),
        bound=lambda dims, n, arms: 0.02 * np.sqrt(dims * n),
        reference="upper" if released else "lower",
        c=0.02,
    )
    stepper = Stepper(policy, instance)
    learner = stepper.learner
    draws = SimpleNamespace()  # a base's uniform first arm is drawn from it
    reference = Reference(
        instance.problem.actions.dense(0),
        300,
        0.02,
        0.1,
        draws,
        variant=variant,
        bound=lambda dim, n: 0.02 * math.sqrt(dim * n),
        c=0.02,
        bonus=bonus,
        ties="lowest",
    )
    dropped = 0
    for _ in range(300):
        decision = stepper.ask()
        arm, chosen = int(decision.arms[0]), int(decision.memo["base"][0])
        draws.integers = lambda count, arm=arm: arm
        potentials = reference.potentials()
        assert potentials[chosen] == pytest.approx(potentials[reference.active].min(), rel=1e-12)
        assert reference.active[chosen] or released
        reference.pick = lambda chosen=chosen: chosen
        assert reference.select() == arm
        stepper.tell(decision)
        reference.update(arm, stepper.rewards[0][-1])
        assert learner.active[0].tolist() == reference.active.tolist()
        np.testing.assert_allclose(learner.potential[0], reference.potentials(), rtol=1e-12)
        assert learner.plays[0].tolist() == reference.counts.tolist()
        dropped += not reference.active.all()
    assert dropped > 20


def test_default_is_that_of_the_paper():
    """R_i of section 8.2 with the number of all arms, v = 1, b = 0, c = 1, delta = 1/sqrt(T)."""
    instance = small()
    stepper = Stepper(DynamicBalancing(base=LinUCB(ties="lowest")), instance)
    learner = stepper.learner
    assert learner.delta == 1 / math.sqrt(300)
    assert learner.dims.tolist() == [1, 2, 4, 8, 16]
    reference = Reference(instance.problem.actions.dense(0), 300, 0.1, 0.1, None, ties="lowest")
    for _ in range(300):
        decision = stepper.ask()
        chosen = int(decision.memo["base"][0])
        reference.pick = lambda chosen=chosen: chosen
        assert reference.select() == int(decision.arms[0])
        stepper.tell(decision)
        reference.update(int(decision.arms[0]), stepper.rewards[0][-1])
        np.testing.assert_allclose(learner.potential[0], reference.potentials(), rtol=1e-12)
        assert learner.active[0].tolist() == reference.active.tolist()


# Section 8.4


@settings(max_examples=25)
@given(
    dims=st.lists(st.integers(1, 64), min_size=1, max_size=5),
    scalings=st.lists(st.floats(0.2, 5.0), min_size=5, max_size=5),
    seed=st.integers(0, 1000),
)
def test_potentials_stay_balanced(dims, scalings, seed):
    """With equal rewards nobody is dropped and potentials stay within their ratio after first plays (at least 2^.5)."""
    scalings = tuple(scalings[: len(dims)])
    first = np.array(scalings) * np.sqrt(dims)
    factor = max(math.sqrt(2), first.max() / first.min()) * (1 + 1e-12)
    for t, _, learner in balance(tuple(dims), [0.5] * len(dims), 120, lowest=False, scalings=scalings):
        n = learner.plays[0]
        assert n.sum() == t
        assert learner.active.all()
        np.testing.assert_allclose(learner.potential[0], np.where(n > 0, first * np.sqrt(n), 0.0), rtol=1e-12)
        if (n > 0).all():
            assert learner.potential[0].max() <= factor * learner.potential[0].min()
        else:
            assert (n <= 1).all()


@settings(max_examples=25)
@given(
    dims=st.lists(st.sampled_from([1, 2, 4, 16, 64]), min_size=2, max_size=4),
    seed=st.integers(0, 2**32 - 1),
    reference=st.sampled_from(["lower", "upper"]),
    kind=st.sampled_from([DynamicBalancing, ReleasedDynamicBalancing]),
)
def test_active_sets(dims, seed, reference, kind):
    """Whatever the rewards: someone is active, bases never played are, and the rule is the one stated."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(-1, 1, len(dims))
    biases = tuple(rng.uniform(0, 0.2, len(dims)))

    def reward(chosen, t):
        return levels[chosen] + 0.3 * rng.standard_normal()

    made = balance(tuple(dims), reward, 80, False, kind, reference=reference, c=0.1, delta=0.1, biases=biases)
    for t, _, learner in made:
        n = learner.plays[0]
        assert n.sum() == t
        assert learner.active.any()
        assert learner.active[0, n == 0].all()
        m = np.maximum(n, 1)
        value = learner.rewards[0] / m - biases
        if kind is DynamicBalancing:
            g = 0.1 * np.sqrt(np.log(len(dims) * np.maximum(np.log(m), 1) / 0.1) / m)
        else:
            g = 0.1 * np.sqrt(np.log(np.maximum(len(dims) * np.log(m) / 0.1, 1)) / m)
        best = (value - g if reference == "lower" else value + g)[n > 0].max()
        claim = value + g + np.sqrt(np.array(dims) * m) / m
        certain = np.abs(claim - best) > 1e-12
        np.testing.assert_array_equal(learner.active[0, certain], ((n == 0) | (claim >= best))[certain])


@settings(max_examples=25)
@given(dims=st.lists(st.sampled_from([1, 2, 4, 16]), min_size=2, max_size=4), seed=st.integers(0, 2**32 - 1))
def test_a_base_whose_claim_holds_is_never_dropped(dims, seed):
    """Rewards below mu* whose sum stays above n mu* - R_i(n): the lower reference never refutes that."""
    rng = np.random.default_rng(seed)
    best = 0.7
    spent = np.zeros(len(dims))
    count = np.zeros(len(dims))

    def reward(chosen, t):
        count[chosen] += 1
        budget = math.sqrt(dims[chosen] * count[chosen]) - spent[chosen]
        lost = budget * rng.choice([0.0, 1.0, rng.random()])
        spent[chosen] += lost
        return best - lost

    for _, _, learner in balance(tuple(dims), reward, 100, False, c=1e-6):
        assert learner.active.all()


def test_a_dropped_base_comes_back():
    """De-activation is not for ever: base 0 returns once base 1 turns out worse than it looked."""

    def reward(chosen, t):
        return 0.2 if chosen == 0 else (1.0 if t < 40 else -1.0)

    history = [bool(learner.active[0, 0]) for _, _, learner in balance((1, 1), reward, 200, c=0.1, delta=0.1)]
    assert False in history
    first = history.index(False)
    assert True in history[first:]


def test_never_played_bases_come_first():
    order = [chosen for _, chosen, _ in balance((1, 4, 16, 64), (0.9, 0, 0, 0), 4, False)]
    assert sorted(order) == [0, 1, 2, 3]
