"""What the help says, and what happens to arguments that no command takes."""

import importlib.metadata
import itertools
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

import adadim
from adadim import cli, study
from adadim.study import executor
from command_line import adadim_, contents, refused

COMMANDS = ("reproduce", "show", "new", "run", "status", "figure", "claims", "export", "policies")


def test_the_command_is_installed():
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="adadim")
    assert entry.load() is cli.main


def test_version():
    assert adadim_("--version") == (f"{adadim.__version__}\n", "")


def test_help_without_arguments():
    printed, _ = adadim_(code=2)
    assert printed.rstrip() == adadim_("--help")[0].rstrip()
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", printed)
    assert "adadim reproduce fig2a --trials 20" in printed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("reproduce", ["fig2a|fig2b|fig3a|fig3b|fig4a|fig4b|all", "released|theory|both", "Example: adadim reproduce"]),
        (
            "reproduce",
            ["--set", "KEY=VALUE", "--policy", "--plugin", "--no-title", "In Python, adadim.paper takes theory"],
        ),
        ("show", ["as TOML", "adadim show fig2a > mine.toml", "--variant", "--set"]),
        ("claims", ["positive if", "in the unit of its column", "95%"]),
        ("run", ["[instances.easy]", "[policies.adaptive]", 'dim = "@intrinsic_dim"', "--plugin", "--dry-run"]),
        ("status", ["The exit code is 0 if the study is complete, and 1 otherwise."]),
        ("figure", ["PNG, PDF and SVG", "CSV", "ci|std"]),
        ("claims", ["claims", "--json"]),
        ("report", ["loads nothing from the network", "Example: adadim report results --out report.html"]),
        ("export", ["csv|parquet", "instance, policy, replication, time, regret"]),
        ("policies", ["hyper-parameters", "--json"]),
    ],
)
def test_help_of_each_command_teaches(name, words):
    printed, error = adadim_(name, "--help")
    assert error == ""
    for word in words:
        assert word in printed


def test_commands_are_grouped_and_fit_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    printed, _ = adadim_("--help")
    assert max(map(len, printed.splitlines())) <= 80
    headings = re.findall(r"^╭─ ([\w ]+) ─+╮$", printed, flags=re.MULTILINE)
    assert headings == ["Options", "The paper", "Your studies", "Your data", "The agent", "Theory"]
    panels = dict(zip(headings, re.split(r"^╭─.*$", printed, flags=re.MULTILINE)[1:], strict=True))
    listed = {heading: re.findall(r"^│ ([a-z-]+) ", panel, flags=re.MULTILINE) for heading, panel in panels.items()}
    assert listed["The paper"] == ["reproduce", "show", "claims", "study"]
    assert listed["Your studies"] == ["policies", "run", "status", "figure", "report", "export", "new"]
    assert listed["Your data"] == ["dimension", "evaluate"]
    assert listed["The agent"] == ["serve", "copy", "backup"]
    assert listed["Theory"] == ["frontier", "lower-bound", "rates"]


def test_help_of_commands_in_groups():
    assert "adadim new policy MyPolicy" in adadim_("new", "policy", "--help")[0]
    assert "from which it holds" in adadim_("study", "footnote", "--help")[0]
    assert "true reward parameter" in adadim_("study", "parameter", "--help")[0]


