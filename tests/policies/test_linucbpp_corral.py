"""LinUCB++ with Corral: iterations, the corral of LinUCB and UCB inside each, and the indices of that UCB."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import LinUCB, LinUCBPlusPlusCorral
from adadim.policies.confidence import self_normalised_bonus, subgaussian_bonus, ucb1_bonus
from adadim.policies.masters.smooth_corral import SmoothedBases
from iterated_learners import levels_of, mixture_means, solver_of
from reference import LinUCBPPCorral as Reference
from reference import usable_rows
from small_problems import in_torch, small, with_range
from stepping import Stepper

TIGHT = (-0.5, 0.5)
INDICES = {"self-normalised": "self_normalised", "subgaussian": "subgaussian", "released": "released"}


# Indices


def test_indices_c17():
    one = np.ones((1, 1))
    assert ucb1_bonus(4 * one, 100 * one)[0, 0] == pytest.approx(1.517427, abs=1e-6)
    assert self_normalised_bonus(4 * one, 3, math.sqrt(2) * one, 0.1)[0, 0] == pytest.approx(2.425365, abs=1e-6)
    for n, m, released, intended in ((1, 1, 9.5249, 5.8735), (10, 2, 5.1721, 1.6054), (100, 4, 2.1876, 0.5563)):
        delta = 1 / math.sqrt(1024)
        assert self_normalised_bonus(n * one, m, one, delta, released=True)[0, 0] == pytest.approx(released, abs=1e-4)
        found = self_normalised_bonus(n * one, m, math.sqrt(2) * one, delta)[0, 0]
        assert found == pytest.approx(intended, abs=1e-4)
    assert subgaussian_bonus(4 * one, 0.3 * one, 0.01)[0, 0] == pytest.approx(0.3 * math.sqrt(math.log(100) / 2))


@pytest.mark.parametrize("index", [*INDICES, "ucb1"])
def test_index_of_the_mixtures(index):
    """Second-iteration scores from the counts and sums of the mixtures, their noise scale and the length 256."""
    instance = small(range(2))
    stepper = Stepper(LinUCBPlusPlusCorral(index=index), instance).run(260)
    statistics = solver_of(stepper.learner).bases.learners[1].statistics
    assert (statistics.counts > 0).all()
    n, m, horizon = statistics.counts, 2, 256
    scale = np.sqrt(0.01 + (np.ptp(instance.means, axis=1) / 2) ** 2)[:, None]
    if index == "self-normalised":
        width = scale * np.sqrt((1 + n) / n**2 * (1 + 2 * np.log(m * np.sqrt(1 + n) * np.sqrt(horizon))))
    elif index == "released":
        width = np.sqrt((1 + n) / n**2 * (1 + 4 * np.sqrt(horizon) * np.log(m * np.sqrt(1 + n))))
    elif index == "subgaussian":
        width = scale * np.sqrt(2 * np.log(horizon**2) / n)
    else:
        width = np.sqrt(2 * np.log(n.sum(axis=1, keepdims=True)) / n)
    np.testing.assert_allclose(statistics.scores(stepper.learner.everyone), statistics.sums / n + width, rtol=1e-12)


# In lock step with the reference


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize(
    "changes", [{"bonus": "norm"}, {"bonus": "squared", "feedback": "mean"}, {"bonus": "norm", "replay": False}]
)
@pytest.mark.parametrize("expressive", [False, True])
def test_lock_step(index, changes, expressive):
    """With all draws handed over: same choices, same probabilities, same mixtures."""
    instance = small(horizon=151, dim=40, arms=12, expressive=expressive)  # iterations of 32, 64 and 55 rounds
    actions, mu = instance.problem.actions, instance.means[0]
    stepper = Stepper(LinUCBPlusPlusCorral(index=index, ties="lowest", loss_range=TIGHT, **changes), instance)
    learner = stepper.learner
    reference = Reference(
        actions.dense(0),
        151,
        0.1,
        0.1,
        None,
        mean_range=float(np.ptp(mu)),
        index=INDICES[index],
        loss_range=TIGHT,
        levels=levels_of(instance),
        ties="lowest",
        **changes,
    )
    arms = instance.problem.arms
    for _ in range(151):
        decision = stepper.ask()
        arm, column = int(decision.arms[0]), int(decision.memo["choice"][0])
        reference.advance()
        solver, engine = solver_of(learner), reference.engine
        assert (engine is None) == (not isinstance(solver, SmoothedBases))
        if engine is not None:
            # The base that plays: drawn now, or in a replay the one of the step before.
            chosen = int(solver.base[0] if solver.replaying[0] else decision.memo["base"][0])
            action = column - arms if chosen else int(np.searchsorted(reference.rows, column))
            engine.draw_base = lambda chosen=chosen: chosen
            engine.draw_replay = lambda size, at=(engine, chosen, action): at[0].stored[at[1]].index(at[2])
        assert reference.choose() == column
        reference.draw = lambda j, arm=arm: arm
        assert reference.play(column) == arm
        stepper.tell(decision)
        reference.update(arm, stepper.rewards[0][-1])
        if engine is not None:
            np.testing.assert_allclose(solver.master.p[0], engine.master.p, rtol=1e-10)
            np.testing.assert_allclose(solver.master.eta[0], engine.master.eta, rtol=1e-12)
            assert solver.counts[0].tolist() == [len(stored) for stored in engine.stored]
    assert len(learner.mixtures.q) == 2
    for j in range(2):
        np.testing.assert_allclose(learner.mixtures.q[j][0], reference.mixtures.flat(j), rtol=0, atol=1e-12)
    assert max(stepper.choices[0]) >= arms


# Section 5


@settings(max_examples=20)
@given(
    horizon=st.integers(2, 230),
    arms=st.integers(1, 8),
    dim=st.integers(1, 12),
    replay=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_invariants_of_a_run(horizon, arms, dim, replay, seed):
    instance = small(range(2), horizon=horizon, arms=arms, dim=dim, intrinsic_dim=min(2, dim), seed=seed)
    stepper = Stepper(LinUCBPlusPlusCorral(replay=replay, loss_range=TIGHT), instance, seed=seed)
    learner = stepper.learner
    plan = learner.schedule
    for iteration in plan.iterations:
        for t in range(iteration.start, iteration.stop):
            decision = stepper.ask()
            solver = solver_of(learner)
            if t == iteration.start and iteration.index > 1:
                assert (solver.master.p == 0.5).all()
                assert solver.counts.sum() == 0
                np.testing.assert_allclose(solver.master.eta, (iteration.dim * iteration.length) ** -0.5, rtol=1e-12)
                rounds = -(-iteration.length // 2) if replay else iteration.length
                assert solver.master.gamma == 1 / max(3, rounds)
                assert solver.bases.learners[0].policy.dim == iteration.dim
                assert solver.bases.learners[0].problem.horizon == iteration.length
            assert isinstance(solver, SmoothedBases) == (iteration.index > 1)
            stepper.tell(decision)
        played = iteration.stop - iteration.start
        if iteration.complete:
            # Both steps of every round count.
            law = learner.mixtures.q[iteration.index - 1]
            np.testing.assert_allclose(law.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        if iteration.index > 1:
            steps = -(-played // 2) if replay else played
            assert (solver.counts.sum(axis=1) == steps).all()
            for r in range(2):
                inner = (
                    solver.bases.learners[0].model.regression.counts[r].sum(),
                    solver.bases.learners[1].statistics.counts[r].sum(),
                )
                assert solver.counts[r].tolist() == list(inner)
    complete = [iteration for iteration in plan.iterations if iteration.complete]
    assert len(learner.mixtures.q) == len(complete)
    for r, iteration in itertools.product(range(2), plan.iterations):
        choices = stepper.choices[r][iteration.start : iteration.stop]
        assert max(choices) < arms + iteration.index - 1
        if iteration.complete:
            # The regret of an iteration is its length times the gap of its mixture.
            values = np.concatenate([instance.means[r], mixture_means(learner.mixtures, instance.means)[r]])
            gap = instance.best[r] - values[arms + iteration.index - 1]
            found = sum(instance.best[r] - values[c] for c in choices)
            assert found == pytest.approx(iteration.length * gap, abs=1e-9)


def test_first_iteration_is_linucb():
    stepper = Stepper(LinUCBPlusPlusCorral(), small(range(3)), seed=5).run(64)
    plain = Stepper(LinUCB(), small(range(3), horizon=64), seed=5).run()
    assert stepper.arms == plain.arms


def test_replayed_mixture_draws_anew():
    """The arm behind a replayed mixture-arm is another draw: it need not be the one pulled before."""
    stepper = Stepper(LinUCBPlusPlusCorral(), small(range(4), horizon=400)).run()
    again = [
        stepper.arms[r][t] != stepper.arms[r][t - 1]
        for r in range(4)
        for t in range(65, 400, 2)
        if stepper.choices[r][t] >= 40 and stepper.choices[r][t] == stepper.choices[r][t - 1]
    ]
    assert len(again) > 50
    assert any(again)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_unknown_range_takes_the_spread_of_the_rewards(library, request):
    instance = with_range(small(range(3)), known=False)
    if library == "torch":
        instance = in_torch(instance, request.getfixturevalue("torch"))
    stepper = Stepper(LinUCBPlusPlusCorral(), instance).run(250)
    rewards = np.array(stepper.rewards)
    spread = np.stack([rewards[:, :64].std(axis=1), rewards[:, 64:192].std(axis=1)], axis=1)
    scale = solver_of(stepper.learner).bases.learners[1].statistics.scale
    np.testing.assert_allclose(np.asarray(scale), np.maximum(spread, 0.1), rtol=1e-9)
    assert (spread > 0.1).any()


def test_expressive_sets_pull_arms_that_exist_in_the_iteration():
    instance = small(range(2), dim=40, arms=10, horizon=1000, expressive=True, levels=[8, 16, 32, 40])
    stepper = Stepper(LinUCBPlusPlusCorral(), instance).run()
    levels = np.repeat([8, 16, 32, 40], 10)
    for r, iteration in itertools.product(range(2), stepper.learner.schedule.iterations):
        choices = np.array(stepper.choices[r][iteration.start : iteration.stop])
        real = choices[choices < 40]
        assert np.isin(real, usable_rows(levels, 40, iteration.dim)).all()
        assert real.size
    with pytest.raises(ValueError, match="closed under truncation"):
        LinUCBPlusPlusCorral(expressive=True).start(small().problem)


# Batches and describe


def short(replications):
    """Iterations of 32, 64 and 54 rounds."""
    return small(replications, horizon=150)


@pytest.mark.parametrize("range_known", [True, False])
@pytest.mark.parametrize("replay", [True, False])
def test_replications_out_of_step_run_as_if_alone(replay, range_known):
    policy = LinUCBPlusPlusCorral(replay=replay, loss_range=TIGHT)
    together = Stepper(policy, with_range(short(range(4)), range_known)).stagger(np.random.default_rng(0))
    assert together.lead > 64
    for r in range(4):
        alone = Stepper(policy, with_range(short([r]), range_known)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.choices[r] == alone.choices[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


def test_describe_follows_the_run():
    stepper = Stepper(LinUCBPlusPlusCorral(loss_range=TIGHT), small([4, 7]))
    starts, rounds = [0, 64, 192], np.zeros((2, 2), dtype=int)
    for t in range(1, 301):
        decision = stepper.ask()
        fresh = t > 64 and (t - 1) % 2 == 0
        if t - 1 in starts:
            rounds[:] = 0
        if fresh:
            rounds[np.arange(2), decision.memo["base"]] += 1
        stepper.tell(decision)
        index = sum(t >= start for start in starts)
        for r, entry in enumerate(stepper.learner.describe()):
            assert (entry["replication"], entry["iteration"]) == ((4, 7)[r], index)
            assert (entry["dim"], entry["rounds"]) == ((24, 24, 16)[index - 1], t)
            drawn = [stepper.choices[r].count(40 + j) for j in range(index - 1)]
            assert entry["draws_of_each_mixture_arm"] == drawn
            assert ("probabilities" in entry) == (t > 64 and t not in starts)
            if "probabilities" in entry:
                assert sum(entry["probabilities"]) == pytest.approx(1.0, abs=1e-12)
                assert entry["rounds_of_each_base"] == rounds[r].tolist()
    assert all(sum(entry["draws_of_each_mixture_arm"]) > 0 for entry in stepper.learner.describe())


@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 17])
def test_short_horizons(horizon):
    outcome = adadim.simulate(LinUCBPlusPlusCorral(), small(horizon=horizon, arms=6, dim=5))
    assert outcome.pulls.sum() == horizon


@pytest.mark.parametrize(
    "changes",
    [
        {"beta": 0.4},
        {"ridge": -1.0},
        {"bonus": "cubed"},
        {"radius": "wide"},
        {"scale": 0.0},
        {"index": "moss"},
        {"feedback": "step1"},
        {"loss_range": (1.0, 0.0)},
        {"ties": "highest"},
    ],
)
def test_bad_hyper_parameters(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        LinUCBPlusPlusCorral(**changes)
