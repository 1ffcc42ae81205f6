"""Rows of replications in both libraries against plain loops, and devices that are not there."""

import sys

import numpy as np
import pytest

import adadim
from adadim.arrays import (
    ALL,
    as_numpy,
    check_device,
    clamp,
    groups,
    is_mask,
    masked,
    positions,
    put,
    take,
    tally,
    to_torch,
)
from adadim.errors import DeviceError

COUNT = 5
ROWS = {
    "all": ALL,
    "one": slice(3, 4),
    "some": slice(1, 4),
    "integers": np.array([4, 0, 2]),
    "mask": np.array([True, False, True, True, False]),
    "nobody": np.zeros(COUNT, dtype=bool),
}
MASKS = ("mask", "nobody")
cases = pytest.mark.parametrize(
    ("library", "named"),
    [("numpy", name) for name in ROWS if name not in MASKS] + [("torch", name) for name in ROWS],
)


@pytest.fixture
def own(library, request):
    """Copies of NumPy arrays in the library; anything else as it is."""
    if library == "numpy":
        return lambda value: value.copy() if isinstance(value, np.ndarray) else value
    torch = request.getfixturevalue("torch")
    return lambda value: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def members(named):
    return np.arange(COUNT)[ROWS[named]]


def entries(named):
    """Where the values of each member are: a mask's come one for every replication."""
    return members(named) if named in MASKS else np.arange(len(members(named)))


def draw(rng, named, shape=(), kind=float):
    values = rng.integers(-50, 50, size=(COUNT if named in MASKS else len(members(named)), *shape))
    return values.astype(kind)


@cases
def test_take(own, named):
    array, rows = np.arange(10.0).reshape(COUNT, 2), own(ROWS[named])
    expected = array if named in MASKS else array[members(named)]
    np.testing.assert_array_equal(take(own(array), rows), expected)
    assert is_mask(rows) == (named in MASKS)


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
    put(target, own(ROWS[named]), own(values))
    np.testing.assert_array_equal(target, expected)
    assert np.shares_memory(before, as_numpy(target))


@cases
def test_put_reaches_through_a_view(own, named):
    whole, rows = own(np.arange(20.0).reshape(COUNT, 4)), own(ROWS[named])
    put(whole[:, 1:3], rows, take(whole[:, 1:3], rows) * 0.0)
    expected = np.arange(20.0).reshape(COUNT, 4)
    expected[members(named), 1:3] = 0.0
    np.testing.assert_array_equal(whole, expected)


@cases
@pytest.mark.parametrize("kind", [float, np.int64])
@pytest.mark.parametrize("one", [True, False], ids=["a number", "an array"])
def test_tally(own, named, kind, one):
    rng = np.random.default_rng(2)
    array = rng.integers(-50, 50, size=(COUNT, 3)).astype(kind)
    values, columns = draw(rng, named, kind=kind), draw(rng, named, kind=np.int64) % 3
    expected = array.copy()
    for r, at in zip(members(named), entries(named), strict=True):
        expected[r, columns[at]] += 7 if one else values[at]
    target = own(array)
    tally(target, own(ROWS[named]), own(columns), 7 if one else own(values))
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("named", ROWS)
def test_masked(torch, named):
    rng = np.random.default_rng(3)
    floats, numbers = draw(rng, named), draw(rng, named, kind=np.int64)
    rows = torch.from_numpy(ROWS[named].copy()) if isinstance(ROWS[named], np.ndarray) else ROWS[named]
    mask, *wide = masked(rows, COUNT, torch.from_numpy(floats), torch.from_numpy(numbers))
    assert np.flatnonzero(mask).tolist() == sorted(members(named))
    for given, spread in zip((floats, numbers), wide, strict=True):
        assert spread.shape == (COUNT,)
        assert spread.dtype == torch.from_numpy(given).dtype
        np.testing.assert_array_equal(spread.numpy()[members(named)], given[entries(named)])


def test_is_mask_leaves_slices_and_integers_alone(torch):
    assert not is_mask(ALL)
    assert not is_mask(np.array([True, False]))  # NumPy takes no masks
    assert not is_mask(torch.tensor([1, 0]))
    assert is_mask(torch.tensor([True, False]))


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("bounds", [(-1.0, None), (None, 2.0), (-1.0, 2.0), (0.0, 0.0)])
def test_clamp(own, bounds):
    array = np.random.default_rng(4).normal(scale=3.0, size=(4, 6))
    np.testing.assert_array_equal(clamp(own(array), *bounds), np.clip(array, *bounds))
    numbers = np.arange(-3, 4)
    whole = tuple(None if bound is None else int(bound) for bound in bounds)
    clamped = clamp(own(numbers), *whole)
    np.testing.assert_array_equal(clamped, np.clip(numbers, *whole))
    assert "int64" in str(clamped.dtype)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("named", [name for name in ROWS if name not in MASKS])
