"""Policies that raise or end their process, and disks that refuse, in the middle of a run."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from small_studies import SPHERE, six_cells

import adadim
from adadim.policies.base import Learner
from adadim.study import RunError, StoreError, executor, load, run, status


@dataclass(frozen=True)
class Fails(adadim.Policy):
    """Raises, or ends its process, in the given replication; only once if there is a marker file to leave."""

    replication: int
    how: str
    marker: str = ""

    def learner(self, problem, streams):
        return _Failing(self, problem, streams)


class _Failing(Learner):
    def __init__(self, policy, problem, streams):
        super().__init__(problem, streams)
        self.policy = policy

    def choose(self, rows):
        policy = self.policy
        if policy.replication in self.problem.replications and not (policy.marker and os.path.exists(policy.marker)):
            if policy.marker:
                Path(policy.marker).touch()
            if policy.how == "raise":
                raise IndexError("no such thing")
            os.kill(os.getpid(), signal.SIGKILL) if policy.how == "kill" else os._exit(3)
        return np.zeros(len(self.problem), dtype=int), {}

    def absorb(self, arms, rewards, rows, memo):
        pass


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_policy_says_where_and_keeps_what_is_finished(tmp_path, jobs):
    study = six_cells(policies={"random": adadim.Random(), "bad": Fails(3, "raise")}, instances={"easy": SPHERE})
    with pytest.raises(RunError, match="bad on easy, replications 3 to 3: IndexError: no such thing"):
        run(study, tmp_path, jobs=jobs, batch=1)
    if jobs == 1:
        assert status(tmp_path).done == 4 + 3  # replication by replication: both policies share each instance
        assert [path.name for path in tmp_path.rglob("*.tmp")] == []
    assert load(tmp_path).frame().filter(pl.col("regret").is_nan()).is_empty()


def test_a_worker_that_dies_once_is_replaced(tmp_path):
    policies = {"random": adadim.Random(), "bad": Fails(3, "kill", str(tmp_path / "marker"))}
    run(six_cells(policies=policies, instances={"easy": SPHERE}), tmp_path / "results", jobs=2, batch=1)
    assert (tmp_path / "marker").exists()
    assert status(tmp_path / "results").complete


def test_workers_that_keep_dying_stop_the_run_and_nothing_else_is_lost(tmp_path):
    policies = {"random": adadim.Random(), "bad": Fails(3, "exit")}
    with pytest.raises(RunError, match=r"worker processes died twice .*bad on easy, replications 3 to 3.*run again"):
        run(six_cells(policies=policies, instances={"easy": SPHERE}), tmp_path, jobs=2, batch=1)
    # Seven units come before the deadly one, and at most one of them dies with it in the other worker, however slow.
    assert sum(cell.done for cell in status(tmp_path).cells) >= 6
    stored = load(tmp_path).frame()
    assert stored.filter(pl.col("regret").is_nan()).is_empty()
    assert stored.filter(pl.col("policy") == "bad").filter(pl.col("replication") == 3).is_empty()


def test_a_store_error_in_a_worker_reaches_the_caller(tmp_path):
    (tmp_path / "blocks").mkdir()
    unit = executor.plan(six_cells(trials=1), {}, jobs=1)[0]
    (tmp_path / "blocks" / f"{unit.id}.parquet").mkdir()  # the rename of this one fails
    with pytest.raises(StoreError, match=unit.id):
        run(six_cells(trials=1), tmp_path, jobs=2)


def test_policy_objects_of_own_classes_run_in_workers(tmp_path):
    study = six_cells(policies={"mine": Fails(99, "raise")})
    one, two = run(study, tmp_path / "one", jobs=1), run(study, tmp_path / "two", jobs=2)
    assert one.frame().equals(two.frame())
