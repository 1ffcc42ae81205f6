"""The standing comparison: what its families cover, what its numbers mean, and the command that makes them."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb
from typer.testing import CliRunner

import adadim
from adadim import cli, comparison, instances, paper, report, study
from adadim.report import comparison as arithmetic
from adadim.report import figures
from adadim.study import InstanceSpec, StudyError

DEVELOPMENT, HELD_OUT, PAPER = (
    [family for family in comparison.FAMILIES if family.split == split] for split in comparison.SPLITS
)
OWN = [*DEVELOPMENT, *HELD_OUT]
both = pytest.mark.parametrize("families", [DEVELOPMENT, HELD_OUT], ids=["development", "held-out"])


def build(family, arms=40, replications=(0, 1)):
    """The problems of a family, with fewer arms."""
    kind, params = family.instance["kind"], {k: v for k, v in family.instance.items() if k != "kind"}
    if "arms" in params:
        params["arms"] = min(arms, params["arms"])
    return InstanceSpec.make(study.instance_kinds()[kind], params, replications, seed=0)


# Families


def test_names_are_unique_and_the_splits_disjoint():
    assert len({family.name for family in comparison.FAMILIES}) == len(comparison.FAMILIES)
    assert not [f.name for f in DEVELOPMENT if f.instance in [g.instance for g in HELD_OUT]]
    assert len(DEVELOPMENT) >= 16
    assert len(HELD_OUT) >= 16


@both
def test_each_split_covers_every_kind_and_the_whole_range(families):
    tables = [family.instance for family in families]
    sizes = [(build(f).problem.dim, t["intrinsic_dim"], t["horizon"]) for f, t in zip(families, tables, strict=True)]
    assert {t["kind"] for t in tables} == set(study.instance_kinds())
    assert {t.get("theta") for t in tables} == {None, "uniform", "decay", "flip", "spike", "heavy"}
    assert {t["target"] > 0 for t in tables if t["kind"] == "lower_bound"} == {True, False}
    assert all(t["expressive"] for t in tables if t["kind"] == "products")
    noises = [t["noise"] for t in tables if "noise" in t]
    assert (min(noises), max(noises)) == (0.03, 1.0)
    assert (min(T for _, _, T in sizes), max(T for _, _, T in sizes)) == (500, 20_000)
    assert (min(d for d, _, _ in sizes), max(d for d, _, _ in sizes)) == (30, 1000)
    assert {d > T for d, _, T in sizes} == {True, False}
    assert any(d_star == 1 for _, d_star, _ in sizes)
    assert any(d_star == d for d, d_star, _ in sizes)


@pytest.mark.parametrize("family", OWN, ids=lambda f: f.name)
def test_the_oracle_is_told_the_truth(family):
    """Theta is zero after d* and not before, in every replication; names say d* and d."""
    problem = build(family)
    told = family.instance["intrinsic_dim"]
    assert family.name.endswith(f"-{told}/{problem.problem.dim}")
    if problem.theta is None:
        assert family.instance["linear"] is False
        assert told == problem.problem.dim
    else:
        assert [int(np.flatnonzero(row)[-1]) + 1 for row in problem.theta] == [told, told]
        assert (np.linalg.norm(problem.theta, axis=1) <= 1 + 1e-9).all()


def test_paper_families_are_those_of_its_figures():
    expected = [
        table for figure in ("fig2b", "fig3b", "fig4a", "fig4b") for table in paper.FIGURES[figure].instances().values()
    ]
    assert [family.instance for family in PAPER] == expected


# Policies


def test_every_policy_runs_or_is_declared():
    run = {type(cell.agent).__name__ for cell in comparison.study("development", trials=1).cells}
    assert run | set(comparison.LEFT_OUT) == set(study.policy_kinds())
    assert not run & set(comparison.LEFT_OUT)


@pytest.mark.parametrize("expressive", [False, True], ids=["plain", "expressive"])
@pytest.mark.parametrize(("name", "variant"), [*((n, "theory") for n in paper.policies()), ("linucb++", "released")])
def test_policies_of_the_paper_are_as_the_paper_has_them(name, variant, expressive):
    table = {"arms": 24, "dim": 20, "intrinsic_dim": 3, "horizon": 150, "expressive": expressive}
    instance = instances.sphere(**table, replications=range(2))
    spec = comparison.policies()[f"{name}released" if variant == "released" else name]
    plan = study.Study("one", {"it": {"kind": "sphere", **table}}, {"it": spec}, trials=2)
    theirs = paper.policies(variant, intrinsic_dim=3, expressive=expressive)[name]
    found, expected = (adadim.simulate(p, instance).regret for p in (plan.cells[0].agent, theirs))
    np.testing.assert_array_equal(found, expected)


def test_the_oracle_takes_the_dimension_of_each_family():
    plan = comparison.study("held-out", trials=1, policy=["random"])
    told = {cell.instance: cell.agent.dim for cell in plan.cells if cell.policy == "oracle"}
    assert told == {family.name: family.instance["intrinsic_dim"] for family in HELD_OUT}


def test_a_selection_keeps_the_references():
    plan = comparison.study("development", trials=1, policy=["greedy"], family=["clicks-flip-12/300"])
    assert [(cell.instance, cell.policy) for cell in plan.cells] == [
        ("clicks-flip-12/300", policy) for policy in ("oracle", "linucb++", "greedy")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "test"}, "split: must be one of 'development', 'held-out', 'paper', got 'test'"),
        ({"policy": ["taper"]}, "policy: none is called 'taper'; did you mean 'tapered'?"),
        ({"family": ["sphere-flip-8/60"]}, "family: none is called 'sphere-flip-8/60'; did you mean"),  # held-out
    ],
)
def test_unknown_names_are_refused(arguments, message):
    with pytest.raises(StudyError) as raised:
        comparison.study(**{"split": "development", "trials": 1} | arguments)
    assert str(raised.value).startswith(message)


# Ratios


def stub(table, name="regret-development", numbers=None):
    """Results made by hand: {family: {policy: final regrets}}."""
    cells = tuple((family, policy) for family, row in table.items() for policy in row)
    present = numbers or {}
    return SimpleNamespace(
        name=name,
        instances=tuple(table),
        cells=lambda: cells,
        replications=lambda f, p: np.array(present.get((f, p), range(len(table[f][p])))),
        final=lambda f, p: np.array(table[f][p], dtype=float),
    )


def by_name(rows):
    return {(row.family, row.policy, row.reference): row for row in rows}


def test_ratio_of_means_by_hand():
    rows = by_name(report.ratios([stub({"a": {"oracle": [1, 3], "linucb++": [6, 10], "mine": [9, 3]}})]))
    assert rows["a", "mine", "oracle"].value == 3.0  # not the mean of 9 and 1
    assert rows["a", "mine", "linucb++"].value == 0.75
    assert rows["a", "linucb++", "oracle"].value == 4.0
    assert rows["a", "oracle", "oracle"].value == 1.0
    assert rows["a", "mine", "oracle"].regret == 6.0
    assert np.isnan(rows["a", "mine", "oracle"].low)  # two trials have no interval


def test_only_trials_that_every_policy_finished_count():
    table = {"a": {"oracle": [1, 2, 4], "linucb++": [3, 5, 7], "mine": [10, 40]}}
    rows = by_name(report.ratios([stub(table, numbers={("a", "mine"): [0, 2]})]))
    assert rows["a", "mine", "oracle"].value == 50 / 5
    assert rows["a", "linucb++", "oracle"].value == 10 / 5
    assert rows["a", "mine", "oracle"].trials == 2
    assert report.ratios([stub({"a": {"oracle": [], "linucb++": [1], "mine": [1]}})]) == []


def test_intervals_are_paired():
    """Regrets that differ a hundredfold between trials, and a ratio that does not."""
    oracle = 10.0 ** np.linspace(0, 2, 12)
    rows = by_name(report.ratios([stub({"a": {"oracle": oracle, "linucb++": 2 * oracle, "mine": 1.5 * oracle}})]))
    row = rows["a", "mine", "oracle"]
    np.testing.assert_allclose([row.value, row.low, row.high], 1.5, rtol=1e-12)


def test_interval_agrees_with_the_delta_method():
    rng = np.random.default_rng(1)
    x, y = rng.gamma(20, 1.0, 400), rng.gamma(30, 1.0, 400)
    row = by_name(report.ratios([stub({"a": {"oracle": x, "linucb++": x, "mine": y}})]))["a", "mine", "oracle"]
    ratio = y.mean() / x.mean()
    half = 1.96 * np.std(y - ratio * x, ddof=1) / np.sqrt(400) / x.mean()
    np.testing.assert_allclose([row.low, row.high], [ratio - half, ratio + half], atol=0.15 * half)


def test_no_ratio_to_a_reference_that_loses_nothing():
    table = {
        "easy": {"oracle": [0] * 8, "linucb++": [4] * 8, "mine": [2] * 8},
        "hard": {"oracle": [5] * 8, "linucb++": [5] * 8, "mine": [10] * 8},
    }
    results = stub(table)
    rows = by_name(report.ratios([results]))
    assert np.isnan(rows["easy", "mine", "oracle"].value)
    assert rows["easy", "mine", "linucb++"].value == 0.5
    told = {(s.policy, s.reference): s for s in report.standings([results])}
    assert (told["mine", "oracle"].families, told["mine", "oracle"].worst) == (1, 2.0)
    assert (told["mine", "linucb++"].families, told["mine", "linucb++"].median) == (2, 1.25)
    text = report.comparison_markdown(report.ratios([results]), report.standings([results]))
    assert "| easy | – | – | – |" in text
    only = {s.policy: s for s in report.standings([stub({"easy": table["easy"]})]) if s.reference == "oracle"}
    assert only["mine"].families == 0
    assert np.isnan(only["mine"].worst)


def test_standings_by_hand():
    spread = np.linspace(-0.1, 0.1, 8)
    table = {
        name: {"oracle": 10 + spread, "linucb++": [20.0] * 8, "mine": [regret] * 8}
        for name, regret in (("a", 5.0), ("b", 30.0), ("c", 20.0), ("d", 10.0), ("e", 90.0))
    }
    told = {(s.policy, s.reference): s for s in report.standings([stub(table)])}
    mine = told["mine", "oracle"]
    np.testing.assert_allclose([mine.median, mine.worst], [2.0, 9.0], rtol=1e-12)
    assert mine.median_low < 2 < mine.median_high
    assert mine.worst_family == "e"
    assert mine.losses == ("e", "b", "c")  # d is a tie: 1 is in its interval
    assert told["mine", "linucb++"].losses == ("e", "b")
    assert told["oracle", "linucb++"].losses == ()
    text = report.comparison_markdown(report.ratios([stub(table)]), report.standings([stub(table)]))
    (line,) = (line for line in text.splitlines() if line.startswith("| mine |"))
    assert "9.00 [" in line
    assert "3 of 5: e, b, c |" in line


# Heat map


@pytest.fixture
def rows():
    parts = [
        stub(
            {"a": {"oracle": [1], "linucb++": [2], "mine": [0.5]}, "b": {"oracle": [0], "linucb++": [3], "mine": [3]}}
        ),
        stub({"c": {"oracle": [1], "linucb++": [40], "mine": [1]}}, name="regret-held-out"),
    ]
    return report.ratios(parts)


def test_heat_map_says_every_ratio_in_a_colour_centred_at_one(rows):
    figure = report.draw_ratios(rows)
    development, held_out = figure.axes[:2]
    assert [t.get_text() for t in development.get_xticklabels()] == ["linucb++", "mine"]
    assert [t.get_text() for t in development.get_yticklabels()] == ["a", "b", "median", "worst"]
    told = [t.get_text() for t in development.texts]
    assert told == ["2.00", "0.50", "–", "–", "2.00", "0.50", "2.00", "0.50"]
    assert [t.get_text() for t in held_out.texts][:2] == ["40", "1.00"]
    (image,) = development.images
    red, blue = image.to_rgba(image.get_array())[0, :, :3]
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    (image,) = held_out.images
    farthest, even = image.to_rgba(image.get_array())[0, :, :3]
    assert min(even) > 0.95
    np.testing.assert_allclose(farthest, to_rgb(arithmetic.COLOURS(1.0)))
    assert [axis.get_ylabel() for axis in figure.axes[:2]] == ["development", "held-out"]


def test_heat_map_against_the_published_algorithm(rows):
    development = report.draw_ratios(rows, "linucb++").axes[0]
    assert [t.get_text() for t in development.get_xticklabels()] == ["oracle", "mine"]
    assert [t.get_text() for t in development.texts][:4] == ["0.50", "0.25", "0.00", "1.00"]
    with pytest.raises(ValueError, match="reference must be 'oracle' or 'linucb\\+\\+', got 'mine'"):
        report.draw_ratios(rows, "mine")


def test_rows_of_the_heat_map_say_horizon_and_noise():
    part = stub({"sphere-flip-8/60": {"oracle": [1], "linucb++": [2]}}, name="regret-held-out")
    (label, *_) = report.draw_ratios(report.ratios([part])).axes[0].get_yticklabels()
    assert label.get_text() == "sphere-flip-8/60, T 10000, σ 1"


# Command


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Two small families, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(figures, "FORMATS", ("png",))
    table = {"kind": "sphere", "arms": 20, "dim": 12, "horizon": 80}
    monkeypatch.setattr(
        comparison,
        "FAMILIES",
        (
            comparison.Family("small-2/12", "development", {**table, "intrinsic_dim": 2}),
            comparison.Family("small-4/12", "held-out", {**table, "intrinsic_dim": 4}),
        ),
    )
    return tmp_path


def call(*arguments, code=0):
    result = CliRunner().invoke(cli.app, ["study", "regret", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    return result.stdout, result.stderr


def test_command_runs_draws_and_tells(tiny):
    printed, _ = call("--trials", 6, "--jobs", 1, "--policy", "tapered", "--policy", "random", "--out", "there")
    names = ("regret-vs-oracle.png", "regret-vs-oracle.csv", "regret-vs-linucb++.png", "regret-vs-linucb++.csv")
    for path in (*(f"there/figures/{name}" for name in names), "there/regret.md", "there/regret.json"):
        assert f"wrote {path}" in printed
        assert (tiny / path).stat().st_size > 0
    table = pl.read_csv("there/figures/regret-vs-oracle.csv")
    assert table.columns == list(arithmetic.Ratio.__dataclass_fields__)
    results = {s: study.load(tiny / f"there/regret-{s}") for s in ("development", "held-out")}
    assert len(table) == 2 * 4
    for row in table.to_dicts():
        part = results[row["split"]]
        theirs, ours = part.final(row["family"], "oracle"), part.final(row["family"], row["policy"])
        assert row["value"] == pytest.approx(ours.mean() / theirs.mean())
        assert row["low"] <= row["value"] <= row["high"]
    standing = json.loads((tiny / "there/regret.json").read_text())
    assert {s["worst_family"] for s in standing} == {"small-2/12", "small-4/12"}
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
        (["--families", "tests"], "error: --families: neither a group nor a family is called 'tests'; choose from all"),
        (["--policy", "randm"], "error: policy: none is called 'randm'; did you mean 'random'?"),
    ],
)
def test_command_refuses_unknown_names(tiny, arguments, message):
    printed, error = call(*arguments, code=2)
    assert (printed, list(tiny.iterdir())) == ("", [])
    assert error.startswith(message)


def test_command_without_scikit_learn_says_what_to_install(tiny, monkeypatch):
    table = {"kind": "pca", "data": "wine", "arms": 20, "dim": 5, "intrinsic_dim": 2, "horizon": 20}
    monkeypatch.setattr(comparison, "FAMILIES", (comparison.Family("wine-2/5", "development", table),))
    monkeypatch.setitem(sys.modules, "sklearn", None)
    instances.data._components.cache_clear()
    _, error = call(code=2)
    assert error == "error: instances of kind 'pca' need scikit-learn: pip install 'adadim[data]'\n"


def test_command_compares_candidates_of_ones_own(tiny):
    file = Path(__file__).parents[2] / "examples" / "candidates.toml"
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
    file = Path(__file__).parents[2] / "examples" / "candidates.toml"
    policies = [study.from_spec(t) for t in tomllib.loads(file.read_text())["policies"].values() if "dim" not in t]
    chosen = adadim.recommended(adadim.Problem(np.eye(3), horizon=9))
    assert len({chosen, *policies}) == len(policies) + 1


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


def test_unlucky_trials_by_hand():
    table = {
        "a": {"oracle": [1, 3], "linucb++": [6, 10], "mine": [9, 3]},  # the oracle's mean is 2
        "b": {"oracle": [1, 1, 1, 1], "linucb++": [1, 1, 1, 9], "mine": [2, 2, 2, 2.5]},
    }
    rows = by_name(report.ratios([stub(table)]))
    assert [rows[f, "mine", "oracle"].unlucky for f in "ab"] == [0.5, 0.25]
    assert rows["b", "linucb++", "oracle"].unlucky == 0.25
    (standing,) = (s for s in report.standings([stub(table)]) if (s.policy, s.reference) == ("mine", "oracle"))
    assert standing.unlucky == pytest.approx((1 + 1) / 6)
