"""Ratios of mean regrets, and the summary of each policy: numbers that can be computed by hand."""

import numpy as np
import pytest
from made_up_comparison import by_name, stub

from adadim.errors import StoreError
from adadim.experiments import comparison
from adadim.study import Study, run


def test_ratio_of_means_by_hand():
    rows = by_name(comparison.ratios([stub({"a": {"oracle": [1, 3], "linucb++": [6, 10], "mine": [9, 3]}})]))
    assert rows["a", "mine", "oracle"].value == 3.0  # not the mean of 9 and 1
    assert rows["a", "mine", "linucb++"].value == 0.75
    assert rows["a", "linucb++", "oracle"].value == 4.0
    assert rows["a", "oracle", "oracle"].value == 1.0
    assert rows["a", "mine", "oracle"].regret == 6.0
    assert np.isnan(rows["a", "mine", "oracle"].low)  # two trials have no interval


def test_only_trials_that_every_policy_finished_count():
    table = {"a": {"oracle": [1, 2, 4], "linucb++": [3, 5, 7], "mine": [10, 40]}}
    rows = by_name(comparison.ratios([stub(table, numbers={("a", "mine"): [0, 2]})]))
    assert rows["a", "mine", "oracle"].value == 50 / 5
    assert rows["a", "linucb++", "oracle"].value == 10 / 5
    assert rows["a", "mine", "oracle"].trials == 2
    assert comparison.ratios([stub({"a": {"oracle": [], "linucb++": [1], "mine": [1]}})]) == []


def test_intervals_are_paired():
    """Regrets that differ a hundredfold between trials, and a ratio that does not."""
    oracle = 10.0 ** np.linspace(0, 2, 12)
    rows = by_name(comparison.ratios([stub({"a": {"oracle": oracle, "linucb++": 2 * oracle, "mine": 1.5 * oracle}})]))
    row = rows["a", "mine", "oracle"]
    np.testing.assert_allclose([row.value, row.low, row.high], 1.5, rtol=1e-12)


def test_interval_agrees_with_the_delta_method():
    rng = np.random.default_rng(1)
    x, y = rng.gamma(20, 1.0, 400), rng.gamma(30, 1.0, 400)
    row = by_name(comparison.ratios([stub({"a": {"oracle": x, "linucb++": x, "mine": y}})]))["a", "mine", "oracle"]
    ratio = y.mean() / x.mean()
    half = 1.96 * np.std(y - ratio * x, ddof=1) / np.sqrt(400) / x.mean()
    np.testing.assert_allclose([row.low, row.high], [ratio - half, ratio + half], atol=0.15 * half)


def test_no_ratio_to_a_reference_that_loses_nothing():
    table = {
        "easy": {"oracle": [0] * 8, "linucb++": [4] * 8, "mine": [2] * 8},
        "hard": {"oracle": [5] * 8, "linucb++": [5] * 8, "mine": [10] * 8},
    }
    results = stub(table)
    rows = by_name(comparison.ratios([results]))
    assert np.isnan(rows["easy", "mine", "oracle"].value)
    assert rows["easy", "mine", "linucb++"].value == 0.5
    found = {(s.policy, s.reference): s for s in comparison.policy_summaries([results])}
    assert (found["mine", "oracle"].families, found["mine", "oracle"].worst) == (1, 2.0)
    assert (found["mine", "linucb++"].families, found["mine", "linucb++"].median) == (2, 1.25)
    text = comparison.comparison_markdown(comparison.ratios([results]), comparison.policy_summaries([results]))
    assert "| easy | – | – | – |" in text
    only = {
        s.policy: s for s in comparison.policy_summaries([stub({"easy": table["easy"]})]) if s.reference == "oracle"
    }
    assert only["mine"].families == 0
    assert np.isnan(only["mine"].worst)


def test_summaries_by_hand():
    spread = np.linspace(-0.1, 0.1, 8)
    table = {
        name: {"oracle": 10 + spread, "linucb++": [20.0] * 8, "mine": [regret] * 8}
        for name, regret in (("a", 5.0), ("b", 30.0), ("c", 20.0), ("d", 10.0), ("e", 90.0))
    }
    found = {(s.policy, s.reference): s for s in comparison.policy_summaries([stub(table)])}
    mine = found["mine", "oracle"]
    np.testing.assert_allclose([mine.median, mine.worst], [2.0, 9.0], rtol=1e-12)
    assert mine.median_low < 2 < mine.median_high
    assert mine.worst_family == "e"
    assert mine.losses == ("e", "b", "c")  # d is a tie: 1 is in its interval
    assert found["mine", "linucb++"].losses == ("e", "b")
    assert found["oracle", "linucb++"].losses == ()
    text = comparison.comparison_markdown(comparison.ratios([stub(table)]), comparison.policy_summaries([stub(table)]))
    (line,) = (line for line in text.splitlines() if line.startswith("| mine |"))
    assert "9.00 [" in line
    assert "3 of 5: e, b, c |" in line


def test_unlucky_trials_by_hand():
    table = {
        "a": {"oracle": [1, 3], "linucb++": [6, 10], "mine": [9, 3]},  # the oracle's mean is 2
        "b": {"oracle": [1, 1, 1, 1], "linucb++": [1, 1, 1, 9], "mine": [2, 2, 2, 2.5]},
    }
    rows = by_name(comparison.ratios([stub(table)]))
    assert [rows[f, "mine", "oracle"].unlucky for f in "ab"] == [0.5, 0.25]
    assert rows["b", "linucb++", "oracle"].unlucky == 0.25
    found = {(s.policy, s.reference): s for s in comparison.policy_summaries([stub(table)])}
    assert found["mine", "oracle"].unlucky == pytest.approx((1 + 1) / 6)


def test_results_of_other_studies_are_refused(tmp_path):
    sphere = {"kind": "sphere", "arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 20}
    policies = {name: {"kind": "Random"} for name in ("oracle", "linucb++")}
    results = run(Study("regret-development", {"a": sphere}, policies, trials=1), tmp_path, jobs=1)
    with pytest.raises(StoreError, match="the manifest has no label 'split'; run the study again"):
        comparison.ratios([results])
