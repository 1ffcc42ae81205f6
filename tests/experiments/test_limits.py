"""What no policy can do: the frontier, the lower bound as an experiment, empirical rates, pictures and commands."""

import dataclasses
import inspect
import json
import math
import os
import re

import numpy as np
import polars as pl
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import adadim
from adadim import Policy, instances, limits, theory
from adadim.cli import limits as commands
from adadim.limits.rates import EVERYTHING
from adadim.report import limits as pictures
from adadim.report import save
from adadim.study import Results, StoreError, Study, load, run
from adadim.theory import lower_bound_family

HORIZON, ALPHA, DELTAS = 200, 0.5, (0.04, 0.15, 0.6)  # 7 hard problems
KINDS = ("png", "pdf", "svg", "csv")


class Always:
    """Pulls the arm of a_0 for ever."""

    def __init__(self, problem, rng):
        pass

    def select(self):
        return 0

    def update(self, arm, reward):
        pass


class Peeker:
    """Looks for a hidden arm, round robin and then for good, only if the range of means tells that there is one."""

    def __init__(self, problem, rng):
        self.hard = problem.reward_range > 0.5
        self.sums, self.t = np.zeros(len(problem.features)), 0

    def select(self):
        explore = self.t < 6 * len(self.sums)
        return (self.t % len(self.sums) if explore else int(self.sums.argmax())) if self.hard else 0

    def update(self, arm, reward):
        self.t += 1
        if self.t <= 6 * len(self.sums):
            self.sums[arm] += reward


def every_policy():
    """Every public policy, made by default where it can be."""
    found = {"always a_0": adadim.Single(Always)}
    for name in adadim.__all__:
        kind = getattr(adadim, name)
        if inspect.isclass(kind) and issubclass(kind, Policy) and not inspect.isabstract(kind) and name != "Single":
            missing = dataclasses.MISSING
            assert all(f.default is not missing or f.default_factory is not missing for f in dataclasses.fields(kind))
            found[name] = kind()
    return found


@pytest.fixture(scope="module")
def bounds(tmp_path_factory):
    """Every policy of the library on the whole family, for a sweep of Delta."""
    plan = limits.lower_bound_study(every_policy(), horizon=HORIZON, alpha=ALPHA, deltas=DELTAS, trials=16)
    return run(plan, tmp_path_factory.mktemp("bounds"), jobs=1, batch=16)


def small_rates(**changes):
    policies = limits.rate_policies([0.5], [])
    settings = {"horizons": [16, 64, 256], "alphas": [0.0, 0.5], "dim": 16, "arms": 24, "trials": 6}
    return limits.rates_study(policies, **{**settings, **changes})


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return run(small_rates(), tmp_path_factory.mktemp("rates"), jobs=1)


# The frontier


def test_frontier_holds_the_values_of_c26():
    table = limits.frontier([0.5, 0.6, 0.75, 0.9], points=11)
    expected = {
        0.5: [0.5, 0.6, 0.7, 0.8, 0.9] + [1.0] * 6,
        0.6: [0.6, 0.6, 0.6, 0.7, 0.8, 0.9] + [1.0] * 5,
        0.75: [0.75] * 6 + [0.85, 0.95] + [1.0] * 3,
        0.9: [0.9] * 9 + [1.0] * 2,
    }
    grid = np.linspace(0, 1, 11)
    for beta, rates in expected.items():
        curve = table.filter(pl.col("beta") == beta)
        np.testing.assert_allclose(np.interp(grid, curve["alpha"], curve["rate"]), rates, atol=1e-12)
    line = table.filter(curve="non-adaptive")
    np.testing.assert_allclose(line["rate"], (1 + line["alpha"]) / 2)
    assert line["beta"].null_count() == line.height


@given(beta=st.floats(0.5, 0.999), points=st.integers(2, 7))
def test_frontier_has_its_corners_and_touches_the_line_once(beta, points):
    curve = limits.frontier([beta], points).filter(pl.col("beta") == beta)
    fine = np.linspace(0, 1, 401)
    np.testing.assert_allclose(
        np.interp(fine, curve["alpha"], curve["rate"]), theory.pareto_rate(fine, beta), atol=1e-12
    )
    at = np.interp(2 * beta - 1, curve["alpha"], curve["rate"])
    assert at == pytest.approx((1 + (2 * beta - 1)) / 2)
    assert (curve["rate"] >= (1 + curve["alpha"]) / 2 - 1e-12).all()


