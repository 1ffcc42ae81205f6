"""The web page: what is in it, what is left out, and that no name can break out of it."""

import json
import re
import tomllib

import numpy as np
import pytest
from pages import EVIL, data_of, evil_results, evil_study, regret_of

from adadim.errors import StoreError
from adadim.report.page import Heading, HeatMap, Table, html_page, study_content, write_page
from adadim.study import Results, Study


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return evil_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def text(results):
    table = Table("T", ["p"], [Heading("x", kind="number")], [[float("nan")], [1.5]])
    return html_page([results], "A <title>", [table])


def test_every_trial_is_there(results, text):
    (study,) = data_of(text)["studies"]
    assert [instance["name"] for instance in study["instances"]] == list(results.instances)
    assert [policy["name"] for policy in study["policies"]] == list(EVIL)
    assert len(study["cells"]) == len(results.cells())
    for cell in study["cells"]:
        times, regret = results.curves(results.instances[cell["instance"]], EVIL[cell["policy"]])
        assert cell["times"] == times.tolist()
        assert cell["trials"] == [[0, 6]]
        np.testing.assert_array_equal(regret_of(cell), regret.astype("f4"))


def test_parameters_are_complete(text):
    (study,) = data_of(text)["studies"]
    assert [instance["parameters"]["intrinsic_dim"] for instance in study["instances"]] == [2, 4, 6]
    assert study["instances"][0]["parameters"]["alpha"] == pytest.approx(np.log(2) / np.log(60))
    assert [policy["kind"] for policy in study["policies"]] == ["LinUCB", "LinUCBPlusPlus", "LinUCBPlusPlus", "Random"]
    assert study["policies"][2]["parameters"]["beta"] == 0.75
    assert "bonus" in study["policies"][0]["parameters"]  # defaults too


def test_the_study_can_be_run_again(text):
    (study,) = data_of(text)["studies"]
    assert Study.from_dict(tomllib.loads(study["toml"])) == evil_study()


def test_names_cannot_leave_the_data(text):
    assert len(re.findall(r"<script", text)) == len(re.findall(r"</script", text)) == 2
    outside = re.sub(r'(?s)<script type="application/json".*?</script>', "", text)
    for name in (*EVIL, "<img", "<i>"):
        assert name not in outside
    assert "<title>A &lt;title&gt;</title>" in text
    assert data_of(text)["studies"][0]["policies"][0]["name"] == EVIL[0]


def test_the_page_loads_nothing(text):
    assert set(re.findall(r"https?://[^\s\"')]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "default-src 'none'" in text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", text)


def test_the_same_results_give_the_same_bytes(results, tmp_path):
    first, second = (write_page(tmp_path / name, [results], "t").read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_numbers_that_json_lacks(text):
    (table,) = data_of(text)["blocks"]
    assert table["rows"] == [[None], [1.5]]


def test_a_heat_map_as_data():
    ratios = {"oracle": {(0, 0): (1.23456789, float("nan"), 2.0)}}
    plain = HeatMap("H", [], [("g", "f")], ["p", "q"], ratios, {(0, 0): 7.0}).plain()
    assert plain["ratios"] == [[[[1.2346, None, 2.0], []]]]
    assert plain["regrets"] == [[7.0, None]]


@pytest.mark.parametrize(
    ("floats", "rounds", "trials"), [(12 * 7 * 10, 10, 7), (12 * 7 * 4, 3, 7), (12 * 3, 1, 3), (1, 1, 1)]
)
def test_what_does_not_fit_is_left_out_and_said(results, floats, rounds, trials):
    content = study_content(results, [], floats)
    sizes = {regret_of(cell).shape for cell in content["cells"]}
    assert sizes == {(trials, rounds)}
    assert all(cell["times"][-1] == 60 for cell in content["cells"])
    assert ("recorded rounds" in content["note"]) == (rounds < 10)
    assert ("of 7 trials" in content["note"]) == (trials < 7)


def test_studies_share_the_room(results, monkeypatch):
    monkeypatch.setattr("adadim.report.page.FLOATS", 3 * 12 * 7 * 10)
    whole = data_of(html_page([results] * 3, "t"))["studies"]
    assert [study["note"] for study in whole] == ["", "", ""]
    monkeypatch.setattr("adadim.report.page.FLOATS", 2 * 12 * 7 * 10)
    cut = data_of(html_page([results] * 3, "t"))["studies"]
    assert all(study["note"] for study in cut)
    assert sum(regret_of(cell).size for study in cut for cell in study["cells"]) <= 2 * 12 * 7 * 10


def test_some_trials_missing(tmp_path):
    results = evil_results(tmp_path, trials=3)
    manifest = json.loads((results.folder / "manifest.json").read_text())
    manifest["study"]["trials"] = 9
    content = study_content(Results(tmp_path, manifest), [])
    assert content["trials"] == 9
    assert {tuple(map(tuple, cell["trials"])) for cell in content["cells"]} == {((0, 2),)}


def test_nothing_finished(tmp_path):
    results = evil_results(tmp_path, trials=1)
    for block in (tmp_path / "blocks").glob("*.parquet"):
        block.unlink()
    empty = Results(results.folder)
    assert study_content(empty, []) is None
    with pytest.raises(StoreError, match="nothing is finished yet"):
        html_page([empty], "t")
