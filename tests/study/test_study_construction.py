"""What a study accepts, and what it refuses when it is built."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest
from small_studies import SPHERE, Team, two_instances

import adadim
from adadim.study import StudyError


def test_cells_are_every_policy_on_every_instance_with_the_instance_filled_in():
    cells = two_instances(record=[10, 60]).cells
    assert [(c.instance, c.policy, c.policy_object.dim) for c in cells] == [
        ("easy", "LinUCB", None),
        ("easy", "oracle", 2),
        ("hard", "LinUCB", None),
        ("hard", "oracle", 4),
    ]
    assert {c.times for c in cells} == {(10, 60)}
    assert {(c.arms, c.dim, c.horizon) for c in cells} == {(20, 6, 60)}


def test_only_restricts_a_policy_to_some_instances():
    study = two_instances(only={"oracle": ["hard"]})
    assert [(c.instance, c.policy) for c in study.cells] == [
        ("easy", "LinUCB"),
        ("hard", "LinUCB"),
        ("hard", "oracle"),
    ]


def test_instance_parameters_reach_nested_policies():
    bases = [{"kind": "LinUCB", "dim": "@intrinsic_dim"}, {"kind": "Greedy", "dim": "@dim"}]
    study = two_instances(policies={"team": {"kind": "Team", "bases": bases}}, plugins={"Team": Team})
    assert study.cells[1].policy_object == Team((adadim.LinUCB(dim=4), adadim.Greedy(dim=6)))


def test_numpy_values_are_written_as_plain_ones():
    study = two_instances(policies={"p": adadim.LinUCB(dim=np.int64(3))}, record=np.array([10, 60]))
    assert study == two_instances(policies={"p": adadim.LinUCB(dim=3)}, record=[10, 60])
    assert study.cells[0].id == two_instances(policies={"p": adadim.LinUCB(dim=3)}, record=[10, 60]).cells[0].id


BAD = {
    "unknown policy": ({"policies": {"p": {"kind": "LinUBC"}}}, r"policies\.p\.kind.*'LinUBC'.*did you mean 'LinUCB'"),
    "unknown policy in lower case": (
        {"policies": {"p": {"kind": "linubc"}}},
        r"policies\.p\.kind.*did you mean 'LinUCB'",
    ),
    "misspelt parameter": (
        {"policies": {"mine": {"kind": "LinUCB", "rigde": 1}}},
        r"policies\.mine\.rigde: LinUCB has no parameter 'rigde'; did you mean 'ridge'",
    ),
    "misspelt nested parameter": (
        {"policies": {"t": {"kind": "Team", "bases": [{"kind": "Random"}, {"kind": "LinUCB", "dmi": 1}]}}},
        r"policies\.t\.bases\[1\]\.dmi.*did you mean 'dim'",
    ),
    "missing parameter": ({"policies": {"t": {"kind": "Team"}}}, r"policies\.t\.bases: missing"),
    "bad hyper-parameter": (
        {"policies": {"p": {"kind": "LinUCB", "ridge": -1}}},
        r"policies\.p: .*ridge must be a pos",
    ),
    "rate outside its range": (
        {"policies": {"t": {"kind": "Team", "bases": [{"kind": "Random"}], "rate": 0.4}}},
        r"policies\.t: .*rate must be in \[0\.5, 1\), got 0\.4",
    ),
    "wrong type": ({"policies": {"p": {"kind": "LinUCB", "dim": "4"}}}, r"policies\.p: LinUCB\(dim='4'\)"),
    "unknown @name": (
        {"policies": {"p": {"kind": "LinUCB", "dim": "@intrinsic_dims"}}},
        r"policies\.p\.dim: '@intrinsic_dims'.*did you mean 'intrinsic_dim'",
    ),
    "no kind": ({"policies": {"p": {"dim": 3}}}, r"policies\.p: the key 'kind' is missing"),
    "not a table": ({"policies": {"p": 3}}, r"policies\.p: expected a table"),
    "no policies": ({"policies": {}}, r"policies: must be a non-empty table"),
    "unknown generator": (
        {"instances": {"i": {**SPHERE, "kind": "shpere"}}},
        r"instances\.i\.kind.*did you mean 'sphere'",
    ),
    "not a generator": ({"instances": {"i": {**SPHERE, "kind": "parameter"}}}, r"instances\.i\.kind"),
    "misspelt instance key": (
        {"instances": {"i": {**SPHERE, "nois": 1}}},
        r"instances\.i\.nois: .*did you mean 'noise'",
    ),
    "missing instance key": ({"instances": {"i": {"kind": "sphere", "arms": 5}}}, r"instances\.i\.dim: missing"),
    "replications in an instance": (
        {"instances": {"i": {**SPHERE, "replications": [1]}}},
        r"replications: the study sets",
    ),
    "no trials": ({"trials": 0}, r"trials: must be an integer of at least 1, got 0"),
    "half a trial": ({"trials": 1.5}, r"trials: must be an integer"),
    "negative seed": ({"seed": -1}, r"seed: .*non-negative"),
    "record is a word": ({"record": "all"}, r"record: must be a non-empty list"),
    "no name": ({"name": " "}, r"name: must be a non-empty string"),
    "only for nobody": ({"only": {"orakel": ["easy"]}}, r"only\.orakel: .*did you mean 'oracle'"),
    "only nowhere": ({"only": {"oracle": ["esay"]}}, r"only\.oracle: no instance 'esay'; did you mean 'easy'"),
    "only as a word": ({"only": {"oracle": "easy"}}, r"only\.oracle: must be a non-empty list"),
    "plugin that is no policy": ({"plugins": {"x": 3}}, r"plugins\.x: neither a policy class nor"),
    "plugin named like a policy": ({"plugins": {"LinUCB": Team}}, r"plugins\.LinUCB: adadim has a LinUCB of its own"),
}


@pytest.mark.parametrize("change", BAD)
def test_bad_studies_are_refused_with_the_key_and_the_fix(change):
    changes, message = BAD[change]
    with pytest.raises(StudyError, match=message) as caught:
        two_instances(**{"plugins": {"Team": Team}, **changes})
    assert isinstance(caught.value, ValueError)


def test_two_classes_of_one_name_are_refused():
    def another():
        @dataclass(frozen=True)
        class Team(adadim.Policy):
            def learner(self, problem, streams):
                return adadim.Random().learner(problem, streams)

        return Team()

    with pytest.raises(StudyError, match="two different classes are called Team"):
        two_instances(policies={"a": Team((adadim.Random(),)), "b": another()})


def test_functions_are_welcome_in_python_and_refused_in_toml():
    study = two_instances(policies={"single": adadim.Single(_stubborn)})
    with pytest.raises(StudyError, match=r"policies\.single\.make: TOML has no way"):
        study.to_toml()
    with pytest.raises(StudyError, match=r"policies\.single\.make: results are filed by the values"):
        two_instances(policies={"single": adadim.Single(functools.partial(_stubborn))})


class _Stubborn:
    def select(self):
        return 0

    def update(self, arm, reward):
        pass


def _stubborn(problem, rng):
    return _Stubborn()


def test_all_policies_and_instances_are_kept_as_tables():
    team = Team((adadim.LinUCB(dim=2), adadim.Greedy()), rate=0.75)
    study = two_instances(policies={"team": team, "p": {"dim": None, "ridge": 0.1, "kind": "LinUCB"}})
    assert study.policies == {
        "team": {"kind": "Team", "bases": [{"kind": "LinUCB", "dim": 2}, {"kind": "Greedy"}], "rate": 0.75},
        "p": {"kind": "LinUCB", "ridge": 0.1},
    }
    assert list(study.policies["p"]) == ["kind", "ridge"]
    assert study.instances["easy"] == SPHERE


def test_tables_may_hold_policy_objects():
    study = two_instances(policies={"team": {"kind": "Team", "bases": [adadim.Greedy(dim=3)]}}, plugins={"Team": Team})
    assert study.cells[0].policy_object == Team((adadim.Greedy(dim=3),))


def test_what_to_dict_gives_is_a_copy():
    study = two_instances()
    study.to_dict()["instances"]["easy"]["arms"] = 1
    study.to_dict()["policies"]["oracle"]["dim"] = 1
    assert study == two_instances()