@given(taper=st.floats(0, 50), points=st.integers(2, 7))
def test_frontier_of_the_taper(taper, points):
    """A straight line from 1/2 + 1/(2 + s) at alpha = 0 to 1 at alpha = 1/2, above that of LinUCB told alpha."""
    curve = limits.frontier([0.5], points, tapers=[taper]).filter(pl.col("curve") == f"taper = {taper:g}")
    fine = np.linspace(0, 1, 201)
    start = 0.5 + 1 / (2 + taper)
    expected = np.minimum(start + 2 * (1 - start) * fine, 1.0)
    np.testing.assert_allclose(np.interp(fine, curve["alpha"], curve["rate"]), expected, atol=1e-12)
    assert (curve["rate"] >= (1 + curve["alpha"]) / 2 - 1e-12).all()


@pytest.mark.parametrize(("betas", "points"), [([], 5), ([0.4], 5), ([1.0], 5), ([0.5], 1), ([0.5], 2.5)])
def test_frontier_refuses(betas, points):
    with pytest.raises(ValueError, match="must"):
        limits.frontier(betas, points)


# The lower bound


def test_the_inequality_holds_for_every_policy_in_the_library(bounds):
    checks = limits.lower_bound_checks(bounds)
    assert len(checks) == len(every_policy()) * len(DELTAS)
    assert {check.verdict for check in checks} == {"holds"}
    for check in checks:
        assert (check.arms, check.targets, check.trials) == (7, 7, 16)
        family = lower_bound_family(HORIZON, ALPHA, delta=check.delta)
        pulls = 2 * check.easy / check.delta / family.arms_count
        assert check.bound == pytest.approx(max(family.average_regret_bound(np.full(7, pulls)), 0), abs=1e-9)
        assert check.slack == pytest.approx(check.hard - check.bound)
        assert check.low <= check.slack + 1e-9
        assert check.high >= check.slack - 1e-9


def test_checks_come_from_the_regrets_of_the_study(bounds):
    (check,) = [c for c in limits.lower_bound_checks(bounds) if (c.policy, c.delta) == ("LinUCB", 0.15)]
    finals = [bounds.final(f"delta=0.15 target={i}", "LinUCB") for i in range(8)]
    assert check.easy == pytest.approx(finals[0].mean())
    assert check.hard == pytest.approx(np.mean(finals[1:]))
    outcome = adadim.simulate(
        adadim.LinUCB(),
        instances.lower_bound(horizon=HORIZON, alpha=ALPHA, delta=0.15, replications=range(16)),
    )
    assert check.easy == pytest.approx(0.15 / 2 * outcome.pulls[:, 1:].sum(axis=1).mean())  # R_0 = (Delta/2) n
    assert check.easy_error == pytest.approx(finals[0].std() / 4, rel=0.1)
    assert check.hard_error == pytest.approx(np.mean(finals[1:], axis=0).std() / 4, rel=0.1)


class Halved(Results):
    """Charges half the regret on the hard problems."""

    def final(self, instance, policy):
        return super().final(instance, policy) * (0.5 if self.parameters(instance)["target"] else 1.0)


class WrongRival(Results):
    """Charges pulls against a_0, the best arm of the easy problem, not the best arm: Delta/2 a round too little."""

    def final(self, instance, policy):
        p = self.parameters(instance)
        return super().final(instance, policy) - (p["horizon"] * p["delta"] / 2 if p["target"] else 0.0)


class Shuffled(Results):
    """Files the regrets of the hard problems under the easy one and the other way round."""

    def final(self, instance, policy):
        target = self.parameters(instance)["target"]
        other = instance.replace(f"target={target}", "target=0" if target else "target=1")
        return super().final(other, policy)


