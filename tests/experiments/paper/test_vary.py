"""Varied studies of the paper: from the command line and back."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from adadim import paper, study
from adadim.cli import kit
from adadim.cli import paper as commands
from adadim.study import engines, source, store
from command_line import adadim_, contents, refused

pytestmark = pytest.mark.usefixtures("working_folder", "tiny")

RUN = ("reproduce", "fig2a", "--trials", 2, "--jobs", 1)


def shown(*arguments):
    """The study that `show` prints."""
    Path("shown.toml").write_text(adadim_("show", *arguments)[0])
    return study.Study.from_toml("shown.toml")


@pytest.mark.parametrize("variant", paper.VARIANTS)
@pytest.mark.parametrize("figure", paper.FIGURES)
def test_show_and_run_give_the_same_study(figure, variant):
    plan = paper.study(figure, variant, trials=3, seed=5)
    again = shown(figure, "--variant", variant, "--trials", 3, "--seed", 5)
    assert again == plan
    assert [cell.id for cell in again.cells] == [cell.id for cell in plan.cells]


def test_run_finds_what_reproduce_has_computed(one_format):
    adadim_(*RUN, "--quiet")
    before = {name: data for name, data in contents(Path("results")).items() if "/blocks/" in name}
    Path("mine.toml").write_text(adadim_("show", "fig2a", "--trials", 2)[0])
    adadim_("run", "mine.toml", "--jobs", 1, "--quiet")
    assert {name: data for name, data in contents(Path("results")).items() if "/blocks/" in name} == before


def test_show_is_one_study():
    refused("show", "fig2a", "--variant", "both", message="a file holds one study: choose one variant")
    assert "Invalid value" in adadim_("show", "all", code=2)[1]


def test_tables_of_other_papers_are_not_varied():
    refused("reproduce", "osom20", "--set", "noise=1", message="vary figures of the paper, not osom20")


def test_set_changes_instances_and_policies_and_goes_into_a_folder_of_its_own(one_format):
    adadim_(*RUN, "--quiet")
    before = contents(Path("results"))
    printed, _ = adadim_(*RUN, "--set", "noise=0.5", "--set", "arms=25", "--set", "linucb++.beta=0.6")
    name = "fig2a-released_noise=0.5_arms=25_linucb++.beta=0.6"
    results = study.load(f"results/{name}")
    assert results.parameters("d3")["noise"] == 0.5
    assert results.parameters("d3")["arms"] == 25
    assert results.study["policies"]["linucb++"]["beta"] == 0.6
    assert results.labels["variant"] == "released"
    assert results.labels["changes"] == ["noise=0.5", "arms=25", "linucb++.beta=0.6"]
    assert Path(f"results/figures/{name}.png").exists()
    assert "The paper's claims" not in printed
    assert "Claims are not checked on varied studies, since they are about the original ones." in printed
    after = contents(Path("results"))
    assert {key: after[key] for key in before} == before  # claims.md included
    assert {v["figure"] for v in json.loads(adadim_("claims", "results", "--json")[0])} == {"fig2a"}


def test_a_policy_of_ones_own_beside_the_papers(one_format):
    adadim_("new", "policy", "MyPolicy")
    own = ("--plugin", "my_policy.py", "--policy", "MyPolicy:width=0.2", "--policy", "EvidenceLinUCB")
    printed, _ = adadim_(*RUN, *own)
    (folder,) = (p for p in Path("results").iterdir() if p.name.startswith("fig2a-released_"))
    results = study.load(folder)
    assert list(results.policies)[-2:] == ["MyPolicy:width=0.2", "EvidenceLinUCB"]
    assert len(results.final("d3", "MyPolicy:width=0.2")) == 2
    assert "MyPolicy:width=0.2" in printed
    refused(*RUN, "--policy", "MyPolicy", message=r"policy\.kind: no policy 'MyPolicy'")
    refused(*RUN, "--plugin", "my_policy.py", message="say with --policy which of its policies to run")


def test_several_intrinsic_dimensions():
    plan = shown("fig2a", "--trials", 2, "--set", "intrinsic_dim=[2,5]")
    assert {name: table["intrinsic_dim"] for name, table in plan.instances.items()} == {"d2": 2, "d5": 5}
    assert plan.labels["instances"]["d5"] == {"intrinsic_dim": 5, "horizon": 100}
    assert shown("fig2b", "--set", "intrinsic_dim=4", "--set", "record=5").record == 5


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("noise", r"--set noise: expected KEY=VALUE, e\.g\. --set noise=0\.5"),
        ("=3", "expected KEY=VALUE"),
        ("nosie=1", r"instances\.d3\.nosie: sphere has no parameter 'nosie'; did you mean 'noise'\?"),
        ("trials=3", "trials: has an option of its own: --trials 3"),
        ("noise=-1", "noise must be"),
        ("intrinsic_dim=99", r"intrinsic_dim must be an integer in 1\.\.12"),
        ("intrinsic_dim=[]", "intrinsic_dim: must be a number or a list of some"),
        ("linucb.rigde=1", r"policies\.linucb\.rigde: LinUCB has no parameter 'rigde'; did you mean 'ridge'\?"),
        ("linucbb.ridge=1", r"the study has no policy 'linucbb'; did you mean 'linucb'\?"),
    ],
)
def test_settings_that_cannot_be(setting, message):
    refused(*RUN, "--set", setting, message=message)


def test_settings_twice_and_policies_that_are_there():
    refused(*RUN, "--set", "noise=1", "--set", "noise=2", message="noise is set twice")
    with pytest.raises(study.StudyError, match="has a policy 'oracle' already"):
        paper.vary(paper.study("fig2a"), {}, {"oracle": {"kind": "LinUCB"}})


def test_names_of_varied_studies_differ_where_the_studies_do():
    plan = paper.study("fig2a")
    names = [paper.vary(plan, {}, {f"a{c}b": {"kind": "Random"}}).name for c in "/:*?"]
    names.append(paper.vary(plan, {}, {"x" * 200: {"kind": "Random"}}).name)
    assert len(set(names)) == 5
    assert all(re.fullmatch(r"[\w=.,+\[\]-]{1,100}", name) for name in names)


def test_an_edited_study_of_the_paper_is_not_judged(one_format):
    """The file that `show` prints calls itself the paper's; what it runs decides."""
    text, _ = adadim_("show", "fig2a", "--trials", 2)
    Path("mine.toml").write_text(text.replace("noise = 0.1", "noise = 0.3"))
    adadim_("run", "mine.toml", "--jobs", 1, "--quiet")
    refused("claims", "results", message="no figure of the paper in results")
    adadim_(*RUN, "--quiet")
    assert adadim_("claims", "results", "--json")[0].startswith("[\n  {")


