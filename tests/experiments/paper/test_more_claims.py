"""Claims that need more than the paper's figures: the footnote on beta, and whether the parameter was learned."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adadim
from adadim import paper
from adadim.experiments.paper import analysis
from adadim.study import from_spec, run
from command_line import adadim_

SMALL = [64, 2500]


@pytest.fixture
def _small(monkeypatch):
    """The paper's size, but small."""
    monkeypatch.setattr(analysis, "PAPER_DIM", 12)
    monkeypatch.setattr(analysis, "PAPER_ARMS", 24)
    monkeypatch.setattr(analysis, "PAPER_HORIZON", 64)
    monkeypatch.setattr(analysis, "LEARNING_ROUNDS", 60)


@pytest.mark.parametrize("variant", paper.VARIANTS)
def test_both_betas_at_the_papers_size(variant):
    plan = analysis.footnote_study(variant, SMALL, trials=1)
    whole = paper.study("fig2a", variant, trials=1)
    here, there = plan.instances["T=2500"], whole.instances["d12"]
    assert {key: there[key] for key in here} == here
    half, other = (from_spec(plan.policies[name]) for name in ("beta = 0.5", "beta = (1 + alpha)/2"))
    assert half == from_spec(whole.policies["linucb++"])
    assert replace(other, beta=0.5) == half
    assert other.beta == pytest.approx(0.66)
    assert plan.labels["variant"] == variant


@pytest.mark.usefixtures("_small")
def test_points_and_verdict_are_those_of_the_trials(tmp_path):
    results = run(analysis.footnote_study(horizons=[32, 64], trials=6), tmp_path, jobs=1)
    points = analysis.footnote_points(results)
    assert [point.horizon for point in points] == [32, 64]
    half, other = (results.final("T=64", policy) for policy in results.policies)
    assert points[1].ratio == pytest.approx(other.mean() / half.mean())
    assert points[1].low <= points[1].ratio <= points[1].high
    verdict = analysis.footnote_claim(results)
    assert verdict.value == pytest.approx((half - other).mean())
    assert (verdict.trials, verdict.unit, verdict.where) == (6, "reward", "5, footnote")


def test_lines_that_do_not_fall_never_cross():
    low, high = (analysis.FootnotePoint(t, 9, 9, 1.0, r, r, r, r, 8) for t, r in ((100, 1.5), (1000, 2.0)))
    assert analysis.overtaking([low, high])["measured"] == math.inf
    assert analysis.overtaking([high])["theory"] == pytest.approx(1000 * 2 ** (1 / 0.16))


def test_the_error_of_an_estimate_by_hand():
    """One feature, one arm, no noise: after n rounds the estimate is theta n / (n + 0.1)."""
    instance = adadim.Instance(np.ones((1, 1, 1)), theta=[0.5], horizon=40, noise=1e-12)
    error = analysis.parameter_errors(adadim.Random(), instance, rounds=40, dim=1)
    assert error == pytest.approx([0.1 / 40.1], rel=1e-6)


def test_a_policy_that_sees_everything_learns_and_one_that_sees_little_does_not():
    instance = adadim.instances.sphere(arms=40, dim=6, intrinsic_dim=3, horizon=600, replications=range(3))
    everything = analysis.parameter_errors(adadim.Random(), instance, 600, 3)
    little = analysis.parameter_errors(adadim.Greedy(), instance, 20, 3)
    assert everything.max() < 0.1 < little.mean()


@pytest.mark.usefixtures("_small", "working_folder", "tiny")
def test_the_commands():
    printed, _ = adadim_("study", "footnote", "-T", 32, "-T", 64, "--trials", 6, "--jobs", 1)
    assert printed.count("would overtake at") == 2
    table = pl.read_csv("results/footnote/footnote.csv")
    assert table["variant"].to_list() == ["released"] * 2 + ["theory"] * 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper.Figure, "instances", lambda self: {"d12": TINY})
        printed, _ = adadim_("study", "parameter", "--trials", 6)
    verdicts = json.loads(Path("results/parameter/parameter.json").read_text())
    assert [v["variant"] for v in verdicts] == ["released", "theory"]
    assert all(v["claim"] in printed for v in verdicts)
    errors = pl.read_csv("results/parameter/parameter.csv")["theory"]
    assert verdicts[1]["value"] == pytest.approx(0.1 - errors.mean())


TINY = {"kind": "sphere", "arms": 30, "dim": 14, "intrinsic_dim": 12, "horizon": 100, "noise": 0.1}
