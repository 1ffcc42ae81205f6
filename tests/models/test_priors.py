"""Priors as functions of sums: no learner is needed to test them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import adadim
from adadim.models.prefixes import PrefixPrior, average
from adadim.models.priors import (
    CONSTANT_WIDTH,
    RELATIVE_RIDGES,
    Belief,
    EvidencePrior,
    RidgePrior,
    log_evidence,
    order_contradiction,
    prior_precisions,
    taper_weights,
)
from adadim.models.statistics import ArmSums, Moments
from refusals import assert_refuses

PRIOR = EvidencePrior((0.0, 0.9, 1.75), factor=20.0, doubt=3.0, constant=True)


def draw(n=60, dim=4, seed=0, constant=3.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, dim))
    return x, constant + x @ np.r_[1.0, -0.5, np.zeros(dim - 2)] + 0.3 * rng.standard_normal(n)


def moments(x, rewards):
    sums = Moments.zeros(x.shape[1])
    sums.add(x, rewards)
    return sums


def by_arm(x, rewards):
    distinct, at = np.unique(x, axis=0, return_inverse=True)
    sums = np.bincount(at, rewards, minlength=len(distinct))
    return ArmSums(distinct, np.bincount(at).astype(float), sums, float(rewards @ rewards))


def same(one, other):
    assert one.exponent == other.exponent
    np.testing.assert_allclose([one.ridge, one.offset, one.noise], [other.ridge, other.offset, other.noise], rtol=1e-9)
    np.testing.assert_allclose(one.evidence, other.evidence, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dim", [3, 20])
def test_sums_by_arm_and_by_feature_say_the_same(constant, dim):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((8, dim))[rng.integers(8, size=50)]
    rewards = 1.0 + x[:, 0] + 0.1 * rng.standard_normal(50)
    prior = EvidencePrior((0.0, 1.75), factor=20.0, doubt=3.0, constant=constant)
    same(*(prior([data], 2.0, np.ones(dim), 3) for data in (moments(x, rewards), by_arm(x, rewards))))


def test_evidence_is_the_density_of_the_rewards():
    """With the noise integrated out by brute force, for each exponent and ridge, up to one constant for all."""
    x, rewards = draw(n=6, dim=2, constant=0.0)
    prior = EvidencePrior((0.0, 1.0), factor=1.0)
    found = prior([moments(x, rewards)], 1.0, np.ones(2), 0).evidence
    variances = np.exp(np.linspace(-8, 14, 3000))
    wanted = np.empty_like(found)
    for i, exponent in enumerate(prior.exponents):
        for j, ridge in enumerate(RELATIVE_RIDGES):
            scaled = x * taper_weights(exponent, 2)
            shape = np.eye(6) + scaled @ scaled.T / ridge
            logs = [multivariate_normal.logpdf(rewards, cov=v * shape) for v in variances]
            wanted[i, j] = np.logaddexp.reduce(logs)  # 1/variance is uniform on this grid of logarithms
    np.testing.assert_allclose(found - found[0, 0], wanted - wanted[0, 0], atol=1e-4)


def test_order_of_the_data_a_constant_and_units_do_not_matter():
    x, rewards = draw()
    belief = PRIOR([moments(x, rewards)], 4.0, np.ones(4), 0)
    same(PRIOR([moments(x[::-1], rewards[::-1])], 4.0, np.ones(4), 0), belief)
    shifted = PRIOR([moments(x, rewards + 1e4)], 4.0, np.ones(4), 0)
    assert (shifted.ridge, shifted.exponent) == (belief.ridge, belief.exponent)
    assert shifted.noise == pytest.approx(belief.noise, rel=1e-6)
    assert shifted.offset == pytest.approx(belief.offset + 1e4)
    units = np.array([1.0, 50.0, 400.0, 3.0])
    raw = PRIOR([moments(x * units, rewards)], 4.0, units, 0)
    same(raw, belief)
    np.testing.assert_allclose(raw.scale[1:] * units, belief.scale[1:])


def test_scales_are_the_taper_behind_a_wide_constant():
    x, rewards = draw()
    belief = PRIOR([moments(x, rewards)], 4.0, np.ones(4), 0)
    np.testing.assert_allclose(belief.scale[1:], taper_weights(belief.exponent, 4))
    assert belief.scale[0] == pytest.approx(CONSTANT_WIDTH * 2.0 * max(1.0, math.sqrt(belief.ridge / 4.0)))
    told = RidgePrior(0.3)([], 1.0, np.ones(4), 0)
    assert (told.ridge, told.scale, told.offset) == (0.3, None, 0.0)
    assert math.isnan(told.noise)


@pytest.mark.parametrize("rewards", [[], [2.5], [0.7, 0.7, 0.7]])
def test_rewards_that_say_nothing(rewards):
    belief = PRIOR([moments(draw()[0][: len(rewards)], np.array(rewards))], 4.0, np.ones(4), 0)
    assert math.isnan(belief.noise)
    assert belief.ridge == pytest.approx(RELATIVE_RIDGES[0] * 4.0)
    assert belief.offset == pytest.approx(np.mean(rewards) if rewards else 0.0)
    assert belief.contradiction(PRIOR.exponents) is None


def test_parameters_that_share_a_prior_are_judged_together():
    """The evidence of two independent regressions is that of one on features in blocks."""
    (x, r), (y, s) = draw(seed=1, constant=0.0), draw(seed=2, constant=0.0)
    wide = np.block([[x, np.zeros_like(x)], [np.zeros_like(y), y]])
    prior = EvidencePrior((0.0,), factor=20.0)
    one = prior([moments(wide, np.concatenate([r, s]))], 4.0, np.ones(8), 0)
    same(prior([moments(x, r), moments(y, s)], 4.0, np.ones(4), 0), one)


def test_the_order_is_contradicted_where_the_last_feature_matters_most():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 30))
    said = order_contradiction(moments(x, 5.0 + x[:, 29] + 0.1 * rng.standard_normal(400)))
    assert said is not None
    assert "the order of your features says nothing: exponent 0 is" in said
    assert order_contradiction(moments(x, 5.0 + x[:, 0] + 0.1 * rng.standard_normal(400))) is None


def test_a_residual_of_rounding_counts_as_rounding():
    assert log_evidence(np.zeros(2), np.array([0.0, 1e-13]), 2, 1.0) == pytest.approx(-np.log(1e-12))
    assert (log_evidence(np.ones(3), np.zeros(3), 40, 0.0) == 0).all()


def test_priors_that_are_none():
    assert_refuses(ValueError, "ridge must be a positive finite number", RidgePrior, 0.0)
    assert_refuses(ValueError, "taper must be a finite number of at least 0", prior_precisions, 1.0, -1, 2)
    assert Belief(1.0).by_exponent.shape == (1,)


@given(st.integers(1, 8), st.integers(0, 2**32), st.sampled_from([1e-14, 1.0, 100.0]))
def test_averages_over_prefixes_obey_the_law_of_total_variance(size, seed, noise2):
    rng = np.random.default_rng(seed)
    chances, w, z = rng.dirichlet(np.full(size, 0.3)), rng.standard_normal(size), rng.standard_normal((size, 5))
    mean, variance = average(z, w, chances, noise2, z)
    by_prefix = np.array([w[:m] @ z[:m] for m in range(1, size + 1)])
    within = noise2 * np.array([(z[:m] ** 2).sum(axis=0) for m in range(1, size + 1)])
    np.testing.assert_allclose(mean, chances @ by_prefix, atol=1e-12)
    np.testing.assert_allclose(variance, chances @ within + chances @ (by_prefix - mean) ** 2, rtol=1e-9, atol=1e-12)


def test_prefix_prior_leaves_out_what_is_ruled_out():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 12))
    belief = PrefixPrior(20.0)([moments(x, x[:, 0] - x[:, 1] + 0.1 * rng.standard_normal(300))], 12.0, np.ones(12), 0)
    assert 2 <= belief.size < 12


@pytest.mark.parametrize("policy", [adadim.PrefixLinUCB, adadim.EvidenceLinUCB, adadim.TaperedLinUCB])
@pytest.mark.parametrize("contextual", [False, True])
def test_the_steepest_taper_leaves_the_first_feature(policy, contextual):
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(6, 4)) / 4
    problem = adadim.Problem(
        None if contextual else arms, horizon=40, noise=0.1, **({"arms": 6, "dim": 4} if contextual else {})
    )
    learner = policy(taper=1e308).start(problem)
    for _ in range(20):
        arm = learner.select(*([arms] if contextual else []))
        learner.update(arm, float(arms[arm, 0] + 0.01 * rng.normal()))
    assert learner.select(*([arms] if contextual else [])) == arms[:, 0].argmax()
