"""Which workers of a cluster take which blocks, how much they take, and what is said where a cluster cannot be used."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from device_studies import device_study
from small_studies import one_instance

import adadim
from adadim.study import RunError, StudyError, Unit, executor, run
from command_line import STUDY, adadim_, contents, refused

distributed = pytest.importorskip("distributed")
from adadim.study import cluster as clusters  # noqa: E402 - it needs distributed


@pytest.fixture
def client(request):
    """A cluster whose workers are threads of this process, one for each table of options."""
    with InThreads(*getattr(request, "param", ({},))) as client:
        yield client


class InThreads:
    def __init__(self, *options):
        common = {"dashboard_address": ":0"}
        workers = {
            i: {"cls": distributed.Worker, "options": {"nthreads": 1, **common, **o}} for i, o in enumerate(options)
        }
        scheduler = {"cls": distributed.Scheduler, "options": {"protocol": "inproc://", **common}}
        self.cluster = distributed.SpecCluster(workers, scheduler, silence_logs=50)
        self.client = distributed.Client(self.cluster, set_as_default=False)

    def __enter__(self):
        return self.client

    def __exit__(self, *_):
        self.client.close()
        self.cluster.close()


def test_blocks_together_never_take_more_than_there_is():
    memory, now, most = clusters.MemoryBudget(capacity=10), [], []

    def block(needed):
        with memory.reserved(needed, "block"):
            now.append(needed)
            most.append(sum(now))
            time.sleep(0.002)
            now.remove(needed)

    threads = [threading.Thread(target=block, args=(needed,)) for needed in (6, 3, 5, 1, 10, 4, 6, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) <= 10
    assert len(most) == 8
    assert memory.used == 0
    with pytest.raises(
        RunError, match=r"block: needs about .* GiB, and blocks on this worker may take .*smaller batch"
    ):
        block(11)


MEGABYTE = 2**20


@pytest.mark.parametrize(
    "client", [({"memory_limit": 40 * MEGABYTE, "nthreads": 2}, {"memory_limit": 2**33})], indirect=True
)
def test_blocks_are_as_large_as_the_smallest_worker_bears(client, tmp_path, monkeypatch):
    study = one_instance(trials=30)
    monkeypatch.setattr(adadim.study.cells.Cell, "replication_bytes", MEGABYTE)
    engine = clusters.Cluster(study, adadim.study.store.Store(tmp_path), client, None, "cpu", False)
    units = executor.plan(study, {}, engine.jobs, engine.batch, engine.memory)
    sizes = {unit.stop - unit.start for unit in units}
    assert max(sizes) == 10  # half of 40 for two threads
    monkeypatch.setattr(adadim.study.cells.Cell, "replication_bytes", 21 * MEGABYTE)
    with pytest.raises(RunError, match=r"easy: a replication needs about .* GiB, and worker \S+ has .*more memory"):
        run(study, tmp_path, cluster=client)


def test_a_block_too_large_for_a_worker_that_came_later_is_refused(client, tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "_limit", lambda worker: 1000.0)
    monkeypatch.setattr(clusters.Cluster, "_check_memory", lambda self, workers: None)
    with pytest.raises(RunError, match="LinUCB on easy, replications 0 to 3: needs about"):
        run(one_instance(), tmp_path, cluster=client, batch=4)


@pytest.mark.parametrize("client", [({}, {"resources": {"GPU": 1}, "name": "card"})], indirect=True)
def test_gpu_blocks_go_to_workers_with_a_gpu(torch, client, tmp_path, monkeypatch):
    where, real = [], clusters.device_regret

    def noted(unit, device):
        where.append(distributed.get_worker().name)
        return real(unit, device)

    monkeypatch.setattr(clusters, "check_device", lambda device: "cpu")
    monkeypatch.setattr(clusters, "gpu_memory", lambda device: (2**33, 2**34))
    monkeypatch.setattr(clusters, "device_regret", noted)
    study = device_study()
    results = run(study, tmp_path / "there", cluster=client, device="cuda")
    assert set(where) == {"card"}
    assert results.frame().equals(run(study, tmp_path / "here", jobs=1).frame())


def test_without_a_gpu_that_is_said(client, tmp_path):
    with pytest.raises(RunError, match=r"no worker of the cluster offers a GPU; start some with: dask worker --res"):
        run(one_instance(), tmp_path, cluster=client, device="cuda")
    with pytest.raises(StudyError, match="device must be 'cpu', 'cuda' or 'cuda:N', got 'gpu'"):
        run(one_instance(), tmp_path, cluster=client, device="gpu")


def test_other_versions_are_told_in_one_sentence(client, tmp_path, monkeypatch):
    here = clusters.versions()
    assert clusters.disagreement(here, here) == ""
    for name, said in (("numpy", "numpy 1.0, and the client numpy"), ("adadim", "adadim 1.0, and the client adadim")):
        assert clusters.disagreement({**here, name: "1.0"}, here).startswith(said)
    with pytest.raises(RunError, match=r"^a worker has scipy \S+, and the client scipy 0.1; install the same on both$"):
        clusters.perform(b"of another version: not unpacked", (0, 1), {**here, "scipy": "0.1"}, "cpu")
    polars = {threading.current_thread(): "0.1"}  # the workers are other threads of this process
    theirs = here["polars"]
    monkeypatch.setattr(
        clusters, "versions", lambda: {**here, "polars": polars.get(threading.current_thread(), theirs)}
    )
    with pytest.raises(RunError, match=r"^worker \S+ has polars \S+, and the client polars 0.1; install"):
        run(one_instance(), tmp_path, cluster=client)


@pytest.mark.parametrize("cluster", ["nonsense", "local:0", "local:", 3, "scheduler:8786"])
def test_what_is_no_cluster_is_refused(tmp_path, cluster):
    with pytest.raises(StudyError, match="cluster must be 'local:4', the address of a scheduler such as 'tcp"):
        run(one_instance(), tmp_path / "results", cluster=cluster)
    assert not (tmp_path / "results").exists()


def test_options_that_do_not_go_together(client, tmp_path):
    with pytest.raises(StudyError, match="jobs: a cluster has workers of its own, got 2; leave it out"):
        run(one_instance(), tmp_path, cluster=client, jobs=2)
    with pytest.raises(StudyError, match="shared: it is workers of a cluster"):
        run(one_instance(), tmp_path, shared=True)
    with pytest.raises(adadim.InvalidTypeError, match="shared must be True or False"):
        run(one_instance(), tmp_path, shared=[[True]])


def test_nobody_there(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 0.3)
    with pytest.raises(RunError, match=r"cluster tcp://127\.0\.0\.1:1: no scheduler answers there"):
        run(one_instance(), tmp_path, cluster="tcp://127.0.0.1:1")
    with InThreads() as client, pytest.raises(RunError, match=r"the cluster at \S+ has no workers"):
        run(one_instance(), tmp_path, cluster=client)


def test_a_folder_that_workers_do_not_see(client, tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "exists", lambda path: False)
    with pytest.raises(RunError, match=r"worker \S+ does not see .*; leave out 'shared', or mount it there"):
        run(one_instance(), tmp_path, cluster=client, shared=True)


class Fake:
    """A future in some state."""

    def __init__(self, status, error=None):
        self.status, self.error = status, error

    def exception(self):
        return self.error


def results_of(*futures):
    """What an engine makes of futures, with those that are gathered giving b"block"."""
    engine = SimpleNamespace(_gathered=lambda good: [b"block"] * len(good))
    unit = Unit(one_instance().cells[0], 0, 2)
    return [result for _, result in clusters.Cluster._results(engine, futures, dict.fromkeys(futures, unit))]


def test_what_becomes_of_a_task():
    killed = distributed.KilledWorker("task", SimpleNamespace(address="tcp://x"), 3)
    lost = Fake("lost")  # done, but its worker died before the result was fetched
    assert results_of(Fake("finished"), lost, Fake("error", killed)) == [b"block", b"block", killed]
    with pytest.raises(RunError, match=r"the cluster dropped the work .*; what is finished is stored"):
        results_of(Fake("cancelled"))
    with pytest.raises(RunError, match=r"LinUCB on easy, replications 0 to 1: ModuleNotFoundError: no adadim"):
        results_of(Fake("error", ModuleNotFoundError("no adadim")))
    with pytest.raises(RunError, match=r"^said by a worker$"):
        results_of(Fake("error", RunError("said by a worker")))


def test_a_block_may_be_computed_on_threads(client, tmp_path):
    packed = clusters.cloudpickle.dumps(one_instance().cells[0])
    future = client.submit(clusters.perform, packed, (0, 2), clusters.versions(), "cpu")
    assert future.result()[:4] == b"PAR1"


def test_the_command_runs_a_study_on_a_cluster(working_folder, one_format):
    (working_folder / "mine.toml").write_text(STUDY)
    adadim_("run", "mine.toml", "--jobs", 1, "--batch", 2, "--out", "here")
    printed, _ = adadim_("run", "mine.toml", "--cluster", "local:1", "--batch", 2, "--out", "there", "--shared")
    assert "LinUCB" in printed
    assert contents(working_folder / "here") == contents(working_folder / "there")
    refused("run", "mine.toml", "--cluster", "local", "--out", "other", message="cluster must be 'local:4'")
    refused("run", "mine.toml", "--shared", "--out", "other", message="shared: it is workers of a cluster")


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("lower-bound --policy Greedy -T 64 --alpha 0.4 --delta 0.3 -n 2", "figures/lower-bound.csv"),
        ("rates --trials 2 -T 16 -T 64 -T 256 --alpha 0 --beta 0.5 --dim 8", "figures/rates.csv"),
        ("study footnote -T 64 -T 100 --trials 2 --variant theory", "footnote.csv"),
    ],
)
def test_studies_of_other_commands_run_on_a_cluster(working_folder, one_format, client, words, made):
    adadim_(*words.split(), "--jobs", 1, "--out", "here", "--quiet")
    adadim_(*words.split(), "--cluster", client.scheduler.address, "--out", "there", "--quiet")
    assert (working_folder / "here" / made).read_bytes() == (working_folder / "there" / made).read_bytes()


def test_commands_read_and_write_urls(working_folder, one_format):
    pytest.importorskip("fsspec")
    (working_folder / "mine.toml").write_text(STUDY)
    printed, _ = adadim_("run", "mine.toml", "--jobs", 1, "--out", "memory://cli/mine")
    assert "wrote memory://cli/mine/figures/mine.png" in printed
    assert "complete" in adadim_("status", "memory://cli/mine")[0]
    assert "complete" in adadim_("status", "memory://cli")[0]
    adadim_("export", "memory://cli/mine", "--out", "table.csv")
    assert (working_folder / "table.csv").read_text().startswith("instance,policy,replication,time,regret")
    printed, _ = adadim_("figure", "memory://cli/mine", "--out", "pictures")
    assert (working_folder / "pictures" / "mine.png").exists()
    refused("status", "memory://nothing/here", message="memory://nothing/here is not a folder", code=2)


def test_importing_adadim_imports_neither_dask_nor_fsspec():
    code = "import sys, adadim, adadim.study; print([m for m in ('dask', 'distributed', 'fsspec') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert adadim.run is adadim.study.run
