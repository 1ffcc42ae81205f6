"""Whole studies on a device: units that run together, memory, failures."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import adadim
from adadim.errors import DeviceError
from adadim.study import RunError, Study, StudyError, device, executor, load, run, status
from adadim.study.store import Store
from recordable import POLICIES, state

SPHERE = {"kind": "sphere", "arms": 20, "dim": 8, "intrinsic_dim": 2, "horizon": 60}


def study(**changes):
    """Two instances that can run together, and two that cannot join them: another noise, and another horizon."""
    parts = {
        "name": "small",
        "instances": {
            "easy": SPHERE,
            "hard": {**SPHERE, "intrinsic_dim": 8},
            "loud": {**SPHERE, "noise": 0.3},
            "ball": {**SPHERE, "kind": "ball", "horizon": 40},
        },
        "policies": {
            "LinUCB": adadim.LinUCB(),
            "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"},
            "adaptive": adadim.LinUCBPlusPlus(),
            "balancing": adadim.DynamicBalancing(),
        },
        "trials": 5,
        "record": 10,
    }
    return Study(**{**parts, **changes})


def opened(plan, folder):
    store = Store(folder)
    store.open(plan.name, [executor._entry(cell) for cell in plan.cells], executor.identity(plan.to_dict(), "study"))
    return store


@pytest.fixture
def simulated(monkeypatch):
    """What the device simulates: (policy, replication numbers) of each call."""
    calls, real = [], device.simulate

    def logged(policy, instance, **options):
        calls.append((policy, instance.problem.replications))
        return real(policy, instance, **options)

    monkeypatch.setattr(device, "simulate", logged)
    return calls


def assert_same_results(one, other):
    assert one.cells() == other.cells()
    for instance, policy in one.cells():
        np.testing.assert_array_equal(one.replications(instance, policy), other.replications(instance, policy))
        times, regret = one.curves(instance, policy)
        expected_times, expected = other.curves(instance, policy)
        np.testing.assert_array_equal(times, expected_times)
        np.testing.assert_allclose(regret, expected, rtol=0, atol=1e-9, err_msg=f"{policy} on {instance}")


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """The study above, computed by NumPy."""
    return run(study(), tmp_path_factory.mktemp("numpy"), jobs=1)


def test_units_of_several_instances_run_together(torch, tmp_path, simulated, computed):
    plan = study()
    store, units = opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=5)
    told = list(device.outcomes(store, units, "cpu", 50))
    assert {unit.id for unit, _ in told} == {unit.id for unit in units}
    assert {outcome for _, outcome in told} == {"computed"}
    assert_same_results(load(tmp_path), computed)
    sizes = Counter((type(policy).__name__, getattr(policy, "dim", None), len(rows)) for policy, rows in simulated)
    # easy and hard together, loud and ball by themselves; the oracle of hard is another policy than that of easy.
    assert sizes == {
        ("LinUCB", None, 10): 1,
        ("LinUCB", None, 5): 2,
        ("LinUCB", 2, 5): 3,
        ("LinUCB", 8, 5): 1,
        ("LinUCBPlusPlus", None, 10): 1,
        ("LinUCBPlusPlus", None, 5): 2,
        ("DynamicBalancing", None, 10): 1,
        ("DynamicBalancing", None, 5): 2,
    }


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_small_batches_are_split(torch, tmp_path, simulated, computed, batch):
    plan = study(policies={"LinUCB": adadim.LinUCB()})
    store, units = opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=batch)
    list(device.outcomes(store, units, "cpu", batch))
    assert max(len(rows) for _, rows in simulated) == batch
    results = load(tmp_path)
    for instance, policy in results.cells():
        np.testing.assert_allclose(results.final(instance, policy), computed.final(instance, policy), atol=1e-9)


def test_an_instance_is_made_once_for_all_policies(torch, tmp_path, monkeypatch):
    made, real = Counter(), device._instance
    monkeypatch.setattr(device, "_instance", lambda unit, place: made.update([unit.cell.instance]) or real(unit, place))
    plan = study()
    list(device.outcomes(opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=5), "cpu", 50))
    assert made == {"easy": 1, "hard": 1, "loud": 1, "ball": 1}


def test_an_instance_made_in_parts_is_the_whole(torch, monkeypatch):
    monkeypatch.setattr(device, "CHUNK", 2)
    cell = study().cells[0]
    whole, parts = cell.make(range(3, 8)), device._instance(device.Unit(cell, 3, 8), "cpu")
    assert parts.problem.replications == whole.problem.replications == (3, 4, 5, 6, 7)
    np.testing.assert_array_equal(parts.means, whole.means)
    np.testing.assert_array_equal(parts.problem.actions.base, whole.problem.actions.base)


HOLDER = """
import sys
from adadim.study.store import Store
with Store(sys.argv[1]).claim(sys.argv[2], (0, 5)):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_what_others_compute_or_have_computed_is_left_alone(torch, tmp_path, simulated, computed):
    plan = study(policies={"LinUCB": adadim.LinUCB()})
    store = opened(plan, tmp_path)
    units = {unit.cell.instance: unit for unit in executor.plan(plan, {}, jobs=1, batch=5)}
    assert executor.compute(store, units["easy"]) == "computed"
    executor.compute(store, device.Unit(units["loud"].cell, 0, 2))  # a part of it
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path), units["hard"].cell.id], **pipes)
    try:
        assert holder.stdout.readline() == "held\n"
        told = {unit.cell.instance: outcome for unit, outcome in device.outcomes(store, [*units.values()], "cpu", 50)}
    finally:
        holder.communicate("done\n")
    assert told == {"easy": "found", "hard": "busy", "loud": "busy", "ball": "computed"}
    assert [len(rows) for _, rows in simulated] == [5]
    ((unit, outcome),) = device.outcomes(store, [units["hard"]], "cpu", 50)
    assert (unit, outcome) == (units["hard"], "computed")
    np.testing.assert_allclose(load(tmp_path).final("hard", "LinUCB"), computed.final("hard", "LinUCB"), atol=1e-9)