@pytest.mark.parametrize(
    ("broken", "fewest"), [(Halved, {"always a_0"}), (WrongRival, {"always a_0", "SmoothCorral"}), (Shuffled, set())]
)
def test_broken_accounting_is_found(bounds, broken, fewest):
    sound, wrong = (limits.lower_bound_checks(kind(bounds.folder)) for kind in (Results, broken))
    assert not any(check.verdict == "violated" for check in sound)
    caught = {check.policy for check in wrong if check.verdict == "violated"}
    assert caught
    assert caught >= fewest
    for check in wrong:
        assert (check.verdict == "violated") == (check.high < -1e-6)


def test_a_policy_told_which_member_it_meets_would_break_the_bound():
    """Why `instances.lower_bound` tells every member's policy the same range of means."""
    delta = 0.6
    family = lower_bound_family(HORIZON, ALPHA, delta=delta)
    policy = adadim.Single(Peeker)
    fair, leaky = [], []
    for target in range(8):
        honest = instances.lower_bound(horizon=HORIZON, alpha=ALPHA, delta=delta, target=target, replications=range(4))
        assert honest.problem.reward_range.tolist() == [delta] * 4
        told = adadim.Instance(
            honest.problem.actions, theta=honest.theta, horizon=HORIZON, noise=0.5, replications=range(4)
        )
        fair.append(adadim.simulate(policy, honest).final.mean())
        leaky.append(adadim.simulate(policy, told).final.mean())
    assert leaky[0] == 0
    assert np.mean(leaky[1:]) < 0.9 * limits.bound_at(family, 0.0)
    assert np.mean(fair[1:]) > limits.bound_at(family, fair[0])


@given(
    horizon=st.integers(16, 10**6),
    alpha=st.floats(0.5, 1.0),
    delta=st.floats(1e-4, 0.8),
)
def test_closed_forms_obey_the_inequality(horizon, alpha, delta):
    uniform, stubborn = limits.closed_forms(horizon, alpha, [delta])
    assert uniform.verdict == stubborn.verdict == "holds"
    assert uniform.slack > 0
    assert stubborn.slack == pytest.approx(0, abs=1e-9 * horizon * delta)
    family = lower_bound_family(horizon, alpha, delta=delta)
    count = family.arms_count
    exact = family.average_regret_bound(np.full(count, horizon / (count + 1)))
    assert uniform.bound == pytest.approx(max(exact, 0.0), abs=1e-9 * horizon)
    weaker = family.average_regret_bound_from_regret(uniform.easy)
    assert limits.bound_at(family, uniform.easy, "paper") == pytest.approx(max(weaker, 0.0), abs=1e-9 * horizon)
    assert limits.bound_at(family, uniform.easy, "paper") <= uniform.bound + 1e-9 * horizon


def test_closed_forms_of_c27():
    uniform, stubborn = limits.closed_forms(2500, 0.5, [0.015625])
    found = [uniform.easy, uniform.hard, uniform.bound]
    np.testing.assert_allclose(found, [18.780048, 36.808894, 15.787553], atol=1e-6)
    family = lower_bound_family(2500, 0.5, delta=0.015625)
    assert limits.bound_at(family, uniform.easy, "paper") == pytest.approx(6.773130, abs=1e-6)
    assert (stubborn.easy, stubborn.hard, stubborn.bound) == (0.0, 19.53125, 19.53125)


def test_simulated_uniform_and_stubborn_policies_meet_their_closed_forms(bounds):
    measured = {(c.policy, c.delta): c for c in limits.lower_bound_checks(bounds)}
    for exact in limits.closed_forms(HORIZON, ALPHA, DELTAS):
        found = measured[{"uniform": "Random"}.get(exact.policy, exact.policy), exact.delta]
        assert found.easy == pytest.approx(exact.easy, rel=0.02, abs=1e-9)
        assert found.hard == pytest.approx(exact.hard, rel=0.02)


def test_targets_are_sampled_where_there_are_many(tmp_path):
    plan = limits.lower_bound_study(
        {"random": adadim.Random()}, horizon=400, alpha=0.6, deltas=[0.1], targets=3, trials=8, seed=5
    )
    targets = [spec.params["target"] for spec in plan.instances.values()]
    assert targets[0] == 0
    assert targets == sorted(set(targets))
    assert len(targets) == 4
    assert max(targets) <= 18
    other = limits.lower_bound_study(horizon=400, alpha=0.6, deltas=[0.1], targets=3, trials=1, seed=6)
    assert [spec.params["target"] for spec in other.instances.values()] != targets
    (check,) = limits.lower_bound_checks(run(plan, tmp_path, jobs=1))
    assert (check.arms, check.targets, check.verdict) == (18, 3, "holds")


