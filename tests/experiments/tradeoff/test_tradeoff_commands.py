"""The commands `frontier`, `lower-bound` and `rates`."""

import dataclasses
import json
import os
import re

import polars as pl
import pytest
from tradeoff_cases import KINDS
from typer.testing import CliRunner

from adadim import cli
from adadim.experiments import tradeoff
from adadim.study import load

pytestmark = pytest.mark.usefixtures("working_folder")

SMALL_BOUND = ("lower-bound", "-T", 64, "--delta", 0.1, "--delta", 0.5, "-n", 8, "-j", 1)
SMALL_RATES = ("rates", "-T", 16, "-T", 64, "-T", 256, "--alpha", 0, "--beta", 0.5, "--dim", 8, "-n", 6, "-j", 1)


def invoke(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def png_alone(monkeypatch):
    """From here on figures are drawn as PNG alone, which is faster."""
    monkeypatch.setattr("adadim.report.figures.FORMATS", ("png",))


def test_frontier_command(working_folder, monkeypatch):
    result = invoke("frontier", "--beta", 0.5, "--beta", 0.75, "--out", "pictures")
    assert result.exit_code == 0
    assert sorted(os.listdir(working_folder / "pictures")) == sorted(f"frontier.{kind}" for kind in KINDS)
    assert result.output.count("wrote ") == 4
    png_alone(monkeypatch)
    rows = json.loads(invoke("frontier", "--beta", 0.5, "--json").output)
    assert {row["curve"] for row in rows} == {"non-adaptive", "beta = 0.5"}
    assert invoke("frontier", "--quiet").output == ""
    printed = invoke("frontier", "--alpha", 0.3, "--alpha", 0.1, "--beta", 0.5, "--beta", 0.75).output
    assert re.search(r"alpha = +0\.1 +0\.3", printed)
    assert re.search(r"told alpha +0\.550 +0\.650", printed)
    assert re.search(r"beta = 0\.5 +0\.600 +0\.800", printed)
    assert re.search(r"beta = 0\.75 +0\.750 +0\.750", printed)
    rows = json.loads(invoke("frontier", "--alpha", 0.3, "--beta", 0.5, "--taper", 1.5, "--json").output)
    assert [(row["curve"], row["alpha"]) for row in rows] == [
        ("non-adaptive", 0.3),
        ("beta = 0.5", 0.3),
        ("taper = 1.5", 0.3),
    ]
    assert [row["rate"] for row in rows[:2]] == [0.65, 0.8]
    rows = json.loads(invoke("frontier", "--beta", 0.5, "--taper", 1.5, "--json").output)
    assert {row["curve"] for row in rows} == {"non-adaptive", "beta = 0.5", "taper = 1.5"}


def test_lower_bound_command(working_folder, monkeypatch):
    result = invoke(*SMALL_BOUND, "--policy", "LinUCB", "--policy", "LinUCBPlusPlus:beta=0.6,bonus=squared")
    assert result.exit_code == 0, result.output
    assert "LinUCBPlusPlus:beta=0.6" in result.output
    assert "always a_0" in result.output
    assert "violated" not in result.output
    folder = working_folder / "results" / "lower-bound"
    assert sorted(os.listdir(folder / "figures")) == sorted(f"lower-bound.{kind}" for kind in KINDS)
    assert load(folder).study["policies"]["LinUCBPlusPlus:beta=0.6,bonus=squared"]["beta"] == 0.6
    png_alone(monkeypatch)
    rows = json.loads(invoke(*SMALL_BOUND, "--policy", "LinUCB", "--json").output)
    assert [row["delta"] for row in rows] == [0.1, 0.5]
    assert all(row["verdict"] == "holds" for row in rows)


def test_few_trials_are_said_to_decide_nothing(one_format):
    note = "With fewer than 6 trials every verdict on a policy is undecided."
    assert note in invoke("lower-bound", "-T", 64, "--trials", 5, "--delta", 0.5, "--policy", "Random").output
    assert note not in invoke("lower-bound", "-T", 64, "--trials", 6, "--delta", 0.5, "--policy", "Random").output


def test_lower_bound_command_fails_on_a_violation(monkeypatch, one_format):
    honest = tradeoff.lower_bound_checks

    def wrong(results):
        return [dataclasses.replace(check, verdict="violated") for check in honest(results)]

    monkeypatch.setattr(tradeoff, "lower_bound_checks", wrong)
    result = invoke(*SMALL_BOUND, "--policy", "Random")
    assert result.exit_code == 1
    assert "violated" in result.output


def test_lower_bound_command_takes_plugins(working_folder, one_format):
    file = working_folder / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nimport adadim\n\n\n"
        "@dataclass(frozen=True)\nclass Mine(adadim.Random):\n    size: int = 1\n"
    )
    result = invoke(*SMALL_BOUND, "--plugin", file, "--policy", "Mine:size=2")
    assert result.exit_code == 0, result.output
    assert "Mine:size=2" in result.output


def test_rates_command(working_folder, monkeypatch):
    result = invoke(*SMALL_RATES, "--corral-beta", 0.5, "--policy", "Greedy")
    assert result.exit_code == 0, result.output
    for name in ("LinUCB++ 0.5", "Smooth Corral 0.5", "oracle", "Greedy"):
        assert name in result.output
    folder = working_folder / "results" / "rates"
    expected = [*(f"rates.{kind}" for kind in KINDS), "rates-points.csv"]
    assert sorted(os.listdir(folder / "figures")) == sorted(expected)
    assert pl.read_csv(folder / "figures" / "rates-points.csv")["horizon"].unique().sort().to_list() == [16, 64, 256]
    png_alone(monkeypatch)
    rows = json.loads(invoke(*SMALL_RATES, "--corral-beta", 0.5, "--policy", "Greedy", "--json").output)
    assert {row["alpha"] for row in rows} == {0.0}
    assert all(row["rate"] is None or isinstance(row["rate"], float) for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("frontier", "--beta", 1.5), "beta must lie in"),
        (("lower-bound", "-T", 8), "Theorem 1 needs"),
        (("lower-bound", "--policy", "LinUBC"), "did you mean 'LinUCB'"),
        (("lower-bound", "--policy", "LinUCB:dim"), "expected KEY=VALUE"),
        (("rates", "-T", 64), "at least two"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in re.sub(r"\s+", " ", result.output)
    assert "Traceback" not in result.output


def test_help_teaches():
    for name, word in (("frontier", "Figure 1"), ("lower-bound", "Theorem 1"), ("rates", "six minutes")):
        text = re.sub(r"\s+", " ", invoke(name, "--help").output)
        assert word in text
        assert "Example: adadim" in text
