"""Running studies: what is missing is computed, once, whatever happens."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import adadim
from adadim.policies.base import Learner
from adadim.study import (
    RunError,
    StoreError,
    Study,
    StudyError,
    batch_size,
    executor,
    load,
    load_plugin,
    policy_kinds,
    run,
    status,
)

SPHERE = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}


def small(**changes):
    parts = {
        "name": "small",
        "instances": {"easy": SPHERE, "ball": {**SPHERE, "kind": "ball", "horizon": 50}},
        "policies": {
            "LinUCB": adadim.LinUCB(),
            "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"},
            "random": adadim.Random(),
        },
        "trials": 5,
        "record": 10,
    }
    return Study(**{**parts, **changes})


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def done_by(study, folder, **options):
    """Units that a run finished."""
    calls = []
    run(study, folder, progress=lambda done, total, unit: calls.append((done, total, unit)), **options)
    assert [done for done, _, _ in calls] == list(range(len(calls)))
    assert {total for _, total, _ in calls} == {len(calls) - 1}
    assert calls[0][2] is None
    return [unit for _, _, unit in calls[1:]]


def test_a_second_run_computes_nothing(tmp_path, monkeypatch):
    assert len(done_by(small(), tmp_path, jobs=1, batch=2)) == 6 * 3
    before = contents(tmp_path)
    monkeypatch.setattr(executor, "simulate", None)
    assert done_by(small(), tmp_path, jobs=1, batch=2) == []
    assert contents(tmp_path) == before


def test_more_of_everything_adds_only_what_is_missing(tmp_path):
    run(small(), tmp_path, jobs=1, batch=4)
    before = contents(tmp_path)
    added = done_by(small(trials=9), tmp_path, jobs=1, batch=4)
    assert sorted({(unit.start, unit.stop) for unit in added}) == [(5, 8), (8, 9)]
    assert len(added) == 6 * 2
    policies = {**small().policies, "greedy": adadim.Greedy()}
    assert {unit.cell.policy for unit in done_by(small(trials=9, policies=policies), tmp_path, jobs=1)} == {"greedy"}
    after = contents(tmp_path)
    assert {name: after[name] for name in before if name != "manifest.json"}.items() <= before.items()
    run(small(trials=9, policies=policies), tmp_path / "afresh", jobs=1)
    assert load(tmp_path).frame().equals(load(tmp_path / "afresh").frame())


def test_fewer_trials_use_a_part_of_what_is_there(tmp_path):
    whole = run(small(), tmp_path, jobs=1).final("easy", "LinUCB")
    assert done_by(small(trials=3), tmp_path, jobs=1) == []
    assert load(tmp_path).final("easy", "LinUCB").tolist() == whole[:3].tolist()
    assert status(tmp_path).total == 6 * 3


def test_blocks_that_a_changed_study_leaves_behind_are_kept_and_counted(tmp_path):
    run(small(), tmp_path, jobs=1, batch=8)
    run(small(policies={"greedy": adadim.Greedy()}), tmp_path, jobs=1, batch=8)
    assert status(tmp_path).unused == 6
    assert done_by(small(), tmp_path, jobs=1) == []


def test_one_policy_under_two_names_is_computed_once(tmp_path):
    study = small(policies={"a": adadim.LinUCB(), "b": {"kind": "LinUCB"}})
    assert len(done_by(study, tmp_path, jobs=1, batch=8)) == 2
    results = load(tmp_path)
    assert results.final("easy", "a").tolist() == results.final("easy", "b").tolist()


def test_jobs_do_not_change_the_results(tmp_path):
    run(small(), tmp_path / "one", jobs=1, batch=2)
    run(small(), tmp_path / "two", jobs=2, batch=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_batches_do_not_change_the_results(tmp_path):
    frames = [run(small(), tmp_path / str(batch), jobs=1, batch=batch).frame() for batch in (1, 2, 3, 5, None)]
    assert all(frame.equals(frames[0]) for frame in frames)
    for batch in (3, 2, 1):  # pieces of several sizes in one folder
        run(small(trials=5 - batch), tmp_path / "mixed", jobs=1, batch=batch)
    assert run(small(), tmp_path / "mixed", jobs=1).frame().equals(frames[0])


def test_every_public_policy_runs_in_a_study_whatever_the_batch(tmp_path):
    policies = {}
    for name, kind in policy_kinds().items():
        with contextlib.suppress(TypeError):  # no defaults
            policies[name] = kind()
    assert {"LinUCB", "UCB", "Random"} <= policies.keys()
    study = small(policies=policies, trials=2, instances={"easy": SPHERE})
    one, two = (run(study, tmp_path / str(batch), jobs=1, batch=batch) for batch in (1, 2))
    assert one.frame().equals(two.frame())


def test_blocks_are_aligned_shared_out_and_ordered_by_cost():
    study = small(trials=60)
    units = executor.plan(study, {}, jobs=1)
    assert {(unit.start, unit.stop) for unit in units} == {(0, 25), (25, 50), (50, 60)}
    costs = [unit.cost for unit in units]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]
    one = small(trials=8, policies={"random": adadim.Random()}, instances={"easy": SPHERE})
    assert len(executor.plan(one, {}, jobs=4)) == 4
    gaps = executor.plan(one, {one.cells[0].id: [(0, 1), (3, 4)]}, jobs=1, batch=4)
    assert sorted((unit.start, unit.stop) for unit in gaps) == [(1, 3), (4, 8)]


def test_batches_fit_into_memory(monkeypatch):
    large = small(instances={"large": {**SPHERE, "arms": 1000, "dim": 500}}).cells[0]
    needed = 4 * 8 * (1000 * 500 + 1000**2)
    monkeypatch.setattr(executor, "_memory", lambda: 2 * 3.5 * needed)
    assert batch_size(large) == 3
    assert batch_size(large, jobs=2) == 1
    assert batch_size(large, jobs=100) == 1
    assert batch_size(small().cells[0]) == 25


def test_bad_options_are_refused(tmp_path):
    for options in ({"jobs": 0}, {"batch": 0}, {"jobs": 1.5}):
        with pytest.raises(StudyError, match=f"{next(iter(options))}: must be an integer of at least 1"):
            run(small(), tmp_path / "results", **options)
    with pytest.raises(StudyError, match="expected a Study, got dict"):
        run({}, tmp_path / "results")
    assert not (tmp_path / "results").exists()


# Interruptions


CHILD = """
import io, sys, time
from adadim.study import Study, run, store

