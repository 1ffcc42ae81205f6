"""Bad arms, rewards and rows are refused by select and update, and nothing is half learned."""

import numpy as np
import pytest

import adadim
from adadim import (
    Instance,
    LinUCB,
    NotSelectedError,
    Problem,
)
from refusals import GOOD, assert_refuses, problem

nan, inf = float("nan"), float("inf")


# select and update


def started(count=2, **options):
    features = np.broadcast_to(GOOD, (count, 3, 3))
    return LinUCB(**options).start(Problem(features, horizon=10, noise=0.1, replications=range(7, 7 + count)))


@pytest.mark.parametrize(
    ("arms", "rewards", "error", "message"),
    [
        ([0, 3], [0.1, 0.2], ValueError, r"arms must be in 0\.\.2, got 3"),
        ([-1, 0], [0.1, 0.2], ValueError, r"arms must be in 0\.\.2, got -1"),
        ([0], [0.1], ValueError, r"arms must have shape \(2,\), one per replication, got \(1,\)"),
        ([[0, 1]], [0.1, 0.2], ValueError, r"arms must have shape \(2,\), one per replication, got \(1, 2\)"),
        ([0.0, 1.0], [0.1, 0.2], TypeError, "arms must be integers, got dtype float64"),
        (np.array([True, False]), [0.1, 0.2], TypeError, "arms must be integers, got dtype bool"),
        ([0, 1], [0.1], ValueError, r"rewards must have shape \(2,\), one per replication, got \(1,\)"),
        ([0, 1], [0.1, 0.2, 0.3], ValueError, r"rewards must have shape \(2,\), one per replication, got \(3,\)"),
        ([0, 1], 0.1, ValueError, r"rewards must have shape \(2,\), one per replication, got \(1,\)"),
        ([0, 1], np.zeros((2, 1)), ValueError, r"rewards must have shape \(2,\), one per replication, got \(2, 1\)"),
        ([0, 1], [0.1, nan], ValueError, "rewards must be finite, got nan"),
        ([0, 1], np.array([-inf, 0.1]), ValueError, "rewards must be finite, got -inf"),
        ([0, 1], np.array([1j, 0]), TypeError, "rewards must be real numbers, got dtype complex128"),
        ([0, 1], ["a", "b"], TypeError, "rewards must be real numbers, got dtype <U1"),
    ],
)
def test_update(arms, rewards, error, message):
    learner = started()
    learner.select()
    assert_refuses(error, message, learner.update, arms, rewards)
    # Nothing was half done: no pull was counted, and the right call still goes through.
    assert not learner.model.regression.counts.any()
    assert not learner.model.regression.mean.any()
    learner.update([0, 1], [0.1, 0.2])
    np.testing.assert_array_equal(learner.model.regression.counts, [[1, 0, 0], [0, 1, 0]])


def test_update_before_select():
    learner = started()
    assert_refuses(
        NotSelectedError, "update before select: replication 7 has no open decision", learner.update, [0, 0], [0.1, 0.1]
    )
    assert not learner.model.regression.counts.any()
    learner.update(learner.select(), [0.1, 0.1])
    assert_refuses(NotSelectedError, "update before select", learner.update, [0, 0], [0.1, 0.1])
    assert (learner.model.regression.counts.sum(axis=1) == 1).all()
    assert issubclass(NotSelectedError, ValueError)


def test_update_before_select_of_some_rows():
    learner = started(4)
    learner.select(rows=[0, 2])
    message = "replication 10 has no open decision"  # the fourth of 7, 8, 9, 10
    assert_refuses(NotSelectedError, message, learner.update, [0, 0], [0.1, 0.1], rows=[2, 3])
    assert_refuses(NotSelectedError, "replication 8 has no open decision", learner.update, [0] * 4, [0.1] * 4)
    learner.update([0, 1], [0.1, 0.2], rows=[2, 0])
    np.testing.assert_array_equal(learner.model.regression.counts.argmax(axis=1)[[2, 0]], [0, 1])
    assert_refuses(NotSelectedError, "replication 9 has no open decision", learner.update, [0], [0.1], rows=[2])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"rows must be a non-empty 1-d array of integers, got \[\]"),
        (1, "rows must be a non-empty 1-d array of integers, got 1"),
        ([[0, 1]], "rows must be a non-empty 1-d array of integers"),
        ([0.0], r"rows must be a non-empty 1-d array of integers, got \[0\.0\]"),
        ([True, False], "rows must be a non-empty 1-d array of integers"),
        ([0, 2], r"rows must be distinct and in 0\.\.1, got \[0, 2\]"),
        ([-1], r"rows must be distinct and in 0\.\.1, got \[-1\]"),
        ([1, 1], r"rows must be distinct and in 0\.\.1, got \[1, 1\]"),
    ],
)
def test_rows(rows, message):
    learner = started()
    assert_refuses(ValueError, message, lambda: learner.select(rows=rows))
    learner.select()
    assert_refuses(ValueError, message, learner.update, [0], [0.1], rows)


