"""Results folders that are URLs: the bytes of a folder here, and nothing half-written."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time

import pytest
from joblib.externals.loky import get_reusable_executor
from s3_server import make_bucket, s3_server
from small_studies import contents, done_by, one_instance, six_cells

from adadim.core import files
from adadim.core.files import Url
from adadim.errors import FileError, StoreError
from adadim.study import claims, load, run, status
from adadim.study.claims import Leases
from adadim.study.store import Store

pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def s3():
    """An S3 server with a bucket."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with s3_server() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        make_bucket()
        yield "s3://studies"


@pytest.fixture
def place(request, tmp_path):
    """A new folder of some file system."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/{secrets.token_hex(4)}"
    if request.param == "local":  # fsspec's local file system, where file:// is a path of ours
        return f"local://{tmp_path}/there"
    return f"memory://{secrets.token_hex(4)}"


everywhere = pytest.mark.parametrize("place", ["memory", "local", "s3"], indirect=True)
on_s3 = pytest.mark.parametrize("place", ["s3"], indirect=True)


def stored(place):
    """What a folder holds, by name, like `contents`."""
    folder = Url(place)
    found = {f"blocks/{name}": files.read(folder / "blocks" / name) for name in files.names(folder / "blocks")}
    return {**found, "manifest.json": files.read(folder / "manifest.json")}


def left_over(place):
    """Claims and runs that a folder still has."""
    folder = Url(place)
    cells = files.names(folder / "claims")
    return files.names(folder / "runs") + [name for cell in cells for name in files.names(folder / "claims" / cell)]


@everywhere
def test_a_folder_elsewhere_holds_the_bytes_of_one_here(place, tmp_path):
    study = one_instance()
    run(study, tmp_path / "here", jobs=1, batch=2)
    results = run(study, place, jobs=1, batch=2)
    assert stored(place) == contents(tmp_path / "here")
    assert left_over(place) == []
    assert results.frame().equals(load(tmp_path / "here").frame())
    assert status(place).complete
    assert done_by(study, place, jobs=1) == []
    assert len(done_by(one_instance(trials=6), place, jobs=1, batch=2)) == 2


@everywhere
def test_damaged_and_foreign_files_are_dealt_with_as_here(place):
    run(one_instance(), place, jobs=1, batch=2)
    block = Url(place) / "blocks" / sorted(files.names(Url(place) / "blocks"))[0]
    good = files.read(block)
    files.write_atomic(block, good[:-20])
    with pytest.raises(StoreError, match=f"{block.name}: damaged"):
        status(place)
    with pytest.warns(UserWarning, match="it is computed again"):
        run(one_instance(), place, jobs=1, batch=2)
    assert files.read(block) == good
    with pytest.raises(StoreError, match="holds the results of the study 'small', not of 'other'"):
        run(one_instance(name="other"), place, jobs=1)


@on_s3
def test_processes_write_to_s3(place, tmp_path):
    get_reusable_executor().shutdown()  # those of earlier tests do not know where the server is
    run(six_cells(), tmp_path / "here", jobs=1, batch=5)
    run(six_cells(), place, jobs=2, batch=5)
    assert stored(place) == contents(tmp_path / "here")
    assert left_over(place) == []


CHILD = """
import pathlib, sys, time
from adadim.study import Study, claims, engines, run
claims.LEASE_SECONDS, claims.HEARTBEAT_SECONDS = 2.0, 0.3
real, count, at_work, deadline = engines.simulate, 0, pathlib.Path(sys.argv[4]), time.monotonic() + 90
def counted(policy, instance, **options):
    global count
    count += len(instance.problem)
    (at_work / sys.argv[3]).touch()
    while len(list(at_work.iterdir())) < int(sys.argv[5]) and time.monotonic() < deadline:
        time.sleep(0.01)  # until all have a block to compute
    return real(policy, instance, **options)
