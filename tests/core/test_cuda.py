"""What only a GPU can show: the arms of the CPU, kernels that equal torch, the same numbers twice."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import adadim
from adadim import paper
from adadim.core.rows import Replications
from adadim.models.tensors import Lanes
from driving import Driver, small
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


@pytest.mark.parametrize(
    "name", ["theory linucb++", "theory linucb++corral", "released smooth-corral", "released dynamic-balancing"]
)
def test_gpu_gives_the_same_twice(gpu, name):
    instance = small(range(8), horizon=400, arms=300, dim=100).to("cuda")
    one, other = (adadim.simulate(POLICIES[name], instance, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.pulls, other.pulls)
    np.testing.assert_array_equal(one.regret, other.regret)
