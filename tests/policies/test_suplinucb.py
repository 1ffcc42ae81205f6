"""SupLinUCB against the specification's oracles, its invariants and a plain implementation."""

import math

import numpy as np
import pytest

import adadim
import reference
from adadim import ActionSet, ForeignArmError, Problem, SupLinUCB, instances
from adadim.core.rows import Replications
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.linear.suplinucb import AccuracyLevels

both_forms = pytest.mark.parametrize("form", ["gram", "feature"])


def run_noiseless(policy, features, means, horizon, rounds=None):
    """Rounds of each level, exploiting rounds and pulls of each arm, after all rounds of the horizon or the first."""
    learner = policy.start(Problem(features, horizon=horizon, noise=0.1))
    pulls = np.zeros(len(means), dtype=int)
    for _ in range(rounds or horizon):
        arm = learner.select()
        learner.update(arm, means[arm])
        pulls[arm] += 1
    described = learner.describe()
    return described["rounds_per_level"], described["exploit_rounds"], pulls.tolist()


# Oracles of the specification


@pytest.mark.parametrize(
    ("form", "horizon", "radius", "rounds", "sizes", "pulls"),
    [
        ("gram", 100, 1.0, 100, [6, 30, 64, 0, 0], [50, 50]),
        ("feature", 100, 1.0, 100, [6, 30, 64, 0, 0], [50, 50]),
        ("gram", 10_000, 1.0, 10_000, [6, 30, 126, 255, 1023, 4095, 4465, 0, 0, 0], [9919, 81]),
        # A level that is full stays so: after 1,440 rounds the first five are.
        ("feature", 10_000, 1.0, 1_440, [6, 30, 126, 255, 1023, 0, 0, 0, 0, 0], [1359, 81]),
    ],
)
def test_two_orthonormal_arms(form, horizon, radius, rounds, sizes, pulls):
    """C14."""
    policy = SupLinUCB(ridge=1.0, radius=radius, ties="lowest", form=form)
    assert run_noiseless(policy, np.eye(2), np.array([0.5, 0.2]), horizon, rounds) == (sizes, 0, pulls)


@both_forms
def test_two_orthonormal_arms_that_are_soon_known(form):
    """C14, where 9,962 of 10,000 rounds exploit; they teach nothing, so from the first of them on all are alike."""
    policy = SupLinUCB(ridge=1.0, radius=0.05, ties="lowest", form=form)
    sizes, exploits, pulls = run_noiseless(policy, np.eye(2), np.array([0.5, 0.2]), 10_000, rounds=500)
    # On an exact tie, 0.05 / sqrt(25) = 1 / sqrt(10000), rounding decides.
    assert (sizes, exploits + 9_500) in [
        ([0, 0, 0, 0, 4, 10, 24, 0, 0, 0], 9962),
        ([0, 0, 0, 0, 4, 10, 25, 0, 0, 0], 9961),
    ]
    assert pulls == [498, 2]


@pytest.mark.parametrize(("horizon", "levels"), [(1, 1), (2, 1), (3, 2), (100, 5), (1000, 7), (2500, 8)])
def test_number_of_levels(horizon, levels):
    """C15."""
    learner = SupLinUCB().start(Problem(np.eye(2), horizon=horizon, noise=0.1))
    assert len(learner.describe()["rounds_per_level"]) == levels
    assert 2.0**-levels <= 1 / math.sqrt(horizon)


def test_multiplier():
    """Section 1.4: noise part, plus the norm part for "full" (the default)."""
    noise = 0.1 * math.sqrt(2 * math.log(2 * 2500**1.5 * 1200))
    for policy, expected in (
        (SupLinUCB(radius="noise"), noise),
        (SupLinUCB(), noise + 1),
        (SupLinUCB(ridge=0.25, theta_norm=3.0, scale=2.0), 2 * (noise + 1.5)),
        (SupLinUCB(radius="paper"), 24.484221),
        (SupLinUCB(radius=0.3, scale=0.5), 0.15),
    ):
        learner = policy.start(Problem(np.full((1200, 1), 0.5), horizon=2500, noise=0.1))
        assert learner.radius == pytest.approx(expected, abs=1e-6)


# Against the plain implementation


