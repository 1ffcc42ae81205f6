"""Dynamic Balancing: potentials, the elimination test in both variants, and its hyper-parameters."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import DynamicBalancing, LinUCB
from adadim.posterior import Posterior
from driving import ALL, Driver, Scripted, in_torch, small
from reference import NestedDynamicBalancing as Reference


def balance(dims, rewards, rounds, lowest=True, **settings_):
    """Play with rewards that depend on the base alone; yields the learner after every round."""
    bases = tuple(LinUCB(dim=d, ties="lowest") for d in dims)
    problem = adadim.Problem(np.full((2, max(dims)), 0.1), horizon=rounds, noise=0.1)
    learner = DynamicBalancing(bases=bases, bound="sqrt", **settings_).start(problem)
    if lowest:
        learner._draws = Scripted(0.0)
    for t in range(1, rounds + 1):
        arms = learner.select()
        chosen = int(learner._chosen[0])
        learner.update(arms, [rewards(chosen, t) if callable(rewards) else rewards[chosen]])
        yield t, learner


def plays(learner):
    return tuple(int(n) for n in learner.plays[0])


# Oracles


@pytest.mark.parametrize("lowest", [True, False])
def test_balanced_counts_c19(lowest):
    """Equal rewards: nobody is dropped and n_i d_i is balanced, however ties fall."""
    counts = {}
    for t, learner in balance((1, 4, 16), (0.5, 0.5, 0.5), 2100, lowest, delta=0.1):
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
    for t, learner in balance((1, 4), (0.2, 0.6), 50, delta=0.1, c=0.1, reference=reference):
        if dropped is None and not learner.active[0, 0]:
            dropped = (t, plays(learner))
        assert learner.active[0, 1]
    assert dropped == (first, at_first)
    assert plays(learner) == at_50


def test_candidate_bounds_and_widths_c19():
    policy = DynamicBalancing(width="released")

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
    policy = DynamicBalancing(
        base=LinUCB(bonus=bonus, ties="lowest", first_pull="uniform" if released else "optimistic"),
        bound=lambda dims, n, arms: 0.02 * np.sqrt(dims * n),
        reference="upper" if released else "lower",
        width="released" if released else "guarded",
        ties="all" if released else "active",
        c=0.02,
    )
    driver = Driver(policy, instance)
    learner = driver.learner
    reference = Reference(
        instance.problem.actions.dense(0),
        300,
        0.02,
        0.1,
        SimpleNamespace(integers=lambda count: int(driver.learner._pending[0])),
        variant=variant,
        bound=lambda dim, n: 0.02 * math.sqrt(dim * n),
        c=0.02,
        bonus=bonus,
        ties="lowest",
    )
    dropped = 0
    for _ in range(300):
        asked = driver.ask()
        arm, chosen = int(asked[2][0]), int(learner._chosen[0])
        potentials = reference.potentials()
        assert potentials[chosen] == pytest.approx(potentials[reference.active].min(), rel=1e-12)
        assert reference.active[chosen] or released
        reference.pick = lambda chosen=chosen: chosen
        assert reference.select() == arm
        driver.tell(*asked)
        reference.update(arm, driver.rewards[0][-1])
        assert learner.active[0].tolist() == reference.active.tolist()
        np.testing.assert_allclose(learner.potential[0], reference.potentials(), rtol=1e-12)
        assert learner.plays[0].tolist() == reference.counts.tolist()
        dropped += not reference.active.all()
    assert dropped > 20


def test_default_is_that_of_the_paper():
    """R_i of section 8.2 with the number of all arms, v = 1, b = 0, c = 1, delta = 1/sqrt(T)."""
    instance = small()
    driver = Driver(DynamicBalancing(base=LinUCB(ties="lowest")), instance)
    learner = driver.learner
    assert learner.delta == 1 / math.sqrt(300)
    assert learner.dims.tolist() == [1, 2, 4, 8, 16]
    reference = Reference(instance.problem.actions.dense(0), 300, 0.1, 0.1, None, ties="lowest")
    for _ in range(300):
        asked = driver.ask()
        chosen = int(learner._chosen[0])
        reference.pick = lambda chosen=chosen: chosen
        assert reference.select() == int(asked[2][0])
        driver.tell(*asked)
        reference.update(int(asked[2][0]), driver.rewards[0][-1])
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
    for t, learner in balance(tuple(dims), [0.5] * len(dims), 120, lowest=False, scalings=scalings):
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
    width=st.sampled_from(["guarded", "released"]),
)
def test_active_sets(dims, seed, reference, width):
    """Whatever the rewards: someone is active, bases never played are, and the rule is the one stated."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(-1, 1, len(dims))
    biases = tuple(rng.uniform(0, 0.2, len(dims)))

    def reward(chosen, t):
        return levels[chosen] + 0.3 * rng.standard_normal()

    made = balance(tuple(dims), reward, 80, False, reference=reference, width=width, c=0.1, delta=0.1, biases=biases)
    for t, learner in made:
        n = learner.plays[0]
        assert n.sum() == t
        assert learner.active.any()
        assert learner.active[0, n == 0].all()
        m = np.maximum(n, 1)
        value = learner.rewards[0] / m - biases
        if width == "guarded":
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

    for _, learner in balance(tuple(dims), reward, 100, False, c=1e-6):
        assert learner.active.all()


