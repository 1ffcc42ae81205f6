"""Whole studies on a device: memory, failures, going on where a CPU stopped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from device_studies import SPHERE, assert_same_results, device_study

import adadim
from adadim.errors import DeviceError
from adadim.models.cost import replication_bytes
from adadim.study import RunError, StudyError, engines, run, status
from recorded_policies import POLICIES, state


def test_run_on_a_device(card, tmp_path, simulated, computed):
    calls = []
    results = run(device_study(), tmp_path, device="cpu:0", progress=lambda *call: calls.append(call))
    assert_same_results(results, computed)
    assert calls[0] == (0, 16, None)
    assert [done for done, _, _ in calls] == list(range(17))
    assert max(len(rows) for _, rows in simulated) == 10
    assert status(tmp_path).complete
    simulated.clear()
    run(device_study(), tmp_path, device="cpu:0", jobs=1)
    run(device_study(), tmp_path, jobs=1)
    assert simulated == []


def test_a_device_goes_on_where_a_cpu_stopped(card, tmp_path, simulated, computed):
    run(device_study(trials=2), tmp_path, jobs=1)
    assert_same_results(run(device_study(), tmp_path, device="cpu:0", batch=3), computed)
    assert {row for _, rows in simulated for row in rows} == {2, 3, 4}
    assert max(len(rows) for _, rows in simulated) == 3


def test_the_batch_is_what_fits(card, torch):
    cells = device_study().cells
    largest = max(cell.replication_bytes for cell in cells)
    assert engines.device_batch(cells, "cuda:1") == int(0.8 * card[0] / largest)
    card[0] = 10 * largest
    assert engines.device_batch(cells, "cuda:1") == 8


@pytest.mark.parametrize(
    "name", ["theory linucb", "LinUCB++ feature", "tapered", "Smooth Corral exp3p", "Smooth Corral once"]
)
@pytest.mark.parametrize(
    "size", [{"arms": 80, "dim": 60}, {"arms": 200, "dim": 10}, {"arms": 30, "dim": 20, "horizon": 800}]
)
def test_a_replication_holds_no_more_than_reckoned(torch, name, size):
    cell = device_study(instances={"one": {**SPHERE, **size}}, policies={"mine": POLICIES[name]}).cells[0]
    learner = cell.policy_object.start(cell.make([0]).to("cpu").problem)
    learner.update(learner.select(), [0.1])
    memory = {value.untyped_storage() for value in state(learner).values() if isinstance(value, torch.Tensor)}
    held = sum({storage.data_ptr(): storage.nbytes() for storage in memory}.values())
    assert 8 * cell.arms * cell.dim < held < cell.replication_bytes


def test_a_device_that_is_too_small_says_what_would_fit(card, tmp_path):
    big = {**SPHERE, "arms": 50_000, "dim": 10_000}
    plan = device_study(instances={"big": big}, policies={"LinUCB": adadim.LinUCB()})
    with pytest.raises(DeviceError) as caught:
        run(plan, tmp_path / "results", device="cpu:0")
    needed = plan.cells[0].replication_bytes
    message = (
        f"big: one replication of 50000 arms with 10000 features needs about {needed / 2**30:.3g} GiB, and cpu:0 has 4 "
        r"of 8 GiB free; with so many features about (\d+) arms would fit"
    )
    found = re.fullmatch(message, str(caught.value))
    assert found
    within, beyond = (replication_bytes(int(found[1]) * k // 10, 10_000, big["horizon"]) for k in (10, 13))
    assert within <= 0.8 * 4 * 2**30 < beyond
    assert not list(tmp_path.rglob("*.parquet"))


def test_arms_said_to_fit_do(card):
    """The number in the message is of use: so many arms pass."""
    cell = device_study(
        instances={"big": {**SPHERE, "arms": 50_000, "dim": 5_000}}, policies={"a": adadim.UCB()}
    ).cells[0]
    with pytest.raises(DeviceError) as caught:
        engines.device_batch([cell], "cpu:0")
    arms = int(str(caught.value).split("about ")[-1].split(" arms")[0])
    assert arms == 0 or engines.device_batch([replace(cell, arms=arms)], "cpu:0") >= 1


def test_out_of_memory_says_what_to_try(card, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(engines, "simulate", fail)
    plan = device_study(policies={"LinUCB": adadim.LinUCB()})
    with pytest.raises(RunError) as caught:
        run(plan, tmp_path, device="cpu:0", batch=20)
    assert str(caught.value) == (
        "LinUCB on easy, replications 0 to 4 on cpu:0: RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB; "
        "10 replications at once are too many for cpu:0: try a batch of 5"
    )


def test_another_error_gives_no_such_hint(card, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(engines, "simulate", fail)
    with pytest.raises(RunError, match=r"on cpu:0: ZeroDivisionError: by zero$"):
        run(device_study(), tmp_path, device="cpu:0")


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "gpu"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_written(torch, tmp_path, monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=f"'{name}'"):
        run(device_study(), tmp_path / "results", device=name)
    assert not (tmp_path / "results").exists()


def test_one_process_drives_a_device(card, tmp_path):
    with pytest.raises(StudyError, match=r"jobs: one process drives cpu:0, got 2; leave it out"):
        run(device_study(), tmp_path / "results", device="cpu:0", jobs=2)
    assert not (tmp_path / "results").exists()


def test_gpu_runs_studies(gpu, tmp_path, computed):
    assert_same_results(run(device_study(), tmp_path / "whole", device="cuda"), computed)
    assert_same_results(run(device_study(), tmp_path / "parts", device="cuda:0", batch=3), computed)
    with pytest.raises(DeviceError, match="torch sees cuda:0 to cuda:"):
        run(device_study(), tmp_path / "none", device=f"cuda:{gpu.cuda.device_count()}")


def test_contexts_on_a_device(card, tmp_path):
    here = {"kind": "contexts", "arms": 5, "dim": 6, "intrinsic_dim": 2, "horizon": 60}
    plan = adadim.study.Study("contexts", {"here": here}, {"a": adadim.LinUCB(), "b": adadim.TaperedLinUCB()}, 20)
    on_card = run(plan, tmp_path / "card", device="cpu:0")
    assert_same_results(on_card, run(plan, tmp_path / "host", jobs=1))
