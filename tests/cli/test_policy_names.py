"""One policy shown whole, and the names that figures and tables print wherever a policy is named."""

import inspect
import json
import shlex
import tomllib

import pytest

import adadim
from adadim import policies, study
from adadim.core.codec import from_table, plain
from adadim.experiments import comparison
from adadim.experiments.paper.plan import LABELS
from adadim.policies.names import NAMES, with_kind
from command_line import adadim_, refused

KINDS = {**policies.kinds(), **policies.parts()}
TOLD = {"intrinsic_dim": 3}


def meant(name, **changes):
    return from_table(with_kind({"kind": name, **changes}, policies.kinds()), KINDS, parameters=TOLD)


def test_the_names_of_the_papers_figures():
    kinds = [meant(label) for label in LABELS.values()]
    masters = adadim.LinUCBPlusPlusCorral(), adadim.SmoothCorral(), adadim.DynamicBalancing()
    assert kinds == [adadim.LinUCB(), adadim.LinUCB(dim=3), adadim.LinUCBPlusPlus(), *masters]


def test_the_names_of_the_comparison():
    for name, policy in comparison.policies().items():
        compared = from_table(plain(policy), KINDS, parameters=TOLD)
        if hasattr(compared, "base"):  # there the bases keep to supported arms, which is no default
            assert type(meant(name)) is type(compared)
        else:
            assert meant(name) == compared, name


def test_a_number_after_the_name():
    assert meant("LinUCB++ 0.75") == adadim.LinUCBPlusPlus(beta=0.75)
    assert meant("Smooth Corral 0.5") == adadim.SmoothCorral(beta=0.5)
    assert with_kind({"kind": "LinUCB 3"}, policies.kinds()) == {"kind": "LinUCB 3"}


def test_parameters_stay():
    assert meant("LinUCB++", beta=0.6) == adadim.LinUCBPlusPlus(beta=0.6)
    assert meant("narrow-oracle", scale=0.2) == adadim.LinUCB(dim=3, scale=0.2)


def test_kinds_come_first():
    """A plugin may be called as a figure calls another policy."""
    assert with_kind({"kind": "oracle"}, ["oracle", "LinUCB"]) == {"kind": "oracle"}
    assert with_kind({"kind": "Oracle"}, ["oracle", "LinUCB"]) == {"kind": "oracle"}


def test_recommended_is_what_the_library_recommends():
    problem = adadim.Problem([[1.0, 0.0], [0.0, 1.0]], horizon=9)
    assert meant("recommended") == adadim.recommended(problem)


@pytest.mark.parametrize("name", [*NAMES, "LinUCB++", "Smooth Corral", "linucb"])
def test_a_study_is_written_with_kinds(name):
    sphere = {"kind": "sphere", "arms": 9, "dim": 4, "intrinsic_dim": 2, "horizon": 9}
    plan = study.Study("mine", {"a": sphere}, {"it": {"kind": name}}, trials=1)
    written = tomllib.loads(plan.to_toml())["policies"]["it"]
    assert written["kind"] in policies.kinds()
    assert study.Study.from_dict(plan.to_dict()).cells[0].policy_object == plan.cells[0].policy_object


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("recommended", "EvidenceLinUCB"),
        ("LinUCB++:beta=0.6", "ReleasedLinUCBPlusPlus"),  # that of the study, which is the released variant
        ("LinUCB++(beta=0.6)", "ReleasedLinUCBPlusPlus"),
        ("LinUCBPlusPlus(beta=0.6)", "LinUCBPlusPlus"),
        ("LinUCB++ with Corral", "LinUCBPlusPlusCorral"),
        ("LinUCB Oracle", "LinUCB"),
    ],
)
def test_in_a_varied_figure(written, kind):
    printed, _ = adadim_("show", "fig2a", "--trials", 1, "--policy", written)
    table = tomllib.loads(printed)["policies"][written]
    assert table["kind"] == kind
    assert table.get("beta", 0.6) == 0.6
    assert table.get("dim", "@intrinsic_dim") == "@intrinsic_dim"


def test_in_the_other_commands(tmp_path):
    small = ("--trials", 1, "--quiet", "--jobs", 1, "--out", tmp_path)
    adadim_("lower-bound", "--policy", "recommended", "--policy", "LinUCB++", "-T", 16, "--delta", 0.5, *small)
    stored = json.loads((tmp_path / "manifest.json").read_text())["study"]["policies"]
    assert {name: table["kind"] for name, table in stored.items()} == {
        "recommended": "EvidenceLinUCB",
        "LinUCB++": "LinUCBPlusPlus",
    }


def test_in_the_comparison():
    plan = comparison.study("development", 1, 0, ["EvidenceLinUCB", "Smooth Corral"], ["lower-bound-1/50"])
    assert set(plan.policies) == {"oracle", "linucb++", "evidence", "smooth-corral"}


def test_names_that_mean_nothing():
    refused("policies", "LinUBC", message="error: there is no policy 'LinUBC'; did you mean 'LinUCB'?")
    message = r"policy\.kind: no policy 'LinUCB 3'; did you mean 'LinUCB'"
    refused("show", "fig2a", "--policy", "LinUCB 3", message=message)


def test_one_policy_is_shown_whole():
    printed, _ = adadim_("policies", "LinUCB")
    assert printed.startswith("LinUCB\nPull the arm with the largest estimated mean plus confidence width.")
    for heading in ("parameter", "What is proved, and notes", "In Python", "On the command line"):
        assert heading in printed
    for parameter in inspect.signature(adadim.LinUCB).parameters:
        assert f"\n {parameter} " in printed
    assert "LinUCB itself has no sqrt(dT) proof" in printed
    assert ">>> oracle = adadim.simulate(adadim.LinUCB(dim=3), instance)" in printed
    assert printed.endswith(" reproduce fig2a --trials 4 --policy LinUCB\n")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("recommended", "EvidenceLinUCB"),
        ("LinUCB++ with Corral", "LinUCBPlusPlusCorral"),
        ("linucb++reuse", "LinUCBPlusPlus"),
        ("LinUCB Oracle", "LinUCB"),
    ],
)
def test_it_may_be_called_as_in_figures(name, kind):
    printed, _ = adadim_("policies", name)
    assert printed.splitlines()[0] == kind
    typed = shlex.split(printed.splitlines()[-1])[-1]
    shown, _ = adadim_("show", "fig2a", "--policy", typed)
    assert tomllib.loads(shown)["policies"][name]["kind"] == kind


@pytest.mark.parametrize("kind", policies.kinds())
def test_every_policy_says_what_is_proved_and_what_each_parameter_is(kind):
    printed, _ = adadim_("policies", kind, "--json")
    entry = json.loads(printed)
    assert entry["name"] == kind
    assert [p["name"] for p in entry["parameters"]] == list(inspect.signature(policies.kinds()[kind]).parameters)
    assert all(p["what"] for p in entry["parameters"])
    assert entry["proved"]
    assert ">>> " in entry["example"]
