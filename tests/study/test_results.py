"""Reading results, complete or not, cell by cell and pair by pair."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from small_studies import SPHERE, blocks, one_instance

import adadim
from adadim.study import StoreError, Study, load, run, status
from adadim.study.store import Store


def test_results_are_those_of_simulate(folder):
    instance = adadim.instances.sphere(**{k: v for k, v in SPHERE.items() if k != "kind"}, replications=range(4))
    expected = adadim.simulate(adadim.LinUCB(), instance, record=[30, 60])
    results = load(folder)
    times, regret = results.curves("easy", "LinUCB")
    np.testing.assert_array_equal(times, expected.times)
    np.testing.assert_array_equal(regret, expected.regret)
    np.testing.assert_array_equal(results.final("easy", "LinUCB"), expected.final)
    frame = results.frame()
    assert frame.columns == ["instance", "policy", "replication", "time", "regret"]
    assert frame.height == 2 * 4 * 2
    chosen = frame.filter((pl.col("policy") == "LinUCB") & (pl.col("replication") == 3) & (pl.col("time") == 60))
    assert chosen["regret"].to_list() == [expected.regret[3, 1]]


def test_status_counts_what_is_stored(folder):
    assert status(folder).complete
    blocks(folder)[0].unlink()
    state = status(folder)
    assert (state.name, state.done, state.total, state.complete) == ("small", 6, 8, False)
    assert sorted(cell.done for cell in state.cells) == [2, 4]


def test_incomplete_results_can_be_read(folder):
    first = one_instance().cells[0]
    Store(folder).path(first.id, (0, 2)).unlink()
    results = load(folder)
    assert results.replications("easy", "LinUCB").tolist() == [2, 3]
    assert results.final("easy", "LinUCB").shape == (2,)


def test_overlapping_blocks_count_once(folder, tmp_path):
    other = tmp_path / "other"
    run(one_instance(), other, jobs=1, batch=3)
    before = load(folder).frame()
    for path in blocks(other):
        (folder / "blocks" / path.name).write_bytes(path.read_bytes())
    assert load(folder).frame().equals(before)
    assert status(folder).done == 8


def test_unknown_names_are_refused(folder):
    results = load(folder)
    with pytest.raises(StoreError, match=r"no policy 'linucb'.*did you mean 'LinUCB'"):
        results.final("easy", "linucb")
    with pytest.raises(StoreError, match=r"no instance 'esay'.*did you mean 'easy'"):
        results.parameters("esay")


def test_a_policy_left_out_by_only_is_refused_by_name(tmp_path):
    study = one_instance(instances={"easy": SPHERE, "b": {**SPHERE, "kind": "ball"}}, only={"random": ["b"]})
    results = run(study, tmp_path, jobs=1)
    assert results.cells() == (("easy", "LinUCB"), ("b", "LinUCB"), ("b", "random"))
    with pytest.raises(StoreError, match="'random' does not run on instance 'easy'"):
        results.final("easy", "random")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """Two policies on two instances, 6 trials; of "LinUCB" on "easy" trials 0 and 1 are missing, on "hard" 4 and 5."""
    folder = tmp_path_factory.mktemp("interrupted")
    study = Study(
        name="small",
        instances={"easy": SPHERE, "hard": {**SPHERE, "intrinsic_dim": 4}},
        policies={"LinUCB": adadim.LinUCB(), "random": adadim.Random()},
        trials=6,
        record=[30, 60],
    )
    run(study, folder, jobs=1, batch=2)
    by_name = {(cell.instance, cell.policy): cell.id for cell in study.cells}
    for instance, span in (("easy", (0, 2)), ("hard", (4, 6))):
        Store(folder).path(by_name[instance, "LinUCB"], span).unlink()
    return load(folder)


def test_common_trials_are_those_that_every_cell_has(interrupted):
    assert interrupted.common_trials().tolist() == [2, 3]
    assert interrupted.common_trials([("easy", "LinUCB"), ("easy", "random")]).tolist() == [2, 3, 4, 5]
    assert interrupted.common_trials(iter([("hard", "LinUCB")])).tolist() == [0, 1, 2, 3]
    assert interrupted.common_trials([("easy", "random")]).tolist() == [0, 1, 2, 3, 4, 5]
    assert np.issubdtype(interrupted.common_trials().dtype, np.integer)


def test_common_trials_of_nothing_and_of_unknown_cells_are_refused(interrupted):
    with pytest.raises(ValueError, match=r"cells must hold at least one pair \(instance, policy\), got \[\]"):
        interrupted.common_trials([])
    with pytest.raises(StoreError, match=r"no policy 'linucb'.*did you mean 'LinUCB'"):
        interrupted.common_trials([("easy", "linucb")])


def test_final_and_curves_give_the_trials_asked_for(interrupted):
    whole = interrupted.final("easy", "LinUCB")
    assert interrupted.replications("easy", "LinUCB").tolist() == [2, 3, 4, 5]
    np.testing.assert_array_equal(interrupted.final("easy", "LinUCB", trials=[3, 5]), whole[[1, 3]])
    np.testing.assert_array_equal(interrupted.final("easy", "LinUCB", trials=np.array([5, 3])), whole[[3, 1]])
    times, regret = interrupted.curves("easy", "LinUCB")
    some_times, some = interrupted.curves("easy", "LinUCB", trials=(2, 4))
    np.testing.assert_array_equal(some_times, times)
    np.testing.assert_array_equal(some, regret[[0, 2]])


def test_the_same_trials_of_two_policies_are_pairs(interrupted):
    cells = [("easy", "LinUCB"), ("easy", "random")]
    numbers = interrupted.common_trials(cells)
    learned, random = (interrupted.final(*cell, trials=numbers) for cell in cells)
    np.testing.assert_array_equal(learned, interrupted.final("easy", "LinUCB"))
    np.testing.assert_array_equal(random, interrupted.final("easy", "random")[2:])


def test_no_trials_at_all_give_empty_arrays(interrupted):
    assert interrupted.final("easy", "LinUCB", trials=[]).shape == (0,)
    assert interrupted.curves("easy", "LinUCB", trials=[])[1].shape == (0, 2)


@pytest.mark.parametrize("number", [1, 6, -1])
def test_a_trial_that_is_not_stored_is_named(interrupted, number):
    with pytest.raises(StoreError, match=rf"replication {number} of 'LinUCB' on 'easy' is not stored; common_trials"):
        interrupted.final("easy", "LinUCB", trials=[2, number])
    with pytest.raises(StoreError, match=rf"replication {number} of 'LinUCB' on 'easy' is not stored"):
        interrupted.curves("easy", "LinUCB", trials=[2, number])


@pytest.mark.parametrize("trials", [[2.0, 3.0], [True, False], 2, [[2], [3]], "23"])
def test_trials_that_are_no_numbers_are_refused(interrupted, trials):
    with pytest.raises(ValueError, match="trials must be a list of replication numbers, got"):
        interrupted.final("easy", "LinUCB", trials=trials)