@both_forms
@pytest.mark.parametrize("make", [instances.sphere, instances.ball], ids=["sphere", "ball"])
@pytest.mark.parametrize("radius", [0.02, 0.1, 0.6])
def test_chooses_as_the_textbook(form, make, radius):
    horizon, seeds = 500, range(3)
    instance = make(arms=25, dim=6, intrinsic_dim=3, horizon=horizon, replications=seeds)
    policy = SupLinUCB(ridge=0.5, radius=radius, ties="lowest", form=form)
    learner = policy.start(instance.problem)
    noise = np.random.default_rng(1).standard_normal((horizon, len(seeds)))
    rng = np.random.default_rng(0)
    textbooks = [
        reference.SupLinUCB(instance.problem.actions.dense(r), horizon, 0.1, 0.5, rng, radius=radius, ties="lowest")
        for r in seeds
    ]
    for t in range(horizon):
        arms = learner.select()
        assert arms.tolist() == [textbook.select() for textbook in textbooks]
        rewards = instance.means[range(3), arms] + 0.1 * noise[t]
        learner.update(arms, rewards)
        for textbook, arm, reward in zip(textbooks, arms, rewards, strict=True):
            textbook.update(int(arm), float(reward))
    for described, textbook in zip(learner.describe(), textbooks, strict=True):
        assert described["rounds_per_level"] == textbook.level_sizes
        assert described["exploit_rounds"] == textbook.exploit_rounds


def test_truncation():
    instance = instances.ball(arms=20, dim=8, intrinsic_dim=3, horizon=200, replications=range(2))
    cut = adadim.Instance(
        np.ascontiguousarray(instance.problem.actions.base[:, :, :3]), means=instance.means, horizon=200, noise=0.1
    )
    whole = adadim.simulate(SupLinUCB(dim=3, radius=0.1), instance, record=200)
    np.testing.assert_array_equal(whole.regret, adadim.simulate(SupLinUCB(radius=0.1), cut, record=200).regret)


def test_truncation_of_an_expressive_set():
    """The learner sees the arms that differ within `dim` and pulls arms of the whole set."""
    rng = np.random.default_rng(4)
    actions = ActionSet(rng.uniform(-0.4, 0.4, (1, 10, 6)), levels=[2, 4, 6])
    means = actions.dense(0) @ [0.5, 0.5, 0.3, 0.2, 0.2, 0.1]
    kept = np.r_[0:10, 20:30]  # cut at 2, or longer than 3
    whole = SupLinUCB(dim=3, radius=0.5, ties="lowest").start(Problem(actions, horizon=200, noise=0.1))
    by_hand = SupLinUCB(radius=0.5, ties="lowest").start(Problem(actions.dense(0)[kept, :3], horizon=200, noise=0.1))
    pulled = set()
    for _ in range(200):
        arms, expected = whole.select(), by_hand.select()
        assert arms.tolist() == [kept[expected]]
        reward = means[arms] + 0.1 * rng.standard_normal(1)
        whole.update(arms, reward)
        by_hand.update(expected, reward)
        pulled.update(arms.tolist())
    assert max(pulled) >= 20
    assert len(pulled) > 3
    assert whole.describe() == [by_hand.describe()]


def test_learns_only_from_its_own_choice():
    """An arm that the level did not choose would spoil the independence that the level is for."""
    learner = SupLinUCB(ties="lowest").start(Problem(np.eye(3), horizon=10, noise=0.1))
    assert learner.select() == 0
    with pytest.raises(ForeignArmError, match=r"select\(\) gave \[0\], update got \[2\]"):
        learner.update([2], [0.1])
    learner.update([0], [0.1])


# Invariants (section 2.4)


def snapshot(learner, level):
    mean, width2 = learner.levels.predict(level, learner.everyone)
    return mean.copy(), width2.copy()


@both_forms
def test_invariants_of_every_round(form):
    horizon, dim, radius = 400, 3, 0.3
    instance = instances.sphere(arms=15, dim=dim, intrinsic_dim=2, horizon=horizon, replications=range(3))
    learner = SupLinUCB(ridge=0.25, radius=radius, form=form).start(instance.problem)
    count = math.ceil(math.log(horizon))
    noise, kinds = instance.noise_streams(0), set()
    sizes, exploits = np.zeros((3, count), dtype=int), np.zeros(3, dtype=int)
    for t in range(1, horizon + 1):
        before = [snapshot(learner, s) for s in range(count)]
        arms = learner.select()
        for s in range(count):  # choosing changes nothing
            np.testing.assert_array_equal(snapshot(learner, s), before[s])
        learner.update(arms, instance.pull(arms, noise))
        described = learner.describe()
        for r in range(3):
            new_sizes = np.array(described[r]["rounds_per_level"])
            grown = np.flatnonzero(new_sizes != sizes[r])
            kinds.add(int(grown[0]) if len(grown) else "exploit")
            if len(grown):
                # Explore: one level, and the arm was still uncertain at its scale.
                (level,) = grown
                assert radius * math.sqrt(before[level][1][r, arms[r]]) > 2.0 ** -(level + 1)
                assert described[r]["exploit_rounds"] == exploits[r]
            else:
                level = None
                assert described[r]["exploit_rounds"] == exploits[r] + 1
            for s in range(count):
                changed = (snapshot(learner, s)[1][r] != before[s][1][r]).any()
                assert changed == (s == level)  # only the level that chose the arm learns; an exploit teaches nobody
            sizes[r], exploits[r] = new_sizes, described[r]["exploit_rounds"]
            assert sizes[r].sum() + exploits[r] == t
    assert kinds == {0, 1, 2, 3, 4, "exploit"}
    for s in range(count):
        bound = 5 * 2.0 ** (s + 1) * (1 + radius**2) * np.sqrt(dim * sizes[:, s])
        assert (sizes[:, s] <= bound).all()