def test_few_trials_decide_nothing(tmp_path):
    plan = limits.lower_bound_study({"random": adadim.Random()}, horizon=64, deltas=[0.3], trials=3)
    (check,) = limits.lower_bound_checks(run(plan, tmp_path, jobs=1))
    assert (check.verdict, check.trials) == ("undecided", 3)


def test_unfinished_and_foreign_studies(tmp_path):
    plan = limits.lower_bound_study({"random": adadim.Random()}, horizon=64, deltas=[0.3], trials=8)
    results = run(plan, tmp_path / "a", jobs=1, batch=8)
    for path in sorted((tmp_path / "a" / "blocks").glob("*.parquet"))[:1]:
        path.unlink()
    (check,) = limits.lower_bound_checks(load(results.folder))
    assert (check.trials, check.verdict) == (0, "undecided")
    sphere = {"kind": "sphere", "arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 20}
    foreign = run(Study("other", {"s": sphere}, {"random": adadim.Random()}, trials=1), tmp_path / "b", jobs=1)
    with pytest.raises(StoreError, match="no member of the lower-bound family"):
        limits.lower_bound_checks(foreign)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deltas": []}, "deltas must be"),
        ({"deltas": [0.1, 0.1]}, "deltas must be"),
        ({"deltas": [2.0]}, "delta must"),
        ({"targets": 0}, "targets must be"),
        ({"horizon": 9}, "Theorem 1 needs"),
    ],
)
def test_lower_bound_study_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        limits.lower_bound_study(**changes)


# Rates


def power_law(rng, horizons, rates, trials=24, spread=0.3):
    """Regrets (families, trials, horizons) around 3 T^rate, with noise that trials share over horizons in part."""
    t = np.asarray(horizons, dtype=float)
    shared = rng.normal(size=(len(rates), trials, 1))
    own = rng.normal(size=(len(rates), trials, len(t)))
    noise = np.exp(spread * (0.5 * shared + own))
    return 3.0 * t ** np.asarray(rates)[:, None, None] * noise


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.75, 1.0])
def test_slopes_of_power_laws_are_recovered(rate):
    horizons = [64, 256, 1024, 4096]
    regret = power_law(np.random.default_rng(1), horizons, [rate])
    found = limits.fit_slope(horizons, regret)
    assert found.value == pytest.approx(rate, abs=0.1)
    assert found.low < found.value < found.high
    assert found.kept == (True,) * 4
    exact = limits.fit_slope(horizons, power_law(np.random.default_rng(1), horizons, [rate], spread=0.0))
    assert [exact.value, exact.low, exact.high] == pytest.approx([rate] * 3, abs=1e-9)


def test_the_interval_covers():
    horizons, rng = [64, 256, 1024, 4096], np.random.default_rng(2)
    fits = [limits.fit_slope(horizons, power_law(rng, horizons, [0.6])) for _ in range(200)]
    covered = np.mean([fit.low <= 0.6 <= fit.high for fit in fits])
    assert 0.86 <= covered <= 0.99  # 95% but for the few trials
    assert np.mean([fit.value for fit in fits]) == pytest.approx(0.6, abs=0.01)


def test_the_worst_family_counts():
    horizons = [64, 256, 1024]
    regret = np.concatenate(
        [np.full((1, 6, 3), 40.0), 5.0 * np.sqrt(horizons) * np.ones((1, 6, 1)), np.ones((1, 6, 3))]
    )
    fit = limits.fit_slope(horizons, regret)
    assert fit.worst == (0, 1, 1)
    expected = np.polyfit(np.log(horizons), np.log([40.0, 80.0, 160.0]), 1)[0]
    assert fit.value == pytest.approx(expected)