def test_a_dropped_base_comes_back():
    """De-activation is not for ever: base 0 returns once base 1 turns out worse than it looked."""

    def reward(chosen, t):
        return 0.2 if chosen == 0 else (1.0 if t < 40 else -1.0)

    history = [bool(learner.active[0, 0]) for _, learner in balance((1, 1), reward, 200, c=0.1, delta=0.1)]
    assert False in history
    first = history.index(False)
    assert True in history[first:]


def test_never_played_bases_come_first():
    order = [int(learner._chosen[0]) for _, learner in balance((1, 4, 16, 64), (0.9, 0, 0, 0), 4, False)]
    assert sorted(order) == [0, 1, 2, 3]


# Hyper-parameters


def test_biases_tilt_the_comparison():
    """Base 1 pays .6 against .2, and counts for nothing more once .5 is taken off."""
    for biases, dropped in (((0.0, 0.0), True), ((0.0, 0.5), False)):
        states = [learner.active[0].copy() for _, learner in balance((1, 1), (0.2, 0.6), 60, c=0.05, biases=biases)]
        assert any(not state[0] for state in states) == dropped


def test_scalings_share_the_plays():
    *_, (_, learner) = balance((1, 1), (0.5, 0.5), 500, scalings=(1.0, 2.0))
    assert plays(learner) == (400, 100)


def test_sqrt_bound_has_a_floor():
    """Section 13.4: the coefficient is at least T^(beta - 1/2)."""
    policy = DynamicBalancing(bound="sqrt", beta=0.75)
    found = policy.candidate(np.array([1.0, 9.0, 100.0]), np.array([4.0, 4.0, 4.0]), 10, 625)
    np.testing.assert_allclose(found, [10.0, 10.0, 20.0], rtol=1e-12)
    assert DynamicBalancing(bound="sqrt").candidate(np.ones(1), np.full(1, 9.0), 10, 625).tolist() == [3.0]


def test_callable_bound_gets_dimensions_plays_and_arms():
    seen = []

    def bound(dims, n, arms):
        seen.append((dims.tolist(), n.tolist(), arms))
        return np.ones_like(n)

    policy = DynamicBalancing(bases=(LinUCB(dim=3), adadim.Random(), LinUCB()), bound=bound)
    learner = policy.start(small().problem)
    learner.update(learner.select(), [0.1])
    assert seen == [([3.0, 24.0, 24.0], [[1.0, 1.0, 1.0]], 40)]
    assert learner.potential[0, learner._chosen[0]] == 1.0
    assert learner.potential.sum() == 1.0


@pytest.mark.parametrize(("ties", "expected"), [("active", {1, 2}), ("all", {0, 1, 2})])
def test_ties(ties, expected):
    learner = DynamicBalancing(bases=(LinUCB(dim=1),) * 4, ties=ties).start(small().problem)
    learner.potential[:] = [4.0, 4.0, 4.0, 2.0]
    learner.active[:] = [False, True, True, False]
    drawn = []
    for u in (np.arange(60) + 0.5) / 60:
        learner._draws = Scripted(u)
        learner._select(ALL)
        drawn.append(int(learner._chosen[0]))
    assert set(drawn) == expected
    assert len(set(np.bincount(drawn)[sorted(expected)])) == 1


def test_nested_bases():
    learner = DynamicBalancing(base=LinUCB(ridge=0.7)).start(small().problem)
    assert learner.policies == tuple(LinUCB(ridge=0.7, dim=m) for m in (1, 2, 4, 8, 16))
    ambient = DynamicBalancing(ambient=True).start(small().problem)
    assert ambient.dims.tolist() == [1, 2, 4, 8, 16, 24]


