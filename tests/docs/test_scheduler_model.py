"""The model of a cluster obeys the laws that it must, whatever the figures."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("distributed")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def model():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("scheduler_model")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture
def costs(model):
    return model.Costs(scheduler=1e-3, client=5e-4, worker=0.0, result=0.0, bandwidth=1e9, spread=0.0)


def test_without_costs_equal_blocks_keep_every_worker_busy(model, costs):
    row = model.simulate(10, 1.0, replace(costs, scheduler=0.0, client=0.0), 200)
    assert row["efficiency"] == pytest.approx(1)
    assert row["steady"] == pytest.approx(1)
    assert row["scheduler_busy"] == row["client_busy"] == 0


def test_short_blocks_pass_as_fast_as_the_slowest_server(model, costs):
    for changes in ({}, {"client": 4e-3}, {"result": 1e6}):
        changed = replace(costs, **changes)
        row = model.simulate(1000, 0.01, changed, 20_000)
        assert row["blocks_per_second"] == pytest.approx(changed.most_blocks_per_second, rel=0.01)
        assert max(row["scheduler_busy"], row["client_busy"]) == pytest.approx(1, rel=0.01)
    assert replace(costs, result=1e6).most_blocks_per_second == pytest.approx(1 / 3e-3)


def test_a_single_worker_waits_for_nothing_but_its_own_costs(model, costs):
    row = model.simulate(1, 1.0, replace(costs, worker=0.25), 40)
    assert row["steady"] == pytest.approx(1 / (1 + 0.25 + 0.5e-3), rel=0.01)  # half the scheduler's time, then the next


def test_the_shortest_block_is_where_the_scheduler_is_nearly_full(model, costs):
    seconds = model.shortest(500, costs)
    assert 0.9 * 500 * costs.scheduler < seconds < 1.3 * 500 * costs.scheduler


def test_the_command_reports_what_was_measured(tmp_path):
    out = tmp_path / "model.json"
    command = [sys.executable, str(BENCHMARKS / "scheduler_model.py"), "--quick", "--out", str(out), "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    measured = json.loads((BENCHMARKS.parent / "docs" / "measured" / "cpu-cluster.json").read_text())
    assert report["costs"]["scheduler"] == pytest.approx(measured["overhead"]["rows"][-1]["scheduler_ms"] / 1e3)
    assert [row["workers"] for row in report["rows"]] == [2, 20]
    assert "blocks/s" in done.stdout


@pytest.mark.parametrize("name", ["cluster", "scheduler_model"])
def test_help_of_the_cluster_benchmarks_teaches(name):
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "--quick" in done.stdout
    assert len(done.stdout.splitlines()) > 15
