"""Studies on a Dask cluster: the bytes of a run on one machine, whatever happens to the workers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_studies import SPHERE, contents, done_by, six_cells

import adadim
from adadim.study import RunError, load_plugin, run, status

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    """A cluster of two worker processes."""

    from adadim.study.cluster import RESTART

    quick = {"distributed.scheduler.allowed-failures": 1, "distributed.admin.large-graph-warning-threshold": "1GB"}
    with (
        dask.config.set(quick | RESTART),
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@dataclass(frozen=True)
class Counted(adadim.Policy):
    """Random, which takes a while and leaves a line in a file for each block it was started for."""

    file: str
    seconds: float = 0.05

    def learner(self, problem, streams):
        if len(problem.replications) and problem.arms > 2:  # not for the small instance of a check
            time.sleep(self.seconds)
            with open(self.file, "a") as file:
                file.write(f"{problem.replications[0]}\n")
        return adadim.Random().learner(problem, streams)


@dataclass(frozen=True)
class Deadly(adadim.Policy):
    """Kills its worker."""

    def learner(self, problem, streams):
        if problem.arms > 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return adadim.Random().learner(problem, streams)


def counted_study(tmp_path, trials=12, **options):
    policies = {"slow": Counted(str(tmp_path / "lines"), **options), "random": adadim.Random()}
    return six_cells(policies=policies, instances={"easy": SPHERE}, trials=trials)


def lines(tmp_path):
    return sorted(map(int, (tmp_path / "lines").read_text().split()))


def fig2b(trials):
    """Two instances of the paper's figure, made small."""
    told = adadim.paper.study("fig2b", "released", trials=trials).to_dict()
    told["instances"] = {
        name: {**table, "arms": 40, "dim": 24, "horizon": 60, "intrinsic_dim": 3}
        for name, table in list(told["instances"].items())[:2]
    }
    told["labels"] = {}
    return adadim.study.Study.from_dict(told)


def test_a_figure_has_the_bytes_of_a_run_on_one_machine(client, tmp_path):
    study = fig2b(trials=3)
    run(study, tmp_path / "joblib", jobs=2)
    results = adadim.run(study, tmp_path / "dask", cluster=client)
    adadim.run(study, tmp_path / "shared", cluster=client, shared=True)
    assert contents(tmp_path / "joblib") == contents(tmp_path / "dask") == contents(tmp_path / "shared")
    assert len(results.cells()) == 2 * 6
    assert done_by(study, tmp_path / "dask", cluster=client) == []


@pytest.mark.parametrize("shared", [False, True])
def test_killed_workers_change_nothing_and_nothing_stored_is_computed_again(client, tmp_path, shared, monkeypatch):
    study = counted_study(tmp_path, seconds=0.1)
    stored, real = [], adadim.study.store.Store.write

    def noted(self, unit, data):
        stored.append(unit.id)
        real(self, unit, data)

    monkeypatch.setattr(adadim.study.store.Store, "write", noted)
    killed, seen, moments = [], {}, (3,) if shared else (3, 9)

    def progress(done, total, unit):
        if unit is not None:
            path = tmp_path / "dask" / "blocks" / f"{unit.id}.parquet"
            seen[unit.id] = path.stat().st_mtime_ns
        if done in moments:
            pid = max(client.run(os.getpid).values())
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    run(study, tmp_path / "dask", cluster=client, shared=shared, batch=1, progress=progress)
    assert len(killed) == len(moments)
    assert sorted(stored) == ([] if shared else sorted(seen))
    files = {path.stem: path.stat().st_mtime_ns for path in (tmp_path / "dask" / "blocks").glob("*.parquet")}
    assert files == seen
    assert len(files) == 24
    again = len(lines(tmp_path)) - 12
    assert 0 <= again <= len(moments)  # what the killed workers had begun
    (tmp_path / "lines").unlink()
    run(study, tmp_path / "joblib", jobs=1, batch=1)
    assert done_by(study, tmp_path / "dask", jobs=1, batch=1) == []  # removes what a killed worker was writing
    assert contents(tmp_path / "dask") == contents(tmp_path / "joblib")


def test_a_policy_that_kills_every_worker_stops_the_run_and_nothing_else_is_lost(client, tmp_path):
    study = six_cells(policies={"random": adadim.Random(), "bad": Deadly()}, instances={"easy": SPHERE}, trials=2)
    with pytest.raises(RunError, match=r"worker processes died twice .*bad on easy.*run again"):
        run(study, tmp_path, cluster=client)
    assert {cell.policy: cell.done for cell in status(tmp_path).cells} == {"random": 2, "bad": 0}
    client.wait_for_workers(2, timeout=60)


