"""A prior for each level: against textbook evidence, a grid of all priors, and the prior of all columns together."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from adadim.core.levels import ColumnLevels
from adadim.models.level_prior import (
    LARGE_RIDGES,
    LevelPrior,
    _Fit,
    contributions_text,
    level_contributions,
    rank_weights,
)
from adadim.models.priors import CONSTANT_WIDTH, RELATIVE_RIDGES, EvidencePrior
from adadim.models.statistics import ArmSums, Moments

EXPONENTS = (0.0, 0.9, 1.75)
LEVEL_RIDGES = np.append(RELATIVE_RIDGES, LARGE_RIDGES)


def one(constant=True, factor=20.0, doubt=3.0):
    return EvidencePrior(EXPONENTS, factor, doubt, constant)


def draw(n=80, sizes=(3, 5, 6), weights=(1.0, 0.3, 0.0), seed=0, arms=None):
    """Features, rewards and levels; each level matters by its weight."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n if arms is None else arms, sum(sizes)))
    x = x if arms is None else x[rng.integers(arms, size=n)]
    theta = np.concatenate([w * rng.standard_normal(size) for size, w in zip(sizes, weights, strict=True)])
    ends = dict(zip("abcdef", itertools.accumulate(sizes), strict=False))
    return x, 2.0 + x @ theta + 0.5 * rng.standard_normal(n), ColumnLevels.of(ends, sum(sizes))


def moments(x, rewards):
    sums = Moments.zeros(x.shape[1])
    sums.add(x, rewards)
    return sums


def by_arm(x, rewards):
    distinct, at = np.unique(x, axis=0, return_inverse=True)
    sums = np.bincount(at, rewards, minlength=len(distinct))
    return ArmSums(distinct, np.bincount(at).astype(float), sums, float(rewards @ rewards))


def longest(x):
    return float((x**2).sum(axis=1).max())


def fit_of(prior, data, x):
    return _Fit(prior, data, longest(x), np.ones(x.shape[1]), *prior.one.response(data))


def textbook(x, rewards, precisions, constant):
    """Log of the integral over sigma of N(rewards; 0, sigma^2 (1 + X Lambda^-1 X^T)) / sigma, up to a constant.

    With a constant, of contrasts of the rewards: an orthonormal basis of what is orthogonal to the vector of ones.
    """
    n = len(rewards)
    if constant:
        contrasts = np.linalg.svd(np.ones((1, n)))[2][1:]
        x, rewards, n = contrasts @ x, contrasts @ rewards, n - 1
    covariance = np.eye(n) + (x / precisions) @ x.T
    _, logdet = np.linalg.slogdet(covariance)
    return -0.5 * logdet - 0.5 * n * math.log(rewards @ np.linalg.solve(covariance, rewards))


def precisions_of(fit, levels, choices):
    parts = zip(levels.slices.values(), choices, strict=True)
    return np.concatenate(
        [fit.ridges[at] * levels.rank_array[part].astype(float) ** EXPONENTS[s] for part, (s, at) in parts]
    )


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("kind", ["by feature", "by arm", "few arms"])
def test_the_evidence_of_a_level_while_the_others_hold_is_the_textbook_s(kind, constant):
    x, rewards, levels = draw(arms={"by feature": None, "by arm": 30, "few arms": 9}[kind])
    data = [moments(x, rewards) if kind == "by feature" else by_arm(x, rewards)]
    fit = fit_of(LevelPrior(one(constant), levels), data, x)
    held = [(1, 6), (0, 9), (2, 12)]
    for level in range(3):
        logs, without = fit.log_evidences(level, held)
        assert logs.shape == (3, len(LEVEL_RIDGES))
        expected = np.empty_like(logs)
        for setting in np.ndindex(logs.shape):
            precisions = precisions_of(fit, levels, [*held[:level], setting, *held[level + 1 :]])
            expected[setting] = textbook(x, rewards, precisions, constant)
        infinite = precisions_of(fit, levels, held)
        infinite[list(levels.slices.values())[level]] = 1e30
        left_out = textbook(x, rewards, infinite, constant)
        np.testing.assert_allclose(logs - without, expected - left_out, atol=1e-7)


