"""MOSS, MOSS++, empMOSS++ and Parallel: oracles, the plain versions in lock step, and their schedules."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import MOSS, EmpMOSSPlusPlus, MOSSPlusPlus, ParallelMOSS, instances
from adadim.core.rows import Replications
from adadim.policies.arms import ArmStatistics, moss_width
from adadim.policies.plusplus.mosspp import parallel_sizes
from adadim.theory import schedule
from reference.moss import MOSSPlusPlus as Reference
from small_problems import in_torch, small
from stepping import ScriptedDraws, Stepper

EXACT = {"rel": 0, "abs": 1e-10}


def unrelated(arms, horizon, **changes):
    return adadim.Problem(np.ones((arms, 1)), horizon=horizon, **{"noise": 0.5} | changes)


# Oracles


def test_schedule_f29():
    plan = schedule(50_000, 0.5, 20_000)
    assert plan.p == 8
    assert plan.dims == tuple(2**j for j in range(9, 1, -1))
    assert plan.lengths == (512, 1024, 2048, 4096, 8192, 16384, 32768, 50000)
    assert [i.stop for i in plan.iterations[:6]] == [512, 1536, 3584, 7680, 15872, 32256]
    assert (plan.iterations[6].stop - plan.iterations[6].start, len(plan.iterations)) == (17744, 7)
    learner = MOSSPlusPlus().start(unrelated(1000, 5000))
    assert learner.schedule == schedule(5000, 0.5, 1000)


def test_index_f30():
    def index(n, T, K, scale=1.0):
        statistics = ArmStatistics(1, np.zeros(1))
        statistics.counts[:], statistics.sums[:] = n, 0.5 * n
        return float(
            statistics.index(Replications.all(np.zeros(1)), lambda m, xp: moss_width(m, xp, T, K, scale))[0, 0]
        )

    assert index(4, 512, 512) == 0.5
    assert index(7, 8192, 36) == pytest.approx(1.205233928745, abs=1e-10)
    assert index(7, 15872, 36) == pytest.approx(1.269311634980, abs=1e-10)
    assert index(7, 8192, 36, 2.0) == pytest.approx(1.910467857489, abs=1e-10)
    assert index(0, 10, 2) == math.inf


def test_three_iterations_f31(monkeypatch):
    means = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.9])
    learner = MOSSPlusPlus(scale=1.0, ties="lowest").start(unrelated(6, 64))
    monkeypatch.setattr(learner, "sampled", lambda index, count: np.arange(count)[None])
    values, counts = list(means), np.zeros((3, 8), dtype=int)
    for t in range(64):
        if t in (16, 48):
            values.append(float(learner.mixtures.q[-1][0] @ means))
        decision = learner.ask()
        choice = int(decision.memo["choice"][0])
        counts[(t >= 16) + (t >= 48), choice] += 1
        learner.tell(decision, values[choice])
    assert counts.tolist() == [[2, 2, 2, 2, 2, 6, 0, 0], [2, 2, 3, 3, 3, 16, 3, 0], [2, 2, 2, 3, 0, 0, 3, 4]]
    assert values[6:] == pytest.approx([0.525, 0.63046875], **EXACT)
    second = [0.07421875, 0.07421875, 0.10546875, 0.10546875, 0.10546875, 0.53515625]
    assert learner.mixtures.q[1][0] == pytest.approx(second, **EXACT)


def test_numbers_of_arms_f32():
    best = []
    for alpha in (0.1, 0.25, 0.5, 0.8):
        instance = instances.many_best(arms=20_000, horizon=50_000, alpha=alpha)
        best.append(int((instance.means == 0.9).sum()))
    assert best == [3390, 669, 45, 2]
    sizes = parallel_sizes(50_000)
    assert (len(sizes), sizes[0], sizes[2], sizes[5], sizes[10]) == (11, 15, 104, 1979, 50_000)
    assert ParallelMOSS().start(unrelated(100, 50_000)).interval == 224


# In lock step


@pytest.mark.parametrize("kind", [MOSSPlusPlus, EmpMOSSPlusPlus])
@pytest.mark.parametrize(("arms", "beta"), [(30, 0.5), (9, 0.7)])
def test_lock_step(kind, arms, beta):
    """The same choices, arms drawn from mixtures and flattened mixtures, on the same draws and rewards."""
    horizon, rng = 400, np.random.default_rng(arms)
    learner = kind(scale=0.6, beta=beta, ties="random").start(unrelated(arms, horizon))
    empirical = kind is EmpMOSSPlusPlus
    if empirical:  # ranks ties by the lowest arm, as the plain version does
        learner.policy = kind(scale=0.6, beta=beta, ties="lowest")
    plain = Reference(arms, horizon, beta, 0.6, lambda i, K: learner.sampled(i, K)[0].tolist(), empirical)
    levels = rng.uniform(0, 1, arms)
    virtual = 0
    for _ in range(horizon):
        uniform, pick = (0.0 if empirical else rng.random()), rng.random()
        solver, learner.mixture_streams = learner.solver(int(learner.iteration[0])), ScriptedDraws(pick)
        solver.draws = ScriptedDraws(uniform)
        decision = learner.ask()
        choice = plain.choose(uniform)
        assert int(decision.memo["choice"][0]) == choice
        arm = choice
        if choice >= arms:
            arm = int(np.searchsorted(np.cumsum(plain.q[choice - arms]), pick, side="right"))
            virtual += 1
        assert decision.arms == arm
        reward = float(rng.random() < levels[arm])
        learner.tell(decision, reward)
        plain.update(choice, reward)
    assert virtual > 10
    for found, expected in zip(learner.mixtures.q, plain.q, strict=True):
        np.testing.assert_allclose(found[0], expected, atol=1e-12)


def test_empirical_ranks_all_arms():
    """Arms never pulled count as mean 0: they come before those whose mean is negative."""
    learner = EmpMOSSPlusPlus(scale=1.0, ties="lowest").start(unrelated(40, 64))
    played = []
    for _ in range(16):
        decision = learner.ask()
        played.append(decision.arms)
        learner.tell(decision, -0.5)
    assert len(set(played)) == 16  # K_1 = 16 of 40
    learner.ask()
    assert not set(learner.solver(1).sample[0].tolist()) & set(played)


# What always holds


@given(
    horizon=st.integers(2, 100_000),
    beta=st.floats(0.5, 0.95),
    arms=st.integers(1, 5000),
)
def test_schedules(horizon, beta, arms):
    plan = schedule(horizon, beta, arms)
    assert 2 ** (plan.p - 1) < horizon**beta * (1 + 1e-6)
    assert 2**plan.p >= horizon**beta * (1 - 1e-6)
    for i, (size, length) in enumerate(zip(plan.dims, plan.lengths, strict=True), start=1):
        assert size == min(2 ** (plan.p + 2 - i), arms)
        assert length == min(2 ** (plan.p + i), horizon)
        if size < arms and length < horizon:
            assert size * length == 2 ** (2 * plan.p + 2)
    assert plan.iterations[-1].stop == horizon
    sizes = EmpMOSSPlusPlus(scale=1.0).start(unrelated(min(arms, 60), min(horizon, 3000))).sizes()
    assert sizes[0] >= sizes[-1] >= min(4, arms, sizes[0])


@settings(max_examples=15)
@given(kind=st.sampled_from([MOSSPlusPlus, EmpMOSSPlusPlus]), seed=st.integers(0, 1000), beta=st.floats(0.5, 0.8))
def test_mixtures_are_distributions(kind, seed, beta):
    instance = instances.many_best(arms=25, share=0.12, horizon=150, replications=range(2), seed=seed)
    learner = adadim.simulate(kind(beta=beta), instance, seed=seed).learner
    assert learner.mixtures.q
    for q in learner.mixtures.q:
        done = q.sum(axis=1)
        np.testing.assert_allclose(done, 1.0, atol=1e-12)
        assert (q >= 0).all()
    for entry, counts in zip(learner.describe(), learner.counts, strict=True):
        assert entry["rounds"] == 150
        assert counts.sum() in (0, entry["rounds_of_this_iteration"])


def test_samples_differ_between_iterations_and_replications_and_not_with_the_batch():
    def samples(replications):
        features = np.ones((len(replications), 300, 1))
        problem = adadim.Problem(features, horizon=100, noise=0.5, replications=replications)
        learner = MOSSPlusPlus().start(problem, seed=4)
        return [learner.sampled(i, 16) for i in (1, 2)]

    together, alone = samples((3, 8)), samples((8,))
    assert len({tuple(row) for part in together for row in part}) == 4
    for both, one in zip(together, alone, strict=True):
        assert both[1].tolist() == one[0].tolist()
    assert all(len(set(row.tolist())) == 16 for part in together for row in part)


def test_widths_follow_the_noise():
    problem = unrelated(5, 64, noise=0.1, reward_range=0.6)
    assert MOSS().start(problem).scale == pytest.approx(0.2)
    learner = MOSSPlusPlus().start(problem)
    solver = learner.make_solver(learner.schedule.iterations[1])
    expected = [0.2] * 5 + [2 * math.sqrt(0.1**2 + 0.3**2)]
    np.testing.assert_allclose(solver.scale(learner.everyone)[0], expected)
    assert MOSSPlusPlus(scale=1.0).start(problem).noise == 1.0


def test_moss_plays_only_its_sample():
    instance = instances.many_best(arms=50, share=0.1, horizon=200, replications=range(3))
    outcome = adadim.simulate(MOSS(sample=7), instance)
    for sample, entry in zip(outcome.learner.sample, outcome.learner.describe(), strict=True):
        assert entry["arms_in_play"] == 7
        assert entry["most_pulled_arm"] in sample
    pulled = [set(np.flatnonzero(row)) for row in outcome.pulls]
    assert [p == set(s.tolist()) for p, s in zip(pulled, outcome.learner.sample, strict=True)] == [True] * 3
    with pytest.raises(adadim.ForeignArmError):
        outcome.learner.learn([0, 0, 0], [0.5, 0.5, 0.5])
    assert type(MOSS(sample=50).start(instance.problem)).__name__ == "MOSSLearner"


def test_moss_has_less_regret_than_random_and_the_oracle_sample_helps():
    instance = instances.many_best(arms=2000, alpha=0.25, horizon=2000, replications=range(6))
    all_arms = adadim.simulate(MOSS(), instance).final.mean()
    sample = math.ceil(2 * 2000**0.25 * math.log(math.sqrt(2000)))
    sampled = adadim.simulate(MOSS(sample=sample), instance).final.mean()
    adaptive = adadim.simulate(EmpMOSSPlusPlus(), instance).final.mean()
    chance = adadim.simulate(adadim.Random(), instance).final.mean()
    assert sampled < 0.6 * all_arms
    assert adaptive < all_arms <= chance * 1.05


def test_parallel_switches_to_the_copy_that_has_lost_least():
    problem = unrelated(40, 400)
    learner = ParallelMOSS(best_mean=0.9).start(problem)
    assert [p.sample for p in learner.policies] == [min(s, 40) for s in parallel_sizes(400)]
    rng, lost, now = np.random.default_rng(0), np.zeros(6), -1
    for t in range(400):
        decision = learner.ask()
        base = int(decision.memo["base"][0])
        if t % 20 == 0:
            assert lost[base] == pytest.approx(lost.min(), abs=1e-9)
            now = base
        assert base == now
        reward = float(rng.random() < 0.6)
        lost[base] += 0.9 - reward
        learner.tell(decision, reward)
    assert (learner.plays[0] % 20 == 0).all()


@pytest.mark.parametrize(
    "policy",
    [MOSS(), MOSS(sample=8), MOSSPlusPlus(), EmpMOSSPlusPlus(ties="lowest"), ParallelMOSS(best_mean=0.3)],
    ids=lambda p: type(p).__name__,
)
def test_torch_and_out_of_step_replications_do_the_same(policy, torch):
    instance = small(range(3), horizon=120)
    expected = Stepper(policy, instance).run()
    assert Stepper(policy, in_torch(instance, torch)).run().arms == expected.arms
    staggered = Stepper(policy, instance).stagger(np.random.default_rng(1))
    assert staggered.arms == expected.arms
    assert staggered.learner.describe() == expected.learner.describe()


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (MOSS, {"sample": 0}),
        (MOSS, {"scale": 0}),
        (MOSS, {"ties": "first"}),
        (MOSSPlusPlus, {"beta": 1.0}),
        (EmpMOSSPlusPlus, {"scale": -1.0}),
        (ParallelMOSS, {"best_mean": math.inf}),
    ],
)
def test_bad_hyper_parameters(kind, changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        kind(**changes)


@pytest.mark.parametrize("policy", [adadim.MOSS(sample=3), adadim.ParallelMOSS()])
def test_a_sample_needs_all_arms_in_every_round(policy):
    arms = np.random.default_rng(0).normal(size=(6, 4)) / 4
    growing = adadim.Problem(arms, arrives=[1, 1, 1, 4, 8, 100], horizon=60, noise=0.1)
    with pytest.raises(adadim.InvalidValueError, match="draws its sample of the arms once"):
        policy.start(growing)
    learner = policy.start(adadim.Problem(arms, horizon=60, noise=0.1))
    with pytest.raises(adadim.InvalidValueError, match="draws its sample of the arms once"):
        learner.ask(allowed=[True] * 5 + [False])
