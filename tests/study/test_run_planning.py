"""Which units a run computes, how large they are, and which options it takes."""

from __future__ import annotations

import pytest
from small_studies import SPHERE, six_cells

import adadim
from adadim.errors import InvalidValueError
from adadim.study import StudyError, Unit, batch_size, engines, executor, run
from adadim.study.store import Store


def test_blocks_are_aligned_shared_out_and_ordered_by_cost():
    study = six_cells(trials=60)
    units = executor.plan(study, {}, jobs=1)
    assert {(unit.start, unit.stop) for unit in units} == {(0, 25), (25, 50), (50, 60)}
    costs = [unit.cost for unit in units]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]
    one = six_cells(trials=8, policies={"random": adadim.Random()}, instances={"easy": SPHERE})
    assert len(executor.plan(one, {}, jobs=4)) == 4
    gaps = executor.plan(one, {one.cells[0].id: [(0, 1), (3, 4)]}, jobs=1, batch=4)
    assert sorted((unit.start, unit.stop) for unit in gaps) == [(1, 3), (4, 8)]


def test_batches_fit_into_memory(monkeypatch):
    large = six_cells(instances={"large": {**SPHERE, "arms": 1000, "dim": 500}}).cells[0]
    needed = 4 * 8 * (1000 * 500 + 1000**2)
    monkeypatch.setattr(executor, "machine_bytes", lambda: 2 * 3.5 * needed)
    assert batch_size(large) == 3
    assert batch_size(large, jobs=2) == 1
    assert batch_size(large, jobs=100) == 1
    assert batch_size(six_cells().cells[0]) == 25


def test_bad_options_are_refused(tmp_path):
    for options in ({"jobs": 0}, {"batch": 0}, {"jobs": 1.5}):
        with pytest.raises(InvalidValueError, match=f"{next(iter(options))} must be an integer of at least 1"):
            run(six_cells(), tmp_path / "results", **options)
    with pytest.raises(StudyError, match="expected a Study, got dict"):
        run({}, tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_units_on_one_instance_are_one_task(monkeypatch):
    """Or as few as leave every worker `TASKS` tasks; none is lost, and their order stays."""
    units = executor.plan(six_cells(trials=8), {}, jobs=2, batch=2)
    monkeypatch.setattr(engines, "TASKS", 2)
    for workers, sizes in [(1, {3}), (4, {3}), (5, {1, 2}), (20, {1})]:
        tasks = engines.tasks_of(units, workers)
        assert [unit for task in tasks for unit in task] == units
        assert {len(task) for task in tasks} == sizes
        assert all(len({(unit.cell.instance, unit.span) for unit in task}) == 1 for task in tasks)
    assert engines.tasks_of([], 2) == []


def test_a_task_makes_its_instance_once(tmp_path, monkeypatch):
    plan, made = six_cells(trials=8), []
    store = Store(tmp_path)
    store.prepare(plan)
    store.open(plan, False, False)
    units = executor.plan(plan, {}, jobs=2, batch=4)
    monkeypatch.setattr(Unit, "make", lambda unit, make=Unit.make: made.append(unit) or make(unit))
    for task in engines.tasks_of(units, 1):
        assert engines.compute_in_turn(store, task, None) == [(unit.id, "computed") for unit in task]
    assert sorted((unit.cell.instance, unit.span) for unit in made) == [
        (name, span) for name in ("ball", "easy") for span in ((0, 4), (4, 8))
    ]
