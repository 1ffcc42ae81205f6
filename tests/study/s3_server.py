"""A real S3 server, moto's, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen


@contextmanager
def s3_server():
    """Environment variables with which S3 is a server that runs as long as this does, with a bucket called studies."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "something",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait(environment["AWS_ENDPOINT_URL"])
            yield environment
        finally:
            server.kill()


def _wait(address):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urlopen(f"{address}/moto-api/", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.1)
    raise TimeoutError(address)


def make_bucket():
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("studies")
