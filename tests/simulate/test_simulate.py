"""The loop: paired, reproducible runs, and regret that can be recomputed by hand."""

import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import adadim
import reference
from adadim import UCB, Greedy, LinUCB, Random, Single, SupLinUCB, instances, simulate
from adadim.randomness import Purpose, Streams


class Scripted:
    """A policy for one replication that pulls given arms in turn and writes down what it was told."""

    def __init__(self, arms, log):
        self.arms, self.log, self.t = arms, log, 0

    def select(self):
        return int(self.arms[self.t])

    def update(self, arm, reward):
        self.log.append((arm, reward))
        self.t += 1


def scripted(arms):
    """Policy that pulls `arms`, the same in every replication, and the log of each replication."""
    logs = []

    def make(problem, rng):
        logs.append([])
        return Scripted(arms, logs[-1])

    return Single(make), logs


def every(instance):
    return range(1, instance.problem.horizon + 1)


# Replication r depends on (seed, r) alone

POLICIES = {
    "LinUCB gram": LinUCB(form="gram"),
    "LinUCB feature": LinUCB(form="feature"),
    "LinUCB dim": LinUCB(dim=3, bonus="squared"),
    "OFUL": LinUCB(radius="oful"),
    "SupLinUCB": SupLinUCB(radius=0.1),
    "UCB": UCB(),
    "Greedy": Greedy(),
    "Random": Random(),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize(
    "shape",
    [
        {"arms": 40, "dim": 11, "horizon": 300},
        {"arms": 211, "dim": 103, "horizon": 60},
        {"arms": 30, "dim": 9, "horizon": 150, "expressive": True, "levels": [2, 5, 9]},
    ],
    ids=["small", "large", "expressive"],
)
def test_replication_17_alone_in_4_and_in_32(policy, shape):
    def run(replications):
        instance = instances.sphere(intrinsic_dim=3, replications=replications, seed=5, **shape)
        outcome = simulate(policy, instance, seed=6, record=every(instance))
        return instance, outcome, list(replications).index(17)

    _, alone, _ = run([17])
    assert alone.regret[0, -1] > 0
    for batch in ([3, 17, 40, 16], range(32)):
        instance, outcome, r = run(batch)
        assert outcome.regret.shape == (len(batch), shape["horizon"])
        np.testing.assert_array_equal(outcome.regret[r], alone.regret[0])
        np.testing.assert_array_equal(outcome.pulls[r], alone.pulls[0])
        if hasattr(outcome.learner, "scores"):
            np.testing.assert_array_equal(outcome.learner.scores()[r], alone.learner.scores()[0])
        others = [outcome.regret[i] for i in range(len(batch)) if i != r]
        assert not any(np.array_equal(other, alone.regret[0]) for other in others)
        assert instance.problem.replications[r] == 17


def test_batch_order_does_not_matter():
    def run(replications):
        instance = instances.ball(arms=20, dim=5, intrinsic_dim=2, horizon=100, replications=replications)
        return simulate(LinUCB(), instance, seed=1).regret

    np.testing.assert_array_equal(run([4, 0, 9])[[2, 0, 1]], run([9, 4, 0]))


def test_seed_decides_noise_and_choices_but_not_arms():
    instance = instances.sphere(arms=20, dim=5, intrinsic_dim=2, horizon=100, replications=range(3))
    first, again, other = (simulate(LinUCB(), instance, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.regret, again.regret)
    assert (first.pulls != other.pulls).any()


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
            told = np.array([reward for _, reward in log])
            np.testing.assert_allclose(told - instance.means[r, arms], noise[r], atol=1e-14)
    assert abs(noise.std() - 0.3) < 0.03
    assert abs(np.corrcoef(noise)[0, 1]) < 0.2


def test_policy_randomness_does_not_reshuffle_the_noise():
    """Random draws a number per round, the script none: both are told the same noise."""
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
    np.testing.assert_array_equal(outcome.learner.posterior.counts, outcome.pulls)
    assert "learner" not in repr(outcome)


# Record points and progress


@pytest.mark.parametrize(
    ("horizon", "record", "expected"),
    [
        (2500, None, list(range(25, 2501, 25))),
        (7, None, [1, 2, 3, 4, 5, 6, 7]),
        (10, 3, [3, 6, 10]),
        (10, 1, [10]),
        (10, 50, list(range(1, 11))),
        (10, [2, 5], [2, 5]),
        (10, (10,), [10]),
        (10, range(2, 11, 4), [2, 6, 10]),
        (10, np.array([1, 10]), [1, 10]),
        (1, None, [1]),
    ],
)
def test_record_points(horizon, record, expected):
    instance = instances.ball(arms=4, dim=2, intrinsic_dim=1, horizon=horizon, replications=range(2))
    policy, _ = scripted(np.arange(horizon) % 4)
    seen = []
    outcome = simulate(policy, instance, record=record, progress=lambda done, total: seen.append((done, total)))
    assert outcome.times.tolist() == expected
    assert seen == [(t, horizon) for t in expected]
    gaps = (instance.best[:, None] - instance.means)[:, np.arange(horizon) % 4]
    np.testing.assert_allclose(outcome.regret, np.cumsum(gaps, axis=1)[:, np.array(expected) - 1], atol=1e-12)
    assert (outcome.pulls.sum(axis=1) == horizon).all()  # the run goes on to the horizon whatever is recorded


def test_recording_changes_nothing():
    instance = instances.sphere(arms=20, dim=5, intrinsic_dim=2, horizon=100)
    full, few = (simulate(LinUCB(), instance, record=record) for record in (every(instance), [40, 100]))
    np.testing.assert_array_equal(full.regret[:, [39, 99]], few.regret)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (0, "record must be at least 1, or a sequence of rounds, got 0"),
        (-3, "record must be at least 1, or a sequence of rounds, got -3"),
        (True, "non-empty sequence of rounds, got True"),
        ([], r"non-empty sequence of rounds, got \[\]"),
        ([[1, 2]], "non-empty sequence of rounds"),
        ([1.5], r"non-empty sequence of rounds, got \[1.5\]"),
        ("all", "non-empty sequence of rounds, got 'all'"),
        ([0, 5], r"increasing rounds in 1\.\.10 \(the horizon\), got \[0, 5\]"),
        ([5, 11], r"increasing rounds in 1\.\.10 \(the horizon\), got \[5, 11\]"),
        ([5, 5], r"increasing rounds in 1\.\.10 \(the horizon\), got \[5, 5\]"),
        ([5, 3], r"increasing rounds in 1\.\.10 \(the horizon\), got \[5, 3\]"),
    ],
)
def test_bad_record_points(record, message):
    instance = instances.ball(arms=4, dim=2, intrinsic_dim=1, horizon=10)
    policy, logs = scripted([0] * 10)
    with pytest.raises(ValueError, match=message):
        simulate(policy, instance, record=record)
    assert logs == []  # nothing was started


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


