"""Arrays of either library: which one it is, moving between them, and the few operations that both need."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from adadim import InvalidTypeError
from adadim.core import arrays
from adadim.core.arrays import (
    all_true_on_host,
    any_true_on_host,
    as_numpy,
    clamp,
    copied,
    indices,
    is_array,
    is_numpy,
    is_read_only,
    like,
    namespace,
    same_device,
    same_library,
    squared_lengths,
    to_torch,
    zeros,
)

libraries = pytest.mark.parametrize("library", ["numpy", "torch"])


@pytest.fixture
def own(library, request):
    """A copy of a NumPy array in the library."""
    if library == "numpy":
        return np.copy
    return lambda value: request.getfixturevalue("torch").from_numpy(value.copy())


@libraries
@pytest.mark.parametrize("bounds", [(-1.0, None), (None, 2.0), (-1.0, 2.0), (0.0, 0.0)])
def test_clamp(own, bounds):
    array = np.random.default_rng(4).normal(scale=3.0, size=(4, 6))
    np.testing.assert_array_equal(clamp(own(array), *bounds), np.clip(array, *bounds))
    numbers = np.arange(-3, 4)
    whole = tuple(None if bound is None else int(bound) for bound in bounds)
    clamped = clamp(own(numbers), *whole)
    np.testing.assert_array_equal(clamped, np.clip(numbers, *whole))
    assert "int64" in str(clamped.dtype)


@libraries
@pytest.mark.parametrize("at_a_time", [1, 30, 10**6])
def test_squared_lengths(own, at_a_time, monkeypatch):
    """In parts of one arm, of three (the last has one), and in one."""
    monkeypatch.setattr(arrays, "NUMBERS_PER_COPY", at_a_time)
    vectors = np.random.default_rng(5).normal(size=(2, 7, 5))
    found = squared_lengths(own(vectors))
    np.testing.assert_allclose(found, np.linalg.norm(vectors, axis=-1) ** 2, rtol=1e-14)
    assert found.shape == (2, 7)


@libraries
def test_arrays_like_another(own, library):
    reference = own(np.zeros((3, 2), dtype=np.float32))
    for made, dtype in (
        (zeros(reference, 2, 4), "float64"),
        (zeros(reference, 2, 4, integers=True), "int64"),
        (indices(reference), "int64"),
        (like(np.array([1.5, 2.0]), reference), "float64"),
        (like([1, 2], reference), "int64"),
    ):
        assert type(made) is type(reference)
        assert dtype in str(made.dtype)
    assert zeros(reference, 2, 4).shape == (2, 4)
    assert indices(reference).tolist() == [0, 1, 2]


@libraries
def test_which_library(own, library):
    array = own(np.arange(3.0))
    assert is_numpy(array) == (library == "numpy")
    assert is_array(array)
    assert isinstance(as_numpy(array), np.ndarray)
    assert np.shares_memory(as_numpy(array), as_numpy(array))
    assert namespace(array) is namespace(array, own(np.arange(2)))
    for other in ([1.0], 1.0, "array", None, range(3)):
        assert not is_array(other)


def test_libraries_do_not_mix(torch):
    with pytest.raises(InvalidTypeError, match=r"arrays of one library are needed .*, got numpy\.ndarray, torch\.Tens"):
        namespace(np.zeros(2), torch.zeros(2))


@libraries
def test_all_true_on_host(own, library):
    """On a device it would have to be asked, so there the answer is no."""
    assert all_true_on_host(own(np.array([True, True]))) == (library == "numpy")
    assert not all_true_on_host(own(np.array([True, False])))


@pytest.mark.parametrize("copied", [False, True], ids=["views", "others"])
def test_arrays_that_may_only_be_read_go_to_a_device(torch, copied, recwarn, monkeypatch):
    """Without torch's warning that it knows no such arrays, and they stay as they are; "meta" needs no GPU."""
    monkeypatch.setattr(arrays, "check_device", lambda device: device)
    array = np.zeros((200, 300)) if copied else np.zeros((300, 200)).T
    array.flags.writeable = False
    to_torch(array, "meta")  # what torch imports on the way does not count
    tracemalloc.start()
    moved = to_torch(array, "meta")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (moved.shape, moved.device.type) == ((200, 300), "meta")
    assert (peak >= array.nbytes) == copied
    assert not array.flags.writeable
    assert not recwarn.list


def test_memory_of_others_that_may_only_be_read_goes_to_a_device(torch, recwarn, monkeypatch):
    monkeypatch.setattr(arrays, "check_device", lambda device: device)
    array = np.frombuffer(bytes(48)).reshape(2, 3)
    moved = to_torch(array, "meta")
    assert (moved.shape, moved.device.type) == ((2, 3), "meta")
    assert not array.flags.writeable
    assert not recwarn.list


def test_who_asks_for_the_library():
    """The arrays, what is made of them, and regressions; others are given answers, such as `rows.on_host`."""
    source = Path(arrays.__file__).parents[1]
    asking = {path.relative_to(source).as_posix() for path in source.rglob("*.py") if "is_numpy" in path.read_text()}
    core = {f"core/{name}.py" for name in ("actions", "arrays", "problem", "rows", "ties")}
    assert asking == {*core, "models/fixed.py"}


@libraries
def test_copies(own, library):
    array = own(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    for order in ("C", "K"):
        copy = copied(array, order)
        assert (copy == array).all()
        copy[0, 0] = 9.0
        assert array[0, 0] == 0.0
    assert not is_read_only(array)
    assert same_library(array, array)
    assert same_device(array, array)


def test_libraries_and_devices(torch):
    near, far = np.zeros(2), torch.zeros(2)
    assert not same_library(near, far)
    assert same_device(near, far)
    assert not same_device(far, torch.zeros(2, device="meta"))
    near.setflags(write=False)
    assert is_read_only(near)


@libraries
def test_any_true_on_host(own, library):
    assert any_true_on_host(own(np.array([True, False]))) == (library == "numpy")
    assert not any_true_on_host(own(np.array([False, False])))
