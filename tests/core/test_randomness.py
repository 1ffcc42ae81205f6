"""Streams: replication r depends on (seed, r) alone."""

import numpy as np
import pytest

import adadim
from adadim.core import randomness
from adadim.core.randomness import DRAWS_AT_A_TIME, Purpose, Streams, check_replications, check_seed
from adadim.core.rows import Replications

DRAWS = 2 * DRAWS_AT_A_TIME + 50  # crosses two block boundaries
kinds = pytest.mark.parametrize("kind", ["uniforms", "normals"])


def sequence(streams, kind="uniforms", count=DRAWS):
    return np.array([getattr(streams, kind)() for _ in range(count)]).T


def rows_of(count, *ids):
    return Replications.some(np.array(ids), np.zeros((count, 1)))


def plain(seed, key, kind, count=DRAWS):
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))
    return generator.standard_normal(count) if kind == "normals" else generator.random(count)


@kinds
@pytest.mark.parametrize("purpose", list(Purpose))
def test_stream_is_keyed_by_seed_purpose_and_replication(kind, purpose):
    drawn = sequence(Streams(7, purpose, [3, 11]), kind)
    for row, r in zip(drawn, (3, 11), strict=True):
        np.testing.assert_array_equal(row, plain(7, (int(purpose), r), kind))


@kinds
def test_batch_and_position_do_not_matter(kind):
    alone = sequence(Streams(7, Purpose.NOISE, [4]), kind)[0]
    for batch in ([4, 0], [9, 4, 17], list(range(8))):
        np.testing.assert_array_equal(sequence(Streams(7, Purpose.NOISE, batch), kind)[batch.index(4)], alone)


@kinds
def test_block_size_is_part_of_no_result(kind, monkeypatch):
    expected = sequence(Streams(7, Purpose.POLICY, [1, 2]), kind)
    for block in (1, 7, 1000):
        monkeypatch.setattr(randomness, "DRAWS_AT_A_TIME", block)
        np.testing.assert_array_equal(sequence(Streams(7, Purpose.POLICY, [1, 2]), kind), expected)


@kinds
def test_rows_advance_only_their_own_streams(kind):
    """A ragged schedule, in which the replications cross block boundaries at different calls and out of order."""
    rng = np.random.default_rng(0)
    streams, seen = Streams(3, Purpose.POLICY, [5, 6, 7, 8]), [[] for _ in range(4)]
    for step in range(4 * DRAWS_AT_A_TIME):
        # Replication 3 draws rarely, replication 0 nearly always.
        rows = rng.permutation(4)[: rng.integers(1, 5)] if step % 3 else np.array([2, 0])
        named = Replications(slice(rows[0], rows[0] + 1), np.arange(4)) if len(rows) == 1 else rows_of(4, *rows)
        if step % 10 == 5:
            rows, named = np.arange(4), Replications.all(np.zeros((4, 1)))
        for r, value in zip(rows, getattr(streams, kind)(named), strict=True):
            seen[r].append(value)
    assert len({len(values) for values in seen}) > 2
    assert min(len(values) for values in seen) > DRAWS_AT_A_TIME
    for r, values in enumerate(seen):
        np.testing.assert_array_equal(values, plain(3, (2, 5 + r), kind, len(values)))


def test_rows_at_a_block_boundary():
    """One replication is at the end of its block while the others are not."""
    streams = Streams(3, Purpose.POLICY, [0, 1, 2])
    first = [streams.uniforms(rows_of(3, 1))[0] for _ in range(DRAWS_AT_A_TIME)]
    together = streams.uniforms()
    np.testing.assert_array_equal(first, plain(3, (2, 1), "uniforms", DRAWS_AT_A_TIME))
    expected = [plain(3, (2, r), "uniforms")[DRAWS_AT_A_TIME if r == 1 else 0] for r in range(3)]
    np.testing.assert_array_equal(together, expected)
    np.testing.assert_array_equal(
        streams.uniforms(rows_of(3, 2, 1)),
        [plain(3, (2, 2), "uniforms")[1], plain(3, (2, 1), "uniforms")[DRAWS_AT_A_TIME + 1]],
    )


