"""`learner.dimension()`: of what a linear learner has seen, the same as `adadim.dimension` of the logged choices."""

import copy

import numpy as np
import pytest

import adadim
from adadim.policies import released
from policy_examples import DIM, REPLICATIONS, World, every_policy, instance
from refusals import assert_refuses

LINEAR = (adadim.LinUCB, adadim.TaperedLinUCB, adadim.EvidenceLinUCB, adadim.Greedy, released.ReleasedLinUCB)
LINEAR += (adadim.PriorElimination, adadim.PriorBalancing)
LINEAR += (adadim.RegretBalancingLinear, adadim.LinTS, adadim.PrefixLinUCB, adadim.TwoPriorLinUCB, adadim.Certified)
LINEAR += (adadim.RadiusExp3, adadim.ALEXP, adadim.IDS)
LINEAR += (adadim.LinMED, adadim.PriorThompson, adadim.FeelGood, adadim.RadiusMixture, adadim.MaxRatio)
MASTERS = (adadim.DynamicBalancing, adadim.BoundBalancing, adadim.RegretBalancing, adadim.D3RB, adadim.ED2RB)
MASTERS += (adadim.BanditCombiner, adadim.UCBCorral, adadim.Corral, adadim.TsallisCorral)
MASTERS += (released.ReleasedDynamicBalancing,)


def played(policy, where, steps=50):
    """A learner after some rounds, and the arms and rewards of each replication, (R, n)."""
    world, learner = World(where), policy.start(where.problem, seed=3)
    arms, rewards = [], []
    for _ in range(steps):
        arms.append(learner.select())
        rewards.append(world.pull(arms[-1], range(len(where.problem))))
        learner.update(arms[-1], rewards[-1])
    return learner, np.array(arms).T, np.array(rewards).T


@every_policy
@pytest.mark.parametrize("levels", [None, [2, 5, 8]])
def test_the_same_as_of_the_logged_choices(policy, levels):
    if getattr(policy, "memory", None) is not None:
        pytest.skip("its choices are weighted: see test_memory.py")
    where = instance(levels=levels)
    learner, arms, rewards = played(policy, where)
    if not isinstance(policy, LINEAR + MASTERS):
        name = type(policy).__name__
        assert_refuses(TypeError, f"^{name} does not keep the pulls and rewards .* call adadim", learner.dimension)
        return
    found, by_level = learner.dimension(), learner.dimension(levels={"few": 2, "all": DIM}, prior=1.0)
    assert found.probabilities.shape == (len(REPLICATIONS), DIM)
    assert by_level.probabilities.shape == (len(REPLICATIONS), 2)
    for r in range(len(REPLICATIONS)):
        everything = where.problem.actions.dense(r)
        table = everything[arms[r]]
        expected = adadim.dimension(table, rewards[r], arms=everything)
        np.testing.assert_allclose(found.probabilities[r], expected.probabilities, atol=1e-9)
        assert found.noise[r] == pytest.approx(expected.noise)
        assert found.choices[r] == expected.choices == 50
        expected = adadim.dimension(table, rewards[r], levels=[2, DIM], prior=1.0, arms=everything)
        np.testing.assert_allclose(by_level.probabilities[r], expected.probabilities, atol=1e-9)


@pytest.mark.parametrize("policy", [adadim.LinUCB(), adadim.LinUCB(form="feature"), adadim.EvidenceLinUCB()])
def test_torch_copies_and_files(policy, tmp_path, torch):
    where = instance()
    learner, arms, rewards = played(policy, where)
    expected = learner.dimension().probabilities
    there = policy.start(where.to("cpu").problem, seed=3)
    there.learn(torch.asarray(arms), torch.asarray(rewards))
    np.testing.assert_allclose(there.dimension().probabilities, expected, atol=1e-9)
    learner.save(tmp_path / "learner.npz")
    for other in (adadim.load(tmp_path / "learner.npz", where.problem), copy.deepcopy(learner)):
        np.testing.assert_array_equal(other.dimension().probabilities, expected)


def test_a_single_problem_has_no_axis_of_replications():
    features = np.random.default_rng(0).standard_normal((30, 6)) / 4
    learner = adadim.recommended(problem := adadim.Problem(features, horizon=400)).start(problem)
    assert learner.dimension().probabilities == pytest.approx(1 / 6)
    for _ in range(200):
        arm = learner.select()
        learner.update(arm, features[arm, :3].sum() + 0.01 * np.sin(arm))
    found = learner.dimension()
    assert found.probabilities.shape == (6,)
    assert isinstance(found.mode, int)
    assert (found.choices, found.dim) == (200, 6)


def test_some_replications_play_longer_than_others():
    where = instance()
    learner = adadim.LinUCB().start(where.problem)
    for rows in ([0, 1, 2], [1], [1, 2]):
        learner.update(learner.select(rows=rows), [0.5] * len(rows), rows=rows)
    assert learner.dimension().choices.tolist() == [1, 3, 2]
    assert learner.model.regression.squares.tolist() == [0.25, 0.75, 0.5]


def test_bases_that_see_other_rewards_do_not_tell():
    where = instance()
    for policy in (adadim.Corral(feedback="importance"), adadim.SmoothCorral(), adadim.Corral(bases=(adadim.UCB(),))):
        assert_refuses(TypeError, "does not keep the pulls and rewards", policy.start(where.problem).dimension)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7])
@pytest.mark.parametrize("contexts", [False, True])
def test_a_mean_that_is_far_larger_than_the_deviation(contexts, offset):
    """The recommended policy keeps rewards less a number; the sums of others say when they cannot tell."""
    rng = np.random.default_rng(0)
    arms, rounds = rng.standard_normal((20, 5)) / 4, 120
    problem = adadim.Problem(arms=20, dim=5, horizon=rounds) if contexts else adadim.Problem(arms, horizon=rounds)
    chosen = arms[rng.integers(20, size=rounds)] + (0.1 * rng.standard_normal((rounds, 5)) if contexts else 0.0)
    rewards = offset + chosen[:, :2].sum(axis=1) + 0.5 * rng.standard_normal(rounds)
    numbers = [int(np.abs(arms - x).sum(axis=1).argmin()) for x in chosen]
    expected = adadim.dimension(chosen, rewards, arms=None if contexts else arms)
    learner = adadim.recommended(problem).start(problem)
    learner.learn(chosen if contexts else numbers, rewards)
    np.testing.assert_allclose(learner.dimension().probabilities, expected.probabilities, atol=1e-6)
    assert learner.dimension().noise == pytest.approx(expected.noise, rel=1e-6)
    other = adadim.EvidenceLinUCB().start(problem)
    other.learn(chosen if contexts else numbers, rewards)
    found = other.dimension()
    if offset < 1e5:
        np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-6)
    else:
        assert np.isnan(found.noise)
        assert "the data say little yet" in str(found)


@pytest.mark.parametrize("policy", [adadim.LinUCB(), adadim.EvidenceLinUCB()])
def test_rewards_whose_squares_are_no_numbers_are_refused(policy):
    learner = policy.start(adadim.Problem(np.eye(3), horizon=9, noise=1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        learner.learn([0, 1, 2], [1e155, 2e155, 3e155])
    assert_refuses(ValueError, "squares of such large rewards are not finite; divide", learner.dimension)
