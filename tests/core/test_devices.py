"""Devices: names, those that are not there, and what moving to one keeps."""

import sys

import numpy as np
import pytest

import adadim
from adadim.core.arrays import (
    check_device,
    to_torch,
)
from adadim.errors import DeviceError


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