def test_saturated_points_are_left_out():
    """A regret of T^0.5 capped by the ceiling looks linear at first; without the guard the slope is wrong."""
    horizons = [16, 64, 256, 1024, 4096]
    t = np.array(horizons, dtype=float)
    regret = np.minimum(0.5 * t, 8 * np.sqrt(t)) * np.ones((1, 8, 1))
    ceiling = 0.5 * t[None]
    guarded = limits.fit_slope(horizons, regret, ceiling)
    assert guarded.kept == (False, False, False, True, True)  # at T = 256 the regret is just at the ceiling
    assert math.isnan(guarded.value)
    longer = [*horizons, 16384]
    t = np.array(longer, dtype=float)
    regret, ceiling = np.minimum(0.5 * t, 8 * np.sqrt(t)) * np.ones((1, 8, 1)), 0.5 * t[None]
    assert limits.fit_slope(longer, regret, ceiling).value == pytest.approx(0.5)
    assert limits.fit_slope(longer, regret).value > 0.65


def test_fit_slope_refuses_other_shapes_and_bears_zeros():
    with pytest.raises(ValueError, match="regret must be"):
        limits.fit_slope([1, 2], np.ones((3, 2)))
    none = limits.fit_slope([16, 64, 256], np.zeros((1, 8, 3)))
    assert math.isnan(none.value)
    assert none.kept == (False,) * 3


def test_rates_study_is_what_it_says():
    plan = limits.rates_study(trials=1)
    assert list(plan.policies) == [
        "LinUCB++ 0.5",
        "LinUCB++ 0.6",
        "LinUCB++ 0.75",
        "Smooth Corral 0.5",
        "Smooth Corral 0.75",
        "LinUCB",
        "oracle",
        "oracle" + EVERYTHING,
        "random",
    ]
    horizons = set()
    for name, spec in plan.instances.items():
        problem = limits.Problem.parse(name)
        assert problem.name == name
        horizons.add(problem.horizon)
        d_star = max(1, math.floor(problem.horizon**problem.alpha + 1e-9))
        if spec.kind == "sphere":
            assert spec.params["intrinsic_dim"] == d_star
            assert spec.params["dim"] == 2 * math.isqrt(problem.horizon) >= d_star
            assert spec.params["arms"] == 2 * spec.params["dim"]
        else:
            family = lower_bound_family(problem.horizon, spec.params["alpha"], delta=spec.params["delta"])
            hidden = problem.family.startswith("hidden")
            assert spec.params["target"] == (family.arms_count if hidden else 0)
            assert not hidden or family.dim <= d_star
    assert sorted(horizons) == [256, 1024, 4096, 16384]
    assert {round(math.log(t, 4), 9) % 1 for t in horizons} == {0}
    betas = [plan.policies[f"Smooth Corral {beta}"].params.get("beta", 0.5) for beta in (0.5, 0.75)]
    assert betas == [0.5, 0.75]
    for (instance, policy), cell in {(c.instance, c.policy): c for c in plan.cells}.items():
        if policy == "oracle":
            assert cell.agent.dim == plan.instances[instance].params["intrinsic_dim"]
        if policy == "oracle" + EVERYTHING:
            assert cell.agent.dim is None
            assert "hidden" in instance


def test_estimates_are_the_slopes_of_the_worst_means(measured):
    estimates = limits.rate_estimates(measured)
    assert [(e.policy, e.alpha) for e in estimates] == [
        (policy, alpha) for policy in ("LinUCB++ 0.5", "LinUCB", "oracle") for alpha in (0.0, 0.5)
    ]
    points = limits.rate_points(measured)
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
    points = limits.rate_points(measured).filter(policy="LinUCB")
    for row in points.iter_rows(named=True):
        name = limits.Problem(row["alpha"], row["horizon"], row["family"]).name
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
    assert repr(limits.rate_estimates(results)) == repr(limits.rate_estimates(measured))  # NaN is not equal to itself


def test_unfinished_rates(tmp_path):
    results = run(small_rates(), tmp_path, jobs=1, batch=6)
    for path in (tmp_path / "blocks").glob("*.parquet"):
        path.unlink()
    with pytest.raises(StoreError, match="nothing is finished yet"):
        limits.rate_points(load(results.folder))
    estimates = limits.rate_estimates(load(results.folder))
    assert all(math.isnan(e.rate) and e.trials == 0 for e in estimates)


