"""Studies as data: reading, writing, checking, and what makes two results the same."""

from __future__ import annotations

import dataclasses
import functools
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest

import adadim
from adadim.study import InstanceSpec, PolicySpec, Study, StudyError, from_spec, load_plugin, policy_kinds, to_spec

SPHERE = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}


@dataclass(frozen=True)
class Team(adadim.Policy):
    """Runs its first base; what a master looks like to a study."""

    bases: tuple[adadim.Policy, ...]
    rate: float = 0.5

    def __post_init__(self):
        if not 0.5 <= self.rate < 1:
            raise ValueError(f"rate must be in [0.5, 1), got {self.rate!r}")

    def _start(self, problem, streams):
        return self.bases[0]._start(problem, streams)


def small(**changes):
    parts = {
        "name": "small",
        "instances": {"easy": SPHERE, "hard": {**SPHERE, "intrinsic_dim": 4, "theta": "decay"}},
        "policies": {"LinUCB": adadim.LinUCB(), "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"}},
        "trials": 3,
    }
    return Study(**{**parts, **changes})


def test_cells_are_every_policy_on_every_instance_with_the_instance_filled_in():
    cells = small(record=[10, 60]).cells
    assert [(c.instance, c.policy, c.agent.dim) for c in cells] == [
        ("easy", "LinUCB", None),
        ("easy", "oracle", 2),
        ("hard", "LinUCB", None),
        ("hard", "oracle", 4),
    ]
    assert {c.times for c in cells} == {(10, 60)}
    assert {(c.arms, c.dim, c.horizon) for c in cells} == {(20, 6, 60)}


def test_size_of_an_expressive_instance_counts_all_its_levels():
    study = small(instances={"e": {**SPHERE, "expressive": True, "levels": [2, 4, 6]}})
    assert study.cells[0].arms == 60


def test_only_restricts_a_policy_to_some_instances():
    study = small(only={"oracle": ["hard"]})
    assert [(c.instance, c.policy) for c in study.cells] == [
        ("easy", "LinUCB"),
        ("hard", "LinUCB"),
        ("hard", "oracle"),
    ]