def test_with_a_constant_for_each_parameter_too():
    x, rewards, levels = draw(n=120)
    parameter = np.arange(120) % 3
    rewards = rewards + parameter
    data = [moments(x[parameter == k], rewards[parameter == k]) for k in range(3)]
    fit = fit_of(LevelPrior(one(), levels), data, x)
    held = [(1, 6), (0, 9), (2, 12)]
    logs, _ = fit.log_evidences(0, held)
    column, centred = CONSTANT_WIDTH * math.sqrt(longest(x)), rewards - rewards.mean()

    def joint(choices):
        precisions, total, rows = precisions_of(fit, levels, choices), 0.0, 0.0
        wide = np.append(fit.ridges[choices[0][1]] / column**2, precisions)
        for k in range(3):
            inputs = np.column_stack([np.ones((parameter == k).sum()), x[parameter == k]])
            covariance = np.eye(len(inputs)) + (inputs / wide) @ inputs.T
            total -= 0.5 * np.linalg.slogdet(covariance)[1]
            rows += centred[parameter == k] @ np.linalg.solve(covariance, centred[parameter == k])
        return total - 0.5 * (len(x) - 1) * math.log(rows)

    expected = np.array([[joint([(s, at), *held[1:]]) for at in range(len(LEVEL_RIDGES))] for s in range(3)])
    np.testing.assert_allclose(logs - logs.max(), expected - expected.max(), atol=1e-7)


def test_with_a_noise_that_is_known_too():
    x, rewards, levels = draw()
    known = LevelPrior(EvidencePrior(EXPONENTS, 20.0, noise=0.5), levels)
    fit, held = fit_of(known, [moments(x, rewards)], x), [(1, 3), (0, 5), (2, 8)]
    for level in range(3):
        logs, without = fit.log_evidences(level, held)

        def density(precisions):
            return multivariate_normal.logpdf(rewards, cov=0.25 * (np.eye(len(x)) + (x / precisions) @ x.T))

        infinite = precisions_of(fit, levels, held)
        infinite[list(levels.slices.values())[level]] = 1e30
        expected = [density(precisions_of(fit, levels, [*held[:level], (1, at), *held[level + 1 :]])) for at in (0, 9)]
        np.testing.assert_allclose(logs[1, [0, 9]] - without, np.array(expected) - density(infinite), atol=1e-6)
    assert known([moments(x, rewards)], longest(x), np.ones(14), 0).noise == 0.5


@pytest.mark.parametrize("kind", ["by feature", "by arm", "few arms"])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 80])
def test_one_level_is_the_prior_of_all_columns(kind, constant, n):
    x, rewards, _ = draw(arms={"by feature": None, "by arm": 30, "few arms": 9}[kind])
    data = [moments(x[:n], rewards[:n]) if kind == "by feature" else by_arm(x[:n], rewards[:n])]
    whole = ColumnLevels.of({"all": x.shape[1]}, x.shape[1])
    units = np.linspace(0.5, 2.0, x.shape[1])
    for pending in (0, 7):
        alone = one(constant)(data, longest(x), units, pending)
        each = LevelPrior(one(constant), whole)(data, longest(x), units, pending)
        np.testing.assert_allclose(each.scale, alone.scale, rtol=1e-12)
        values = [[b.ridge, b.offset, b.noise, b.exponent] for b in (each, alone)]
        np.testing.assert_allclose(*values, rtol=1e-9)


@pytest.mark.parametrize(("seed", "weight"), list(enumerate([0.0, 0.1, 0.5, 1.0])))
def test_the_levels_chosen_are_about_as_likely_as_the_best_of_a_grid_of_all_priors(seed, weight):
    x, rewards, levels = draw(n=150, sizes=(4, 8), weights=(1.0, weight), seed=seed)
    fit = fit_of(LevelPrior(one(factor=1.0, doubt=1.0), levels), [moments(x, rewards)], x)  # nothing in doubt
    settings = list(itertools.product(range(3), range(len(LEVEL_RIDGES))))
    pairs = list(itertools.product(settings, settings))
    precisions = np.array([precisions_of(fit, levels, pair) for pair in pairs])
    centred, rest = x - x.mean(axis=0), rewards - rewards.mean()
    v, b = centred.T @ centred + precisions[:, :, None] * np.eye(12), centred.T @ rest
    logdets = np.linalg.slogdet(v)[1] - np.log(precisions).sum(axis=1)
    residuals = rest @ rest - np.linalg.solve(v, np.broadcast_to(b[:, None], (len(pairs), 12, 1)))[..., 0] @ b
    logs = -0.5 * (logdets + (len(x) - 1) * np.log(residuals))
    found = logs[pairs.index(tuple(fit.tuned(1.0)))]
    assert found >= logs.max() - 0.5  # an exponent is chosen by its evidence over all ridges
    assert np.median(logs) < logs.max() - 5  # so that a prior drawn at random is not


