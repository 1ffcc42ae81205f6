"""Studies as TOML files."""

from __future__ import annotations

import pytest
from small_studies import SPHERE, Team, two_instances

import adadim
from adadim.study import Study, StudyError, to_spec


def toml_studies():
    team = Team((adadim.LinUCB(dim=2), adadim.Greedy()), rate=0.75)
    return [
        two_instances(),
        two_instances(seed=7, record=[5, 60], only={"oracle": ["easy"]}),
        two_instances(instances={'d* = "2", α': SPHERE}, policies={"LinUCB++ [1]": adadim.UCB(delta=1e-9)}),
        two_instances(instances={"e": {**SPHERE, "expressive": True, "levels": [2, 6]}}),
        two_instances(policies={"team": team, "other": {"kind": "Team", "bases": [{"kind": "Random"}]}}),
        two_instances(policies={"p": {"kind": "LinUCB", "dim": None}}, instances={"e": {**SPHERE, "levels": None}}),
        two_instances(policies={"master": to_spec(adadim.SmoothCorral())}),
    ]


@pytest.mark.parametrize("study", toml_studies(), ids=lambda s: ",".join(s.policies))
def test_toml_round_trip(study, tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(study.to_toml(), encoding="utf-8")
    again = Study.from_toml(file, plugins=study.plugins)
    assert again == study
    assert again.to_toml() == study.to_toml()
    assert [c.id for c in again.cells] == [c.id for c in study.cells]


def test_toml_gives_the_name_of_its_file_to_a_study_without_one(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(two_instances().to_toml().split("\n", 1)[1])
    assert Study.from_toml(file).name == "mine"


def test_bad_files_are_refused_with_their_name(tmp_path):
    file = tmp_path / "study.toml"
    with pytest.raises(StudyError, match=r"study\.toml: cannot be read: No such file"):
        Study.from_toml(file)
    good = two_instances().to_toml()
    for text, message in (
        ("trials = = 3", "not valid TOML"),
        ("trails = 3\n" + good, "trails: a study has no such key; did you mean 'trials'"),
        (good.replace("trials = 3\n", ""), "trials: missing"),
        (good.replace("trials = 3", "trials = 0"), "trials: must be"),
    ):
        file.write_text(text)
        with pytest.raises(StudyError, match=rf"study\.toml: {message}"):
            Study.from_toml(file)


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    file = tmp_path / "study.toml"
    file.write_bytes(b"\xef\xbb\xbf" + two_instances().to_toml().encode())
    assert Study.from_toml(file) == two_instances()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "x" * 500_000},
        {"trials": "x" * 500_000},
        {"record": "x" * 500_000},
        {"only": "x" * 500_000},
        {"only": {"LinUCB": ["x" * 500_000]}},
        {"labels": "x" * 500_000},
        {"instances": {"i": {"kind": "x" * 500_000}}},
        {"instances": {"i": "x" * 500_000}},
        {"policies": {"p": {"kind": "LinUCB", "ridge": "x" * 500_000}}},
        {"policies": {"p": {"kind": "LinUCB", "bonus": ["x" * 1000] * 500}}},
        {"policies": {"p": {"kind": "LinUCB", "x" * 500_000: 1}}},
        {"policies": {"x" * 500_000: {"kind": "LinUCB", "ridge": -1}}},
        {"x" * 500_000: 1},
    ],
    ids=lambda change: f"{next(iter(change))[:10]}-{str(next(iter(change.values())))[:20]}",
)
def test_a_long_value_is_not_echoed_whole(change):
    with pytest.raises(StudyError) as caught:
        Study.from_dict({**two_instances().to_dict(), **change})
    assert len(str(caught.value)) < 1600