def test_reproduce_ends_with_commands_that_can_be_typed(one_format, monkeypatch):
    monkeypatch.setattr(commands, "PAPER_TRIALS", 3)
    printed, _ = adadim_(*RUN, "--out", "my results")
    lines = [line.strip().partition("  # ")[0] for line in printed.splitlines() if line.startswith("    adadim ")]
    assert len(lines) == 6
    for line in lines:
        typed, _, target = line.partition(" > ")
        arguments = shlex.split(typed)[1:]
        more = ["--jobs", "1"] if arguments[0] == "reproduce" else []
        text, _ = adadim_(*arguments, *more)
        if target:
            Path(target).write_text(text)
    adadim_("run", "mine.toml", "--dry-run")


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        (".venv/bin/adadim", ".venv/bin/adadim"),
        ("/some where/bin/adadim", "'/some where/bin/adadim'"),
        ("/usr/bin/pytest", "adadim"),
        ("/lib/adadim/__main__.py", f"{shlex.quote(sys.executable)} -m adadim"),
    ],
)
def test_what_to_type(called, expected, monkeypatch):
    monkeypatch.setattr(sys, "argv", [called])
    assert kit.typed_as() == expected


def test_what_to_type_where_it_is_on_the_path(monkeypatch, tmp_path):
    script = tmp_path / "adadim"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert kit.typed_as() == "adadim"


@pytest.fixture
def played(monkeypatch):
    """The policies that were simulated, one entry for each call."""
    kinds, real = [], engines.simulate

    def logged(policy, instance, **options):
        kinds.append(type(policy).__name__)
        return real(policy, instance, **options)

    monkeypatch.setattr(engines, "simulate", logged)
    return kinds


@pytest.mark.parametrize("varied_first", [True, False])
def test_what_another_study_has_computed_is_not_computed_again(varied_first, played, one_format):
    commands = [(*RUN, "--policy", "Random", "--quiet"), (*RUN, "--quiet")]
    for command in commands if varied_first else reversed(commands):
        adadim_(*command)
    assert len(played) == 7
    assert played.count("Random") == 1
    plain, varied = (study.load(f"results/fig2a-released{end}") for end in ("", "_Random"))
    for policy in plain.policies:
        assert plain.final("d3", policy).tolist() == varied.final("d3", policy).tolist()
    adadim_(*RUN, "--seed", 1, "--policy", "Greedy", "--quiet")  # other instances
    assert len(played) == 14


