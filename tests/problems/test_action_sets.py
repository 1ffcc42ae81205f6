"""Action sets: the expressive closure, truncation, projections and rescaling."""

import numpy as np
import pytest

from adadim import ActionSet, instances
from instance_makers import features, small

both = pytest.mark.parametrize("make", [instances.sphere, instances.ball], ids=["sphere", "ball"])


# Expressive closure


def test_expressive_closure_of_the_paper():
    """C28."""
    assert instances.expressive_levels(2500, 400) == [8, 16, 32, 64, 128, 400]
    instance = instances.sphere(arms=800, dim=400, intrinsic_dim=12, horizon=2500, expressive=True)
    plain = instances.sphere(arms=800, dim=400, intrinsic_dim=12, horizon=2500)
    actions = instance.problem.actions
    assert actions.levels == (8, 16, 32, 64, 128, 400)
    assert instance.problem.arms == actions.arms == 4800
    dense, base = actions.dense(0), features(plain)
    assert dense.shape == (4800, 400)
    for block, level in enumerate(actions.levels):
        rows = dense[800 * block : 800 * (block + 1)]
        np.testing.assert_array_equal(rows[:, :level], base[:, :level])
        assert not rows[:, level:].any()
    np.testing.assert_allclose(instance.means[0], dense @ instance.theta[0], atol=1e-14)
    np.testing.assert_allclose(actions.squared_norms()[0], (dense**2).sum(axis=1), atol=1e-14)
    usable = [actions.truncate(m, supported=True)[0].arms for m in (128, 64, 32, 16, 8, 4)]
    assert usable == [4000, 3200, 2400, 1600, 800, 800]
    oracle, pull = actions.truncate(12)
    assert oracle.dense(0).shape == (1600, 12)
    np.testing.assert_array_equal(pull, [*range(800), *range(4000, 4800)])


def test_levels_follow_horizon_and_dimension():
    assert instances.expressive_levels(2500, 600) == [8, 16, 32, 64, 128, 600]
    assert instances.expressive_levels(2500, 32) == [8, 16, 32]
    assert instances.expressive_levels(2500, 5) == [5]
    assert instances.expressive_levels(100, 400) == [8, 16, 32, 400]
    assert instances.expressive_levels(2500, 400, beta=0.7) == [8, 16, 32, 64, 128, 256, 400]


@both
def test_levels_are_an_argument(make):
    instance = small(make, expressive=True, levels=[1, 4, 8])
    assert instance.problem.actions.levels == (1, 4, 8)
    assert instance.means.shape == (4, 90)
    for r in range(4):
        np.testing.assert_allclose(instance.means[r], features(instance, r) @ instance.theta[r], atol=1e-14)
    with pytest.raises(ValueError, match="pass expressive=True"):
        small(make, levels=[1, 4])


# Truncation


def test_truncation_of_plain_arms():
    rng = np.random.default_rng(0)
    actions = ActionSet(rng.random((2, 6, 5)) / 5)
    cut, pull = actions.truncate(3)
    np.testing.assert_array_equal(cut.base, actions.base[:, :, :3])
    np.testing.assert_array_equal(pull, np.arange(6))
    assert actions.truncate(5)[0] is actions


@pytest.mark.parametrize("supported", [False, True])
@pytest.mark.parametrize("dim", range(1, 9))
def test_truncation_of_expressive_arms(dim, supported):
    rng = np.random.default_rng(1)
    actions = ActionSet(rng.random((2, 3, 8)) / 8, levels=[2, 4, 7])
    cut, pull = actions.truncate(dim, supported=supported)
    for r in range(2):
        dense = actions.dense(r)
        np.testing.assert_array_equal(cut.dense(r), dense[pull, :dim])
        seen = {tuple(row) for row in dense[:, :dim]}
        if supported:
            usable = [k for k in range(9) if not dense[k, dim:].any()]
            np.testing.assert_array_equal(pull, usable or [0, 1, 2])
        else:
            assert {tuple(row) for row in cut.dense(r)} == seen
            assert cut.arms == len(seen)  # every distinct truncation once
    np.testing.assert_allclose(cut.squared_norms()[1], (cut.dense(1) ** 2).sum(axis=1), atol=1e-15)


def test_vectors_and_projections_of_expressive_arms(torch):
    rng = np.random.default_rng(2)
    base, levels = rng.random((3, 4, 6)) / 6, [2, 5]
    here, there = ActionSet(base, levels=levels), ActionSet(torch.asarray(base), levels=levels)
    arms, directions = np.array([6, 1, 4]), rng.standard_normal((3, 6))
    expected = np.stack([here.dense(r)[k] for r, k in enumerate(arms)])
    np.testing.assert_array_equal(here.vectors(arms), expected)
    np.testing.assert_array_equal(there.vectors(torch.asarray(arms)), expected)
    for k in range(8):
        np.testing.assert_array_equal(here.vector(1, k), here.dense(1)[k])
    projected = np.stack([here.dense(r) @ u for r, u in enumerate(directions)])
    np.testing.assert_allclose(here.project(directions), projected, atol=1e-15)
    np.testing.assert_allclose(there.project(torch.asarray(directions)), projected, atol=1e-15)


def test_rescaled_to_the_longest_arm():
    rng = np.random.default_rng(3)
    for actions in (ActionSet(rng.random((2, 4, 6)) / 9), ActionSet(rng.random((2, 4, 6)) / 9, levels=[2, 6])):
        norms = np.sqrt(actions.squared_norms())
        scaled = np.sqrt(actions.rescaled().squared_norms())
        np.testing.assert_allclose(scaled, norms / norms.max(axis=1, keepdims=True), rtol=1e-13)
    np.testing.assert_array_equal(ActionSet(np.zeros((2, 3))).rescaled().base, 0)
