"""Random numbers kept on a device: those of the streams, however they are asked for and however many."""

import numpy as np
import pytest

from adadim.core.randomness import DeviceDraws, Purpose, Streams
from adadim.core.recording import Recorder
from adadim.core.rows import Replications

kinds = pytest.mark.parametrize("kind", ["uniforms", "normals"])


def plain(seed, key, kind, count):
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))
    return generator.standard_normal(count) if kind == "normals" else generator.random(count)


@kinds
@pytest.mark.parametrize("draws", [1, 7, 40])
def test_numbers_on_a_device_are_those_of_the_streams(torch, kind, draws):
    """Masks, integers and slices in turn; 120 calls need several refills, whose replications have used up unequally."""
    numbers, rng = [3, 0, 11, 6], np.random.default_rng(1)
    reference = torch.zeros((4, 2))
    source = Streams(7, Purpose.POLICY, numbers, reference=reference).source(draws, normal=kind == "normals")
    assert isinstance(source, DeviceDraws)
    seen = [[] for _ in numbers]
    for step in range(120):
        mask = rng.random(4) < [0.9, 0.5, 0.1, 0.02]
        members = np.flatnonzero(mask)
        if step % 4 == 0 or not members.size:
            drawn = getattr(source, kind)(Replications.where(torch.from_numpy(mask)))
            assert drawn.shape == (4,)
            drawn = drawn[members]
        elif step % 4 == 1:
            members = rng.permutation(members)
            drawn = getattr(source, kind)(Replications.some(members, reference))
        elif step % 4 == 2:
            members = members[:1]
            drawn = getattr(source, kind)(Replications(slice(int(members[0]), int(members[0]) + 1), torch.arange(4)))
        else:
            members = np.arange(4)
            drawn = getattr(source, kind)() if step % 8 == 3 else getattr(source, kind)(Replications.all(reference))
        assert isinstance(drawn, torch.Tensor)
        assert drawn.dtype == torch.float64
        for r, value in zip(members, drawn.tolist(), strict=True):
            seen[r].append(value)
    assert len({len(values) for values in seen}) > 2
    for r, values in zip(numbers, seen, strict=True):
        np.testing.assert_array_equal(values, plain(7, (int(Purpose.POLICY), r), kind, len(values)))


@kinds
@pytest.mark.parametrize("draws", [1, 10])
def test_it_goes_on_after_more_draws_than_were_announced(torch, kind, draws):
    here = Streams(7, Purpose.NOISE, [2, 5])
    streams = Streams(7, Purpose.NOISE, [2, 5], reference=torch.zeros((2, 1)))
    there = streams.source(draws, normal=kind == "normals")
    for _ in range(20 * draws + 3):
        np.testing.assert_array_equal(getattr(there, kind)(), getattr(here, kind)())


def test_whoever_asks_again_goes_on_with_the_same_numbers(torch):
    streams = Streams(7, Purpose.POLICY, [3, 4], reference=torch.zeros((2, 1)))
    first, second = streams.source(4), streams.source(9)
    drawn = [source.uniforms() for source in (first, second, first, second, second, first)]
    expected = [plain(7, (int(Purpose.POLICY), r), "uniforms", 6) for r in (3, 4)]
    np.testing.assert_array_equal(np.stack(drawn, axis=1), expected)


def test_a_refill_writes_where_the_numbers_were(torch):
    """What was recorded goes on reading that memory."""
    source = Streams(7, Purpose.POLICY, [3, 4], reference=torch.zeros((2, 1))).source(5)
    addresses = source.buffer.data_ptr(), source.cursor.data_ptr()
    for _ in range(12):
        source.uniforms()
    assert (source.buffer.data_ptr(), source.cursor.data_ptr()) == addresses


@pytest.mark.parametrize("draws", [1, 5, 60])
def test_lanes_are_separate_streams(torch, draws):
    """Each replication draws from a lane of its own choice; refills find every lane used up differently."""
    parent, rng, reference = Streams(7, Purpose.POLICY, [3, 0, 11]), np.random.default_rng(2), torch.zeros((3, 1))
    source = DeviceDraws([parent.child(lane) for lane in range(4)], reference, draws)
    seen = {(r, lane): [] for r in range(3) for lane in range(4)}
    for step in range(150):
        lanes, mask = rng.choice(4, size=3, p=[0.6, 0.3, 0.08, 0.02]), rng.random(3) < [1.0, 0.6, 0.1]
        members = np.flatnonzero(mask)
        if step % 2:
            drawn = source.uniforms(Replications.where(torch.from_numpy(mask)), torch.from_numpy(lanes))
            drawn = drawn[members]
        else:
            drawn = source.uniforms(Replications.some(members, reference), torch.from_numpy(lanes[members]))
        for r, value in zip(members, drawn.tolist(), strict=True):
            seen[r, int(lanes[r])].append(value)
    assert len({len(values) for values in seen.values()}) > 5
    for (r, lane), values in seen.items():
        key = (int(Purpose.POLICY), (3, 0, 11)[r], lane)
        np.testing.assert_array_equal(values, plain(7, key, "uniforms", len(values)))


def test_refills_of_a_recorded_round(torch):
    """A replay runs no Python: what refills the buffer is done after it, and the numbers are still those in order."""
    here = Streams(7, Purpose.POLICY, [3, 4])
    source = Streams(7, Purpose.POLICY, [3, 4], reference=torch.zeros((2, 1))).source(6)
    out = torch.zeros(2, dtype=torch.float64)

    class Tape(Recorder):
        def record(self):  # as a device does: the function runs, its operations do not
            before = source.cursor.clone()
            self.function()
            source.cursor.copy_(before)
            return self

        def replay(self):  # the operations of a draw, and nothing else
            numbers = torch.arange(2)
            out.copy_(source.buffer[numbers, 0, source.cursor[numbers, 0]])
            source.cursor[numbers, 0] += 1

    tape = Tape(lambda: out.copy_(source.uniforms()), torch.zeros(1))
    tape.records = True
    for _ in range(40):
        tape("draw")
        np.testing.assert_array_equal(out, here.uniforms())


def test_children_are_where_their_parent_is(torch):
    parent = Streams(7, Purpose.POLICY, [3, 4], reference=torch.zeros((2, 1)))
    drawn = parent.child(2).source(3).uniforms()
    assert isinstance(drawn, torch.Tensor)
    np.testing.assert_array_equal(drawn, Streams(7, Purpose.POLICY, [3, 4]).child(2).uniforms())


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
def test_a_draw_is_two_operations(torch, masked):
    """Reading the number and moving the cursor: on a GPU each operation costs as much as hundreds of numbers."""
    from torch.utils._python_dispatch import TorchDispatchMode

    names = []

    class Listed(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls):  # the compiler, which takes seconds to load, is not used here
            return False

        def __torch_dispatch__(self, operation, kinds, given=(), options=None):
            onto_itself = "copy_" in operation.__name__ and given[0].data_ptr() == given[1].data_ptr()
            if not operation.is_view and not onto_itself:
                names.append(operation.__name__)
            return operation(*given, **(options or {}))

    source = Streams(7, Purpose.POLICY, [0, 1, 2], reference=torch.zeros((3, 1))).source(10)
    everyone = Replications.all(torch.zeros(3))
    rows = Replications.where(torch.tensor([True, False, True])) if masked else everyone
    with Listed():
        source.uniforms(rows)
    assert names == ["index.Tensor", "add_.Tensor"]
