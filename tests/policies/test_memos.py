"""Memos of decisions whose replications went different ways: put together and taken apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim.policies.player import merged, part_of, with_prefix, without_prefix

libraries = pytest.mark.parametrize("library", ["numpy", "torch"])


@pytest.fixture
def own(library, request):
    if library == "numpy":
        return np.copy
    return lambda value: request.getfixturevalue("torch").from_numpy(value.copy())


@libraries
def test_merged_puts_every_part_where_it_belongs(own, library):
    parts = [
        (own(np.array([3, 0])), {"arms": own(np.array([30, 10])), "level": own(np.array([2, 1]))}),
        (slice(1, 2), {"arms": own(np.array([11])), "odds": own(np.array([[0.25, 0.75]]))}),
        (own(np.array([2])), {"arms": own(np.array([12]))}),
    ]
    whole = merged(parts, 4)
    assert whole["arms"].tolist() == [10, 11, 12, 30]
    assert whole["level"].tolist() == [1, 0, 0, 2]  # zero where a part has none
    assert whole["odds"].tolist() == [[0.0, 0.0], [0.25, 0.75], [0.0, 0.0], [0.0, 0.0]]
    assert "int64" in str(whole["level"].dtype)
    assert "float64" in str(whole["odds"].dtype)
    assert type(whole["odds"]) is type(own(np.zeros(1)))


@libraries
def test_one_part_is_the_whole(own, library):
    memo = {"level": own(np.array([4, 5]))}
    assert merged([(slice(None), memo)], 2) is memo
    assert merged([(slice(None), {})], 2) == {}


@libraries
def test_parts_without_memos_merge_to_nothing(own, library):
    assert merged([(slice(0, 1), {}), (slice(1, 2), {})], 2) == {}


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=8), seed=st.integers(0, 1000))
def test_taking_apart_undoes_putting_together(labels, seed):
    rng, labels = np.random.default_rng(seed), np.array(labels)
    parts = []
    for label in np.unique(labels):
        at = np.flatnonzero(labels == label)
        memo = {"choice": rng.integers(1, 90, len(at)), "odds": rng.random((len(at), 2))}
        parts.append((at, memo | ({"extra": rng.random(len(at))} if label % 2 else {})))
    whole = merged(parts, len(labels))
    for at, memo in parts:
        found = part_of(whole, at)
        for key, values in memo.items():
            np.testing.assert_array_equal(found[key], values)
        for key in found.keys() - memo.keys():
            assert not found[key].any()


@libraries
def test_part_of(own, library):
    memo = {"choice": own(np.array([5, 6, 7])), "odds": own(np.arange(6.0).reshape(3, 2))}
    for at, expected in ((slice(None), [5, 6, 7]), (slice(1, 2), [6]), (own(np.array([2, 0])), [7, 5])):
        part = part_of(memo, at)
        assert part["choice"].tolist() == expected
        assert part["odds"].shape == (len(expected), 2)


def test_marks_tell_learners_apart():
    memo = with_prefix({"level": 1}, 1) | with_prefix({"level": 2, "1.level": 3}, 11) | with_prefix({}, 2) | {"base": 4}
    assert without_prefix(memo, 1) == {"level": 1}
    assert without_prefix(memo, 11) == {"level": 2, "1.level": 3}
    assert without_prefix(memo, 2) == {}


def test_marks_may_be_nested():
    """A master under a master marks what its own bases have marked."""
    inner = with_prefix({"level": 7}, 0)
    outer = with_prefix(inner, 3) | with_prefix({"level": 8}, 0)
    assert without_prefix(without_prefix(outer, 3), 0) == {"level": 7}
    assert without_prefix(outer, 0) == {"level": 8}
