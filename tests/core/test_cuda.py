"""What only a GPU can show: the arms of the CPU, kernels that equal torch, the same numbers twice."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import adadim
from adadim import paper
from adadim.core.barrier import log_barrier_round
from adadim.core.randomness import DeviceDraws, Purpose, Streams
from adadim.core.recording import stream_aside
from adadim.core.rows import Replications
from adadim.core.ties import argmax, draw_indices
from adadim.models import posterior
from adadim.models.tensors import Lanes
from driving import Driver, small
from fused_cases import LAST_DIGITS, ONE_KERNEL, SEVERAL, compare, random_operations, tensors
from recorded_policies import HORIZON, POLICIES


@pytest.mark.parametrize(
    ("variant", "name"), [key.split() for key in POLICIES if key.startswith(("theory", "released"))]
)
def test_gpu_pulls_the_same_arms_at_the_size_of_the_paper(gpu, variant, name):
    """The first 200 of 2500 rounds; later, rounding may decide between arms that are all but equal."""
    policy, instance = (
        paper.policies(variant, 12)[name],
        small(range(4), horizon=2500, arms=1200, dim=600, intrinsic_dim=12),
    )
    arms = np.array(Driver(policy, instance, seed=3).run(200).arms)
    gaps = instance.best[:, None] - instance.means
    expected = np.cumsum(np.take_along_axis(gaps, arms, axis=1), axis=1)
    outcome = adadim.simulate(policy, instance.to("cuda"), seed=3, record=[*range(1, 201), 2500])
    np.testing.assert_allclose(outcome.regret[:, :200], expected, rtol=0, atol=1e-9)
    assert (outcome.pulls.sum(axis=1) == 2500).all()
    np.testing.assert_allclose(outcome.final, (outcome.pulls * gaps).sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("expressive", [False, True])
@pytest.mark.parametrize("name", POLICIES)
def test_gpu_pulls_the_same_arms(gpu, name, expressive):
    if name == "LinMED" and expressive:
        pytest.skip(
            "with more than 2d arms its design starts from eigenvectors, whose order and signs rounding decides"
        )
    closure = {"expressive": True, "levels": [4, 8, 16]} if expressive else {}
    here = small(range(3), horizon=HORIZON, arms=20, dim=16, **closure)
    expected, outcome = (adadim.simulate(POLICIES[name], i, seed=5, record=HORIZON) for i in (here, here.to("cuda")))
    np.testing.assert_array_equal(outcome.pulls, expected.pulls)
    np.testing.assert_allclose(outcome.regret, expected.regret, rtol=0, atol=1e-9)
    # It goes on after the recorded run, as on the CPU.
    for _ in range(5):
        arms = expected.learner.select()
        np.testing.assert_array_equal(outcome.learner.select().cpu().numpy(), arms)
        for learner in (expected.learner, outcome.learner):
            learner.update(arms.tolist(), [0.1, 0.0, -0.1])


def test_arms_go_to_the_gpu_without_a_copy_on_the_host(gpu):
    instance = small(range(4), horizon=10, arms=500, dim=400)
    features = instance.problem.actions.base
    tracemalloc.start()
    moved = instance.to("cuda")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < features.nbytes / 2
    assert not features.flags.writeable
    np.testing.assert_array_equal(moved.problem.actions.base.cpu().numpy(), features)


@pytest.mark.parametrize("policy", [adadim.LinUCB(), adadim.LinUCBPlusPlus()], ids=["linucb", "linucb++"])
def test_no_second_copy_of_the_arms_is_made_on_the_gpu(gpu, policy):
    instance = small(range(1), horizon=30, arms=20_000, dim=256).to("cuda")
    features = instance.problem.actions.base
    adadim.simulate(policy, small(range(1), horizon=30, arms=20, dim=16).to("cuda"))  # what torch keeps for products
    before = gpu.cuda.memory_allocated()
    gpu.cuda.reset_peak_memory_stats()
    adadim.simulate(policy, instance)
    assert gpu.cuda.max_memory_allocated() - before < features.element_size() * features.numel() / 2


@pytest.mark.parametrize("levels", [None, [40, 100, 150]], ids=["plain", "expressive"])
@pytest.mark.parametrize("dims", [(1, 2, 4, 8, 16, 32, 64, 128), (33, 150)], ids=["powers", "others"])
def test_gpu_kernels_equal_torch_operations(gpu, levels, dims):
    pytest.importorskip("triton")
    rng, count = np.random.default_rng(8), 6
    features = rng.standard_normal((count, 300, 150))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    actions = adadim.ActionSet(features, levels=levels).to("cuda")
    fast, slow = Lanes(actions, dims, 0.1), Lanes(actions, dims, 0.1)
    assert fast._kernels is not None
    slow._kernels = None
    for _ in range(150):
        parts = rng.integers(len(dims), size=count), rng.integers(actions.arms, size=count), rng.standard_normal(count)
        mask = rng.random(count) < [1.0, 0.9, 0.5, 0.5, 0.1, 0.0]
        given = [gpu.from_numpy(part).cuda() for part in parts]
        rows = Replications.where(gpu.from_numpy(mask).cuda())
        fast.absorb(*given, rows)
        slow.absorb(*given, rows)
    for name in ("mean", "width2", "_w", "pulls"):
        one, other = (getattr(lanes, name).cpu().numpy() for lanes in (fast, slow))
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11, err_msg=name)
    assert fast.pulls[-1].sum() == 0


@pytest.fixture
def fused(gpu):
    """Calls a function, its operations put together to kernels; `fused.count` is how many these were."""
    pytest.importorskip("triton")
    from adadim.core import fusion, triton_kernels

    def launch(*given):
        call.count += 1
        triton_kernels.FusedKernel(*given).run()

    def call(function, *arguments):
        call.count, mode = 0, fusion.Fusing(launch)
        with mode:
            result = function(*arguments)
            mode.flush()
        return result

    return call


@pytest.mark.parametrize("name", [*ONE_KERNEL, *SEVERAL])
def test_gpu_gives_the_same_by_one_kernel(fused, name):
    compare(fused, (ONE_KERNEL | SEVERAL)[name], tensors(device="cuda"), LAST_DIGITS)
    assert fused.count == 1 or name in SEVERAL


@pytest.mark.parametrize("seed", range(8))
def test_gpu_gives_the_same_for_operations_at_random(fused, seed):
    compare(fused, lambda n: random_operations(n, seed), tensors(seed, device="cuda"), LAST_DIGITS)


@pytest.mark.parametrize("arms", [3, 130, 1201, 5000, 16_384])
def test_gpu_chooses_among_many_arms_by_one_kernel(fused, gpu, arms):
    """Threads of several warps work on a row, and hundreds of rows are worked on at a time."""
    rng = np.random.default_rng(arms)
    scores, uniforms = rng.integers(0, 30, (500, arms)).astype(float), rng.random(500)
    pulls = gpu.zeros((500, arms), dtype=gpu.float64, device="cuda")
    given = [gpu.from_numpy(x).cuda() for x in (scores, uniforms)]

    def choose_and_count(scores, uniforms):
        chosen = argmax(scores * 1.0, uniforms)
        Replications.all(pulls).add(pulls, chosen, 1.0)
        return (
            chosen,
            scores.gather(1, chosen[:, None])[:, 0] + pulls.sum(-1),
            draw_indices(scores.cumsum(-1), uniforms),
        )

    for _ in range(20):
        chosen, top, drawn = fused(choose_and_count, *given)
        assert fused.count == 1
    np.testing.assert_array_equal(chosen.cpu().numpy(), argmax(scores, uniforms))
    np.testing.assert_array_equal(top.cpu().numpy(), scores.max(axis=1) + 20)
    np.testing.assert_array_equal(drawn.cpu().numpy(), draw_indices(scores.cumsum(axis=1), uniforms))
    np.testing.assert_array_equal(pulls.cpu().numpy().max(axis=1), 20)


@pytest.mark.parametrize("arms", [1, 5, 130, 1201, 20_000])
@pytest.mark.parametrize("at_random", [True, False])
def test_gpu_chooses_among_ties_as_numpy(gpu, arms, at_random):
    rng = np.random.default_rng(arms)
    scores = rng.integers(0, 6, (9, arms)).astype(float)
    scores[2] += 1e-12 * rng.random(arms)  # ties up to rounding
    scores[3] *= -1
    scores[4] = 0.0
    scores[5, 0] = np.nan
    scores[6] = -np.inf
    scores[7, arms // 2] = np.inf
    uniforms = rng.random(9) if at_random else None
    there = argmax(gpu.from_numpy(scores).cuda(), None if uniforms is None else gpu.from_numpy(uniforms).cuda())
    np.testing.assert_array_equal(there.cpu().numpy(), argmax(scores, uniforms))


def test_gpu_draws_indices_as_numpy(gpu):
    rng = np.random.default_rng(3)
    steps, uniforms = rng.random((400, 7)).cumsum(axis=1), rng.random(400)
    there = draw_indices(gpu.from_numpy(steps).cuda(), gpu.from_numpy(uniforms).cuda())
    np.testing.assert_array_equal(there.cpu().numpy(), draw_indices(steps, uniforms))


def test_gpu_takes_the_numbers_of_each_stream_in_order(gpu):
    """From one lane or several, in the replications where a mask holds."""
    rng, lanes = np.random.default_rng(4), [Streams(5, Purpose.POLICY, range(3), (i,)) for i in range(2)]
    source = DeviceDraws(lanes, gpu.zeros(3, device="cuda"), 30)
    tables = [Streams(5, Purpose.POLICY, range(3), (i,)).table(31) for i in range(2)]
    taken = np.zeros((2, 3), dtype=int)
    for _ in range(25):
        lane, mask = rng.integers(2, size=3), rng.random(3) < 0.6
        rows = Replications.where(gpu.from_numpy(mask).cuda())
        numbers = source.uniforms(rows, gpu.from_numpy(lane).cuda()).cpu().numpy()
        expected = [tables[lane[r]][r, taken[lane[r], r]] for r in range(3)]
        np.testing.assert_array_equal(numbers, expected)
        taken[lane, np.arange(3)] += mask
    np.testing.assert_array_equal(source.uniforms().cpu().numpy(), [tables[0][r, taken[0, r]] for r in range(3)])


@pytest.mark.parametrize("integers", [True, False])
def test_gpu_adds_to_one_column_where_the_mask_holds(gpu, integers):
    array = np.zeros((4, 9), dtype=np.int64 if integers else float)
    there = gpu.from_numpy(np.zeros((4, 12), dtype=array.dtype)).cuda()[:, :9]
    columns, values, mask = np.array([8, 0, 3, 3]), np.arange(1, 5).astype(array.dtype), np.array([1, 0, 1, 1]) > 0
    parts = [gpu.from_numpy(part).cuda() for part in (columns, values)]
    Replications.all(there).add(there, parts[0], 1)
    Replications.where(gpu.from_numpy(mask).cuda()).add(there, *parts)
    array[np.arange(4), columns] += 1 + values * mask
    np.testing.assert_array_equal(there.cpu().numpy(), array)


@pytest.mark.parametrize(
    ("form", "arms", "dim", "levels"),
    [
        ("gram", 130, 40, None),
        ("feature", 130, 40, None),
        ("feature", 130, 40, [7, 40]),
        ("feature", 20, 40, None),  # 32 pulls at a time
        ("feature", 20, 70, [8, 33]),
    ],
)
def test_gpu_learns_pulls_as_numpy(gpu, form, arms, dim, levels):
    """Some replications learn more often than others, and one is made anew from sums."""
    rng = np.random.default_rng(6)
    features = rng.standard_normal((5, arms, dim))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    actions = adadim.ActionSet(features, levels=levels)
    here, there = posterior(actions, 0.1, form), posterior(actions.to("cuda"), 0.1, form)
    assert there.tallied
    assert getattr(there, "defers", False) == (arms == 20)
    for t in range(100):
        pulled, rewards = rng.integers(actions.arms, size=5), rng.standard_normal(5)
        mask = rng.random(5) < [1.0, 0.9, 0.5, 0.1, 0.0]
        ids = np.flatnonzero(mask)
        if len(ids):
            here.resolve(pulled[ids], rewards[ids], Replications.some(ids, here.mean))
        given = [gpu.from_numpy(part).cuda() for part in (pulled, rewards)]
        there.resolve(*given, Replications.where(gpu.from_numpy(mask).cuda()))
        if t == 50:
            for state in (here, there):
                row = Replications.some(np.array([1]), state.mean)
                state.rebuild(row.of(state.counts) * 2, row.of(state.sums) * 2, row, row.of(state.squares) * 2)
    for name in ("mean", "width2", "logdet", "counts", "sums", "squares", "pulls"):
        one, other = getattr(here, name), getattr(there, name).cpu().numpy()
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-10, err_msg=name)
    assert here.pulls[4] == 0


def test_gpu_learns_losses_as_numpy(gpu):
    rng, rounds = np.random.default_rng(7), 100
    p = rng.dirichlet(np.ones(5), 6)
    here = [p, 0.99 * p + 0.002, np.full((6, 5), 0.3), np.full((6, 5), 3.0)]
    there = [gpu.from_numpy(part.copy()).cuda() for part in here]
    for _ in range(20):
        chosen, losses, mask = rng.integers(5, size=6), rng.random(6), np.arange(6) != 2
        given = [gpu.from_numpy(part).cuda() for part in (chosen, losses, mask)]
        growth = float(np.exp(1 / np.log(rounds)))
        log_barrier_round(there, *given[:2], 1 / rounds, growth, Replications.where(given[2]))
        ids = np.flatnonzero(mask)
        log_barrier_round(here, chosen[ids], losses[ids], 1 / rounds, growth, Replications.some(ids, p))
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(other.cpu().numpy(), one, rtol=1e-9)
    assert (here[2] > 0.3).any()


def test_gpu_records_where_nobody_computes(gpu):
    """Torch's streams are taken from 32, in turn: a stream made for a thread may be one of those made before."""
    others = [gpu.cuda.Stream() for _ in range(100)]
    assert len({stream.cuda_stream for stream in others}) < 100
    assert stream_aside("cuda:0").cuda_stream not in {stream.cuda_stream for stream in others}


@pytest.mark.parametrize(
    "name", ["theory linucb++", "theory linucb++corral", "released smooth-corral", "released dynamic-balancing"]
)
def test_gpu_gives_the_same_twice(gpu, name):
    instance = small(range(8), horizon=400, arms=300, dim=100).to("cuda")
    one, other = (adadim.simulate(POLICIES[name], instance, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.pulls, other.pulls)
    np.testing.assert_array_equal(one.regret, other.regret)