def test_the_study_in_the_help_of_run_is_one():
    printed, _ = adadim_("run", "--help")
    lines = [line.strip() for line in printed.splitlines()]
    text = "\n".join(lines[lines.index("trials = 20") : lines.index('dim = "@intrinsic_dim"') + 1])
    Path("help.toml").write_text(text)
    assert set(study.Study.from_toml("help.toml").policies) == {"adaptive", "oracle"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("reproduce", "fig2a", "--trials", 1),
        ("run", "mine.toml"),
        ("rates",),
        ("lower-bound",),
        ("study", "regret", "--families", "paper", "--trials", 1),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_device_that_is_not_there(arguments, file, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    version = re.escape(torch.__version__)
    message = rf"^error: device 'cuda' is not there: torch {version} sees no CUDA GPU; use 'cpu'\n$"
    refused(*arguments, "--device", "cuda", message=message)
    refused(*arguments, "--device", "gpu", message=r"device must be 'cpu', 'cuda' or 'cuda:N', got 'gpu'")


def test_a_device_without_torch(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"device 'cuda' needs torch; install it with: pip install 'adadim\[torch\]'$"
    refused("run", file, "--device", "cuda", message=message)


def test_one_process_drives_a_device(file, monkeypatch):
    monkeypatch.setattr(executor, "check_device", lambda device: device)
    refused("run", file, "--device", "cuda", "--jobs", 2, message="jobs: one process drives cuda, got 2; leave it out")


@pytest.mark.parametrize(
    "arguments",
    [
        ("reproduce",),
        ("reproduce", "fig9"),
        ("reproduce", "fig2a", "--trials", "0"),
        ("reproduce", "fig2a", "--jobs", "0"),
        ("reproduce", "fig2a", "--variant", "mine"),
        ("reproduce", "fig2a", "--seed", "-1"),
        ("run", "mine.toml", "--trials", "0"),
        ("figure", ".", "--band", "iqr"),
        ("export", ".", "--format", "xlsx"),
        ("nonsense",),
        ("--nonsense",),
    ],
)
def test_bad_arguments(arguments):
    _, error = adadim_(*arguments, code=2)
    assert "Usage" in error
    assert contents(Path()) == {}


def test_policies_lists_them_all():
    printed, _ = adadim_("policies")
    for name in study.policy_kinds():
        assert re.search(rf"\b{name}\b", printed)
    rows = json.loads(adadim_("policies", "--json")[0])
    assert [row["name"] for row in rows] == list(study.policy_kinds())
    assert [row["name"] for row in rows] == sorted((row["name"] for row in rows), key=str.lower)
    assert re.findall(r"^│ (\w+)", printed, flags=re.MULTILINE)[1:4] == ["ALBDim", "ALBNorm", "ALEXP"]
    assert all(row["what"].endswith(".") for row in rows)
    (linucb,) = [row for row in rows if row["name"] == "LinUCB"]
    assert {"ridge=0.1", "bonus='norm'", "dim=None"} <= set(linucb["parameters"])


def test_policies_marks_the_recommended_one_with_its_settings():
    printed, _ = adadim_("policies")
    first = printed.splitlines()[3]
    assert re.match(r"│ recommended +│ Start with this one: ", first)
    rows = json.loads(adadim_("policies", "--json")[0])
    (marked,) = [row for row in rows if "recommended" in row]
    settings = ", ".join(f"{key}={value}" for key, value in marked["recommended"].items())
    problem = adadim.Problem(np.eye(3), horizon=10)
    assert eval(f"adadim.{marked['name']}({settings})") == adadim.recommended(problem)
    shown, _ = adadim_("policies", "recommended")
    assert f"recommended is {marked['name']}({settings})." in " ".join(shown.split())
    for key, value in marked["recommended"].items():
        assert re.search(rf"^ {key} +{re.escape(value)} ", shown, re.MULTILINE)
    assert "adadim.recommended(problem)" in shown
    assert "EvidenceLinUCB()" not in shown


def every_command():
    """All commands by what is typed to call them, groups included."""

    def walk(command, typed):
        yield typed, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*typed, name))

    return dict(walk(typer.main.get_command(cli.app), ()))


EVERY_COMMAND = every_command()


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("typed", EVERY_COMMAND, ids=" ".join)
def test_help_fits_the_terminal(typed, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    printed, _ = adadim_(*typed, "--help")
    assert max(map(len, printed.splitlines())) <= width
    assert "…" not in printed
    words = set(re.sub(r"[│╭╮╰╯]", " ", printed).split())
    for parameter in EVERY_COMMAND[typed].params:  # no word of a help text is cut or broken
        assert set((getattr(parameter, "help", None) or "").replace("\\[", "[").split()) <= words
    # A line of a paragraph is as long as it can be: it is broken by the terminal, not by the source.
    lines = [line[1:].rstrip() for line in printed.partition("╭")[0].splitlines()]
    for line, following in itertools.pairwise(lines):
        if line and following and not following.startswith(" "):
            assert len(line) + 1 + len(following.split()[0]) > width - 2, (line, following)


@pytest.mark.parametrize("width", [80, 100])
def test_the_calls_in_the_help_of_serve_can_be_typed(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    printed, _ = adadim_("serve", "--help")
    text = re.sub(r" *\\ *\n +", " ", printed)
    calls = [shlex.split(line) for line in text.splitlines() if line.strip().startswith("curl ")]
    assert [call[1].rpartition("/")[2] for call in calls] == ["arms", "ask", "tell"]
    for call in calls:
        assert call[2] == "--json"
        assert isinstance(json.loads(call[3]), dict)


@pytest.mark.parametrize(
    ("typed", "usage"),
    [
        ("reproduce", "WHAT..."),
        ("policies", "[NAME]"),
        ("copy", "FROM TO"),
        ("report", "FOLDER..."),
        ("serve", "FILE"),
        ("frontier", ""),
    ],
)
def test_usage(typed, usage):
    printed, _ = adadim_(typed, "--help")
    assert re.search(rf"^ Usage: \w+ {typed} \[OPTIONS\] ?{re.escape(usage)} *$", printed, flags=re.MULTILINE)


def test_a_figure_that_is_not_there():
    _, error = adadim_("reproduce", "fig2aa", code=2)
    assert "Invalid value for 'WHAT': there is no figure or table 'fig2aa'; did you mean 'fig2a'?" in error
