"""The lower bound as an experiment."""

import numpy as np
import pytest
from tradeoff_cases import ALPHA, DELTAS, HARD, HORIZON, TRIALS, every_policy

import adadim
from adadim import instances
from adadim.experiments import tradeoff
from adadim.study import StoreError, Study, load, run
from adadim.theory import lower_bound_family


def test_the_inequality_holds_for_every_policy_in_the_library(bound_checks):
    assert len(bound_checks) == len(every_policy()) * len(DELTAS)
    assert {check.verdict for check in bound_checks} == {"holds"}
    for check in bound_checks:
        assert (check.arms, check.targets, check.trials) == (HARD, HARD, TRIALS)
        family = lower_bound_family(HORIZON, ALPHA, delta=check.delta)
        pulls = 2 * check.easy / check.delta / family.arms_count
        assert check.bound == pytest.approx(max(family.average_regret_bound(np.full(HARD, pulls)), 0), abs=1e-9)
        assert check.slack == pytest.approx(check.hard - check.bound)
        assert check.low <= check.slack + 1e-9
        assert check.high >= check.slack - 1e-9


def test_checks_come_from_the_regrets_of_the_study(bounds, bound_checks):
    delta = DELTAS[-1]
    (check,) = [c for c in bound_checks if (c.policy, c.delta) == ("LinUCB", delta)]
    finals = [bounds.final(f"delta={delta:g} target={i}", "LinUCB") for i in range(HARD + 1)]
    assert check.easy == pytest.approx(finals[0].mean())
    assert check.hard == pytest.approx(np.mean(finals[1:]))
    outcome = adadim.simulate(
        adadim.LinUCB(),
        instances.lower_bound(horizon=HORIZON, alpha=ALPHA, delta=delta, replications=range(TRIALS)),
    )
    assert check.easy == pytest.approx(delta / 2 * outcome.pulls[:, 1:].sum(axis=1).mean())  # R_0 = (Delta/2) n
    assert check.easy_error == pytest.approx(finals[0].std() / TRIALS**0.5, rel=0.1)
    assert check.hard_error == pytest.approx(np.mean(finals[1:], axis=0).std() / TRIALS**0.5, rel=0.1)


def test_targets_are_sampled_where_there_are_many(tmp_path):
    plan = tradeoff.lower_bound_study(
        {"random": adadim.Random()}, horizon=400, alpha=0.6, deltas=[0.1], targets=3, trials=8, seed=5
    )
    targets = [spec["target"] for spec in plan.instances.values()]
    assert targets[0] == 0
    assert targets == sorted(set(targets))
    assert len(targets) == 4
    assert max(targets) <= 18
    other = tradeoff.lower_bound_study(horizon=400, alpha=0.6, deltas=[0.1], targets=3, trials=1, seed=6)
    assert [spec["target"] for spec in other.instances.values()] != targets
    (check,) = tradeoff.lower_bound_checks(run(plan, tmp_path, jobs=1))
    assert (check.arms, check.targets, check.verdict) == (18, 3, "holds")


def test_few_trials_decide_nothing(tmp_path):
    plan = tradeoff.lower_bound_study({"random": adadim.Random()}, horizon=64, deltas=[0.3], trials=3)
    (check,) = tradeoff.lower_bound_checks(run(plan, tmp_path, jobs=1))
    assert (check.verdict, check.trials) == ("undecided", 3)


def test_unfinished_and_foreign_studies(tmp_path):
    plan = tradeoff.lower_bound_study({"random": adadim.Random()}, horizon=64, deltas=[0.3], trials=8)
    results = run(plan, tmp_path / "a", jobs=1, batch=8)
    for path in sorted((tmp_path / "a" / "blocks").glob("*.parquet"))[:1]:
        path.unlink()
    (check,) = tradeoff.lower_bound_checks(load(results.folder))
    assert (check.trials, check.verdict) == (0, "undecided")
    sphere = {"kind": "sphere", "arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 20}
    foreign = run(Study("other", {"s": sphere}, {"random": adadim.Random()}, trials=1), tmp_path / "b", jobs=1)
    with pytest.raises(StoreError, match="no member of the lower-bound family"):
        tradeoff.lower_bound_checks(foreign)


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
        tradeoff.lower_bound_study(**changes)
