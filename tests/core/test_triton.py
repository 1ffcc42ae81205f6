"""Kernels for CUDA on a CPU, if Triton is installed: in processes of their own, since Triton decides when it begins."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest


@pytest.fixture
def version():
    """Of Triton."""
    try:
        return tuple(map(int, metadata.version("triton").split(".")[:2]))
    except metadata.PackageNotFoundError:
        pytest.skip("Triton is not installed")


def run_cases(name, folder, **variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).with_name(name))]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_kernels_made_by_hand_equal_torch(version, tmp_path):
    if version < (3, 9):
        pytest.skip("Triton 3.9 is seen to interpret with NumPy 2.4, and 3.6 not to")
    run_cases("interpreted_kernels.py", tmp_path, TRITON_INTERPRET="1")


def test_kernels_can_be_compiled(version, tmp_path):
    run_cases("compiled_kernels.py", tmp_path)