def test_rates_study_refuses():
    with pytest.raises(ValueError, match="at least two"):
        limits.rates_study(horizons=[256])
    with pytest.raises(ValueError, match="not the name"):
        limits.Problem.parse("easy")


# Pictures


def test_frontier_looks_like_figure_1():
    axis = pictures.draw_frontier().axes[0]
    dashed = [line for line in axis.get_lines() if line.get_linestyle() == "--"]
    assert len(dashed) == 1
    assert dashed[0].get_color() == "#0072B2"
    np.testing.assert_allclose(dashed[0].get_ydata(), (1 + dashed[0].get_xdata()) / 2)
    assert len(axis.get_lines()) == 5
    assert "alpha" in axis.get_xlabel()
    axis = pictures.draw_frontier(limits.frontier([0.5], tapers=[1.5, 4])).axes[0]
    labels = [line.get_label() for line in axis.get_lines() if line.get_linestyle() == ":"]
    assert labels == [r"tapered told $\alpha$: $s$ = 1.5", r"tapered told $\alpha$: $s$ = 4"]


def test_bounds_picture_shows_every_policy_and_no_point_in_the_shade(bounds):
    checks = limits.lower_bound_checks(bounds) + limits.closed_forms(HORIZON, ALPHA, DELTAS)
    left, right = pictures.draw_bounds(checks).axes
    names = list(dict.fromkeys(check.policy for check in checks))
    assert len(left.get_lines()) == len(right.get_lines()) == len(names)
    families = [lower_bound_family(HORIZON, ALPHA, delta=delta) for delta in DELTAS]
    for line, name in zip(left.get_lines(), names, strict=True):
        ((x,), (y,)) = line.get_data()
        assert x == max(c.easy for c in checks if c.policy == name)
        assert y == max(c.hard for c in checks if c.policy == name)
        assert y >= max(limits.bound_at(family, x) for family in families) - 1e-9
    for line in right.get_lines():
        x, y = line.get_data()
        assert (y >= 1 - 1 / 7 - x).all()


def test_bounds_picture_wants_one_family():
    mixed = limits.closed_forms(400, 0.5, [0.1]) + limits.closed_forms(900, 0.5, [0.1])
    with pytest.raises(ValueError, match="one horizon"):
        pictures.draw_bounds(mixed)


def test_rates_picture_shows_estimates_and_says_what_is_missing():
    rows = [
        limits.RateEstimate("mine", 0.0, 0.6, 0.5, 0.7, 0.5, (64, 256, 1024), (), ("uniform",) * 3, 8),
        limits.RateEstimate("mine", 0.5, math.nan, math.nan, math.nan, 1.0, (64,), (256, 1024), ("easy",), 8),
        limits.RateEstimate("$2 shop", 0.5, 0.9, 0.8, 1.0, None, (64, 256, 1024), (), ("uniform",) * 3, 8),
    ]
    figure = pictures.draw_rates(rows)
    (axis,) = figure.axes
    points = {c.get_label(): c.lines[0].get_ydata().tolist() for c in axis.containers}
    assert points == {"mine": [0.6], "$2 shop": [0.9]}
    assert "mine at 0.5" in figure.get_suptitle()
    assert "T from 64 to 1024" in figure.get_suptitle()
    table = pictures.rates_table(rows)
    assert table["horizons"].to_list() == ["64; 256; 1024", "64", "64; 256; 1024"]
    assert table["theory"].to_list() == [0.5, 1.0, None]


