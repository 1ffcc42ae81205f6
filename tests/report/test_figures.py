"""Figures: what they show is what was measured, and files are whole, complete and always the same."""

from __future__ import annotations

import errno
import math
import os
import pathlib
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import adadim
from adadim import paper
from adadim.report import draw, figures, save, summary
from adadim.study import StoreError, Study, load, run
from adadim.theory import hardness

SPHERE = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}
KINDS = ("png", "pdf", "svg", "csv")


def small(**changes):
    parts = {
        "name": "small",
        "instances": {"easy": SPHERE},
        "policies": {"linucb": adadim.LinUCB(), "mine": adadim.Random(), "greedy": adadim.Greedy()},
        "trials": 5,
        "record": 10,
    }
    return Study(**{**parts, **changes})


def alphas(**changes):
    instances = {f"d{d}": {**SPHERE, "intrinsic_dim": d} for d in (4, 2, 6)}  # not in the order of alpha
    return small(instances=instances, record=[20, 40], **changes)


@pytest.fixture(scope="module")
def curves(tmp_path_factory):
    return run(small(), tmp_path_factory.mktemp("curves"), jobs=1)


@pytest.fixture(scope="module")
def against_alpha(tmp_path_factory):
    return run(alphas(), tmp_path_factory.mktemp("alphas"), jobs=1)


def recomputed(results, instance, policy, time):
    """Mean, standard deviation and standard error from the rows of the table, in plain Python."""
    frame = results.frame().filter(
        (pl.col("instance") == instance) & (pl.col("policy") == policy) & (pl.col("time") == time)
    )
    values = frame["regret"].to_list()
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return statistics.fmean(values), spread, spread / math.sqrt(len(values))


def lines(axis):
    return {line.get_label(): line for line in axis.get_lines()}


def band(axis, policy):
    """Lower and upper edge of the shading in a policy's colour, by x."""
    colour = lines(axis)[policy].get_color()
    (patch,) = [c for c in axis.collections if to_hex(c.get_facecolor()[0]).upper() == colour.upper()]
    points = {}
    for x, y in patch.get_paths()[0].vertices:
        low, high = points.get(x, (y, y))
        points[x] = (min(low, y), max(high, y))
    return points


@pytest.mark.parametrize("make", ["curves", "against_alpha"])
def test_the_csv_holds_the_numbers_behind_the_figure(make, request, tmp_path):
    results = request.getfixturevalue(make)
    paths = save(draw(results), results, tmp_path / "deep" / "figure")
    assert [path.name for path in paths] == [f"figure.{kind}" for kind in KINDS]
    table = pl.read_csv(paths[-1])
    assert table.columns == ["instance", "policy", "time", "trials", "mean", "std", "ci_low", "ci_high"]
    assert table.height == len(results.cells()) * len(results.curves(*results.cells()[0])[0])
    for line in table.iter_rows(named=True):
        mean, spread, error = recomputed(results, line["instance"], line["policy"], line["time"])
        assert line["trials"] == 5
        assert line["mean"] == pytest.approx(mean, rel=1e-12)
        assert line["std"] == pytest.approx(spread, rel=1e-9, abs=1e-12)
        assert line["ci_low"] == pytest.approx(mean - 1.96 * error, rel=1e-9, abs=1e-12)
        assert line["ci_high"] == pytest.approx(mean + 1.96 * error, rel=1e-9, abs=1e-12)
    assert table.equals(summary(results))


def test_files_are_what_their_names_say(curves, tmp_path):
    png, pdf, svg, csv = (path.read_bytes() for path in save(draw(curves, title="a title"), curves, tmp_path / "x"))
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert csv.count(b"\n") == 1 + 3 * 10
    assert b"Date" not in pdf
    assert b"dc:date" not in svg
    assert sorted(os.listdir(tmp_path)) == ["x.csv", "x.pdf", "x.png", "x.svg"]


