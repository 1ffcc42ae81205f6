"""MeDZO: oracles, the plain version in lock step, cells, and instances on [0, 1]."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adadim
from adadim import MeDZO
from adadim.instances import interval
from adadim.policies.arms import moss_width
from adadim.policies.plusplus.mosspp import cell_starts, spread_over_cells
from adadim.theory import schedule
from reference.moss import MeDZO as Reference
from small_problems import in_torch, small
from stepping import ScriptedDraws, Stepper


def grid(arms, horizon, **changes):
    points = ((np.arange(arms) + 0.5) / arms)[:, None]
    return adadim.Problem(points, horizon=horizon, **{"noise": 0.5} | changes)


def test_schedule_f33():
    """B = 100 at T = 10^4; the lengths of iterations that are never reached are cut at T."""
    plan = schedule(10_000, 0.5, 10_000)
    assert (plan.p, plan.dims) == (7, (256, 128, 64, 32, 16, 8, 4))
    assert plan.lengths == (256, 512, 1024, 2048, 4096, 8192, 10_000)
    assert [i.stop for i in plan.iterations] == [256, 768, 1792, 3840, 7936, 10_000]


def test_constants_of_the_index_f34():
    def index(scale):
        return 0.5 + float(moss_width(np.array([5.0]), np, 1024, 16, scale)[0])

    found = [index(math.sqrt(0.5)), index(1.0), index(2.0)]
    assert found == pytest.approx([1.004920307665, 1.214065147017, 1.928130294035], rel=0, abs=1e-10)


@pytest.mark.parametrize(("arms", "beta"), [(50, 0.5), (37, 0.7), (3, 0.5)])
def test_lock_step(arms, beta):
    horizon, rng = 400, np.random.default_rng(arms)
    learner = MeDZO(scale=0.6, beta=beta).start(grid(arms, horizon))
    plain = Reference(arms, horizon, beta, 0.6)
    levels = rng.uniform(0, 1, arms)
    virtual = 0
    for _ in range(horizon):
        uniform, pick, point = rng.random(3)
        solver, learner.mixture_streams = learner.solver(int(learner.iteration[0])), ScriptedDraws(pick)
        solver.draws, solver.point_streams = ScriptedDraws(uniform), ScriptedDraws(point)
        decision = learner.ask()
        choice = plain.choose(uniform)
        if choice >= arms:
            assert int(decision.memo["choice"][0]) == choice
            arm = int(np.searchsorted(np.cumsum(plain.q[choice - arms]), pick, side="right"))
            virtual += 1
        else:
            inside = plain.points(choice)
            arm = inside[int(point * len(inside))]
        assert decision.arms == arm
        reward = float(rng.random() < levels[arm])
        learner.tell(decision, reward)
        plain.update(choice, reward)
    assert virtual > 5
    for found, expected in zip(learner.mixtures.q, plain.q, strict=True):
        np.testing.assert_allclose(found[0], expected, atol=1e-12)


@given(arms=st.integers(1, 300), cells=st.integers(1, 300), seed=st.integers(0, 100))
def test_cells_partition_the_arms(arms, cells, seed):
    cells = min(cells, arms)
    starts = cell_starts(arms, cells)
    assert (starts[0], starts[-1]) == (0, arms)
    assert (np.diff(starts) >= 1).all()
    assert np.ptp(np.diff(starts)) <= 1
    counts = np.random.default_rng(seed).integers(0, 5, (2, arms)).astype(float)
    spread = spread_over_cells(counts, cells)
    np.testing.assert_allclose(spread.sum(axis=1), counts.sum(axis=1))
    for a, b in itertools.pairwise(starts):
        np.testing.assert_allclose(spread[:, a:b], counts[:, a:b].mean(axis=1, keepdims=True) + 0 * spread[:, a:b])


def test_widths_count_the_spread_within_cells():
    problem = adadim.Problem(np.ones((2, 8, 1)), horizon=64, noise=0.1, reward_range=[0.6, 0.0])
    learner = MeDZO().start(problem)
    np.testing.assert_allclose(learner.noise[:, 0], [2 * math.sqrt(0.1), 0.2])
    assert MeDZO(scale=1).start(problem).noise == 1.0
    assert MeDZO().start(grid(8, 64, noise=0.1)).noise == pytest.approx(0.2)


def test_it_finds_the_top_of_a_smooth_function():
    instance = interval(arms=2000, horizon=4000, replications=range(4))
    adaptive = adadim.simulate(MeDZO(scale=1.0), instance).final.mean()
    blind = adadim.simulate(adadim.MOSS(scale=1.0), instance).final.mean()
    assert adaptive < 0.8 * blind


def test_torch_and_out_of_step_replications_do_the_same(torch):
    instance = small(range(3), horizon=120)
    expected = Stepper(MeDZO(), instance).run()
    assert Stepper(MeDZO(), in_torch(instance, torch)).run().arms == expected.arms
    staggered = Stepper(MeDZO(), instance).stagger(np.random.default_rng(1))
    assert staggered.arms == expected.arms
    assert staggered.learner.describe() == expected.learner.describe()


@pytest.mark.parametrize("changes", [{"beta": 0.3}, {"scale": 0.0}, {"ties": "last"}])
def test_bad_hyper_parameters(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        MeDZO(**changes)


# Instances


def test_means_are_smooth_and_peak_at_a_point():
    instance = interval(arms=200, horizon=50, smoothness=0.5, steepness=2.0, top=0.8, replications=range(5))
    points = instance.problem.actions.dense(0)[:, 0]
    assert points == pytest.approx((np.arange(200) + 0.5) / 200)
    peaks = instance.means.argmax(axis=1)
    assert len(set(peaks.tolist())) > 2
    for mean, peak in zip(instance.means, peaks, strict=True):
        assert mean == pytest.approx(np.maximum(0.8 - 2 * np.sqrt(np.abs(points - points[peak])), 0))
    alone = interval(arms=200, horizon=50, smoothness=0.5, steepness=2.0, top=0.8, replications=[3])
    np.testing.assert_array_equal(alone.means[0], instance.means[3])


@pytest.mark.parametrize("changes", [{"smoothness": 0.0}, {"smoothness": 1.5}, {"steepness": 0.0}, {"top": 1.1}])
def test_refused_instances(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        interval(arms=5, horizon=5, **changes)