def test_files_are_complete_and_always_the_same(measured, tmp_path):
    estimates = limits.rate_estimates(measured)
    table = pictures.rates_table(estimates)
    written = [save(pictures.draw_rates(estimates), table, tmp_path / place / "rates") for place in ("a", "b")]
    assert [path.name for path in written[0]] == [f"rates.{kind}" for kind in KINDS]
    for one, other in zip(*written, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert sorted(os.listdir(tmp_path / "a")) == sorted(f"rates.{kind}" for kind in KINDS)
    assert pl.read_csv(written[0][-1])["policy"].to_list() == table["policy"].to_list()


# Commands


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    app = typer.Typer(pretty_exceptions_enable=False)
    commands.register(app)

    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


SMALL_BOUND = ("lower-bound", "-T", 64, "--delta", 0.1, "--delta", 0.5, "-n", 8, "-j", 1)
SMALL_RATES = ("rates", "-T", 16, "-T", 64, "-T", 256, "--alpha", 0, "--beta", 0.5, "--dim", 8, "-n", 6, "-j", 1)


def test_frontier_command(invoke, tmp_path):
    result = invoke("frontier", "--beta", 0.5, "--beta", 0.75, "--out", "pictures")
    assert result.exit_code == 0
    assert sorted(os.listdir(tmp_path / "pictures")) == sorted(f"frontier.{kind}" for kind in KINDS)
    assert result.output.count("wrote ") == 4
    told = json.loads(invoke("frontier", "--beta", 0.5, "--json").output)
    assert {row["curve"] for row in told} == {"non-adaptive", "beta = 0.5"}
    assert invoke("frontier", "--quiet").output == ""
    told = json.loads(invoke("frontier", "--beta", 0.5, "--taper", 1.5, "--json").output)
    assert {row["curve"] for row in told} == {"non-adaptive", "beta = 0.5", "taper = 1.5"}


def test_lower_bound_command(invoke, tmp_path):
    result = invoke(*SMALL_BOUND, "--policy", "LinUCB", "--policy", "LinUCBPlusPlus:beta=0.6,bonus=squared")
    assert result.exit_code == 0, result.output
    assert "LinUCBPlusPlus:beta=0.6" in result.output
    assert "always a_0" in result.output
    assert "violated" not in result.output
    folder = tmp_path / "results" / "lower-bound"
    assert sorted(os.listdir(folder / "figures")) == sorted(f"lower-bound.{kind}" for kind in KINDS)
    assert load(folder).study["policies"]["LinUCBPlusPlus:beta=0.6,bonus=squared"]["beta"] == 0.6
    told = json.loads(invoke(*SMALL_BOUND, "--policy", "LinUCB", "--json").output)
    assert [row["delta"] for row in told] == [0.1, 0.5]
    assert all(row["verdict"] == "holds" for row in told)


def test_lower_bound_command_fails_on_a_violation(invoke, monkeypatch):
    honest = limits.lower_bound_checks

    def wrong(results):
        return [dataclasses.replace(check, verdict="violated") for check in honest(results)]

    monkeypatch.setattr(limits, "lower_bound_checks", wrong)
    result = invoke(*SMALL_BOUND, "--policy", "Random")
    assert result.exit_code == 1
    assert "violated" in result.output


def test_lower_bound_command_takes_plugins(invoke, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nimport adadim\n\n\n"
        "@dataclass(frozen=True)\nclass Mine(adadim.Random):\n    size: int = 1\n"
    )
    result = invoke(*SMALL_BOUND, "--plugin", file, "--policy", "Mine:size=2")
    assert result.exit_code == 0, result.output
    assert "Mine:size=2" in result.output


def test_rates_command(invoke, tmp_path):
    result = invoke(*SMALL_RATES, "--corral-beta", 0.5, "--policy", "Greedy")
    assert result.exit_code == 0, result.output
    for name in ("LinUCB++ 0.5", "Smooth Corral 0.5", "oracle", "Greedy"):
        assert name in result.output
    folder = tmp_path / "results" / "rates"
    expected = [*(f"rates.{kind}" for kind in KINDS), "rates-points.csv"]
    assert sorted(os.listdir(folder / "figures")) == sorted(expected)
    assert pl.read_csv(folder / "figures" / "rates-points.csv")["horizon"].unique().sort().to_list() == [16, 64, 256]
    told = json.loads(invoke(*SMALL_RATES, "--corral-beta", 0.5, "--policy", "Greedy", "--json").output)
    assert {row["alpha"] for row in told} == {0.0}
    assert all(row["rate"] is None or isinstance(row["rate"], float) for row in told)


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
def test_bad_input_is_one_line_and_exit_code_2(invoke, arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in re.sub(r"\s+", " ", result.output)
    assert "Traceback" not in result.output


def test_help_teaches(invoke):
    for name, word in (("frontier", "Figure 1"), ("lower-bound", "Theorem 1"), ("rates", "six minutes")):
        text = re.sub(r"\s+", " ", invoke(name, "--help").output)
        assert word in text
        assert "Example: adadim" in text
