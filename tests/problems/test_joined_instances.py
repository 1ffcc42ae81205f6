"""Instances on a device, and several joined into one."""

import numpy as np
import pytest

import adadim
from adadim import ActionSet, Instance, instances
from instance_makers import small


@pytest.mark.parametrize("expressive", [False, True])
def test_an_instance_on_a_device_is_the_same(torch, expressive):
    here = small(instances.sphere, expressive=expressive, levels=[2, 8] if expressive else None, replications=[4, 1])
    there = here.to("cpu")
    problem, moved = here.problem, there.problem
    for name in ("means", "best", "theta"):
        assert isinstance(getattr(there, name), torch.Tensor)
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    assert isinstance(moved.actions.base, torch.Tensor)
    np.testing.assert_array_equal(moved.actions.dense_batch(), problem.actions.dense_batch())
    np.testing.assert_array_equal(moved.reward_range, problem.reward_range)
    same = ("replications", "horizon", "noise", "arms", "dim")
    assert [getattr(moved, name) for name in same] == [getattr(problem, name) for name in same]
    assert (moved.actions.levels, moved.actions.expressive) == (problem.actions.levels, expressive)
    assert isinstance(here.means, np.ndarray)
    assert isinstance(here.problem.actions.base, np.ndarray)
    np.testing.assert_array_equal(there.to("cpu").means, here.means)


def test_means_that_are_not_linear_on_a_device(torch):
    there = Instance(np.eye(3), means=[0.1, 0.9, 0.4], horizon=10, noise=0.2).to("cpu")
    assert there.theta is None
    np.testing.assert_array_equal(there.means, [[0.1, 0.9, 0.4]])


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("expressive", [False, True])
def test_joined_instances_are_their_parts(library, expressive, request):
    levels = [2, 8] if expressive else None
    size = {"expressive": expressive, "levels": levels}
    parts = [small(instances.sphere, intrinsic_dim=m, replications=rs, **size) for m, rs in ((1, [3, 0]), (8, [0]))]
    parts.append(small(instances.ball, intrinsic_dim=4, replications=[9, 5], **size))
    if library == "torch":
        request.getfixturevalue("torch")
        parts = [part.to("cpu") for part in parts]
    joined = Instance.join(parts)
    assert joined.problem.replications == (3, 0, 0, 9, 5)
    assert len(joined.problem) == joined.problem.actions.replications == 5
    for name in ("means", "best", "theta"):
        np.testing.assert_array_equal(getattr(joined, name), np.concatenate([getattr(p, name) for p in parts]))
    ranges = [part.problem.reward_range for part in parts]
    np.testing.assert_array_equal(joined.problem.reward_range, np.concatenate(ranges))
    dense = [part.problem.actions.dense_batch() for part in parts]
    np.testing.assert_array_equal(joined.problem.actions.dense_batch(), np.concatenate(dense))
    for policy in (adadim.LinUCB(), adadim.DynamicBalancing()):
        together = adadim.simulate(policy, joined, seed=2)
        alone = [adadim.simulate(policy, part, seed=2) for part in parts]
        np.testing.assert_array_equal(together.pulls, np.concatenate([one.pulls for one in alone]))
        np.testing.assert_allclose(together.regret, np.concatenate([one.regret for one in alone]), atol=1e-10)
    assert [part.problem.replications for part in parts] == [(3, 0), (0,), (9, 5)]


def test_one_part_needs_no_joining():
    part = small(instances.sphere)
    assert Instance.join([part]) is part


def test_joined_arms_lie_feature_by_feature():
    """As every set's do: A u streams through memory, and a prefix of the features is one block."""
    joined = ActionSet.join([small(instances.sphere).problem.actions, small(instances.ball).problem.actions])
    assert joined.base.shape == (8, 30, 8)
    assert joined.base.strides == (8 * 30 * 8, 8, 8 * 30)


def test_joining_forgets_a_theta_that_not_all_have():
    linear = Instance(np.eye(2), theta=[0.1, 0.2], horizon=5, noise=0.1)
    free = Instance(np.eye(2), means=[0.3, 0.2], horizon=5, noise=0.1)
    joined = Instance.join([linear, free])
    assert joined.theta is None
    np.testing.assert_array_equal(joined.means, [[0.1, 0.2], [0.3, 0.2]])


@pytest.mark.parametrize(
    "changes",
    [
        {"horizon": 101},
        {"arms": 31},
        {"dim": 9},
        {"noise": 0.2},
        {"expressive": True, "levels": [2, 8]},
        {"expressive": True, "levels": [8]},
    ],
)
def test_instances_that_differ_in_more_are_not_joined(changes):
    one, other = small(instances.sphere), small(instances.sphere, **changes)
    assert not one.joins(other)
    assert not other.joins(one)
    assert one.joins(small(instances.sphere, replications=[7], intrinsic_dim=1, seed=3))
    with pytest.raises(ValueError, match="instances must differ in their replications alone to be joined: Instance"):
        Instance.join([one, other])


def test_instances_of_another_law_are_not_joined():
    clicks = small(instances.clicks)
    arms = clicks.problem.actions
    gaussian = Instance(arms, means=clicks.means, horizon=100, noise=0.5)
    unknown = Instance(arms, means=clicks.means, horizon=100, rewards="bernoulli", reward_range="unknown")
    assert not clicks.joins(gaussian)
    assert not clicks.joins(unknown)
    assert clicks.joins(Instance(arms, means=clicks.means, horizon=100, rewards="bernoulli"))
