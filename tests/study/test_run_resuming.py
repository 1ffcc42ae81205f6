"""Running again: what is missing is computed, once, with the same result however it is cut up."""

from __future__ import annotations

import contextlib

from small_studies import SPHERE, contents, done_by, six_cells

import adadim
from adadim.study import engines, load, policy_kinds, run, status


def test_a_second_run_computes_nothing(tmp_path, monkeypatch):
    assert len(done_by(six_cells(), tmp_path, jobs=1, batch=2)) == 6 * 3
    before = contents(tmp_path)
    monkeypatch.setattr(engines, "simulate", None)
    assert done_by(six_cells(), tmp_path, jobs=1, batch=2) == []
    assert contents(tmp_path) == before


def test_more_of_everything_adds_only_what_is_missing(tmp_path):
    run(six_cells(), tmp_path, jobs=1, batch=4)
    before = contents(tmp_path)
    added = done_by(six_cells(trials=9), tmp_path, jobs=1, batch=4)
    assert sorted({(unit.start, unit.stop) for unit in added}) == [(5, 8), (8, 9)]
    assert len(added) == 6 * 2
    policies = {**six_cells().policies, "greedy": adadim.Greedy()}
    assert {unit.cell.policy for unit in done_by(six_cells(trials=9, policies=policies), tmp_path, jobs=1)} == {
        "greedy"
    }
    after = contents(tmp_path)
    assert {name: after[name] for name in before if name != "manifest.json"}.items() <= before.items()
    run(six_cells(trials=9, policies=policies), tmp_path / "afresh", jobs=1)
    assert load(tmp_path).frame().equals(load(tmp_path / "afresh").frame())


def test_fewer_trials_use_a_part_of_what_is_there(tmp_path):
    whole = run(six_cells(), tmp_path, jobs=1).final("easy", "LinUCB")
    assert done_by(six_cells(trials=3), tmp_path, jobs=1) == []
    assert load(tmp_path).final("easy", "LinUCB").tolist() == whole[:3].tolist()
    assert status(tmp_path).total == 6 * 3


def test_blocks_that_a_changed_study_leaves_behind_are_kept_and_counted(tmp_path):
    run(six_cells(), tmp_path, jobs=1, batch=8)
    run(six_cells(policies={"greedy": adadim.Greedy()}), tmp_path, jobs=1, batch=8)
    assert status(tmp_path).unused == 6
    assert done_by(six_cells(), tmp_path, jobs=1) == []


def test_one_policy_under_two_names_is_computed_once(tmp_path):
    study = six_cells(policies={"a": adadim.LinUCB(), "b": {"kind": "LinUCB"}})
    assert len(done_by(study, tmp_path, jobs=1, batch=8)) == 2
    results = load(tmp_path)
    assert results.final("easy", "a").tolist() == results.final("easy", "b").tolist()


def test_jobs_do_not_change_the_results(tmp_path):
    run(six_cells(), tmp_path / "one", jobs=1, batch=2)
    run(six_cells(), tmp_path / "two", jobs=2, batch=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_batches_do_not_change_the_results(tmp_path):
    frames = [run(six_cells(), tmp_path / str(batch), jobs=1, batch=batch).frame() for batch in (1, 2, 3, 5, None)]
    assert all(frame.equals(frames[0]) for frame in frames)
    for batch in (3, 2, 1):  # pieces of several sizes in one folder
        run(six_cells(trials=5 - batch), tmp_path / "mixed", jobs=1, batch=batch)
    assert run(six_cells(), tmp_path / "mixed", jobs=1).frame().equals(frames[0])


def test_every_public_policy_runs_in_a_study_whatever_the_batch(tmp_path):
    policies = {}
    for name, kind in policy_kinds().items():
        with contextlib.suppress(TypeError):  # no defaults
            policies[name] = kind()
    assert {"LinUCB", "UCB", "Random"} <= policies.keys()
    study = six_cells(policies=policies, trials=2, instances={"easy": SPHERE})
    one, two = (run(study, tmp_path / str(batch), jobs=1, batch=batch) for batch in (1, 2))
    assert one.frame().equals(two.frame())
