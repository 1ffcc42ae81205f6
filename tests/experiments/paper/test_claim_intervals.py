"""Intervals of claims: joint and paired resampling of trials, and several statistics at once."""

import numpy as np
import pytest
from made_up_figures import ALL_POLICIES, CLAIM, RIVALS, TRIALS, judge, level, noise, row, world

from adadim import paper


def quantiles(values):
    return np.quantile(values, [0.025, 0.975])


def test_the_interval_is_that_of_an_independent_bootstrap():
    made = world("fig2a", means={"dynamic-balancing": 22}, spreads={"dynamic-balancing": 5.0, "linucb++": 2.0})
    found = row(judge({"fig2a": made}), "LinUCB++ has less regret than Dynamic Balancing at d* = 12", "fig2a")
    gaps = made.final("d12", "dynamic-balancing") - made.final("d12", "linucb++")
    assert found.value == pytest.approx(gaps.mean())
    rng = np.random.default_rng(1)
    means = [rng.choice(gaps, TRIALS).mean() for _ in range(20_000)]
    error = gaps.std(ddof=1) / np.sqrt(TRIALS)
    assert [found.low, found.high] == pytest.approx(list(quantiles(means)), abs=0.15 * error)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def least(parts):
    """Interval of the smallest of several statistics, from their resamples (one row each)."""
    lows = [np.percentile(part, 2.5) for part in parts]
    highs = [np.percentile(part, 100 - 2.5 / len(parts)) for part in parts]
    return [min(lows), min(highs)]


def test_the_interval_of_a_smallest_difference():
    spreads = dict.fromkeys(ALL_POLICIES, 3.0)
    near = {("linucb", d): level("fig2b", d, "linucb++") + 1 + d / 10 for d in paper.FIGURES["fig2b"].dims}
    made = world("fig2b", means=near, spreads=spreads)
    found = row(judge({"fig2b": made}), "LinUCB++ has less regret than LinUCB at every alpha", "fig2b")
    gaps = [made.final(f"d{d}", "linucb") - made.final(f"d{d}", "linucb++") for d in (5, 10, 15, 20, 25, 30, 35)]
    assert found.value == pytest.approx(1.5)
    rng, resampled = np.random.default_rng(2), []
    for _ in range(10_000):
        chosen = rng.integers(0, TRIALS, TRIALS)
        resampled.append([gap[chosen].mean() for gap in gaps])
    assert [found.low, found.high] == pytest.approx(least(np.transpose(resampled)), abs=0.12)


def test_the_interval_of_a_smallest_spread():
    made = world("fig2a", spreads={"linucb++": 2.0, **dict.fromkeys(RIVALS, 3.0), "oracle": 2.5})
    claim = "The spread of LinUCB++ over trials is smaller than every other algorithm's, the oracle's included"
    found = row(judge({"fig2a": made}), claim, "fig2a")
    assert found.value == pytest.approx(0.5)
    ours, *others = (made.final("d12", policy) for policy in ("linucb++", "oracle", *RIVALS))
    rng, resampled = np.random.default_rng(3), []
    for _ in range(5_000):
        chosen = rng.integers(0, TRIALS, TRIALS)
        resampled.append([other[chosen].std(ddof=1) - ours[chosen].std(ddof=1) for other in others])
    assert [found.low, found.high] == pytest.approx(least(np.transpose(resampled)), abs=0.06)


def test_ties_at_every_alpha_are_undecided():
    # The smallest of seven differences that are 0 in truth is negative in most samples, and more so in a resample.
    spreads = dict.fromkeys(ALL_POLICIES, 3.0)
    ties = {("linucb", d): level("fig2b", d, "linucb++") for d in paper.FIGURES["fig2b"].dims}
    claim = "LinUCB++ has less regret than LinUCB at every alpha"
    made = world("fig2b", means=ties, spreads=spreads)
    for d in (5, 10, 15, 20, 25, 30, 35):  # as chance would have it: about one standard error
        made.regret[f"d{d}", "linucb"] = made.regret[f"d{d}", "linucb"] + (0.6 if d % 2 else -0.6)
    found = row(judge({"fig2b": made}), claim, "fig2b")
    assert found.value == pytest.approx(-0.6)
    assert found.verdict == "undecided"


def test_differences_are_paired():
    # Instances differ by 1000 from trial to trial, policies on one instance by 1 on average.
    shared = 5000 + 1000 * noise(TRIALS, "instances")
    made = world("fig2a", means={"linucb": 21.0, "linucb++": 20.0}, spreads={"linucb": 1.0, "linucb++": 1.0})
    for cell in made.regret:
        made.regret[cell] = made.regret[cell] + shared[:, None]
    paired = row(judge({"fig2a": made}), CLAIM, "fig2a")
    assert paired.verdict == "holds"
    assert paired.value == pytest.approx(1)
    assert paired.high - paired.low < 2
    # Other pairs, the same means: nothing can be said.
    made.regret["d12", "linucb"] = made.regret["d12", "linucb"][::-1]
    unpaired = row(judge({"fig2a": made}), CLAIM, "fig2a")
    assert unpaired.value == pytest.approx(1)
    assert unpaired.verdict == "undecided"
    assert unpaired.high - unpaired.low > 200


def test_trials_are_resampled_jointly_over_alpha_and_over_figures():
    pair = {name: world(name) for name in ("fig2b", "fig3b")}
    claim = "The regret of Smooth Corral grows faster in alpha with an expressive action set than without"
    before = row(judge(pair), claim, "fig3b")
    tilt = 50 * noise(TRIALS, "tilt")[:, None]  # how fast regret grows in a trial, in either figure
    for made in pair.values():
        for (instance, policy), regret in made.regret.items():
            made.regret[instance, policy] = (
                regret + 1000 + tilt * int(instance[1:]) + 3000 * noise(TRIALS, "b")[:, None]
            )
    after = row(judge(pair), claim, "fig3b")
    assert [after.value, after.low, after.high] == pytest.approx([before.value, before.low, before.high], rel=1e-6)