CLAIMER = """
import sys
from adadim.study.store import Store
for cell in sys.argv[2:]:
    with Store(sys.argv[1]).claim(cell, (0, 5)) as mine:
        print(int(mine))
"""


def test_all_units_that_run_together_are_claimed(torch, tmp_path, monkeypatch):
    """Until the last of them is stored, and not before the first runs."""
    plan = study(
        policies={"LinUCB": adadim.LinUCB()}, instances={"easy": SPHERE, "hard": {**SPHERE, "intrinsic_dim": 8}}
    )
    store, units = opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=5)
    command = [sys.executable, "-c", CLAIMER, str(tmp_path), *(unit.cell.id for unit in units)]

    def free():
        return [
            int(line) for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        ]

    seen, real = [], device.simulate
    monkeypatch.setattr(device, "simulate", lambda *a, **options: seen.append(free()) or real(*a, **options))
    outcomes = device.outcomes(store, units, "cpu", 50)
    next(outcomes)
    assert seen == [[0, 0]]
    assert free() == [0, 0]
    assert len(list(outcomes)) == 1
    assert free() == [1, 1]


@pytest.fixture
def card(torch, monkeypatch):
    """A device called cpu:0 with 8 GiB, of which 4 are free."""
    monkeypatch.setattr(adadim.arrays, "check_device", lambda name: name)
    monkeypatch.setattr(executor, "check_device", lambda name: name)
    free = [4 * 2**30]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda place: (free[0], 8 * 2**30))
    return free


def test_run_on_a_device(card, tmp_path, simulated, computed):
    calls = []
    results = run(study(), tmp_path, device="cpu:0", progress=lambda *call: calls.append(call))
    assert_same_results(results, computed)
    assert calls[0] == (0, 16, None)
    assert [done for done, _, _ in calls] == list(range(17))
    assert max(len(rows) for _, rows in simulated) == 10
    assert status(tmp_path).complete
    simulated.clear()
    run(study(), tmp_path, device="cpu:0", jobs=1)
    run(study(), tmp_path, jobs=1)
    assert simulated == []


def test_a_device_goes_on_where_a_cpu_stopped(card, tmp_path, simulated, computed):
    run(study(trials=2), tmp_path, jobs=1)
    assert_same_results(run(study(), tmp_path, device="cpu:0", batch=3), computed)
    assert {row for _, rows in simulated for row in rows} == {2, 3, 4}
    assert max(len(rows) for _, rows in simulated) == 3


