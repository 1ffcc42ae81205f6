import pytest
from device_studies import device_study
from small_studies import one_instance

import adadim
from adadim.core.arrays import is_numpy
from adadim.study import engines, executor, run


@pytest.fixture
def folder(tmp_path):
    """Results of `one_instance`, in blocks of two trials."""
    folder = tmp_path / "results"
    run(one_instance(), folder, jobs=1, batch=2)
    return folder


@pytest.fixture
def simulated(monkeypatch):
    """What the device simulates, with torch: (policy, replication numbers) of each call."""
    calls, real = [], engines.simulate

    def logged(policy, instance, **options):
        if not is_numpy(instance.problem.reference):
            calls.append((policy, instance.problem.replications))
        return real(policy, instance, **options)

    monkeypatch.setattr(engines, "simulate", logged)
    return calls


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """`device_study`, computed by NumPy."""
    return run(device_study(), tmp_path_factory.mktemp("numpy"), jobs=1)


@pytest.fixture
def card(torch, monkeypatch):
    """A device called cpu:0 with 8 GiB, of which 4 are free."""
    monkeypatch.setattr(adadim.core.arrays, "check_device", lambda name: name)
    monkeypatch.setattr(executor, "check_device", lambda name: name)
    free = [4 * 2**30]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda name: (free[0], 8 * 2**30))
    return free