def test_plain_numbers_are_welcome_in_update():
    learner = started(1)
    for arms, rewards in ((0, 0.5), ([1], [1]), (np.int64(2), np.float32(0.25)), ((0,), (True,))):
        learner.select()
        learner.update(arms, rewards)
    np.testing.assert_array_equal(learner.model.regression.counts, [[2, 1, 1]])
    np.testing.assert_array_equal(learner.model.regression.sums, [[1.5, 1.0, 0.25]])


# Mixed array libraries


def test_mixed_array_libraries(torch):
    message = r"arrays of one library are needed \(all NumPy or all torch\), got numpy\.ndarray, torch\.Tensor"
    features = torch.eye(3, dtype=torch.float64)
    assert_refuses(TypeError, message, Instance, features, theta=np.zeros(3), horizon=10, noise=0.1)
    assert_refuses(TypeError, message, Instance, GOOD, means=torch.zeros(3), horizon=10, noise=0.1)
    learner = LinUCB().start(problem())
    learner.select()
    assert_refuses(TypeError, message, learner.update, torch.asarray([0]), np.array([0.1]))
    assert_refuses(TypeError, message, learner.update, np.array([0]), torch.asarray([0.1]))
    learner.update([0], [0.1])
    learner = LinUCB().start(problem(features=features))
    arms = learner.select()
    assert_refuses(TypeError, message, learner.update, arms, np.array([0.1]))
    learner.update(arms, [0.1])  # plain numbers belong to no library
    assert learner.model.regression.counts.sum() == 1


def test_update_in_torch(torch):
    learner = LinUCB().start(problem(features=torch.eye(3, dtype=torch.float64)))
    assert_refuses(NotSelectedError, "update before select", learner.update, torch.asarray([0]), torch.asarray([0.1]))
    learner.select()
    assert_refuses(
        ValueError, r"arms must be in 0\.\.2, got 3", learner.update, torch.asarray([3]), torch.asarray([0.1])
    )
    assert_refuses(
        ValueError, "rewards must be finite, got nan", learner.update, torch.asarray([0]), torch.asarray([nan])
    )
    assert_refuses(TypeError, "arms must be integers", learner.update, torch.asarray([0.0]), torch.asarray([0.1]))
    assert_refuses(ValueError, r"rewards must have shape \(1,\)", learner.update, torch.asarray([0]), torch.zeros(2))
    learner.update(torch.asarray([0]), torch.asarray([0.5]))
    assert learner.model.regression.sums.tolist() == [[0.5, 0.0, 0.0]]


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32", "int64"])
def test_integers_of_any_size_are_arms(kind, torch):
    features = torch.eye(3, dtype=torch.float64)
    learner = adadim.LinUCB(ties="lowest").start(adadim.Problem(features, horizon=9, noise=0.1))
    learner.select()
    learner.update(torch.zeros(1, dtype=getattr(torch, kind)), torch.tensor([0.5]))
    learner.learn(torch.ones(2, dtype=getattr(torch, kind)), torch.tensor([0.5, 0.6]))
    assert learner.model.regression.counts[0].tolist() == [1, 2, 0]


@pytest.mark.parametrize("kind", [adadim.LinUCBPlusPlus, adadim.LinUCBPlusPlusCorral])
def test_words_are_no_flags(kind):
    with pytest.raises(adadim.InvalidTypeError, match="expressive must be True or False, got 'false'"):
        kind(expressive="false")
