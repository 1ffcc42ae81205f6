"""Rows of replications in both libraries against plain loops, and masks against indices."""

import numpy as np
import pytest

from adadim.core.arrays import as_numpy, indices
from adadim.core.rows import Replications

COUNT = 5
ROWS = {
    "all": slice(None),
    "one": slice(3, 4),
    "some": slice(1, 4),
    "integers": np.array([4, 0, 2]),
    "mask": np.array([True, False, True, True, False]),
    "nobody": np.zeros(COUNT, dtype=bool),
}
MASKS = ("mask", "nobody")
INDEXED = [name for name in ROWS if name not in MASKS]
libraries = pytest.mark.parametrize("library", ["numpy", "torch"])
cases = pytest.mark.parametrize(
    ("library", "named"), [("numpy", name) for name in INDEXED] + [("torch", name) for name in ROWS]
)


@pytest.fixture
def own(library, request):
    """Copies of NumPy arrays in the library; anything else as it is."""
    if library == "numpy":
        return lambda value: value.copy() if isinstance(value, np.ndarray) else value
    torch = request.getfixturevalue("torch")
    return lambda value: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def make(named, own):
    reference = own(np.zeros((COUNT, 2)))
    if named in MASKS:
        return Replications.where(own(ROWS[named]))
    if named == "all":
        return Replications.all(reference)
    if named == "integers":
        return Replications.some(ROWS[named], reference)
    return Replications(ROWS[named], indices(reference))


def members(named):
    return np.arange(COUNT)[ROWS[named]]


def entries(named):
    """Where the values of each member are: a mask's come one for every replication."""
    return members(named) if named in MASKS else np.arange(len(members(named)))


def draw(rng, named, shape=(), kind=float):
    values = rng.integers(-50, 50, size=(COUNT if named in MASKS else len(members(named)), *shape))
    return values.astype(kind)


@cases
def test_which_replications_they_are(own, library, named):
    rows = make(named, own)
    everybody = named == "all"
    wide = np.arange(COUNT) if named in MASKS else members(named)
    assert rows.everyone == everybody
    assert len(rows) == len(wide)
    assert isinstance(rows.ids, np.ndarray)
    assert rows.ids.tolist() == wide.tolist()
    assert isinstance(rows.positions, type(own(np.zeros(1))))
    assert rows.positions.tolist() == wide.tolist()


@libraries
def test_all_of_them_in_order_are_not_everyone_unless_named_so(own, library):
    """Asking for everyone is a promise about the memory, which an index of all positions does not make."""
    assert not Replications.some(np.arange(COUNT), own(np.zeros((COUNT, 1)))).everyone
    assert not Replications(slice(0, COUNT), indices(own(np.zeros((COUNT, 1))))).everyone


@cases
def test_of(own, named):
    array = np.arange(10.0).reshape(COUNT, 2)
    expected = array if named in MASKS else array[members(named)]
    np.testing.assert_array_equal(make(named, own).of(own(array)), expected)


@cases
def test_at(own, named):
    rng = np.random.default_rng(0)
    array, columns = rng.random((COUNT, 3)), draw(rng, named, kind=np.int64) % 3
    found = make(named, own).at(own(array), own(columns))
    assert found.shape == columns.shape
    for r, at in zip(members(named), entries(named), strict=True):
        assert found[at] == array[r, columns[at]]


@cases
@pytest.mark.parametrize("shape", [(), (3,), (3, 2)])
@pytest.mark.parametrize("kind", [float, np.int64, bool])
def test_put(own, named, shape, kind):
    rng = np.random.default_rng(1)
    array, values = rng.integers(-50, 50, size=(COUNT, *shape)).astype(kind), draw(rng, named, shape, kind)
    expected = array.copy()
    for r, at in zip(members(named), entries(named), strict=True):
        expected[r] = values[at]
    target = own(array)
    before = as_numpy(target)
    make(named, own).put(target, own(values))
    np.testing.assert_array_equal(target, expected)
    assert np.shares_memory(before, as_numpy(target))


@cases
def test_put_reaches_through_a_view(own, named):
    whole, rows = own(np.arange(20.0).reshape(COUNT, 4)), make(named, own)
    rows.put(whole[:, 1:3], rows.of(whole[:, 1:3]) * 0.0)
    expected = np.arange(20.0).reshape(COUNT, 4)
    expected[members(named), 1:3] = 0.0
    np.testing.assert_array_equal(whole, expected)


