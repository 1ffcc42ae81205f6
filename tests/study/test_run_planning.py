"""Which units a run computes, how large they are, and which options it takes."""

from __future__ import annotations

import pytest
from small_studies import SPHERE, six_cells

import adadim
from adadim.errors import InvalidValueError
from adadim.study import StudyError, batch_size, executor, run


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
