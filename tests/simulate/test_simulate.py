"""The loop: paired runs, and regret that can be recomputed by hand."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import adadim
from adadim import UCB, Greedy, LinUCB, Random, Single, SupLinUCB, instances, simulate
from adadim.core.randomness import Purpose, Streams
from scripted_policies import every, scripted

# Replication r depends on (seed, r) alone


def test_one_blas_thread_whatever_the_caller_uses():
    """The last bit of a product must not depend on the number of threads."""
    instance, seen = instances.ball(arms=4, dim=2, intrinsic_dim=1, horizon=3), []

    def threads(*_):
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        simulate(LinUCB(), instance, progress=lambda *_: seen.append(threads()))
        assert threads() == before
    assert seen == [[1] * len(before)] * 3
    assert before


# Paired comparisons


def test_every_policy_meets_the_same_instance_and_noise():
    instance = instances.ball(arms=6, dim=4, intrinsic_dim=2, horizon=400, noise=0.3, replications=[2, 7], seed=1)
    expected = Streams(9, Purpose.NOISE, [2, 7])
    noise = 0.3 * np.array([expected.normals() for _ in range(400)]).T
    for arms in (np.zeros(400, dtype=int), np.arange(400) % 6):
        policy, logs = scripted(arms)
        simulate(policy, instance, seed=9)
        for r, log in enumerate(logs):
            rewards = np.array([reward for _, reward in log])
            np.testing.assert_allclose(rewards - instance.means[r, arms], noise[r], atol=1e-14)
    assert abs(noise.std() - 0.3) < 0.03
    assert abs(np.corrcoef(noise)[0, 1]) < 0.2


def test_policy_randomness_does_not_reshuffle_the_noise():
    """Random draws a number per round, the script none: both meet the same noise."""
    instance = instances.ball(arms=6, dim=4, intrinsic_dim=2, horizon=50)
    logs = []

    class Watched:
        def __init__(self, problem, rng):
            self.rng, self.log = rng, []
            logs.append(self.log)

        def select(self):
            return int(self.rng.integers(6))

        def update(self, arm, reward):
            self.log.append((arm, reward))

    simulate(Single(Watched), instance, seed=3)
    policy, fixed = scripted(np.zeros(50, dtype=int))
    simulate(policy, instance, seed=3)
    for (arm, reward), (_, plain) in zip(logs[0], fixed[0], strict=True):
        assert reward - instance.means[0, arm] == pytest.approx(plain - instance.means[0, 0], abs=1e-14)


# Regret


@pytest.mark.parametrize("policy", [LinUCB(), LinUCB(dim=4), UCB(), Random()], ids=["LinUCB", "dim", "UCB", "Random"])
def test_regret_is_the_sum_of_the_gaps_of_the_arms_pulled(policy):
    instance = instances.sphere(
        arms=8, dim=6, intrinsic_dim=3, horizon=80, replications=range(3), expressive=True, levels=[2, 6]
    )
    outcome = simulate(policy, instance, seed=4, record=every(instance))
    # The same run, driven by hand through the public methods.
    learner, noise = policy.start(instance.problem, seed=4), instance.noise_streams(4)
    means = np.stack([instance.problem.actions.dense(r) @ instance.theta[r] for r in range(3)])
    regret, total, pulls = [], np.zeros(3), np.zeros((3, 16), dtype=int)
    for _ in range(80):
        arms = learner.select()
        learner.update(arms, instance.pull(arms, noise))
        total = total + means.max(axis=1) - means[range(3), arms]
        regret.append(total)
        pulls[range(3), arms] += 1
    np.testing.assert_allclose(outcome.regret, np.array(regret).T, atol=1e-12)
    np.testing.assert_array_equal(outcome.pulls, pulls)
    np.testing.assert_allclose(outcome.final, (pulls * (means.max(axis=1, keepdims=True) - means)).sum(axis=1))


@pytest.mark.parametrize("make", [instances.sphere, instances.ball, instances.clicks])
@pytest.mark.parametrize("policy", [LinUCB(), SupLinUCB(), UCB(), Greedy(), Random()])
def test_regret_never_falls_and_is_bounded(make, policy):
    instance = make(arms=20, dim=6, intrinsic_dim=3, horizon=120, replications=range(3))
    outcome = simulate(policy, instance, record=every(instance))
    assert (outcome.regret[:, 0] >= 0).all()
    assert (np.diff(outcome.regret) >= 0).all()
    gaps = instance.best - instance.means.min(axis=1)
    assert (outcome.regret <= outcome.times * gaps[:, None] + 1e-12).all()
    assert (outcome.pulls.sum(axis=1) == 120).all()
    np.testing.assert_array_equal(outcome.final, outcome.regret[:, -1])


def test_learning_pays():
    instance = instances.sphere(arms=100, dim=20, intrinsic_dim=3, horizon=600, replications=range(6))
    oracle, ambient, chance = (simulate(p, instance).final.mean() for p in (LinUCB(dim=3), LinUCB(), Random()))
    assert 4 * oracle < chance
    assert oracle < ambient < chance


def test_outcome_keeps_the_learner():
    instance = instances.sphere(arms=20, dim=5, intrinsic_dim=2, horizon=100, replications=range(2))
    outcome = simulate(LinUCB(), instance)
    np.testing.assert_array_equal(outcome.learner.model.regression.counts, outcome.pulls)
    assert "Learner" not in repr(outcome)  # which names the attribute alone


# Bernoulli rewards


def test_clicks_are_zero_or_one_with_the_right_frequency():
    means = np.array([[0.0, 0.2, 0.7, 1.0], [0.5, 0.1, 0.9, 0.3]])
    instance = adadim.Instance(
        np.broadcast_to(np.eye(4), (2, 4, 4)), means=means, horizon=8000, rewards="bernoulli", replications=[5, 6]
    )
    policy, logs = scripted(np.arange(8000) % 4)
    simulate(policy, instance, seed=2)
    for r, log in enumerate(logs):
        rewards = np.array([reward for _, reward in log]).reshape(2000, 4)
        assert set(np.unique(rewards)) <= {0.0, 1.0}
        np.testing.assert_allclose(rewards.mean(axis=0), means[r], atol=0.04)
        assert rewards[:, means[r] == 0].sum() == 0
        assert rewards[:, means[r] == 1].all()


def test_linucb_learns_from_clicks():
    instance = instances.clicks(arms=30, dim=4, intrinsic_dim=3, horizon=1500, replications=range(4))
    learned, chance = (simulate(policy, instance).final.mean() for policy in (LinUCB(scale=0.3), Random()))
    assert learned < 0.6 * chance


# torch


def test_torch_clicks(torch):
    features = torch.eye(3, dtype=torch.float64)
    there = adadim.Instance(
        features, means=torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), horizon=100, rewards="bernoulli"
    )
    here = adadim.Instance(np.eye(3), means=[0.1, 0.5, 0.9], horizon=100, rewards="bernoulli")
    np.testing.assert_array_equal(simulate(UCB(), there).pulls, simulate(UCB(), here).pulls)


# What may be simulated


def test_a_function_makes_the_policy_for_the_problem():
    instance = adadim.instances.sphere(arms=20, dim=5, intrinsic_dim=2, horizon=30, replications=range(2))
    by_function = adadim.simulate(adadim.recommended, instance)
    itself = adadim.simulate(adadim.recommended(instance.problem), instance)
    np.testing.assert_array_equal(by_function.regret, itself.regret)
    with pytest.raises(TypeError, match=r"policy must be an adadim policy such as LinUCB\(\), got 3"):
        adadim.simulate(lambda problem: 3, instance)


def test_simulate_takes_a_policy_and_an_instance():
    instance = instances.ball(arms=4, dim=2, intrinsic_dim=1, horizon=3)
    with pytest.raises(TypeError, match=r"policy must be an adadim policy such as LinUCB\(\), got 'LinUCB'"):
        simulate("LinUCB", instance)
    with pytest.raises(TypeError, match=r"instance must be an adadim\.Instance, got Problem"):
        simulate(LinUCB(), instance.problem)
    with pytest.raises(ValueError, match="seed must be a non-negative integer, got -1"):
        simulate(LinUCB(), instance, seed=-1)


# Single problems


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_outcome_of_a_single_problem(library, request):
    """Features (K, d): no axis of replications; (1, K, d): one of length 1, and the same numbers."""
    features, theta = np.eye(3), np.array([0.9, 0.1, 0.4])
    if library == "torch":
        request.getfixturevalue("torch")
    single, one = (
        adadim.Instance(given, theta=theta, horizon=60, noise=0.1, replications=[4])
        for given in (features, features[None])
    )
    if library == "torch":
        single, one = single.to("cpu"), one.to("cpu")
    alone, batch = (simulate(LinUCB(), instance, seed=2, record=[10, 60]) for instance in (single, one))
    assert (alone.regret.shape, alone.pulls.shape) == ((2,), (3,))
    assert (batch.regret.shape, batch.pulls.shape) == ((1, 2), (1, 3))
    np.testing.assert_array_equal(alone.regret, batch.regret[0])
    np.testing.assert_array_equal(alone.pulls, batch.pulls[0])
    assert np.ndim(alone.final) == 0
    assert alone.final == alone.regret[-1] == batch.final[0]
    assert alone.learner.describe() == batch.learner.describe()[0]
    assert isinstance(alone.regret, np.ndarray)


def test_joined_single_problems_are_replications():
    single = adadim.Instance(np.eye(2), theta=[0.1, 0.2], horizon=5, noise=0.1)
    outcome = simulate(LinUCB(), adadim.Instance.join([single, single]))
    assert outcome.regret.shape == (2, 5)
    np.testing.assert_array_equal(outcome.regret[0], simulate(LinUCB(), single).regret)
