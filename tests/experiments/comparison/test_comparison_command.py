"""The command `study regret`."""

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from made_up_comparison import stub

import adadim
from adadim import instances, study
from adadim.experiments import comparison
from adadim.experiments.comparison import families
from command_line import adadim_, command

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tiny(working_folder, one_format, monkeypatch):
    """Two small families, and a folder to work in."""
    table = {"kind": "sphere", "arms": 20, "dim": 12, "horizon": 80}
    small = (
        comparison.Family("small-2/12", "development", {**table, "intrinsic_dim": 2}),
        comparison.Family("small-4/12", "held-out", {**table, "intrinsic_dim": 4}),
    )
    monkeypatch.setattr(families, "FAMILIES", small)
    return working_folder


def call(*arguments, code=0):
    return adadim_("study", "regret", *arguments, code=code)


def test_command_runs_draws_and_prints(tiny):
    printed, _ = call("--trials", 6, "--jobs", 1, "--policy", "tapered", "--policy", "random", "--out", "there")
    names = ("regret-vs-oracle.png", "regret-vs-oracle.csv", "regret-vs-linucb++.png", "regret-vs-linucb++.csv")
    for path in (*(f"there/figures/{name}" for name in names), "there/regret.md", "there/regret.json"):
        assert f"wrote {path}" in printed
        assert (tiny / path).stat().st_size > 0
    table = pl.read_csv("there/figures/regret-vs-oracle.csv")
    assert table.columns == list(comparison.Ratio.__dataclass_fields__)
    results = {s: study.load(tiny / f"there/regret-{s}") for s in ("development", "held-out")}
    assert len(table) == 2 * 4
    for row in table.to_dicts():
        part = results[row["split"]]
        theirs, ours = part.final(row["family"], "oracle"), part.final(row["family"], row["policy"])
        assert row["value"] == pytest.approx(ours.mean() / theirs.mean())
        assert row["low"] <= row["value"] <= row["high"]
    summaries = json.loads((tiny / "there/regret.json").read_text())
    assert {s["worst_family"] for s in summaries} == {"small-2/12", "small-4/12"}
    assert "development: mean regret" in printed
    assert "held-out: mean regret" in printed
    blocks = {path: path.stat().st_mtime_ns for path in tiny.glob("there/*/blocks/*.parquet")}
    silent, _ = call("--trials", 6, "--jobs", 1, "--policy", "tapered", "--out", "there", "--quiet")
    assert silent == ""
    assert {path: path.stat().st_mtime_ns for path in tiny.glob("there/*/blocks/*.parquet")} == blocks


@pytest.mark.parametrize("chosen", ["development", "small-2/12"])
def test_command_runs_a_group_or_a_family(tiny, chosen):
    call("--families", chosen, "--policy", "random", "--trials", 1, "--jobs", 1)
    assert [path.name for path in (tiny / "results/regret").glob("regret-*")] == ["regret-development"]
    assert set(pl.read_csv("results/regret/figures/regret-vs-oracle.csv")["family"]) == {"small-2/12"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--families", "mine"], "error: --families: neither a group nor a family is called 'mine'; choose from all"),
        (["--policy", "randm"], "error: policy: none is called 'randm'; did you mean 'random'?"),
    ],
)
def test_command_refuses_unknown_names(tiny, arguments, message):
    printed, error = call(*arguments, code=2)
    assert (printed, list(tiny.iterdir())) == ("", [])
    assert error.startswith(message)