def test_the_batch_is_what_fits(card, torch):
    cells = study().cells
    largest = max(device.replication_bytes(cell) for cell in cells)
    assert device.device_batch(cells, "cuda:1") == int(0.8 * card[0] / largest)
    card[0] = 10 * largest
    assert device.device_batch(cells, "cuda:1") == 8


@pytest.mark.parametrize(
    "name", ["theory linucb", "LinUCB++ feature", "tapered", "Smooth Corral exp3p", "Smooth Corral once"]
)
@pytest.mark.parametrize(
    "size", [{"arms": 80, "dim": 60}, {"arms": 200, "dim": 10}, {"arms": 30, "dim": 20, "horizon": 800}]
)
def test_a_replication_holds_no_more_than_reckoned(torch, name, size):
    cell = study(instances={"one": {**SPHERE, **size}}, policies={"mine": POLICIES[name]}).cells[0]
    learner = cell.agent.start(cell.make([0]).to("cpu").problem)
    learner.update(learner.select(), [0.1])
    memory = {value.untyped_storage() for value in state(learner).values() if isinstance(value, torch.Tensor)}
    held = sum({storage.data_ptr(): storage.nbytes() for storage in memory}.values())
    assert 8 * cell.arms * cell.dim < held < device.replication_bytes(cell)


def test_a_device_that_is_too_small_says_what_would_fit(card, tmp_path):
    big = {**SPHERE, "arms": 50_000, "dim": 20_000}
    plan = study(instances={"big": big}, policies={"LinUCB": adadim.LinUCB()})
    with pytest.raises(DeviceError) as caught:
        run(plan, tmp_path / "results", device="cpu:0")
    needed = device.replication_bytes(plan.cells[0])
    assert str(caught.value) == (
        f"big: one replication of 50000 arms with 20000 features needs about {needed / 2**30:.3g} GiB, and cpu:0 has 4 "
        f"of 8 GiB free; with so many features about {int(50_000 * 0.8 * 4 * 2**30 / needed)} arms would fit"
    )
    assert not list(tmp_path.rglob("*.parquet"))


def test_arms_said_to_fit_do(card):
    """The number in the message is of use: so many arms pass."""
    cell = study(instances={"big": {**SPHERE, "arms": 50_000, "dim": 5_000}}, policies={"a": adadim.UCB()}).cells[0]
    with pytest.raises(DeviceError) as caught:
        device.device_batch([cell], "cpu:0")
    arms = int(str(caught.value).split("about ")[-1].split(" arms")[0])
    assert arms == 0 or device.device_batch([replace(cell, arms=arms)], "cpu:0") >= 1


def test_out_of_memory_says_what_to_try(card, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(device, "simulate", fail)
    plan = study(policies={"LinUCB": adadim.LinUCB()})
    with pytest.raises(RunError) as caught:
        run(plan, tmp_path, device="cpu:0", batch=20)
    assert str(caught.value) == (
        "LinUCB on easy, replications 0 to 4 on cpu:0: RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB; "
        "10 replications at once are too many for cpu:0: try a batch of 5"
    )


def test_another_error_gives_no_such_hint(card, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(device, "simulate", fail)
    with pytest.raises(RunError, match=r"on cpu:0: ZeroDivisionError: by zero$"):
        run(study(), tmp_path, device="cpu:0")


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "gpu"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_written(torch, tmp_path, monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=f"'{name}'"):
        run(study(), tmp_path / "results", device=name)
    assert not (tmp_path / "results").exists()


def test_one_process_drives_a_device(card, tmp_path):
    with pytest.raises(StudyError, match=r"jobs: one process drives cpu:0, got 2; leave it out"):
        run(study(), tmp_path / "results", device="cpu:0", jobs=2)
    assert not (tmp_path / "results").exists()


def test_gpu_runs_studies(gpu, tmp_path, computed):
    assert_same_results(run(study(), tmp_path / "whole", device="cuda"), computed)
    assert_same_results(run(study(), tmp_path / "parts", device="cuda:0", batch=3), computed)
    with pytest.raises(DeviceError, match="torch sees cuda:0 to cuda:"):
        run(study(), tmp_path / "none", device=f"cuda:{gpu.cuda.device_count()}")