@cases
@pytest.mark.parametrize("kind", [float, np.int64])
@pytest.mark.parametrize("one", [True, False], ids=["a number", "an array"])
def test_add(own, named, kind, one):
    rng = np.random.default_rng(2)
    array = rng.integers(-50, 50, size=(COUNT, 3)).astype(kind)
    values, columns = draw(rng, named, kind=kind), draw(rng, named, kind=np.int64) % 3
    expected = array.copy()
    for r, at in zip(members(named), entries(named), strict=True):
        expected[r, columns[at]] += 7 if one else values[at]
    target = own(array)
    before = as_numpy(target)
    make(named, own).add(target, own(columns), 7 if one else own(values))
    np.testing.assert_array_equal(target, expected)
    assert np.shares_memory(before, as_numpy(target))


@libraries
@pytest.mark.parametrize("named", INDEXED)
def test_pick(own, named):
    ids = members(named)
    for positions in ([0], [len(ids) - 1, 0] if len(ids) > 1 else [0], list(range(len(ids)))):
        picked = make(named, own).pick(own(np.array(positions)))
        assert picked.ids.tolist() == ids[positions].tolist()
        assert not picked.everyone
        np.testing.assert_array_equal(picked.of(own(np.arange(10.0, 10 + COUNT))), 10.0 + ids[positions])


@libraries
@pytest.mark.parametrize("named", INDEXED)
def test_split(own, library, named):
    rng, ids = np.random.default_rng(5), members(named)
    rows, kinds = make(named, own), set()
    for _ in range(40):
        labels, found = rng.integers(3, size=len(ids)), []
        for label, part, where in rows.split(labels):
            at = np.arange(len(ids))[as_numpy(where) if not isinstance(where, slice) else where]
            assert part.ids.tolist() == ids[at].tolist()
            assert labels[at].tolist() == [label] * len(at)
            assert type(label) is int
            found.append((label, at.tolist()))
            kinds.add(type(part.index))
            assert (part is rows) == (len(set(labels.tolist())) == 1)
        assert [label for label, _ in found] == sorted(set(labels.tolist()))
        assert sorted(position for _, at in found for position in at) == list(range(len(ids)))
    if named in ("all", "integers"):
        assert kinds == {slice, type(own(np.zeros(1)))}  # a single one is a slice


@libraries
def test_split_by_truth_values(own, library):
    labels = np.array([True, False, False, True, False])
    found = [(label, part.ids.tolist()) for label, part, _ in make("all", own).split(labels)]
    assert found == [(0, [1, 2, 4]), (1, [0, 3])]


@libraries
def test_split_again_by_labels_that_changed(own, library):
    rows, labels = make("all", own), np.array([0, 1, 0, 1, 0])
    assert [part.ids.tolist() for _, part, _ in rows.split(labels)] == [[0, 2, 4], [1, 3]]
    labels[0] = 1  # in the same array
    assert [part.ids.tolist() for _, part, _ in rows.split(labels)] == [[2, 4], [0, 1, 3]]


@libraries
def test_labels_are_numbers_after_a_split_by_truth_values(own, library):
    """Masters name what their bases have to know by the label, so True must not stand for 1."""
    rows, truth = make("all", own), np.array([True, False, True, False, True])
    for labels in (truth, truth.astype(np.int64)):
        assert [repr(label) for label, _, _ in rows.split(labels)] == ["0", "1"]


# Masks


@pytest.mark.parametrize("library", ["torch"])
@pytest.mark.parametrize("named", ROWS)
def test_masked(own, library, torch, named):
    rng, rows = np.random.default_rng(3), make(named, own)
    floats, numbers = draw(rng, named), draw(rng, named, kind=np.int64)
    masked, *wide = rows.masked(torch.from_numpy(floats), torch.from_numpy(numbers))
    assert masked.mask is not None
    assert (masked is rows) == (named in MASKS)
    assert np.flatnonzero(masked.mask).tolist() == sorted(members(named))
    for given, spread in zip((floats, numbers), wide, strict=True):
        assert spread.shape == (COUNT,)
        assert spread.dtype == torch.from_numpy(given).dtype
        np.testing.assert_array_equal(spread.numpy()[members(named)], given[entries(named)])


@pytest.mark.parametrize("library", ["torch"])
@pytest.mark.parametrize("named", ROWS)
def test_masked_twice_is_masked_once(own, library, named):
    (once,) = make(named, own).masked()
    assert once.masked() == (once,)


