"""Units on a device: which run together, how instances are made, and who may compute them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from device_studies import SPHERE, assert_same_results, device_study, opened

import adadim
from adadim.study import RunError, Unit, engines, executor, load
from adadim.study.cells import Cell


def test_units_of_several_instances_run_together(torch, tmp_path, simulated, computed):
    plan = device_study()
    store, units = opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=5)
    outcomes = list(engines.GpuEngine(store, "cpu", 50).compute(units))
    assert {unit.id for unit, _ in outcomes} == {unit.id for unit in units}
    assert {outcome for _, outcome in outcomes} == {"computed"}
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
    plan = device_study(policies={"LinUCB": adadim.LinUCB()})
    store, units = opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=batch)
    list(engines.GpuEngine(store, "cpu", batch).compute(units))
    assert max(len(rows) for _, rows in simulated) == batch
    results = load(tmp_path)
    for instance, policy in results.cells():
        np.testing.assert_allclose(results.final(instance, policy), computed.final(instance, policy), atol=1e-9)


def test_an_instance_is_made_once_for_all_policies(torch, tmp_path, monkeypatch):
    made, real = Counter(), engines.instances_on
    monkeypatch.setattr(
        engines, "instances_on", lambda name, units: made.update(u.cell.instance for u in units) or real(name, units)
    )
    plan = device_study()
    list(engines.GpuEngine(opened(plan, tmp_path), "cpu", 50).compute(executor.plan(plan, {}, jobs=1, batch=5)))
    assert made == {"easy": 1, "hard": 1, "loud": 1, "ball": 1}


def test_an_instance_made_in_parts_is_the_whole(torch, monkeypatch):
    monkeypatch.setattr(engines, "CHUNK", 2)
    cell = device_study().cells[0]
    whole, (parts,) = cell.make(range(3, 8)), engines.instances_on("cpu", [Unit(cell, 3, 8)])
    assert parts.problem.replications == whole.problem.replications == (3, 4, 5, 6, 7)
    np.testing.assert_array_equal(parts.means, whole.means)
    np.testing.assert_array_equal(parts.problem.actions.base, whole.problem.actions.base)


def test_arms_are_drawn_once_for_instances_that_differ_in_their_rewards_alone(torch, monkeypatch):
    drawn, real = [], adadim.instances.drawn._fill_unit_rows
    monkeypatch.setattr(
        adadim.instances.drawn, "_fill_unit_rows", lambda draws, rows: drawn.append(rows.shape) or real(draws, rows)
    )
    monkeypatch.setattr(engines, "CHUNK", 2)
    changes = ({}, {"intrinsic_dim": 8}, {"expressive": True, "levels": [2, 4]}, {"arms": SPHERE["arms"] + 1})
    plan = device_study(
        policies={"LinUCB": adadim.LinUCB()}, instances={str(i): {**SPHERE, **more} for i, more in enumerate(changes)}
    )
    units = [Unit(cell, 0, 5) for cell in plan.cells]
    drawn.clear()
    made = engines.instances_on("cpu", units)
    rows = (SPHERE["arms"], SPHERE["dim"])
    assert Counter(drawn) == {rows: 2 * 5, (rows[0] + 1, rows[1]): 5}  # the second is the first's, with another theta
    for cell, instance in zip(plan.cells, made, strict=True):
        alone = cell.make(range(5))
        np.testing.assert_array_equal(instance.means, alone.means)
        np.testing.assert_array_equal(instance.problem.actions.base, alone.problem.actions.base)
        assert instance.problem.actions.levels == alone.problem.actions.levels
    assert len(drawn) == 15 + 4 * 5  # outside, every instance draws its own


def test_what_fails_is_named_though_instances_are_made_together(torch, monkeypatch):
    plan, real = device_study(), Cell.make
    units = list({cell.instance: Unit(cell, 0, 5) for cell in plan.cells}.values())

    def make(cell, replications):
        if cell.instance == "loud":
            raise ZeroDivisionError("by zero")
        return real(cell, replications)

    monkeypatch.setattr(Cell, "make", make)
    with pytest.raises(RunError, match=r"^\w+ on loud, replications 0 to 4 on cpu: ZeroDivisionError: by zero$"):
        engines.instances_on("cpu", units)


HOLDER = """
import sys
from adadim.study.store import Store
with Store(sys.argv[1]).claims.hold(sys.argv[2], (0, 5)):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_what_others_compute_or_have_computed_is_left_alone(torch, tmp_path, simulated, computed):
    plan = device_study(policies={"LinUCB": adadim.LinUCB()})
    store = opened(plan, tmp_path)
    units = {unit.cell.instance: unit for unit in executor.plan(plan, {}, jobs=1, batch=5)}
    assert engines.compute(store, units["easy"]) == (units["easy"].id, "computed")
    engines.compute(store, Unit(units["loud"].cell, 0, 2))  # a part of it
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path), units["hard"].cell.id], **pipes)
    try:
        assert holder.stdout.readline() == "held\n"
        computing = engines.GpuEngine(store, "cpu", 50).compute([*units.values()])
        outcomes = {unit.cell.instance: outcome for unit, outcome in computing}
    finally:
        holder.communicate("done\n")
    assert outcomes == {"easy": "stored", "hard": "busy", "loud": "busy", "ball": "computed"}
    assert [len(rows) for _, rows in simulated] == [5]
    ((unit, outcome),) = engines.GpuEngine(store, "cpu", 50).compute([units["hard"]])
    assert (unit, outcome) == (units["hard"], "computed")
    np.testing.assert_allclose(load(tmp_path).final("hard", "LinUCB"), computed.final("hard", "LinUCB"), atol=1e-9)


CLAIMER = """
import sys
from adadim.study.store import Store
for cell in sys.argv[2:]:
    with Store(sys.argv[1]).claims.hold(cell, (0, 5)) as claimed:
        print(int(claimed))
"""


def test_all_units_that_run_together_are_claimed(torch, tmp_path, monkeypatch):
    """Until the last of them is stored, and not before the first runs."""
    plan = device_study(
        policies={"LinUCB": adadim.LinUCB()}, instances={"easy": SPHERE, "hard": {**SPHERE, "intrinsic_dim": 8}}
    )
    store, units = opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=5)
    command = [sys.executable, "-c", CLAIMER, str(tmp_path), *(unit.cell.id for unit in units)]

    def free():
        return [
            int(line) for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        ]

    seen, real = [], engines.simulate
    monkeypatch.setattr(engines, "simulate", lambda *a, **options: seen.append(free()) or real(*a, **options))
    outcomes = engines.GpuEngine(store, "cpu", 50).compute(units)
    next(outcomes)
    assert seen == [[0, 0]]
    assert free() == [0, 0]
    assert len(list(outcomes)) == 1
    assert free() == [1, 1]
