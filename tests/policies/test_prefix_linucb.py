"""Prefix LinUCB and two-prior LinUCB against plain versions, and what they are for."""

import numpy as np
import pytest

import adadim
from adadim.models import averaged
from reference.prefixes import PrefixAverage

ROUNDS = 40


@pytest.fixture(autouse=True)
def keep_every_feature(monkeypatch):
    """The plain version leaves no feature out, however unlikely."""
    monkeypatch.setattr(averaged, "NEGLIGIBLE", 0.0)


def world(arms=20, dim=6, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((arms, dim))
    features /= np.linalg.norm(features, axis=1).max()
    return features, features[:, :2] @ [0.8, -0.5], rng


def separately(model):
    """Means and squared widths of every arm by every prefix, each by its own solve, from all that a model has seen."""
    means, widths2 = [], []
    for m in range(1, model.arms.shape[1] + 1):
        cut = model.arms[:, :m]
        v = model.ridge * np.eye(m) + (cut.T * model.counts) @ cut
        means.append(cut @ np.linalg.solve(v, cut.T @ model.sums))
        widths2.append(np.vecdot(cut, np.linalg.solve(v, cut.T).T))
    return np.array(means), np.array(widths2)


@pytest.mark.parametrize("few", [0, 99])
@pytest.mark.parametrize(("taper", "decay"), [(0.0, 0.0), (1.0, 2.0)])
def test_optimism_in_lock_step_with_the_plain_version(taper, decay, few, monkeypatch):
    monkeypatch.setattr(averaged, "FEW_FEATURES", few)
    features, means, rng = world()
    learner = adadim.PrefixLinUCB(taper=taper, decay=decay, ties="lowest").start(
        adadim.Problem(features, horizon=ROUNDS)
    )
    plain = PrefixAverage(features, ROUNDS, taper, decay)
    for _ in range(ROUNDS):
        expected = plain.scores()
        np.testing.assert_allclose(learner.scores(learner.everyone)[0], expected, rtol=1e-6)
        arm = learner.select()
        assert expected[arm] >= expected.max() - 1e-6 * abs(expected.max())
        reward = means[arm] + 0.05 * rng.standard_normal()
        learner.update(arm, reward)
        plain.update(arm, reward)
        assert learner.model.each[0].ridge == pytest.approx(plain.ridge)
        np.testing.assert_allclose(learner.model.each[0].chances, plain.chances(), rtol=1e-6, atol=1e-9)


def test_a_draw_has_the_moments_of_the_posterior():
    """Given d*, means of arms drawn are normal with the regression's mean and noise^2 width^2."""
    features, means, rng = world()
    learner = adadim.PrefixLinUCB(rule="thompson", scale=1.0).start(adadim.Problem(features, horizon=99))
    arms = rng.integers(len(features), size=30)
    learner.learn(arms, means[arms] + 0.05 * rng.standard_normal(30))
    model = learner.model.each[0]
    mean, width2 = separately(model)
    reached, scale = np.cumsum(model.chances), 0.3 / np.sqrt(model.noise2)
    for m in (1, 3, 6):
        uniform = reached[m - 1] - model.chances[m - 1] / 2
        drawn = np.array([model.sample(uniform, rng.standard_normal(6), scale) for _ in range(4000)])
        np.testing.assert_allclose(drawn.mean(axis=0), mean[m - 1], atol=5 * 0.3 * np.sqrt(width2[m - 1].max() / 4000))
        np.testing.assert_allclose(drawn.var(axis=0), 0.09 * width2[m - 1], rtol=0.15)


def test_the_length_drawn_has_the_posterior_law():
    features, means, _ = world()
    learner = adadim.PrefixLinUCB(rule="thompson").start(adadim.Problem(features, horizon=99))
    learner.learn([0, 1, 2, 3], means[:4])
    model = learner.model.each[0]
    weights = np.array([model.sample(u, np.zeros(6), 0.0) for u in (np.arange(2000) + 0.5) / 2000])
    by_prefix, _ = separately(model)
    for m in range(6):
        share = np.isclose(weights, by_prefix[m]).all(axis=1).mean()
        same = np.isclose(by_prefix, by_prefix[m]).all(axis=1)
        assert share == pytest.approx(model.chances[same].sum(), abs=2e-3)


def test_two_priors_play_the_likelier():
    features, _, rng = world(arms=60, dim=16, seed=3)
    means = features[:, :8] @ [0.3, -0.3, 0.3, 0.3, -0.3, 0.3, -0.3, 0.3]
    problem = adadim.Problem(features, horizon=128)
    learner = adadim.TwoPriorLinUCB(ties="lowest").start(problem)
    fading, prefix = (p.start(problem) for p in adadim.TwoPriorLinUCB(ties="lowest").beliefs())
    plain = PrefixAverage(features, 128, decay=1.0)
    seen = set()
    for _ in range(128):
        ends = plain.total > learner.fading.model.totals[0] + 1e-9
        assert learner.describe()["belief"] == ("prefix" if ends else "fading")
        arm = learner.select()
        assert arm == (prefix if ends else fading).select()
        seen.add(bool(ends))
        reward = means[arm] + 0.02 * rng.standard_normal()
        learner.update(arm, reward)
        plain.update(arm, reward)
        for other in (fading, prefix):
            other.learn([arm], [reward])
        assert learner.prefix.model.totals[0] == pytest.approx(plain.total, rel=1e-6, abs=1e-6)
    assert seen == {True, False}


def test_odds_decide_where_the_evidence_is_even():
    features, _, _ = world()
    problem = adadim.Problem(features, horizon=9)
    for odds, belief in ((100.0, "prefix"), (0.01, "fading")):
        assert adadim.TwoPriorLinUCB(odds=odds).start(problem).describe()["belief"] == belief
    with pytest.raises(adadim.InvalidValueError, match="odds must be a positive"):
        adadim.TwoPriorLinUCB(odds=0)


def test_features_ruled_out_cost_nothing(monkeypatch):
    monkeypatch.setattr(averaged, "NEGLIGIBLE", 1e-3)
    instance = adadim.instances.sphere(arms=150, dim=50, intrinsic_dim=2, horizon=400, noise=0.05)
    outcome = adadim.simulate(adadim.PrefixLinUCB(), instance)
    described = outcome.learner.describe()[0]
    assert described["dim"] == 2
    assert described["features_in_use"] < 15
    assert outcome.learner.model.each[0].regressions.z.shape == (described["features_in_use"], 150)
    assert outcome.learner.dimension().mode[0] == 2


@pytest.mark.parametrize("bad", [{"rule": "hope"}, {"decay": -1.0}, {"factor": 0.5}, {"scale": 0.0}, {"taper": -1.0}])
def test_bad_parameters(bad):
    with pytest.raises(adadim.AdadimError, match=next(iter(bad))):
        adadim.PrefixLinUCB(**bad)