def test_drawn_numbers_are_the_callers():
    streams = Streams(3, Purpose.POLICY, [0, 1])
    drawn = streams.uniforms()
    drawn[:] = -1.0
    np.testing.assert_array_equal(streams.uniforms(), [plain(3, (2, r), "uniforms")[1] for r in range(2)])


def test_no_two_streams_share_a_number():
    """Different seeds, purposes, replications, children and grandchildren."""
    numbers = [sequence(Streams(seed, purpose, range(3))) for seed in (0, 1) for purpose in Purpose]
    for streams in (Streams(0, Purpose.POLICY, range(3)), Streams(0, Purpose.NOISE, range(3))):
        for index in (0, 1, 2):
            numbers.append(sequence(streams.child(index)))
            numbers.append(sequence(streams.child(index).child(0)))
    drawn = np.concatenate(numbers)
    assert len(np.unique(drawn)) == drawn.size
    correlation = np.corrcoef(drawn)[np.triu_indices(len(drawn), 1)]
    assert abs(correlation).max() < 5 / np.sqrt(DRAWS)


def test_child_does_not_depend_on_what_the_parent_drew():
    fresh, used = (Streams(5, Purpose.POLICY, [2, 3]) for _ in range(2))
    sequence(used)
    expected = sequence(fresh.child(4).child(1))
    np.testing.assert_array_equal(sequence(used.child(4).child(1)), expected)
    np.testing.assert_array_equal(sequence(Streams(5, Purpose.POLICY, [3]).child(4).child(1))[0], expected[1])
    np.testing.assert_array_equal(expected[0], plain(5, (2, 2, 4, 1), "uniforms"))
    np.testing.assert_array_equal(
        sequence(used), np.array([plain(5, (2, r), "uniforms", 2 * DRAWS)[DRAWS:] for r in (2, 3)])
    )


@kinds
def test_table_is_what_as_many_calls_give(kind):
    table = Streams(7, Purpose.POLICY, [3, 11]).table(DRAWS, normal=kind == "normals")
    np.testing.assert_array_equal(table, sequence(Streams(7, Purpose.POLICY, [3, 11]), kind))


def test_source_in_numpy_is_the_stream_itself():
    streams = Streams(7, Purpose.NOISE, [3])
    assert streams.source(5) is streams
    named = Streams(7, Purpose.NOISE, [3], reference=np.zeros((1, 2)))
    assert named.source(5) is named


@pytest.mark.parametrize("kind", ["uniforms", "normals"])
def test_moments(kind):
    drawn = sequence(Streams(0, Purpose.NOISE, range(40)), kind)
    mean, spread = (0.5, np.sqrt(1 / 12)) if kind == "uniforms" else (0.0, 1.0)
    assert abs(drawn.mean() - mean) < 4 * spread / np.sqrt(drawn.size)
    assert abs(drawn.std() / spread - 1) < 0.03


def test_global_random_state_is_neither_used_nor_changed():
    instance = adadim.instances.sphere(arms=20, dim=5, intrinsic_dim=2, horizon=50)

    def run():
        return adadim.simulate(adadim.LinUCB(), instance, seed=3).regret

    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = run()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(run(), first)


def test_large_seeds_and_replication_numbers():
    big = 2**70 + 1
    drawn = {
        float(sequence(Streams(seed, Purpose.NOISE, [r]), count=1)[0, 0])
        for seed in (1, 2**32 + 1, 2**64 + 1, big)
        for r in (1, 2**32 + 1, 2**40)
    }
    assert len(drawn) == 12


@pytest.mark.parametrize("seed", [-1, 1.0, True, None, "0", np.float64(3)])
def test_bad_seed(seed):
    with pytest.raises(ValueError, match="seed must be a non-negative integer, got "):
        check_seed(seed)


def test_good_seeds_and_replications():
    assert check_seed(np.int64(4)) == 4
    assert check_replications(np.array([4, 0, 2])) == (4, 0, 2)
    assert all(type(r) is int for r in check_replications(np.arange(3)))