# Policies written for one replication


def test_single_random_equals_random():
    class OneRandom:
        def __init__(self, problem, rng):
            self.arms, self.rng = len(problem.features), rng

        def select(self):
            return int(self.rng.random() * self.arms)

        def update(self, arm, reward):
            pass

    instance = instances.sphere(arms=30, dim=4, intrinsic_dim=2, horizon=600, replications=range(5))
    one, many = (simulate(policy, instance, seed=8, record=600) for policy in (Single(OneRandom), Random()))
    np.testing.assert_array_equal(one.regret, many.regret)


@pytest.mark.parametrize("levels", [None, [2, 6]], ids=["plain", "expressive"])
def test_single_linucb_equals_linucb(levels):
    def textbook(problem, rng):
        return reference.LinUCB(problem.features, problem.horizon, problem.noise, 0.1, rng)

    instance = instances.ball(
        arms=20, dim=6, intrinsic_dim=2, horizon=300, replications=[3, 1], expressive=levels is not None, levels=levels
    )
    one, many = (simulate(policy, instance, record=300) for policy in (Single(textbook), LinUCB()))
    np.testing.assert_array_equal(one.pulls, many.pulls)
    np.testing.assert_array_equal(one.regret, many.regret)


def test_single_is_told_the_problem():
    seen = []

    def make(problem, rng):
        seen.append((problem, rng))
        return Scripted([0] * 3, [])

    instance = instances.ball(arms=5, dim=3, intrinsic_dim=1, horizon=3, noise=0.4, replications=[8, 2])
    simulate(Single(make), instance, seed=1)
    for r, (problem, rng) in enumerate(seen):
        np.testing.assert_array_equal(problem.features, instance.problem.actions.dense(r))
        assert (problem.horizon, problem.noise) == (3, 0.4)
        assert problem.reward_range == pytest.approx(np.ptp(instance.means[r]))
        expected = np.random.Philox(np.random.SeedSequence(1, spawn_key=(int(Purpose.POLICY), [8, 2][r])))
        assert rng.random() == np.random.Generator(expected).random()
    unknown = adadim.Instance(np.eye(2), theta=[0.1, 0.2], horizon=3, noise=0.1, reward_range="unknown")
    simulate(Single(make), unknown)
    assert seen[-1][0].reward_range is None