def test_curves_are_means_over_time_from_zero(curves):
    (axis,) = draw(curves).axes
    assert list(lines(axis)) == ["linucb", "mine", "greedy"]
    for policy, line in lines(axis).items():
        x, y = line.get_data()
        assert (x[0], y[0]) == (0, 0)
        assert x[1:].tolist() == [6 * i for i in range(1, 11)]
        assert y[1:].tolist() == pytest.approx([recomputed(curves, "easy", policy, t)[0] for t in x[1:]])
    assert axis.get_xlabel() == "round $t$"
    assert axis.get_ylabel() == "cumulative regret (reward units)"


@pytest.mark.parametrize("shading", ["ci", "std"])
def test_the_band_is_what_the_caption_says(curves, shading):
    figure = draw(curves, band=shading, title="A title")
    said = {"ci": "95% confidence interval of the mean", "std": "one standard deviation"}[shading]
    assert figure.get_suptitle() == f"A title\nmean over 5 trials, shaded: {said}"
    for policy in curves.policies:
        edges = band(figure.axes[0], policy)
        for time in (30, 60):
            mean, spread, error = recomputed(curves, "easy", policy, time)
            half = spread if shading == "std" else 1.96 * error
            assert edges[time] == pytest.approx((mean - half, mean + half))


@pytest.mark.parametrize("shading", ["ci", "std"])
def test_final_regret_against_alpha(against_alpha, shading):
    (axis,) = draw(against_alpha, band=shading).axes
    hard = [hardness(d, 60) for d in (2, 4, 6)]
    for policy, line in lines(axis).items():
        x, y = line.get_data()
        assert x.tolist() == pytest.approx(hard)
        told = [recomputed(against_alpha, f"d{d}", policy, 40) for d in (2, 4, 6)]
        assert y.tolist() == pytest.approx([mean for mean, _, _ in told])
        edges = band(axis, policy)
        for alpha, (mean, spread, error) in zip(hard, told, strict=True):
            half = spread if shading == "std" else 1.96 * error
            assert edges[alpha] == pytest.approx((mean - half, mean + half))
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0.17\n(2)", "0.34\n(4)", "0.44\n(6)"]
    assert axis.get_xticks().tolist() == pytest.approx(hard)
    assert axis.get_ylabel() == "regret after 40 rounds (reward units)"
    assert r"\alpha" in axis.get_xlabel()


def test_one_trial_is_drawn_without_a_band(tmp_path):
    results = run(small(trials=1), tmp_path, jobs=1)
    for shading in ("ci", "std"):
        figure = draw(results, band=shading)
        assert figure.get_suptitle() == "one trial"
        assert len(figure.axes[0].collections) == 0
        assert len(figure.axes[0].get_lines()) == 3
    table = summary(results)
    assert table["std"].to_list() == [0.0] * 30
    assert table["ci_low"].to_list() == table["mean"].to_list() == table["ci_high"].to_list()


def test_instances_that_differ_in_more_than_alpha_get_a_panel_each(tmp_path):
    instances = {"easy": SPHERE, "ball": {**SPHERE, "kind": "ball", "intrinsic_dim": 4}, "wide": {**SPHERE, "dim": 9}}
    results = run(small(instances=instances, trials=2), tmp_path, jobs=1)
    figure = draw(results)
    assert [axis.get_title() for axis in figure.axes] == ["easy", "ball", "wide"]
    for axis, instance in zip(figure.axes, instances, strict=True):
        assert lines(axis)["mine"].get_ydata()[-1] == pytest.approx(recomputed(results, instance, "mine", 60)[0])


def test_a_policy_that_runs_on_some_instances_only(tmp_path):
    # Otherwise the same but for d*: a line with holes would mislead, so panels it is.
    results = run(alphas(trials=2, only={"greedy": ["d2"]}), tmp_path, jobs=1)
    figure = draw(results)
    assert [axis.get_title() for axis in figure.axes] == ["d4", "d2", "d6"]
    assert [list(lines(axis)) for axis in figure.axes] == [
        ["linucb", "mine"],
        ["linucb", "mine", "greedy"],
        ["linucb", "mine"],
    ]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["linucb", "mine", "greedy"]
    assert summary(results).filter(pl.col("policy") == "greedy")["instance"].unique().to_list() == ["d2"]
    colours = {lines(axis)["linucb"].get_color() for axis in figure.axes}
    assert len(colours) == 1
    assert len({line.get_color() for line in lines(figure.axes[1]).values()}) == 3