def test_an_error_in_a_policy_says_where(client, tmp_path):
    @dataclass(frozen=True)
    class Fails(adadim.Policy):
        def learner(self, problem, streams):
            if problem.arms > 2:
                raise IndexError("no such thing")
            return adadim.Random().learner(problem, streams)

    study = six_cells(policies={"bad": Fails()}, instances={"easy": SPHERE})
    with pytest.raises(RunError, match=r"bad on easy, replications \d+ to \d+: IndexError: no such thing"):
        run(study, tmp_path, cluster=client, batch=1)


def test_ctrl_c_keeps_what_is_finished_and_leaves_the_cluster_clean(client, tmp_path):
    study = counted_study(tmp_path)

    def interrupt(done, total, unit):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(study, tmp_path / "results", cluster=client, batch=1, progress=interrupt)
    left, deadline = None, time.monotonic() + 20
    while left != 0 and time.monotonic() < deadline:
        left = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
    assert left == 0
    stored = {path.stem for path in (tmp_path / "results" / "blocks").glob("*.parquet")}
    assert len(stored) >= 4
    assert len(done_by(study, tmp_path / "results", cluster=client, batch=1)) == 24 - len(stored)


SECOND = """
import sys
import time
from pathlib import Path
import adadim
from test_cluster_runs import counted_study

def wait_for_the_other(done, total, unit):
    if done:
        at_work = Path(sys.argv[2]) / "at work"
        (at_work / sys.argv[3]).touch()
        deadline = time.monotonic() + 45
        while len(list(at_work.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)

if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    folder = Path(sys.argv[2])
    study = counted_study(folder, trials=30)
    adadim.run(study, folder / "results", cluster=sys.argv[1], batch=int(sys.argv[3]), progress=wait_for_the_other)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
def test_two_clients_on_one_folder_do_not_do_the_same_work(client, tmp_path):
    file = tmp_path / "second.py"
    file.write_text(SECOND)
    (tmp_path / "at work").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(file), client.scheduler.address, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    children = [subprocess.Popen([*command, batch], **pipes) for batch in ("1", "2")]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=120)
        assert child.returncode == 0
    blocks = [path.stem.split("-") for path in (tmp_path / "results" / "blocks").glob("*.parquet")]
    assert {int(stop) - int(start) for _, start, stop in blocks} == {1, 2}  # both had a part in it
    begun = lines(tmp_path)  # of one of the two policies
    assert len(begun) == len(set(begun))
    assert len(begun) in Counter(cell for cell, _, _ in blocks).values()
    assert status(tmp_path / "results").complete


PLUGIN = """
from dataclasses import dataclass
import adadim

SHARE = 0.5

@dataclass(frozen=True)
class Part(adadim.Policy):
    ridge: float = 1.0

    def learner(self, problem, streams):
        return adadim.LinUCB(ridge=self.ridge, dim=max(1, int(problem.dim * SHARE))).learner(problem, streams)
"""


def test_a_plugin_travels_to_workers_that_do_not_have_its_file(client, tmp_path):
    file = tmp_path / "part.py"
    file.write_text(PLUGIN)
    study = six_cells(policies={"mine": {"kind": "Part"}}, plugins=load_plugin(file))
    run(study, tmp_path / "here", jobs=1)
    file.unlink()
    run(study, tmp_path / "there", cluster=client, batch=5)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_a_worker_with_another_version_is_refused(tmp_path):
    source, other = Path(adadim.__file__).parent, tmp_path / "other" / "adadim"
    shutil.copytree(source, other, ignore=shutil.ignore_patterns("__pycache__"))
    with open(other / "play" / "simulate.py", "a") as file:
        file.write("\n# another version\n")
    options = {"n_workers": 0, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        environment = {**os.environ, "PYTHONPATH": str(other.parent)}
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler.address, "--no-nanny"]
        worker = subprocess.Popen([*command, "--no-dashboard"], env=environment, stderr=subprocess.DEVNULL)
        try:
            sentence = r"worker \S+ has another adadim \S+ than the client .*; install the same"
            with pytest.raises(RunError, match=sentence):
                run(six_cells(), tmp_path / "results", cluster=client)
        finally:
            worker.kill()
            worker.wait()
    assert not (tmp_path / "results").exists()
