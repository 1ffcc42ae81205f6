"""The commands that look at results: `status`, `figure` and `export`."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from adadim import study
from command_line import adadim_, blocks, refused


def test_status_tells_what_is_missing(results):
    printed, _ = adadim_("status", results)
    assert re.search(r"mine +│ 12 +│ 12 +│ 3 +│ complete", printed)
    (entry,) = json.loads(adadim_("status", results, "--json")[0])
    assert (entry["name"], entry["done"], entry["total"], entry["complete"]) == ("mine", 12, 12, True)
    assert entry["cells"][0] == {"instance": "easy", "policy": "LinUCB", "done": 4, "trials": 4}
    blocks(results)[0].unlink()
    printed, _ = adadim_("status", results, code=1)
    assert re.search(r"mine +│ 10 +│ 12 +│ 3 +│ incomplete", printed)
    (entry,) = json.loads(adadim_("status", results, "--json", code=1)[0])
    assert (entry["done"], entry["complete"]) == (10, False)
    assert sorted(cell["done"] for cell in entry["cells"]) == [2, 4, 4]
    assert json.loads(adadim_("status", "results", "--json", code=1)[0]) == [entry]


def test_figure_draws_what_is_there(results, file):
    shutil.rmtree(results / "figures")
    printed, _ = adadim_("figure", results)
    assert printed == "wrote results/mine/figures/mine.png\nwrote results/mine/figures/mine.csv\n"
    adadim_("figure", results, "--out", "pictures", "--band", "std")
    first, second = (Path(folder, "mine.png").read_bytes() for folder in (results / "figures", "pictures"))
    assert first != second
    blocks(results)[0].unlink()
    adadim_("figure", results, "--out", "partly")
    counts = pl.read_csv("partly/mine.csv")["trials"]
    assert set(counts) == {2, 4}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_export_writes_one_table(results, kind):
    printed, _ = adadim_("export", results, "--format", kind)
    assert printed == f"wrote mine.{kind}\n"
    read = pl.read_csv if kind == "csv" else pl.read_parquet
    expected = study.load(results).frame()
    assert read(f"mine.{kind}").equals(expected)
    adadim_("export", results, "-f", kind, "-o", "new/folder/table")
    assert read("new/folder/table").equals(expected)
    assert expected.height == 3 * 4 * 10


def test_export_to_a_folder_instead_of_a_file(results):
    refused("export", results, "--out", "results", message=r"results: Is a directory; .*give the name of a file")