def test_an_instance_without_policies_is_left_out(tmp_path):
    only = {policy: ["d2", "d4"] for policy in ("linucb", "mine", "greedy")}
    figure = draw(run(alphas(trials=2, only=only), tmp_path, jobs=1))
    assert [axis.get_title() for axis in figure.axes] == ["d4", "d2"]


def test_an_unfinished_study_is_drawn_as_far_as_it_is(tmp_path):
    run(alphas(trials=4), tmp_path, jobs=1, batch=2)
    plan = {(cell.instance, cell.policy): cell.id for cell in alphas().cells}
    for path in (tmp_path / "blocks").glob(f"{plan['d6', 'linucb']}-*.parquet"):
        path.unlink()
    next((tmp_path / "blocks").glob(f"{plan['d2', 'mine']}-000000-*.parquet")).unlink()
    results = load(tmp_path)
    figure = draw(results)
    assert figure.get_suptitle().startswith("mean over 2 to 4 trials")
    assert len(lines(figure.axes[0])["linucb"].get_xdata()) == 2
    assert len(lines(figure.axes[0])["mine"].get_xdata()) == 3
    assert set(summary(results)["trials"]) == {2, 4}
    for path in (tmp_path / "blocks").glob("*.parquet"):
        path.unlink()
    with pytest.raises(StoreError, match=r"nothing is finished yet.*run the study first"):
        draw(load(tmp_path))


def test_instances_of_equal_alpha_or_without_one_are_drawn_over_time(tmp_path):
    twins = {"one": SPHERE, "two": SPHERE}
    assert len(draw(run(small(instances=twins, trials=2), tmp_path / "a", jobs=1)).axes) == 2
    short = {f"d{d}": {**SPHERE, "intrinsic_dim": d, "horizon": 1} for d in (1, 2)}  # ln T = 0
    assert len(draw(run(small(instances=short, trials=2), tmp_path / "b", jobs=1)).axes) == 2


def test_odd_names_are_drawn_as_they_are(tmp_path):
    policies = {r"$\odd": adadim.Random(), "_under": adadim.Greedy(), r"$\frac$": adadim.LinUCB()}
    instances = {r"$\frac$": SPHERE, "ball": {**SPHERE, "kind": "ball"}}
    results = run(small(name=r"$\name$", instances=instances, policies=policies, trials=1), tmp_path / "r", jobs=1)
    paths = save(draw(results, title=results.name), results, tmp_path / "odd")
    (legend,) = draw(results).legends
    assert [text.get_text() for text in legend.get_texts()] == list(policies)
    assert all(path.stat().st_size for path in paths)


@pytest.mark.parametrize("make", ["curves", "against_alpha"])
def test_the_legend_hides_nothing(make, request):
    results = request.getfixturevalue(make)
    figure = draw(results, title="a title")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    frame = legend.get_window_extent()
    assert not frame.overlaps(figure.axes[0].get_tightbbox())
    assert not frame.overlaps(figure._suptitle.get_window_extent())
    assert figure.bbox.x0 <= frame.x0 < frame.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= frame.y0 < frame.y1 <= figure.bbox.y1
    assert figure.axes[0].get_legend() is None


def test_long_names_fit_below_the_picture(tmp_path):
    policies = {f"a policy with a rather long name, number {i}": adadim.Random() for i in range(4)}
    figure = draw(run(small(policies=policies, trials=1), tmp_path, jobs=1))
    figure.draw_without_rendering()
    frame = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= frame.x0 < frame.x1 <= figure.bbox.x1


def test_every_policy_looks_different():
    looks = [figures._look(i) for i in range(20)]
    assert len({(look["color"], str(look["linestyle"]), look["marker"]) for look in looks}) == 20
    first = looks[: len(paper.policies())]
    for key in ("color", "marker"):
        assert len({look[key] for look in first}) == len(first)