def test_only_sound_results_of_this_source_are_reused(played, tmp_path, monkeypatch):
    plan = paper.study("fig2a", trials=4)
    study.run(plan, tmp_path / "one", jobs=1, batch=2)
    assert len(played) == 12
    damaged, *_ = sorted((tmp_path / "one" / "blocks").glob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    again = study.run(plan, tmp_path / "two", jobs=1, batch=2, reuse=[tmp_path / "one", tmp_path / "two"])
    assert len(played) == 13
    assert again.trials == 4
    (tmp_path / "one" / "blocks" / "strange.parquet").write_bytes(b"")
    study.run(plan, tmp_path / "three", jobs=1, reuse=[tmp_path / "one", tmp_path / "nowhere"])
    assert study.status(tmp_path / "three").complete
    with monkeypatch.context() as patch:
        patch.setattr(store, "present", lambda: source.MadeBy("0.1", "another source"))
        study.run(plan, tmp_path / "old", jobs=1)
    played.clear()
    study.run(plan, tmp_path / "new", jobs=1, reuse=[tmp_path / "old"])
    assert len(played) == 6


def suggested(printed):
    """The commands that are suggested, without `adadim` and what is said about them."""
    lines = printed.partition("Next, type one of:")[2].splitlines()
    return [line.partition("  # ")[0].split(maxsplit=1)[1] for line in lines if "  # " in line]


def test_the_command_just_run_is_not_suggested(one_format):
    printed, _ = adadim_(*RUN, "--policy", "recommended")
    commands = suggested(printed)
    assert "reproduce fig2a --trials 2 --policy recommended" not in commands
    assert "reproduce fig2a --trials 100 --policy recommended" in commands
    assert "reproduce fig2a --trials 2 --policy recommended --set noise=0.5" in commands
    printed, _ = adadim_(*RUN, "--set", "noise=0.5")
    commands = suggested(printed)
    assert [command for command in commands if command.startswith("reproduce fig2a --trials 2 ")] == [
        "reproduce fig2a --trials 2 --set noise=0.5 --policy recommended"
    ]
    assert "show fig2a --set noise=0.5 > mine.toml" in commands
    assert shown(*shlex.split("fig2a --set noise=0.5")).instances["d3"]["noise"] == 0.5


@pytest.mark.parametrize("variant", paper.VARIANTS)
@pytest.mark.parametrize("typed", ["LinUCB++:beta=0.66", "linucb++:beta=0.66", "LinUCB++(beta=0.66)", "LinUCB++ 0.66"])
def test_a_name_of_the_study_means_its_own_policy(typed, variant):
    plan = shown("fig3a", "--variant", variant, "--policy", typed)
    assert plan.policies[typed] == {**plan.policies["linucb++"], "beta": 0.66}
    other = shown("fig3a", "--variant", variant, "--set", "linucb++.beta=0.66").policies["linucb++"]
    assert plan.policies[typed] == other


def test_names_of_classes_and_other_names_mean_what_they_say():
    typed = ("LinUCBPlusPlus:beta=0.66", "linucb++reuse", "recommended", "LinUCB")
    plan = shown("fig2a", *(word for text in typed for word in ("--policy", text)))
    assert plan.policies["LinUCBPlusPlus:beta=0.66"] == {"kind": "LinUCBPlusPlus", "beta": 0.66}
    assert plan.policies["linucb++reuse"] == {"kind": "LinUCBPlusPlus", "reuse": True}
    assert plan.policies["LinUCB"] == {"kind": "LinUCB"}
    assert plan.policies["recommended"]["kind"] == "EvidenceLinUCB"


def test_it_is_said_which_of_two_policies_was_added(one_format):
    added = ("--policy", "LinUCB++:beta=0.66", "--policy", "LinUCBPlusPlus:beta=0.66", "--policy", "Random")
    printed, _ = adadim_(*RUN, *added)
    own = "the study's linucb++ (ReleasedLinUCBPlusPlus, released)"
    assert f"LinUCB++:beta=0.66 is {own} with what you changed.\n" in printed
    literal = f"LinUCBPlusPlus:beta=0.66 follows the paper's text, unlike {own}; to vary that: "
    assert f"{literal}--policy linucb++:beta=0.66\n" in printed
    assert "Random is" not in printed
    printed, _ = adadim_(*RUN, "--variant", "theory", "--policy", "LinUCBPlusPlus:beta=0.66")
    assert "unlike" not in printed


def test_numbers_of_a_column_line_up(one_format):
    printed, _ = adadim_(*RUN, "--policy", "Random")
    rows = [[cell.strip("\n") for cell in line.split("│")[4:6]] for line in printed.splitlines() if "│ d3 " in line]
    assert len(rows) == 7
    for column in zip(*rows, strict=True):
        assert len({cell.index(".") for cell in column}) == 1


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([297.4, 17.04, 112.0, 44.22], ["297.4", "17.0", "112.0", "44.2"]),
        ([0.0123, 0.5], ["0.0123", "0.5000"]),
        ([12345.6, 3.2], ["12346", "3"]),
        ([0.0, 1.0], ["0.00", "1.00"]),
        ([float("nan"), 2.0], ["-", "2.00"]),
        ([], []),
    ],
)
def test_aligned_numbers(values, texts):
    assert kit.aligned(values) == texts