def toml_studies():
    team = Team((adadim.LinUCB(dim=2), adadim.Greedy()), rate=0.75)
    return [
        small(),
        small(seed=7, record=[5, 60], only={"oracle": ["easy"]}),
        small(instances={'d* = "2", α': SPHERE}, policies={"LinUCB++ [1]": adadim.UCB(delta=1e-9)}),
        small(instances={"e": {**SPHERE, "expressive": True, "levels": [2, 6]}}),
        small(policies={"team": team, "other": {"kind": "Team", "bases": [{"kind": "Random"}]}}),
        small(policies={"p": {"kind": "LinUCB", "dim": None}}, instances={"e": {**SPHERE, "levels": None}}),
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
    file.write_text(small().to_toml().split("\n", 1)[1])
    assert Study.from_toml(file).name == "mine"


@pytest.mark.parametrize("kind", [k for k in policy_kinds() if k != "Single"])
def test_every_public_policy_survives_the_round_trip(kind):
    required = {
        f.name
        for f in dataclasses.fields(policy_kinds()[kind])
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if required:
        pytest.skip(f"{kind} has no default for {required}")
    policy = policy_kinds()[kind]()
    assert from_spec(to_spec(policy)) == policy


def test_nested_policies_survive_the_round_trip():
    team = Team((adadim.LinUCB(dim=2, radius=0.5), Team((adadim.Greedy(),))), rate=0.75)
    table = to_spec(team)
    assert table["bases"][1]["bases"][0] == {"kind": "Greedy", "ridge": 0.1, "dim": None, "ties": "random"}
    assert from_spec(table, plugins={"Team": Team}) == team


def test_instance_parameters_reach_nested_policies():
    bases = [{"kind": "LinUCB", "dim": "@intrinsic_dim"}, {"kind": "Greedy", "dim": "@dim"}]
    study = small(policies={"team": {"kind": "Team", "bases": bases}}, plugins={"Team": Team})
    assert study.cells[1].agent == Team((adadim.LinUCB(dim=4), adadim.Greedy(dim=6)))


def test_id_depends_on_what_decides_the_result_and_on_nothing_else():
    def ids(**changes):
        return [c.id for c in small(**changes).cells]

    first = ids()
    assert len(set(first)) == 4
    assert ids(trials=50, name="other") == first
    assert ids(policies={"a": adadim.LinUCB(ridge=0.1), "b": PolicySpec("LinUCB", {"dim": "@intrinsic_dim"})}) == first
    assert ids(instances={"x": InstanceSpec("sphere", {**_params(SPHERE), "noise": 0.1})})[0] == first[0]
    assert ids(policies={"a": {"kind": "LinUCB", "ridge": 1}}) == ids(policies={"a": adadim.LinUCB(ridge=1.0)})
    for change in (
        {"seed": 1},
        {"record": 50},
        {"policies": {"LinUCB": adadim.LinUCB(ridge=0.2), "oracle": adadim.Greedy()}},
        {"instances": {"easy": {**SPHERE, "noise": 0.2}, "hard": {**SPHERE, "kind": "ball"}}},
    ):
        assert not set(ids(**change)) & set(first)


def _params(table):
    return {k: v for k, v in table.items() if k != "kind"}


BAD = {
    "unknown policy": ({"policies": {"p": {"kind": "LinUBC"}}}, r"policies\.p\.kind.*'LinUBC'.*did you mean 'LinUCB'"),
    "policy in lower case": ({"policies": {"p": {"kind": "linucb"}}}, r"policies\.p\.kind.*did you mean 'LinUCB'"),
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
    "too many features": (
        {"policies": {"p": {"kind": "LinUCB", "dim": 7}}},
        r"policies\.p: cannot run on instances\.easy: dim must be an integer in 1\.\.6",
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
    "d* > d": ({"instances": {"i": {**SPHERE, "intrinsic_dim": 7}}}, r"instances\.i: intrinsic_dim must be in 1\.\.6"),
    "no arms": ({"instances": {"i": {**SPHERE, "arms": 0}}}, r"instances\.i: arms must be .* at least 1, got 0"),
    "arms of a wrong type": ({"instances": {"i": {**SPHERE, "arms": 2.5}}}, r"instances\.i: arms must be"),
    "replications in an instance": (
        {"instances": {"i": {**SPHERE, "replications": [1]}}},
        r"replications: the study sets",
    ),
    "no trials": ({"trials": 0}, r"trials: must be an integer of at least 1, got 0"),
    "half a trial": ({"trials": 1.5}, r"trials: must be an integer"),
    "negative seed": ({"seed": -1}, r"seed: .*non-negative"),
    "record after the horizon": ({"record": [10, 61]}, r"record: .*1\.\.60.*'easy'"),
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
        small(**{"plugins": {"Team": Team}, **changes})
    assert isinstance(caught.value, ValueError)


def test_bad_files_are_refused_with_their_name(tmp_path):
    file = tmp_path / "study.toml"
    with pytest.raises(StudyError, match=r"study\.toml: cannot be read: No such file"):
        Study.from_toml(file)
    good = small().to_toml()
    for text, message in (
        ("trials = = 3", "not valid TOML"),
        ("trails = 3\n" + good, "trails: a study has no such key; did you mean 'trials'"),
        (good.replace("trials = 3\n", ""), "trials: missing"),
        (good.replace("trials = 3", "trials = 0"), "trials: must be"),
    ):
        file.write_text(text)
        with pytest.raises(StudyError, match=rf"study\.toml: {message}"):
            Study.from_toml(file)


def test_two_classes_of_one_name_are_refused():
    def another():
        @dataclass(frozen=True)
        class Team(adadim.Policy):
            def _start(self, problem, streams):
                return adadim.Random()._start(problem, streams)

        return Team()

    with pytest.raises(StudyError, match="two different classes are called Team"):
        small(policies={"a": Team((adadim.Random(),)), "b": another()})


def test_functions_are_welcome_in_python_and_refused_in_toml():
    study = small(policies={"single": adadim.Single(_stubborn)})
    with pytest.raises(StudyError, match=r"policies\.single\.make: TOML has no way"):
        study.to_toml()
    with pytest.raises(StudyError, match=r"policies\.single\.make: results are filed by the values"):
        small(policies={"single": adadim.Single(functools.partial(_stubborn))})


class _Stubborn:
    def select(self):
        return 0

    def update(self, arm, reward):
        pass


def _stubborn(problem, rng):
    return _Stubborn()


PLUGIN = """
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
import adadim

SHARE = {share}

def cut(dim):
    return max(1, int(dim * SHARE))

@dataclass(frozen=True)
class Part(adadim.Policy):
    ridge: float = 1.0

    def _start(self, problem, streams):
        return adadim.LinUCB(ridge=self.ridge, dim=cut(problem.dim))._start(problem, streams)

def corners(*, dim, horizon, replications=range(1)):
    features = np.broadcast_to(np.eye(dim), (len(replications), dim, dim))
    return adadim.Instance(
        features, theta=np.eye(dim)[0], horizon=horizon, noise=0.1, replications=replications
    )

def unrelated():
    return "{other}"
"""


def plugin(tmp_path, share=0.5, other=""):
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN.format(share=share, other=other))
    return load_plugin(file)


def test_plugins_serve_policies_and_instances(tmp_path):
    own = plugin(tmp_path)
    assert sorted(own) == ["Part", "corners"]
    instances = {"c": {"kind": "corners", "dim": 5, "horizon": 20}}
    study = small(instances=instances, policies={"part": {"kind": "Part"}}, plugins=own)
    (cell,) = study.cells
    assert (cell.arms, cell.dim, cell.agent.ridge) == (5, 5, 1.0)
    assert cell.make([3]).problem.replications == (3,)


def test_an_edited_plugin_has_another_id_and_an_edit_it_does_not_use_keeps_it(tmp_path):
    def identifier(**edit):
        study = small(policies={"part": {"kind": "Part"}}, plugins=plugin(tmp_path, **edit))
        return study.cells[0].id

    first = identifier()
    assert identifier() == first
    assert identifier(other="something else") == first
    assert identifier(share=0.25) != first


def test_the_source_of_a_policy_object_counts():
    def make(step):
        @dataclass(frozen=True)
        class Own(adadim.Policy):
            def _start(self, problem, streams):
                return adadim.LinUCB(dim=step)._start(problem, streams)

        return Own()

    def identifier(step):
        return small(policies={"own": make(step)}).cells[0].id

    assert identifier(1) == identifier(1)
    assert identifier(1) != identifier(2)


def test_bad_plugins_are_refused(tmp_path):
    file = tmp_path / "plugin.py"
    with pytest.raises(StudyError, match=r"plugin\.py: no such file"):
        load_plugin(file)
    for code, message in (
        ("1 +", "raised SyntaxError"),
        ("import adadim_no_such_module", "raised ModuleNotFoundError"),
        ("from adadim import LinUCB", "defines no policy"),
        ("import adadim\nclass LinUCB(adadim.Random): pass", "adadim has a LinUCB of its own"),
        ("import adadim\nclass Own(adadim.Random):\n    def __init__(self, x): pass", "make it a frozen dataclass"),
    ):
        file.write_text(textwrap.dedent(code))
        with pytest.raises(StudyError, match=message):
            load_plugin(file)


def test_numpy_values_are_written_as_plain_ones():
    study = small(policies={"p": adadim.LinUCB(dim=np.int64(3))}, record=np.array([10, 60]))
    assert study == small(policies={"p": adadim.LinUCB(dim=3)}, record=[10, 60])
    assert study.cells[0].id == small(policies={"p": adadim.LinUCB(dim=3)}, record=[10, 60]).cells[0].id