class Slow(io.FileIO):  # most of the time is spent half-way through a file
    def write(self, data):
        super().write(data[: len(data) // 2])
        time.sleep(0.02)
        super().write(data[len(data) // 2 :])

store.open = lambda path, mode: Slow(path, mode.replace("b", ""))
run(Study.from_toml(sys.argv[1]), sys.argv[2], jobs=int(sys.argv[3]), batch=1)
time.sleep(60)
"""


def test_ten_kills_in_a_row_then_completed_gives_the_bytes_of_an_uninterrupted_run(tmp_path):
    study = small(trials=20)
    file, folder = tmp_path / "small.toml", tmp_path / "killed"
    file.write_text(study.to_toml())
    run(study, tmp_path / "whole", jobs=1, batch=1)
    moments, unit_count = random.Random(), len(study.cells) * study.trials
    for attempt in range(10):
        jobs = 2 if attempt in (3, 7) else 1
        command = [sys.executable, "-c", CHILD, str(file), str(folder), str(jobs)]
        child = subprocess.Popen(command, start_new_session=True)
        wanted = _blocks(folder) + moments.randint(1, 5)
        deadline = time.monotonic() + 30
        while _blocks(folder) < wanted and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.02))
        os.killpg(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        assert wanted <= _blocks(folder) < unit_count
    run(study, folder, jobs=2, batch=1)
    assert contents(folder) == contents(tmp_path / "whole")


def _blocks(folder: Path) -> int:
    return len(list((folder / "blocks").glob("*.parquet")))


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_what_is_finished(tmp_path, jobs):
    finished = []

    def interrupt(done, total, unit):
        if done:
            finished.append(unit.id)
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(small(), tmp_path / "results", jobs=jobs, batch=1, progress=interrupt)
    stored = {path.stem for path in (tmp_path / "results" / "blocks").glob("*.parquet")}
    assert set(finished) <= stored
    rest = done_by(small(), tmp_path / "results", jobs=1, batch=1)
    assert len(rest) == 30 - len(stored)
    run(small(), tmp_path / "whole", jobs=1, batch=1)
    assert contents(tmp_path / "results") == contents(tmp_path / "whole")


@dataclass(frozen=True)
class Fails(adadim.Policy):
    """Raises, or ends its process, in the given replication; only once if there is a marker file to leave."""

    replication: int
    how: str
    marker: str = ""

    def _start(self, problem, streams):
        return _Failing(self, problem)


class _Failing(Learner):
    def __init__(self, policy, problem):
        super().__init__(problem)
        self.policy = policy

    def _select(self, rows):
        policy = self.policy
        if policy.replication in self.problem.replications and not (policy.marker and os.path.exists(policy.marker)):
            if policy.marker:
                Path(policy.marker).touch()
            if policy.how == "raise":
                raise IndexError("no such thing")
            os.kill(os.getpid(), signal.SIGKILL) if policy.how == "kill" else os._exit(3)
        return [0] * len(self.problem)

    def _update(self, arms, rewards, rows):
        pass


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_policy_says_where_and_keeps_what_is_finished(tmp_path, jobs):
    study = small(policies={"random": adadim.Random(), "bad": Fails(3, "raise")}, instances={"easy": SPHERE})
    with pytest.raises(RunError, match="bad on easy, replications 3 to 3: IndexError: no such thing"):
        run(study, tmp_path, jobs=jobs, batch=1)
    if jobs == 1:
        assert status(tmp_path).done == 4 + 3  # replication by replication: both policies share each instance
        assert [path.name for path in tmp_path.rglob("*.tmp")] == []
    assert load(tmp_path).frame().filter(pl.col("regret").is_nan()).is_empty()


def test_a_worker_that_dies_once_is_replaced(tmp_path):
    policies = {"random": adadim.Random(), "bad": Fails(3, "kill", str(tmp_path / "marker"))}
    run(small(policies=policies, instances={"easy": SPHERE}), tmp_path / "results", jobs=2, batch=1)
    assert (tmp_path / "marker").exists()
    assert status(tmp_path / "results").complete


def test_workers_that_keep_dying_stop_the_run_and_nothing_else_is_lost(tmp_path):
    policies = {"random": adadim.Random(), "bad": Fails(3, "exit")}
    with pytest.raises(RunError, match=r"worker processes died twice .*bad on easy, replications 3 to 3.*run again"):
        run(small(policies=policies, instances={"easy": SPHERE}), tmp_path, jobs=2, batch=1)
    done = {cell.policy: cell.done for cell in status(tmp_path).cells}
    assert done["random"] == 5
    assert done["bad"] in (3, 4)  # the block beside the deadly one dies with the pool if it is under way


def test_a_store_error_in_a_worker_reaches_the_caller(tmp_path):
    (tmp_path / "blocks").mkdir()
    unit = executor.plan(small(trials=1), {}, jobs=1)[0]
    (tmp_path / "blocks" / f"{unit.id}.parquet").mkdir()  # the rename of this one fails
    with pytest.raises(StoreError, match=unit.id):
        run(small(trials=1), tmp_path, jobs=2)


# Several runs at once


COUNTED = """
import sys, time
from adadim.study import Study, executor, run
real, count = executor.simulate, 0
def counted(policy, instance, **options):
    global count
    count += len(instance.problem)
    time.sleep(0.02)
    return real(policy, instance, **options)
executor.simulate = counted
study = Study.from_toml(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
run(study, sys.argv[2], jobs=1, batch=int(sys.argv[3]))
print(count)
"""


@pytest.mark.parametrize("batches", [(2, 2), (3, 4)])
def test_two_runs_at_once_share_the_work(tmp_path, batches):
    study = small(trials=12)
    file, folder = tmp_path / "small.toml", tmp_path / "shared"
    file.write_text(study.to_toml())
    command = [sys.executable, "-c", COUNTED, str(file), str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen([*command, str(batch)], **pipes) for batch in batches]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    counts = [int(child.communicate(timeout=60)[0]) for child in children]
    assert sum(counts) == len(study.cells) * study.trials
    assert min(counts) > 0
    assert load(folder).frame().equals(run(study, tmp_path / "alone", jobs=1).frame())


def test_two_threads_take_turns(tmp_path, monkeypatch):
    computed, real = [], executor.simulate

    def counted(policy, instance, **options):
        computed.append(policy)
        time.sleep(0.005)
        return real(policy, instance, **options)

    monkeypatch.setattr(executor, "simulate", counted)
    threads = [threading.Thread(target=run, args=(small(), tmp_path, 1, 1)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(computed) == 30
    assert status(tmp_path).complete


HOLDER = """
import sys, time
from adadim.study.store import Store
with Store(sys.argv[1]).claim(sys.argv[2], (0, 5)):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_run_leaves_to_others_what_they_compute_and_takes_over_when_they_die(tmp_path):
    (tmp_path / "blocks").mkdir()
    command = [sys.executable, "-c", HOLDER, str(tmp_path), small().cells[0].id]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    units = []

    def progress(done, total, unit):
        units.append(unit)
        if done == 5:
            holder.kill()

    run(small(), tmp_path, jobs=1, batch=8, progress=progress)
    assert len(units) == 7
    assert units[-1].cell.id == small().cells[0].id
    assert status(tmp_path).complete
    holder.communicate()


# Policies of the user's own


PLUGIN = """
from dataclasses import dataclass
from adadim import Policy
from adadim.policies.base import Learner

STEP = 1

@dataclass(frozen=True)
class InTurn(Policy):
    first: int = 0

    def _start(self, problem, streams):
        return InTurnLearner(self.first, problem)

class InTurnLearner(Learner):
    def __init__(self, first, problem):
        super().__init__(problem)
        self.arm = first

    def _select(self, rows):
        self.arm = (self.arm + STEP) % self.problem.arms
        return self.xp.full(len(self.problem), self.arm)

    def _update(self, arms, rewards, rows):
        pass
"""


def test_a_policy_from_a_file_runs_in_workers_and_is_computed_anew_when_edited(tmp_path):
    code, file, folder = tmp_path / "turn.py", tmp_path / "study.toml", tmp_path / "results"
    file.write_text(small(instances={"easy": SPHERE}).to_toml() + '\n[policies.mine]\nkind = "InTurn"\nfirst = 3\n')

    def units(text, jobs):
        code.write_text(text)
        return [
            unit.cell.policy for unit in done_by(Study.from_toml(file, load_plugin(code)), folder, jobs=jobs, batch=5)
        ]

    assert sorted(units(PLUGIN, 2)) == ["LinUCB", "mine", "oracle", "random"]
    first = load(folder).final("easy", "mine")
    assert units(PLUGIN + "\nUNUSED = 3  # a remark\n", 1) == []
    assert units(PLUGIN.replace("STEP = 1", "STEP = 3"), 2) == ["mine"]
    assert load(folder).final("easy", "mine").tolist() != first.tolist()
    with pytest.raises(StudyError, match=r"policies\.mine\.kind: no policy 'InTurn'"):
        Study.from_toml(file)


def test_policy_objects_of_own_classes_run_in_workers(tmp_path):
    study = small(policies={"mine": Fails(99, "raise")})
    one, two = run(study, tmp_path / "one", jobs=1), run(study, tmp_path / "two", jobs=2)
    assert one.frame().equals(two.frame())
