"""Kernels for CUDA on a CPU, if Triton is installed: in processes of their own, since Triton decides when it begins."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


def run_cases(name, folder, **variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).with_name(name))]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_kernels_made_by_hand_equal_torch(tmp_path):
    run_cases("interpreted_kernels.py", tmp_path, TRITON_INTERPRET="1")


def test_kernels_can_be_compiled(tmp_path):
    run_cases("compiled_kernels.py", tmp_path)