def test_the_papers_policies_have_names_for_people(tmp_path):
    assert list(figures.LABELS) == list(paper.policies())
    figure = draw(run(small(policies=paper.policies(intrinsic_dim=2), trials=1), tmp_path, jobs=1))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "LinUCB",
        "LinUCB Oracle",
        "LinUCB++",
        "LinUCB++ with Corral",
        "Smooth Corral",
        "Dynamic Balancing",
    ]


def test_saving_is_deterministic(curves, tmp_path, monkeypatch):
    first = [path.read_bytes() for path in save(draw(curves, title="t"), curves, tmp_path / "a")]
    # The reader's own settings do not show.
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 20.0)
    monkeypatch.setitem(matplotlib.rcParams, "lines.markersize", 20.0)
    monkeypatch.setitem(matplotlib.rcParams, "axes.facecolor", "red")
    monkeypatch.setitem(matplotlib.rcParams, "savefig.bbox", "tight")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    again = [path.read_bytes() for path in save(draw(load(curves.folder), title="t"), curves, tmp_path / "b")]
    assert first == again
    assert matplotlib.rcParams["font.size"] == 20.0
    other = [path.read_bytes() for path in save(draw(curves, band="std", title="t"), curves, tmp_path / "c")]
    assert [x == y for x, y in zip(first, other, strict=True)] == [False, False, False, True]


def test_another_process_writes_the_same_bytes(curves, tmp_path):
    save(draw(curves), curves, tmp_path / "here")
    code = (
        "import sys; from adadim.report import draw, save; from adadim.study import load\n"
        "results = load(sys.argv[1]); save(draw(results), results, sys.argv[2])"
    )
    arguments = [sys.executable, "-c", code, str(curves.folder), str(tmp_path / "there")]
    subprocess.run(arguments, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    for kind in KINDS:
        assert (tmp_path / f"here.{kind}").read_bytes() == (tmp_path / f"there.{kind}").read_bytes()


def test_no_figure_stays_open(curves, tmp_path):
    before = pyplot.get_fignums()
    save(draw(curves), curves, tmp_path / "x")
    draw(curves)
    assert pyplot.get_fignums() == before


def test_a_drawing_that_fails_leaves_old_files_alone(curves, tmp_path, monkeypatch):
    paths = save(draw(curves), curves, tmp_path / "x")
    before = [path.read_bytes() for path in paths]
    real = Figure.savefig

    def failing(self, buffer, format, **options):
        if format == "svg":
            raise RuntimeError("no ink")
        real(self, buffer, format=format, **options)

    monkeypatch.setattr(Figure, "savefig", failing)
    with pytest.raises(RuntimeError, match="no ink"):
        save(draw(curves, band="std"), curves, tmp_path / "x")
    assert [path.read_bytes() for path in paths] == before
    with pytest.raises(RuntimeError, match="no ink"):
        save(draw(curves), curves, tmp_path / "new" / "x")
    assert sorted(os.listdir(tmp_path)) == ["x.csv", "x.pdf", "x.png", "x.svg"]


def test_a_full_disk_leaves_no_pieces(tmp_path, monkeypatch):
    figures.write_whole(tmp_path / "a.txt", b"old")

    def full(path, data):
        with open(path, "wb") as file:
            file.write(data[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    with pytest.raises(StoreError, match=r"a\.txt: cannot be written: No space left on device; choose a place"):
        figures.write_whole(tmp_path / "a.txt", b"new data")
    assert os.listdir(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_bad_bands_are_refused(curves):
    with pytest.raises(ValueError, match="band must be 'ci' or 'std', got 'sd'"):
        draw(curves, band="sd")


def test_text_is_large_enough_to_read(against_alpha):
    figure = draw(against_alpha)
    axis = figure.axes[0]
    texts = [axis.xaxis.label, axis.yaxis.label, *axis.get_xticklabels(), *figure.legends[0].get_texts()]
    assert min(text.get_fontsize() for text in texts) >= 8
    assert np.all(figure.get_size_inches() < (5.5, 4.5))  # the width of a page: nothing gets smaller when printed
