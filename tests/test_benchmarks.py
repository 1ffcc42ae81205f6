"""The benchmarks run and report as described; how fast is not a matter for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    folder = tmp_path_factory.mktemp("bench")
    out = folder / "new" / "engine.json"
    command = [sys.executable, str(BENCHMARKS / "engine.py"), "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text(encoding="utf-8")), done.stdout


def test_the_table_has_every_contestant(engine):
    report, printed = engine
    names = [row["name"] for row in report["rows"]]
    for start in ("textbook", "contextualbandits", "mabwiser", "coba", "adadim gram", "adadim feature"):
        assert any(name.startswith(start) for name in names), start
        assert start in printed
    batches = {row["replications"] for row in report["rows"] if row["kind"] == "adadim"}
    assert batches == set(report["setting"]["batches"])


def test_all_that_was_measured_scores_the_same(engine):
    report, _ = engine
    measured = [row for row in report["rows"] if row["samples"]]
    assert {row["kind"] for row in measured} >= {"textbook", "adadim"}
    for row in measured:
        assert row["agreement"] < 1e-8, row["name"]
    assert report["forms_choose_the_same_arms"]


def test_ratios_are_those_of_the_times(engine):
    report, _ = engine
    rows = {(row["name"], row["replications"]): row for row in report["rows"]}
    textbook = rows["textbook", 1]["us_per_step"]
    default = rows[f"adadim {report['default_form']}, select+update", 1]["us_per_step"]
    for row in report["rows"]:
        if not row["samples"]:
            assert row["missing"]
            assert row["us_per_step"] is None
            continue
        us = row["us_per_step"]
        assert 0 < row["us_lowest"] <= us <= row["us_highest"]
        assert row["textbook_over_this"] == pytest.approx(textbook / us)
        assert row["this_over_default"] == pytest.approx(us / default)
        assert row["this_over_floor"] == pytest.approx(us / report["floor"]["us_per_step"])
    assert [target["measured"] is None for target in report["targets"]] == [False, report["best_peer"] is None, False]


def test_a_missing_peer_is_named_with_the_reason(engine):
    report, printed = engine
    for row in report["rows"]:
        if row["missing"]:
            assert row["kind"] == "peer"
            assert f"{row['name']} was not measured: {row['missing']}" in printed


def test_the_machine_is_described_and_used_with_one_thread(engine):
    report, _ = engine
    machine = report["machine"]
    assert machine["cpu"]
    assert {"adadim", "numpy", "scipy"} <= machine["packages"].keys()
    assert any(pool["user_api"] == "blas" for pool in machine["pools"])
    assert all(pool["num_threads"] == 1 for pool in machine["pools"])


def test_the_six_policies_are_timed_in_both_variants(tmp_path):
    out = tmp_path / "policies.json"
    command = [sys.executable, str(BENCHMARKS / "policies.py"), "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text(encoding="utf-8"))
    assert len({(row["variant"], row["policy"]) for row in report["rows"]}) == 12
    for variant, total in report["sums"].items():
        mine = [row["core_seconds"] for row in report["rows"] if row["variant"] == variant]
        assert min(mine) > 0
        assert total == pytest.approx(sum(mine))
        assert "sum of the six" in done.stdout
