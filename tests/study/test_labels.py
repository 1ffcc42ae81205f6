"""Labels: what a study says about its results, kept with them and deciding none of them."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest
from small_studies import SPHERE

import adadim
from adadim.study import Study, StudyError, load, run, status

LABELS = {
    "purpose": 'rates, "first" try α',
    "instances": {"easy, T = 60": {"alpha": 1.0, "horizon": 60, "gap": 0.25, "hard": False}, "other": {}},
    "order": [1, 2.5, "x", [True], {"a": 1}],
}


def labelled(**changes):
    parts = {
        "name": "small",
        "instances": {"easy, T = 60": SPHERE},
        "policies": {"random": adadim.Random()},
        "trials": 2,
        "labels": LABELS,
    }
    return Study(**{**parts, **changes})


def test_labels_survive_dict_and_toml(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(labelled().to_toml(), encoding="utf-8")
    for again in (Study.from_dict(labelled().to_dict()), Study.from_toml(file)):
        assert again == labelled()
        assert again.labels == LABELS
        assert type(again.labels["instances"]["easy, T = 60"]["alpha"]) is float


def test_results_give_the_labels_back(tmp_path):
    run(labelled(), tmp_path, jobs=1)
    labels = load(tmp_path).labels
    assert labels == LABELS
    assert type(labels["instances"]["easy, T = 60"]["alpha"]) is float
    assert Study.from_dict(json.loads((tmp_path / "manifest.json").read_text())["study"]) == labelled()


def test_without_labels_nothing_is_written(tmp_path):
    plain = labelled(labels={})
    assert plain == Study.from_dict(plain.to_dict())
    assert "labels" not in plain.to_dict()
    assert "labels" not in plain.to_toml()
    assert run(plain, tmp_path, jobs=1).labels == {}
    assert load(tmp_path).labels == {}


def test_labels_decide_no_result(tmp_path):
    assert [cell.id for cell in labelled().cells] == [cell.id for cell in labelled(labels={}).cells]
    run(labelled(labels={}), tmp_path, jobs=1)
    calls = []
    run(labelled(), tmp_path, jobs=1, progress=lambda *call: calls.append(call))
    assert calls == [(0, 0, None)]
    assert status(tmp_path).unused == 0
    assert load(tmp_path).labels == LABELS


def test_numpy_values_and_tuples_become_plain_ones():
    study = labelled(labels={"a": np.float64(0.5), "b": (1, np.int64(2)), "c": np.arange(2), "d": np.bool_(True)})
    assert study.labels == {"a": 0.5, "b": [1, 2], "c": [0, 1], "d": True}
    assert json.loads(json.dumps(study.labels)) == study.labels


def test_labels_are_a_copy():
    mine = {"instances": {"easy": {"alpha": 0.5}}}
    study = labelled(labels=mine)
    mine["instances"]["easy"]["alpha"] = 1
    study.to_dict()["labels"]["instances"]["easy"]["alpha"] = 2
    assert study.labels == {"instances": {"easy": {"alpha": 0.5}}}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"], r"labels: must be a table"),
        ({1: "a"}, r"labels: keys must be non-empty strings, got 1"),
        ({"a": {"": 1}}, r"labels\.a: keys must be non-empty strings, got ''"),
        ({"a": None}, r"labels\.a: must be a finite number, a string, a boolean, a list or a table, got None"),
        ({"a": {"b": [1, float("nan")]}}, r"labels\.a\.b\[1\]: must be a finite number.*got nan"),
        ({"a": float("inf")}, r"labels\.a: must be a finite number"),
        ({"a": {1, 2}}, r"labels\.a: must be .*got \{1, 2\}"),
        ({"day": datetime.date(2000, 1, 1)}, r"labels\.day: must be"),
        ({"p": adadim.Random()}, r"labels\.p: must be"),
    ],
)
def test_labels_that_cannot_be_written_down_are_refused(labels, message):
    with pytest.raises(StudyError, match=message):
        labelled(labels=labels)