engines.simulate = counted
study = Study.from_toml(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
run(study, sys.argv[2], jobs=1, batch=int(sys.argv[3]))
print(count)
"""


def begun(tmp_path, study, place, batches):
    """Processes that run a study, one for each size of a batch; none ends its first block before all have one."""
    file, at_work = tmp_path / "small.toml", tmp_path / "at work"
    file.write_text(study.to_toml())
    at_work.mkdir(exist_ok=True)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", CHILD, str(file), place]
    children = [subprocess.Popen([*command, str(batch), str(at_work), str(len(batches))], **pipes) for batch in batches]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    return children


@on_s3
def test_two_runs_at_once_share_the_work(place, tmp_path):
    study = one_instance(trials=12)
    children = begun(tmp_path, study, place, (2, 3))
    counts = [int(child.communicate(timeout=120)[0]) for child in children]
    assert sum(counts) == len(study.cells) * study.trials
    assert min(counts) > 0
    assert load(place).frame().equals(run(study, tmp_path / "alone", jobs=1).frame())
    assert left_over(place) == []


@on_s3
def test_a_client_killed_in_the_middle_leaves_nothing_half_written(place, tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "LEASE_SECONDS", 1.0)
    study = six_cells(trials=4)
    for round_ in range(2):
        (child,) = begun(tmp_path, study, place, [1])
        before, deadline = len(files.names(Url(place) / "blocks")), time.monotonic() + 60
        while len(files.names(Url(place) / "blocks")) < before + 3 and time.monotonic() < deadline:
            time.sleep(0.003 * round_)
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        child.communicate()
        found = status(place)  # reads every block, and raises if one is not whole
        assert before + 3 <= found.done < found.total
    assert left_over(place) != []  # of the killed
    monkeypatch.setattr("adadim.study.claims.REMOTE_POLL_SECONDS", 0.2)
    run(study, place, jobs=1, batch=1)
    run(study, tmp_path / "here", jobs=1, batch=1)
    assert stored(place) == contents(tmp_path / "here")


def test_a_claim_keeps_other_runs_off_until_it_ends():
    folder, cell = Url(f"memory://{secrets.token_hex(4)}"), "0" * 20
    first, second = Leases(folder), Leases(folder)
    with first.registered(), second.registered():
        assert first.take([(cell, (0, 4)), (cell, (8, 12))]) == [True, True]
        wanted = [(cell, (3, 5)), (cell, (4, 8)), ("1" * 20, (0, 4)), (cell, (11, 12))]
        assert second.take(wanted) == [False, True, True, False]
        second.drop(*second.held)
        assert second.others() == [f"process {os.getpid()} on {socket.gethostname()}"]
        first.drop((cell, (0, 4)))
        with second.hold(cell, (0, 4)) as own:
            assert own
        with second.hold(cell, (8, 9)) as own:
            assert not own
        first.drop(*first.held)
        with second.hold(cell, (8, 9)) as own:
            assert own
    assert left_over(str(folder)) == []


def test_a_dead_run_claims_nothing(monkeypatch):
    monkeypatch.setattr(claims, "HEARTBEAT_SECONDS", 60.0)
    folder, cell = Url(f"memory://{secrets.token_hex(4)}"), "0" * 20
    silent, other = Leases(folder), Leases(folder)
    with silent.registered(), silent.hold(cell, (0, 4)) as own:
        assert own
        with other.hold(cell, (0, 4)) as own:
            assert not own
        monkeypatch.setattr(claims, "LEASE_SECONDS", 0.01)
        time.sleep(0.05)
        with other.hold(cell, (0, 4)) as own:
            assert own


@pytest.mark.parametrize("gives_way", [True, False])
def test_of_two_runs_that_meet_the_lower_goes_on_unless_the_other_has_begun(monkeypatch, gives_way):
    folder, cell = Url(f"memory://{secrets.token_hex(4)}"), "0" * 20
    low, high = sorted([Leases(folder), Leases(folder)], key=lambda lease: lease.run)
    rival = folder / "claims" / cell / f"000000-000002-{high.run}"
    looks, real = [], files.names

    def names(*arguments):
        looks.append(arguments)
        if len(looks) == 2:  # both have put before either looked again
            files.write_atomic(rival, b"")
        return real(*arguments)

    monkeypatch.setattr(files, "names", names)
    monkeypatch.setattr(claims.time, "sleep", lambda seconds: files.remove(rival) if gives_way else None)
    with low.registered(), high.registered():
        assert low.take([(cell, (0, 2))]) == [gives_way]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense://x/y", "nonsense://x/y.*: Protocol not known: nonsense"),
        ("s3://", "folder must be a path or a URL such as s3://bucket/results"),
        ("s3://no-such-bucket/x", "s3://no-such-bucket/x/.*check the address, your rights there and the network"),
    ],
)
def test_urls_that_lead_nowhere(s3, url, message):
    with pytest.raises(StoreError, match=message):
        run(one_instance(), url, jobs=1)


def test_file_urls_are_paths(tmp_path):
    run(one_instance(), f"file://{tmp_path}/a%20b", jobs=1, batch=2)
    run(one_instance(), tmp_path / "here", jobs=1, batch=2)
    assert contents(tmp_path / "a b") == contents(tmp_path / "here")


def test_a_write_that_fails_leaves_what_was_there(monkeypatch, tmp_path):
    from fsspec.implementations.local import LocalFileSystem

    file = Url(f"local://{tmp_path}/file")
    files.write_atomic(file, b"before")
    monkeypatch.setattr(LocalFileSystem, "mv", lambda *_, **__: (_ for _ in ()).throw(OSError("no more room")))
    with pytest.raises(FileError, match="no more room; check the address"):
        files.write_atomic(file, b"after")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"before"}


def test_a_store_names_its_files_by_url():
    assert str(Store("memory://x/").path("0" * 20, (0, 4))) == f"memory://x/blocks/{'0' * 20}-000000-000004.parquet"