def test_groups(own, library, named):
    rng, ids = np.random.default_rng(5), members(named)
    kinds = set()
    for _ in range(40):
        labels = rng.integers(3, size=len(ids))
        reference, found = own(np.zeros(COUNT)), []
        for label, rows, places in groups(labels, own(ROWS[named]), COUNT, reference):
            at = np.arange(len(ids))[as_numpy(places) if not isinstance(places, slice) else places]
            assert positions(rows, COUNT).tolist() == ids[at].tolist()
            assert labels[at].tolist() == [label] * len(at)
            found.append((label, at.tolist()))
            kinds.add(type(rows))
        assert [label for label, _ in found] == sorted(set(labels.tolist()))
        assert sorted(place for _, at in found for place in at) == list(range(len(ids)))
    if named in ("all", "integers"):
        assert kinds == {slice, type(own(np.zeros(1)))}  # a single one is a slice


# Devices


@pytest.mark.parametrize("name", ["gpu", "", "CUDA", "cuda0", "mps", None, 0])
def test_bad_device_names(name):
    with pytest.raises(DeviceError, match=r"^device must be 'cpu', 'cuda' or 'cuda:N', got ") as caught:
        check_device(name)
    assert str(caught.value).endswith(f"got {name!r}")


@pytest.fixture
def cards(torch, monkeypatch):
    """Pretend that there are so many GPUs."""

    def pretend(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return pretend


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:3"])
def test_no_gpu(cards, torch, name):
    cards(0)
    message = f"device '{name}' is not there: torch {torch.__version__} sees no CUDA GPU; use 'cpu'"
    instance = adadim.Instance(np.eye(2), theta=[0.1, 0.2], horizon=5, noise=0.1)
    for call in (
        lambda: check_device(name),
        lambda: to_torch(np.zeros(2), name),
        lambda: to_torch(torch.zeros(2), name),
        lambda: instance.to(name),
    ):
        with pytest.raises(DeviceError) as caught:
            call()
        assert str(caught.value) == message


def test_gpus_that_are_there_and_one_that_is_not(cards):
    cards(2)
    assert [check_device(name) for name in ("cpu", "cuda", "cuda:0", "cuda:1")] == ["cpu", "cuda", "cuda:0", "cuda:1"]
    for name, problem in (
        ("cuda:2", "device 'cuda:2' is not there: torch sees cuda:0 to cuda:1"),
        *(
            (name, f"device must be 'cpu', 'cuda' or 'cuda:N', got '{name}'")
            for name in ("cuda:x", "cuda:-1", "cuda:1.0")
        ),
    ):
        with pytest.raises(DeviceError, match=problem):
            check_device(name)


@pytest.mark.parametrize("name", ["cpu:0", "cpu:x", "cuda:"])
def test_names_that_are_nearly_right(cards, name):
    cards(2)
    with pytest.raises(DeviceError, match=f"'{name}'"):
        check_device(name)


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert check_device("cpu") == "cpu"
    with pytest.raises(
        DeviceError, match=r"device 'cuda:1' needs torch; install it with: pip install 'adadim\[torch\]'"
    ):
        check_device("cuda:1")


def test_without_torch_an_instance_cannot_move(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError, match=r"needs torch; install it with: pip install 'adadim\[torch\]'"):
        to_torch(np.zeros(2), "cpu")


@pytest.mark.parametrize(
    "make", [np.ascontiguousarray, np.asfortranarray, lambda a: a.swapaxes(1, 2).copy().swapaxes(1, 2)]
)
def test_layout_is_kept(torch, make):
    array = make(np.random.default_rng(6).random((3, 4, 5)))
    moved = to_torch(array, "cpu")
    np.testing.assert_array_equal(moved, array)
    assert tuple(8 * step for step in moved.stride()) == array.strides
    assert to_torch(moved, "cpu") is moved


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2)])
def test_what_all_replications_share_stays_shared(torch, shape):
    one = np.random.default_rng(7).random(shape[1:])
    moved = to_torch(np.broadcast_to(one, shape), "cpu")
    np.testing.assert_array_equal(moved, np.broadcast_to(one, shape))
    assert moved.stride()[0] == 0
    assert moved.untyped_storage().nbytes() == one.nbytes


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (1, 1)], ids=["one arm", "one feature", "one of each"])
def test_an_axis_of_length_one_is_not_shared(torch, shape):
    """NumPy may give such an axis a stride of 0 too."""
    actions = adadim.ActionSet(np.full(shape, 0.5))
    np.testing.assert_array_equal(actions.to("cpu").base, actions.base)


def test_shared_features_stay_shared_on_the_device(torch):
    features = np.broadcast_to(np.full((4, 3), 0.5), (6, 4, 3))
    here = adadim.Instance(features, theta=[0.1, 0.2, 0.3], horizon=5, noise=0.1)
    there = here.to("cpu")
    assert there.problem.actions.base.stride()[0] == 0
    np.testing.assert_array_equal(there.problem.actions.base, features)
    np.testing.assert_array_equal(
        adadim.simulate(adadim.Random(), there).pulls, adadim.simulate(adadim.Random(), here).pulls
    )