def test_doubt_is_kept_by_the_widest_prior_and_decisions_pending_reduce_it():
    x, rewards, levels = draw(n=40, weights=(1.0, 0.3, 0.1))
    data, scales = [moments(x, rewards)], (longest(x), np.ones(x.shape[1]))
    likeliest = LevelPrior(one(factor=1.0, doubt=1.0), levels)(data, *scales, 0)
    cautious, late = (LevelPrior(one(), levels)(data, *scales, pending) for pending in (0, 10**9))
    widths = [belief.scale[1:] / math.sqrt(belief.ridge) for belief in (likeliest, cautious, late)]
    assert (widths[1] >= widths[0] * (1 - 1e-12)).all()
    assert (widths[1] > 1.5 * widths[0]).any()
    np.testing.assert_allclose(widths[2], widths[0])


def test_units_and_the_size_of_rewards_do_not_matter():
    x, rewards, levels = draw()
    prior, units = LevelPrior(one(), levels), 10.0 ** np.arange(-7, 7)
    plain = prior([moments(x, rewards)], longest(x), np.ones(14), 0)
    scaled = prior([moments(x * units, 1e6 * rewards)], longest(x), units, 0)
    np.testing.assert_allclose(scaled.scale[1:] * units, plain.scale[1:], rtol=1e-9)
    np.testing.assert_allclose([scaled.noise, scaled.ridge], [1e6 * plain.noise, plain.ridge], rtol=1e-9)


def test_a_level_that_says_nothing_is_as_good_as_left_out():
    x, rewards, levels = draw(n=3000, weights=(1.0, 1.0, 0.0))
    belief = LevelPrior(one(), levels)([moments(x, rewards)], longest(x), np.ones(14), 0)
    precisions = belief.ridge / belief.scale[1:] ** 2
    assert precisions[8:].min() > 20 * precisions[:8].max()


def test_ranks_need_not_be_positions():
    x, rewards, levels = draw()
    ranked = ColumnLevels(levels.ends, 14, (1, 2, 3, *[1] * 5, 1, 1, 2, 2, 3, 3))
    belief = LevelPrior(EvidencePrior((1.75,), 20.0), ranked)([moments(x, rewards)], longest(x), np.ones(14), 0)
    ratios = belief.scale / np.repeat(belief.scale[[0, 3, 8]], (3, 5, 6))
    np.testing.assert_allclose(ratios, rank_weights(np.array(ranked.ranks), 1.75))


def test_no_data_and_rewards_that_are_alike_say_nothing():
    x, _, levels = draw()
    prior = LevelPrior(one(), levels)
    for data in ([], [Moments.zeros(14)], [moments(x, np.full(len(x), 3.0))]):
        belief = prior(data, 2.0, np.ones(14), 0)
        assert math.isnan(belief.noise)
        assert belief.ridge == 2.0 * LEVEL_RIDGES[0]
    assert not any(found.matters for found in level_contributions(Moments.zeros(14), levels))


def test_what_each_level_contributes():
    x, rewards, levels = draw(n=2000, weights=(1.0, 0.5, 0.0))
    found = {each.name: each for each in level_contributions(moments(x, rewards), levels)}
    assert [each.matters for each in found.values()] == [True, True, False]
    centred, response_ = x - x.mean(axis=0), rewards - rewards.mean()

    def unexplained(columns):
        return np.linalg.lstsq(centred[:, columns], response_)[1][0]

    for name, part in levels.slices.items():
        without = np.delete(np.arange(14), part)
        share = (unexplained(without) - unexplained(np.arange(14))) / (response_ @ response_)
        assert found[name].share == pytest.approx(share, abs=2e-3)
    first, ratio = found["a"].share, found["b"].share / found["a"].share
    expected = f"'a' explains {100 * first:.2g}% of the variance of the rewards, 'b' {ratio:.2g} times as much"
    expected += "; nothing so far: 'c'"
    assert contributions_text(list(found.values())) == expected


def test_columns_after_the_last_level_are_one_of_their_own():
    assert list(ColumnLevels.of([2], 5).slices) == ["first 2", "rest"]
    assert list(ColumnLevels.of({"rest": 2}, 5).slices) == ["rest", "rest 2"]
    assert ColumnLevels.of({"rest": 2}, 5).slices["rest 2"] == slice(2, 5)