def test_choice_at_a_level_does_not_depend_on_its_rewards():
    """While every round explores level 1, the rewards cannot matter: that is the point of the construction."""
    rng = np.random.default_rng(2)
    problem = instances.ball(arms=12, dim=5, intrinsic_dim=2, horizon=150).problem
    chosen = []
    for scale in (0.0, 1.0, 100.0):
        learner = SupLinUCB(radius=4.0).start(problem)
        arms = []
        for _ in range(150):
            arms.append(learner.select())
            learner.update(arms[-1], scale * rng.standard_normal(1))
        assert learner.describe()[0]["rounds_per_level"][0] == 150
        chosen.append(np.array(arms))
    np.testing.assert_array_equal(chosen[0], chosen[1])
    np.testing.assert_array_equal(chosen[0], chosen[2])


def test_elimination_uses_the_positions_of_the_whole_list():
    """The best arm is last: survivors must keep their own numbers (a mask taken for a position gives arm 0)."""
    means = np.array([0.0, 0.1, 0.0, 0.9])
    policy = SupLinUCB(radius=0.05, ties="lowest")
    _, exploits, pulls = run_noiseless(policy, np.eye(4), means, 1000)
    assert exploits > 800
    assert pulls[3] > 900


def test_extra_arms_are_dimensions_of_their_own():
    """C12: scalars per extra arm do what unit vectors appended to the features would."""
    rng = np.random.default_rng(3)
    base, extra, horizon = rng.standard_normal((2, 8, 3)), 2, 300
    base /= np.linalg.norm(base, axis=-1, keepdims=True) * 1.1
    wide = np.zeros((2, 10, 5))
    wide[:, :8, :3], wide[:, 8:, 3:] = base, np.eye(2)
    few, many = (Problem(features, horizon=horizon, noise=0.1) for features in (base, wide))
    scalar = AccuracyLevels(few, horizon, lambda: LinearModel(few, RidgePrior(0.5)), extra)
    matrix = AccuracyLevels(many, horizon, lambda: LinearModel(many, RidgePrior(0.5)))
    means, rows, pulled = rng.uniform(-0.5, 0.5, (2, 10)), Replications.all(base), np.zeros(10, dtype=int)
    for _ in range(horizon):
        arms, memo = scalar.climb(0.2, None, rows, rows)
        expected, other = matrix.climb(0.2, None, rows, rows)
        np.testing.assert_array_equal(arms, expected)
        np.testing.assert_array_equal(memo["level"], other["level"])
        rewards = rows.at(means, arms) + 0.1 * rng.standard_normal(2)
        scalar.absorb(arms, rewards, rows, memo)
        matrix.absorb(arms, rewards, rows, other)
        pulled[arms] += 1
    assert pulled[8:].min() > 5
    np.testing.assert_array_equal(scalar.sizes, matrix.sizes)
    for level in range(scalar.count):
        for one, other in zip(scalar.predict(level, rows), matrix.predict(level, rows), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)


def test_torch_chooses_as_numpy(torch):
    instance = instances.ball(arms=15, dim=4, intrinsic_dim=2, horizon=200, replications=range(3))
    there = adadim.Instance(
        torch.asarray(instance.problem.actions.base), theta=torch.asarray(instance.theta), horizon=200, noise=0.1
    )
    policy = SupLinUCB(radius=0.1)
    here, far = adadim.simulate(policy, instance), adadim.simulate(policy, there)
    np.testing.assert_array_equal(here.pulls, far.pulls)
    assert here.learner.describe() == far.learner.describe()