def test_single_choosing_an_arm_that_does_not_exist():
    policy, _ = scripted([0, 9])
    with pytest.raises(ValueError, match=r"Scripted\.select\(\) must be in 0\.\.3, got 9"):
        simulate(policy, instances.ball(arms=4, dim=2, intrinsic_dim=1, horizon=3))


def test_single_needs_a_callable():
    with pytest.raises(TypeError, match=r"make must be callable as make\(problem, rng\), got 3"):
        Single(3)


# torch


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("levels", [None, [2, 7]], ids=["plain", "expressive"])
def test_torch_pulls_the_same_arms(torch, policy, levels):
    here = instances.sphere(
        arms=25,
        dim=7,
        intrinsic_dim=3,
        horizon=250,
        replications=[4, 0, 9],
        expressive=levels is not None,
        levels=levels,
    )
    there = adadim.Instance(
        adadim.ActionSet(torch.asarray(here.problem.actions.base), levels=levels),
        theta=torch.asarray(here.theta),
        horizon=250,
        noise=0.1,
        replications=[4, 0, 9],
    )
    assert isinstance(there.means, torch.Tensor)
    assert isinstance(there.best, torch.Tensor)
    numpy_run, torch_run = (simulate(policy, instance, seed=3, record=every(here)) for instance in (here, there))
    assert isinstance(torch_run.regret, np.ndarray)
    np.testing.assert_array_equal(torch_run.pulls, numpy_run.pulls)
    np.testing.assert_allclose(torch_run.regret, numpy_run.regret, atol=1e-10)


def test_torch_clicks(torch):
    features = torch.eye(3, dtype=torch.float64)
    there = adadim.Instance(
        features, means=torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), horizon=100, rewards="bernoulli"
    )
    here = adadim.Instance(np.eye(3), means=[0.1, 0.5, 0.9], horizon=100, rewards="bernoulli")
    np.testing.assert_array_equal(simulate(UCB(), there).pulls, simulate(UCB(), here).pulls)


# What may be simulated


def test_simulate_takes_a_policy_and_an_instance():
    instance = instances.ball(arms=4, dim=2, intrinsic_dim=1, horizon=3)
    with pytest.raises(TypeError, match=r"policy must be an adadim policy such as LinUCB\(\), got 'LinUCB'"):
        simulate("LinUCB", instance)
    with pytest.raises(TypeError, match=r"instance must be an adadim\.Instance, got Problem"):
        simulate(LinUCB(), instance.problem)
    with pytest.raises(ValueError, match="seed must be a non-negative integer, got -1"):
        simulate(LinUCB(), instance, seed=-1)


# Replications in turns


@pytest.mark.parametrize("expressive", [False, True])
@pytest.mark.parametrize(
    "policy", [LinUCB(form="feature"), LinUCB(form="feature", dim=3), adadim.TaperedLinUCB(form="feature")]
)
def test_playing_replications_in_turns_changes_nothing(policy, expressive, monkeypatch):
    instance = instances.sphere(
        arms=20, dim=8, intrinsic_dim=2, horizon=90, replications=range(5), expressive=expressive, **LEVELS[expressive]
    )
    together = simulate(policy, instance, record=[7, 50])
    streamed = together.learner._streamed
    assert streamed == 8 * (
        20 * together.learner.posterior.actions.dim + together.learner.posterior.actions.dim**2 // 2
    )
    seen = []
    monkeypatch.setattr(sys.modules["adadim.simulate"], "CACHE", 2 * streamed)
    strips = sys.modules["adadim.simulate"]._strips(together.learner, 5)
    assert strips == [slice(0, 2), slice(2, 4), slice(4, 5)]
    in_turns = simulate(policy, instance, record=[7, 50], progress=lambda *told: seen.append(told))
    np.testing.assert_array_equal(in_turns.regret, together.regret)
    np.testing.assert_array_equal(in_turns.pulls, together.pulls)
    assert seen == [(2, 90), (16, 90), (32, 90), (46, 90), (62, 90), (76, 90)]


LEVELS = {False: {}, True: {"levels": [2, 8]}}
