"""Files of a figure: whole, complete and always the same."""

import errno
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib
import polars as pl
import pytest
from drawn_studies import recomputed, small
from matplotlib import pyplot
from matplotlib.figure import Figure

from adadim.errors import FileError
from adadim.report import draw, draw_and_save, save, summary
from adadim.study import load, run

KINDS = ("png", "pdf", "svg", "csv")


@pytest.fixture(scope="module")
def saved(curves, tmp_path_factory):
    """The files of a figure, saved once: to be read, or copied by `copied`."""
    return save(draw(curves), curves, tmp_path_factory.mktemp("saved") / "x")


@pytest.fixture
def copied(saved, tmp_path):
    return [shutil.copy(path, tmp_path / path.name) for path in saved]


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


def test_files_are_what_their_names_say(saved):
    png, pdf, svg, csv = (path.read_bytes() for path in saved)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert csv.count(b"\n") == 1 + 3 * 10
    assert b"Date" not in pdf
    assert b"dc:date" not in svg
    assert sorted(os.listdir(saved[0].parent)) == ["x.csv", "x.pdf", "x.png", "x.svg"]


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


def test_another_process_writes_the_same_bytes(curves, saved, tmp_path):
    code = (
        "import sys; from adadim.report import draw, save; from adadim.study import load\n"
        "results = load(sys.argv[1]); save(draw(results), results, sys.argv[2])"
    )
    arguments = [sys.executable, "-c", code, str(curves.folder), str(tmp_path / "there")]
    subprocess.run(arguments, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    for kind, path in zip(KINDS, saved, strict=True):
        assert path.read_bytes() == (tmp_path / f"there.{kind}").read_bytes()


def test_no_figure_stays_open(curves, tmp_path, one_format):
    before = pyplot.get_fignums()
    save(draw(curves), curves, tmp_path / "x")
    draw(curves)
    assert pyplot.get_fignums() == before


def test_a_drawing_that_fails_leaves_old_files_alone(curves, copied, tmp_path, monkeypatch):
    before = [path.read_bytes() for path in copied]
    real = Figure.savefig

    def failing(self, buffer, format, **options):
        if format == "pdf":  # after the PNG was drawn
            raise RuntimeError("no ink")
        real(self, buffer, format=format, **options)

    monkeypatch.setattr(Figure, "savefig", failing)
    with pytest.raises(RuntimeError, match="no ink"):
        save(draw(curves, band="std"), curves, tmp_path / "x")
    assert [path.read_bytes() for path in copied] == before
    with pytest.raises(RuntimeError, match="no ink"):
        save(draw(curves), curves, tmp_path / "new" / "x")
    assert sorted(os.listdir(tmp_path)) == ["x.csv", "x.pdf", "x.png", "x.svg"]


def test_a_full_disk_leaves_no_pieces(curves, copied, tmp_path, monkeypatch):
    before = [path.read_bytes() for path in copied]

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match=r"x\.png: No space left on device; free some space"):
        save(draw(curves, band="std"), curves, tmp_path / "x")
    assert [path.read_bytes() for path in copied] == before
    assert sorted(os.listdir(tmp_path)) == ["x.csv", "x.pdf", "x.png", "x.svg"]


@pytest.mark.parametrize(("labels", "title"), [({}, "small"), ({"title": "My title"}, "My title")])
def test_a_study_is_drawn_under_its_title(labels, title, tmp_path, one_format):
    results = run(small(labels=labels, trials=2), tmp_path / "results", jobs=1)
    draw_and_save(results, tmp_path / "one" / "x", band="std")
    save(draw(results, band="std", title=title), results, tmp_path / "other" / "x")
    for name in ("x.png", "x.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