def test_command_without_scikit_learn_says_what_to_install(working_folder):
    Path("sklearn").mkdir()
    Path("sklearn/__init__.py").write_text("raise ImportError('not here')\n")
    paths = os.pathsep.join([str(working_folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    arguments = command("study", "regret", "--families", "digits-12/60", "--trials", 1)
    done = subprocess.run(
        arguments, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, timeout=120
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: instances of kind 'pca' need scikit-learn: pip install 'adadim[data]'\n"


def test_command_compares_candidates_of_ones_own(tiny):
    file = ROOT / "examples" / "candidates.toml"
    call("--families", "small-4/12", "--policy", "recommended", "--candidates", file, "--trials", 2, "--jobs", 1)
    table = pl.read_csv("results/regret/figures/regret-vs-oracle.csv")
    found = dict(zip(table["policy"], table["regret"], strict=True))
    assert list(found)[:3] == ["oracle", "linucb++", "recommended"]
    tables = tomllib.loads(file.read_text())["policies"]
    assert list(found)[3:] == list(tables)
    instance = instances.sphere(arms=20, dim=12, intrinsic_dim=4, horizon=80, replications=range(2))
    for name, policy in (
        ("taper 0", adadim.EvidenceLinUCB(taper=0.0)),
        ("narrow oracle", adadim.LinUCB(dim=4, scale=0.35)),
    ):
        assert found[name] == pytest.approx(adadim.simulate(policy, instance).final.mean())


def test_the_example_holds_variants_of_the_recommended_policy_that_differ():
    file = ROOT / "examples" / "candidates.toml"
    policies = [study.from_spec(t) for t in tomllib.loads(file.read_text())["policies"].values() if "dim" not in t]
    chosen = adadim.recommended(adadim.Problem(np.eye(3), horizon=9))
    assert len({chosen, *policies}) == len(policies) + 1


def narrow():
    """The script that compares with the narrow oracle."""
    spec = importlib.util.spec_from_file_location("narrow", ROOT / "benchmarks" / "narrow.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_candidates_are_compared_with_the_narrow_oracle(tiny, monkeypatch, capsys):
    file = ROOT / "examples" / "prefix_candidates.toml"
    tables = tomllib.loads(file.read_text())["policies"]
    built_in = ["recommended", "prefix", "prefix-thompson", "two-prior", "narrow-oracle"]
    chosen = [part for name in built_in for part in ("--policy", name)]
    call("--families", "development", *chosen, "--candidates", file, "--trials", 2, "--jobs", 1)
    monkeypatch.setattr(sys, "argv", ["narrow.py", "results/regret"])
    assert narrow().main() == 0
    printed = capsys.readouterr().out
    assert "1 development families, 2 trials each" in printed
    found = {line.split(" | ")[0][2:]: line.split(" | ")[1:3] for line in printed.splitlines()[4:] if line}
    results = study.load(tiny / "results/regret/regret-development")
    assert set(found) == {"oracle", "linucb++", *built_in[:-1], *tables}
    oracle = results.final("small-2/12", "narrow-oracle").mean()
    for name, ratios in found.items():
        assert ratios == [comparison.analysis.ratio_text(results.final("small-2/12", name).mean() / oracle)] * 2
    policies = [study.from_spec(t) for t in tables.values()]
    assert len({*policies, adadim.PrefixLinUCB(), adadim.TwoPriorLinUCB()}) == len(policies) + 2


def test_where_the_narrow_oracle_loses_nothing_the_regret_is_told():
    table = {
        "easy": {"narrow-oracle": [0, 0], "mine": [2, 4], "other": [7, 7]},
        "hard": {"narrow-oracle": [5, 5], "mine": [20, 20], "other": [5, 10]},
        "harder": {"narrow-oracle": [10, 10], "mine": [20, 20], "other": [15, 5]},
    }
    assert narrow().compared(stub(table)).splitlines() == [
        "3 development families, 2 trials each",
        "",
        "| policy | median | worst | where | regret, easy |",
        "| --- | --- | --- | --- | --- |",
        "| other | 1.25 | 1.50 | hard | 7.0 |",
        "| mine | 3.00 | 4.00 | hard | 3.0 |",
    ]


@pytest.mark.parametrize("folder", ["nowhere", "results/regret"])
def test_the_narrow_oracle_must_have_played(tiny, monkeypatch, capsys, folder):
    call("--families", "development", "--policy", "random", "--trials", 1, "--jobs", 1)
    monkeypatch.setattr(sys, "argv", ["narrow.py", folder])
    with pytest.raises(SystemExit):
        narrow().main()
    assert f"{folder} has no results of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trials = 3", "candidates are tables [policies.NAME] and nothing else, got ['trials']"),
        ('[policies.linucb]\nkind = "LinUCB"', "candidates.linucb: there is a policy of that name already"),
        ('[policies.mine]\nkind = "LinUCD"', "no policy 'LinUCD'"),
        ("[", "not valid TOML"),
    ],
)
def test_command_refuses_candidates_it_cannot_use(tiny, text, message):
    (tiny / "mine.toml").write_text(text)
    _, error = call("--candidates", "mine.toml", code=2)
    assert message in error


def test_contexts_have_the_oracle_alone_as_reference(working_folder, one_format, monkeypatch):
    table = {"kind": "contexts", "arms": 5, "dim": 8, "intrinsic_dim": 2, "horizon": 60}
    monkeypatch.setattr(families, "FAMILIES", (comparison.Family("tiny-2/8", "contexts", table),))
    chosen = ["--families", "contexts", "--policy", "recommended", "--policy", "random"]
    printed, _ = call(*chosen, "--trials", 2, "--jobs", 1)
    assert "contexts: mean regret" in printed
    assert "++" not in printed
    folder = working_folder / "results" / "regret"
    names = [f"{stem}.{kind}" for stem in ("regret-summary", "regret-vs-oracle") for kind in ("csv", "png")]
    assert [path.name for path in sorted(folder.glob("figures/*"))] == names
    assert "LinUCB++" not in (folder / "regret.md").read_text()


def test_all_means_fixed_arms(tiny, monkeypatch):
    table = {"kind": "contexts", "arms": 5, "dim": 8, "intrinsic_dim": 2, "horizon": 60}
    more = comparison.Family("tiny-2/8", "contexts", table)
    monkeypatch.setattr(families, "FAMILIES", (*families.FAMILIES, more))
    printed, _ = call("--policy", "random", "--trials", 1, "--jobs", 1)
    assert "held-out: mean regret" in printed
    assert "contexts: mean regret" not in printed
