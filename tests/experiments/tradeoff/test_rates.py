"""The study of rates, and the estimates from it."""

import math

import numpy as np
import polars as pl
import pytest
from tradeoff_cases import small_rates

from adadim import instances
from adadim.experiments import tradeoff
from adadim.experiments.tradeoff.plan import ALL_FEATURES
from adadim.study import StoreError, Study, load, run
from adadim.theory import lower_bound_family


def test_rates_study_is_what_it_says():
    plan = tradeoff.rates_study(trials=1)
    assert list(plan.policies) == [
        "LinUCB++ 0.5",
        "LinUCB++ 0.6",
        "LinUCB++ 0.75",
        "Smooth Corral 0.5",
        "Smooth Corral 0.75",
        "LinUCB",
        "oracle",
        "oracle" + ALL_FEATURES,
        "random",
    ]
    horizons = set()
    for name, spec in plan.instances.items():
        problem = tradeoff.RateCase(**plan.labels["instances"][name])
        assert problem.name == name
        horizons.add(problem.horizon)
        d_star = max(1, math.floor(problem.horizon**problem.alpha + 1e-9))
        if spec["kind"] == "sphere":
            assert spec["intrinsic_dim"] == d_star
            assert spec["dim"] == 2 * math.isqrt(problem.horizon) >= d_star
            assert spec["arms"] == 2 * spec["dim"]
        else:
            family = lower_bound_family(problem.horizon, spec["alpha"], delta=spec["delta"])
            hidden = problem.family.startswith("hidden")
            assert spec["target"] == (family.arms_count if hidden else 0)
            assert not hidden or family.dim <= d_star
    assert sorted(horizons) == [256, 1024, 4096, 16384]
    assert {round(math.log(t, 4), 9) % 1 for t in horizons} == {0}
    betas = [plan.policies[f"Smooth Corral {beta}"].get("beta", 0.5) for beta in (0.5, 0.75)]
    assert betas == [0.5, 0.75]
    for (instance, policy), cell in {(c.instance, c.policy): c for c in plan.cells}.items():
        if policy == "oracle":
            assert cell.policy_object.dim == plan.instances[instance]["intrinsic_dim"]
        if policy == "oracle" + ALL_FEATURES:
            assert cell.policy_object.dim is None
            assert "hidden" in instance


def test_estimates_are_the_slopes_of_the_worst_means(measured):
    estimates = tradeoff.rate_estimates(measured)
    assert [(e.policy, e.alpha) for e in estimates] == [
        (policy, alpha) for policy in ("LinUCB++ 0.5", "LinUCB", "oracle") for alpha in (0.0, 0.5)
    ]
    points = tradeoff.rate_points(measured)
    assert "random" not in points["policy"]
    for e in estimates:
        mine = points.filter((pl.col("policy") == e.policy) & (pl.col("alpha") == e.alpha))
        worst = mine.sort("mean").group_by("horizon", maintain_order=True).last().sort("horizon")
        kept = worst.filter(~pl.col("saturated") & (pl.col("mean") > 0))
        assert kept["horizon"].to_list() == list(e.horizons)
        assert kept["family"].to_list() == list(e.worst)
        assert sorted([*e.horizons, *e.saturated]) == [16, 64, 256]
        if len(kept) == 3:
            assert e.rate == pytest.approx(np.polyfit(np.log(kept["horizon"]), np.log(kept["mean"]), 1)[0])
            assert e.low <= e.rate <= e.high
        else:
            assert math.isnan(e.rate)
    theories = {(e.policy, e.alpha): e.theory for e in estimates}
    assert theories["LinUCB++ 0.5", 0.5] == 1.0
    assert theories["oracle", 0.5] == 0.75
    assert theories["LinUCB", 0.0] is None


def test_the_ceiling_is_the_loss_of_learning_nothing(measured):
    points = tradeoff.rate_points(measured).filter(policy="LinUCB")
    for row in points.iter_rows(named=True):
        name = tradeoff.RateCase(row["alpha"], row["horizon"], row["family"]).name
        p = measured.parameters(name)
        make = getattr(instances, p.pop("kind"))
        seeded = {} if make is instances.lower_bound else {"seed": 0}
        instance = make(**p, **seeded, replications=range(6))
        expected = row["horizon"] * (instance.best - instance.means.mean(axis=1)).mean()
        assert row["ceiling"] == pytest.approx(expected, rel=0.2)
        assert row["saturated"] == (row["mean"] > 0.8 * row["ceiling"])


def test_the_study_of_rates_resumes(measured, tmp_path):
    done = []

    def count(finished, total, unit):
        if unit is not None:
            done.append(str(unit))

    run(small_rates(trials=4), tmp_path, jobs=1, batch=2, progress=count)
    first = len(done)
    run(small_rates(trials=6), tmp_path, jobs=1, batch=2, progress=count)
    assert len(done) - first == first // 2  # two trials more for every cell that had four
    lost = sorted((tmp_path / "blocks").glob("*.parquet"))[3]
    lost.unlink()
    results = run(small_rates(trials=6), tmp_path, jobs=1, batch=2, progress=count)
    assert len(done) == first + first // 2 + 1
    assert lost.exists()
    assert repr(tradeoff.rate_estimates(results)) == repr(
        tradeoff.rate_estimates(measured)
    )  # NaN is not equal to itself


def test_unfinished_rates(tmp_path):
    results = run(small_rates(), tmp_path, jobs=1, batch=6)
    for path in (tmp_path / "blocks").glob("*.parquet"):
        path.unlink()
    with pytest.raises(StoreError, match="nothing is finished yet"):
        tradeoff.rate_points(load(results.folder))
    estimates = tradeoff.rate_estimates(load(results.folder))
    assert all(math.isnan(e.rate) and e.trials == 0 for e in estimates)


def test_rates_study_refuses():
    with pytest.raises(ValueError, match="at least two"):
        tradeoff.rates_study(horizons=[256])


def test_studies_without_labels_are_refused(tmp_path):
    sphere = {"kind": "sphere", "arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 20}
    study = Study("rates", {"alpha=0 T=20 uniform": sphere}, {"random": {"kind": "Random"}}, trials=1)
    results = run(study, tmp_path, jobs=1)
    for analysis in (tradeoff.rate_points, tradeoff.rate_estimates):
        with pytest.raises(StoreError, match=r"the manifest has no label .*; run the study again"):
            analysis(results)