def test_first_pull_of_a_base_is_uniform():
    """Released code: untouched scores tie. The optimistic first pull is the longest truncated arm instead."""
    instance = small(range(40), arms=10)
    uniform = DynamicBalancing(base=LinUCB(first_pull="uniform"))
    optimistic = DynamicBalancing()
    longest = [instance.problem.actions.truncate(m)[0].squared_norms().argmax(axis=1) for m in (1, 2, 4, 8, 16)]
    hits = []
    for policy in (uniform, optimistic):
        learner, hit = policy.start(instance.problem), []
        for _ in range(5):
            arms = learner.select()
            hit += [arm == longest[b][r] for r, (arm, b) in enumerate(zip(arms, learner._chosen, strict=True))]
            learner.update(arms, np.zeros(40))
        hits.append(np.mean(hit))
    assert hits[1] == 1.0
    assert hits[0] == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 200))


# Cost, batches, describe, errors


def test_only_the_chosen_base_is_touched(monkeypatch):
    seen, real = [], Posterior.absorb

    def counted(self, arms, rewards, rows=ALL):
        seen.append(len(arms))
        real(self, arms, rewards, rows)

    monkeypatch.setattr(Posterior, "absorb", counted)
    learner = adadim.simulate(DynamicBalancing(), small(range(4), horizon=101)).learner
    assert sum(seen) == 4 * 101
    pulls = np.stack([base.posterior.counts.sum(axis=1) for base in learner.bases], axis=1)
    np.testing.assert_array_equal(pulls, learner.plays)


def test_one_base_is_the_base():
    instance = small(range(2), horizon=120)
    base = LinUCB(dim=8, ties="lowest")
    driver = Driver(DynamicBalancing(bases=(base,)), instance).run()
    assert driver.arms == Driver(base, instance).run().arms
    assert driver.learner.describe()[0]["active"] == [True]


@pytest.mark.parametrize("changes", [{}, {"reference": "upper", "width": "released", "ties": "all", "c": 0.1}])
def test_replications_out_of_step_run_as_if_alone(changes):
    policy = DynamicBalancing(bound="sqrt", **changes)
    together = Driver(policy, small(range(5), horizon=150)).stagger(np.random.default_rng(1))
    assert together.lead > 20
    for r in range(5):
        alone = Driver(policy, small([r], horizon=150)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


def test_torch_with_other_bases(torch):
    bases = (LinUCB(dim=3), adadim.UCB(), adadim.SupLinUCB(radius=0.2))
    policy, instance = DynamicBalancing(bases=bases, bound="sqrt", c=0.1), small(range(2), horizon=150)
    assert Driver(policy, in_torch(instance, torch)).run().arms == Driver(policy, instance).run().arms


def test_describe_follows_the_run():
    driver = Driver(DynamicBalancing(bound="sqrt", c=0.05), small([3, 9]))
    counts, sums = np.zeros((2, 5), dtype=int), np.zeros((2, 5))
    for t in range(100):
        for r, entry in enumerate(driver.learner.describe()):
            assert entry["replication"] == (3, 9)[r]
            assert entry["bases"][2] == repr(LinUCB(dim=4))
            assert entry["rounds of each base"] == counts[r].tolist()
            assert sum(entry["rounds of each base"]) == t
            means = [s / n if n else 0.0 for s, n in zip(sums[r], counts[r], strict=True)]
            assert entry["mean reward of each base"] == pytest.approx(means, abs=1e-12)
            assert entry["active"] == driver.learner.active[r].tolist()
        driver.step()
        at = np.arange(2), driver.learner._chosen
        counts[at] += 1
        sums[at] += [rewards[-1] for rewards in driver.rewards]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"bases": [LinUCB()]}, TypeError),
        ({"base": None}, TypeError),
        ({"bound": "linear"}, ValueError),
        ({"beta": 1.0}, ValueError),
        ({"scalings": (1.0, 0.0)}, ValueError),
        ({"biases": (0.0, -1.0)}, ValueError),
        ({"delta": 1.0}, ValueError),
        ({"c": 0.0}, ValueError),
        ({"reference": "middle"}, ValueError),
        ({"width": "wide"}, ValueError),
        ({"ties": "lowest"}, ValueError),
    ],
)
def test_bad_hyper_parameters(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        DynamicBalancing(**changes)


@pytest.mark.parametrize("changes", [{"scalings": (1.0, 2.0)}, {"biases": (0.0,) * 6}])
def test_one_scaling_and_bias_per_base(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        DynamicBalancing(**changes).start(small().problem)