@pytest.mark.parametrize("library", ["torch"])
@pytest.mark.parametrize("named", ROWS)
def test_only(own, library, torch, named):
    """The mask of both; the one that it came from stays as it was."""
    (masked,) = make(named, own).masked()
    before = masked.mask.clone()
    other = np.array([False, False, True, True, True])
    both = masked.only(torch.from_numpy(other))
    assert np.flatnonzero(both.mask).tolist() == sorted(set(members(named).tolist()) & {2, 3, 4})
    assert torch.equal(masked.mask, before)
    assert not masked.only(masked.mask & False).mask.any()


@pytest.mark.parametrize("library", ["torch"])
@pytest.mark.parametrize("named", INDEXED)
def test_a_mask_does_what_its_index_does(own, library, torch, named):
    rng, rows = np.random.default_rng(6), make(named, own)
    for _ in range(20):
        start = own(rng.random((COUNT, 3)))
        columns, values = own(draw(rng, named, kind=np.int64) % 3), own(draw(rng, named))
        masked, wide_columns, wide_values = rows.masked(columns, values)
        by_index, by_mask = start.clone(), start.clone()
        rows.add(by_index, columns, values)
        masked.add(by_mask, wide_columns, wide_values)
        assert torch.equal(by_index, by_mask)
        assert torch.equal(rows.of(masked.at(by_mask, wide_columns)), rows.at(by_index, columns))
        rows.put(by_index[:, 1], values)
        masked.put(by_mask[:, 1], wide_values)
        assert torch.equal(by_index, by_mask)


def test_a_mask_is_all_replications_for_reading(torch):
    """Shapes must not depend on the data; who reads through a mask ignores what lies outside."""
    mask = torch.tensor([False, True, False])
    rows = Replications.where(mask)
    assert not rows.everyone
    assert not Replications.where(torch.ones(3, dtype=torch.bool)).everyone
    array = torch.arange(6.0).reshape(3, 2)
    assert rows.of(array).data_ptr() == array.data_ptr()


@pytest.mark.parametrize("library", ["torch"])
@pytest.mark.parametrize("named", INDEXED)
def test_what_is_offered_comes_along(own, library, named):
    rng, ids = np.random.default_rng(4), members(named)
    features, allowed = rng.random((len(ids), 3, 2)), rng.random((len(ids), 3)) < 0.5
    rows = make(named, own).with_offer(own(features), own(allowed))
    (wide, moments), here = rows.masked(own(features[:, 0])), rows.to_numpy()
    for whole in (wide, wide.only(wide.mask)):
        np.testing.assert_array_equal(whole.features[ids], features)
        np.testing.assert_array_equal(whole.allowed[ids], allowed)
    np.testing.assert_array_equal(moments[ids], features[:, 0])
    for part in (here.features, here.allowed, here.ids, here.positions):
        assert isinstance(part, np.ndarray)
    assert here.ids.tolist() == ids.tolist()
    assert here.everyone == rows.everyone
    np.testing.assert_array_equal(here.features, features)
    np.testing.assert_array_equal(here.allowed, allowed)


@cases
def test_they_cannot_be_changed(own, library, named):
    rows = make(named, own)
    for name in ("index", "features", "mask", "everyone", "anything"):
        with pytest.raises(AttributeError, match=f"{name}: replications cannot be changed"):
            setattr(rows, name, None)


@pytest.mark.parametrize("library", ["torch"])
@pytest.mark.parametrize("named", MASKS)
def test_a_mask_stays_with_an_offer(own, library, torch, named):
    rows, rng = make(named, own), np.random.default_rng(8)
    offered = rows.with_offer(own(rng.random((COUNT, 3, 2))), None)
    assert offered.mask is rows.mask
    assert rows.features is None
    array, positions = torch.zeros((COUNT, 1)), torch.tensor([4, 1])
    offered.put(array, torch.ones((COUNT, 1)))
    assert np.flatnonzero(array).tolist() == sorted(members(named))
    part = offered.pick(positions)
    assert torch.equal(part.mask, rows.mask[positions])
    assert torch.equal(part.features, offered.features[positions])


@libraries
def test_parts_are_those_of_the_offer(own, library):
    """What was split without an offer, and is split again with one, gives parts that have it."""
    rows, labels = make("all", own), np.array([0, 1, 0, 1, 0])
    plain = list(rows.split(labels))
    features = own(np.random.default_rng(9).random((COUNT, 3, 2)))
    offered = rows.with_offer(features, None)
    for (_, before, _), (_, part, at) in zip(plain, offered.split(labels), strict=True):
        assert before.features is None
        assert (part.features == features[at]).all()
