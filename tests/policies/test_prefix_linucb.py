"""Prefix LinUCB and two-prior LinUCB against plain versions, and what they are for."""

import numpy as np
import pytest

import adadim
from adadim.models import prefixes
from reference.prefixes import PrefixAverage

ROUNDS = 40


@pytest.fixture(autouse=True)
def keep_every_feature(monkeypatch):
    """The plain version leaves no feature out, however unlikely."""
    monkeypatch.setattr(prefixes, "NEGLIGIBLE", 0.0)


def world(arms=20, dim=6, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((arms, dim))
    features /= np.linalg.norm(features, axis=1).max()
    return features, features[:, :2] @ [0.8, -0.5], rng


def separately(features, ridge, pulled, rewards):
    """Means and squared widths of every arm by every prefix, each by its own solve."""
    means, widths2 = [], []
    for m in range(1, features.shape[1] + 1):
        cut = features[:, :m]
        v = ridge * np.eye(m) + cut[pulled].T @ cut[pulled]
        means.append(cut @ np.linalg.solve(v, cut[pulled].T @ rewards))
        widths2.append(np.vecdot(cut, np.linalg.solve(v, cut.T).T))
    return np.array(means), np.array(widths2)


class Given:
    """In the place of a generator: a uniform number that is given, and normal ones as drawn or zero."""

    def __init__(self, uniform, rng=None):
        self.uniform, self.rng = uniform, rng

    def random(self):
        return self.uniform

    def standard_normal(self, shape):
        return np.zeros(shape) if self.rng is None else self.rng.standard_normal(shape)


@pytest.mark.parametrize(("taper", "decay"), [(0.0, 0.0), (1.0, 2.0)])
def test_optimism_in_lock_step_with_the_plain_version(taper, decay):
    features, means, rng = world()
    learner = adadim.PrefixLinUCB(taper=taper, decay=decay, ties="lowest").start(
        adadim.Problem(features, horizon=ROUNDS)
    )
    plain = PrefixAverage(features, ROUNDS, taper, decay)
    for _ in range(ROUNDS):
        expected = plain.scores()
        np.testing.assert_allclose(learner.rule.scores(learner.everyone)[0], expected, rtol=1e-6)
        arm = learner.select()
        assert expected[arm] >= expected.max() - 1e-6 * abs(expected.max())
        reward = means[arm] + 0.05 * rng.standard_normal()
        learner.update(arm, reward)
        plain.update(arm, reward)
        assert learner.model.ridge[0] == pytest.approx(plain.ridge)
        np.testing.assert_allclose(learner.model.prediction.dim_posterior(0)[0], plain.chances(), rtol=1e-6, atol=1e-9)


def test_a_draw_has_the_moments_of_the_posterior():
    """Given d*, means of arms drawn are normal with the regression's mean and noise^2 width^2."""
    features, means, rng = world()
    learner = adadim.PrefixLinUCB(rule="thompson", scale=1.0).start(adadim.Problem(features, horizon=99))
    arms = rng.integers(len(features), size=30)
    rewards = means[arms] + 0.05 * rng.standard_normal(30)
    learner.learn(arms, rewards)
    model = learner.model
    chances, noise2 = model.prediction.dim_posterior(0)
    mean, width2 = separately(features, model.ridge[0], arms, rewards)
    reached, scale = np.cumsum(chances), 0.3 / np.sqrt(noise2)
    for m in (1, 3, 6):
        given = [Given(reached[m - 1] - chances[m - 1] / 2, rng)]
        drawn = np.array([model.prediction.sample_means(learner.everyone, given, scale)[0] for _ in range(4000)])
        np.testing.assert_allclose(drawn.mean(axis=0), mean[m - 1], atol=5 * 0.3 * np.sqrt(width2[m - 1].max() / 4000))
        np.testing.assert_allclose(drawn.var(axis=0), 0.09 * width2[m - 1], rtol=0.15)


def test_the_length_drawn_has_the_posterior_law():
    features, means, _ = world()
    learner = adadim.PrefixLinUCB(rule="thompson").start(adadim.Problem(features, horizon=99))
    learner.learn([0, 1, 2, 3], means[:4])
    model, uniforms = learner.model, (np.arange(2000) + 0.5) / 2000
    chances, _ = model.prediction.dim_posterior(0)
    drawn = np.array([model.prediction.sample_means(learner.everyone, [Given(u)], 0.0)[0] for u in uniforms])
    by_prefix, _ = separately(features, model.ridge[0], [0, 1, 2, 3], means[:4])
    for m in range(6):
        share = np.isclose(drawn, by_prefix[m]).all(axis=1).mean()
        same = np.isclose(by_prefix, by_prefix[m]).all(axis=1)
        assert share == pytest.approx(chances[same].sum(), abs=2e-3)


def test_two_priors_play_the_likelier():
    features, _, rng = world(arms=60, dim=16, seed=3)
    means = features[:, :8] @ [0.3, -0.3, 0.3, 0.3, -0.3, 0.3, -0.3, 0.3]
    problem = adadim.Problem(features, horizon=128)
    learner = adadim.TwoPriorLinUCB(ties="lowest").start(problem)
    fading, prefix = (p.start(problem) for p in adadim.TwoPriorLinUCB(ties="lowest").beliefs())
    plain = PrefixAverage(features, 128, decay=1.0)
    seen = set()
    for _ in range(128):
        ends = plain.total > learner.fading.model.log_evidence()[0] + 1e-9
        assert learner.describe()["belief"] == ("prefix" if ends else "fading")
        arm = learner.select()
        assert arm == (prefix if ends else fading).select()
        seen.add(bool(ends))
        reward = means[arm] + 0.02 * rng.standard_normal()
        learner.update(arm, reward)
        plain.update(arm, reward)
        for other in (fading, prefix):
            other.learn([arm], [reward])
        assert learner.prefix.model.log_evidence()[0] == pytest.approx(plain.total, rel=1e-6, abs=1e-6)
    assert seen == {True, False}


def test_odds_decide_where_the_evidence_is_even():
    features, _, _ = world()
    problem = adadim.Problem(features, horizon=9)
    for odds, belief in ((100.0, "prefix"), (0.01, "fading")):
        assert adadim.TwoPriorLinUCB(odds=odds).start(problem).describe()["belief"] == belief
    with pytest.raises(adadim.InvalidValueError, match="odds must be a positive"):
        adadim.TwoPriorLinUCB(odds=0)


def test_features_ruled_out_cost_nothing(monkeypatch):
    monkeypatch.setattr(prefixes, "NEGLIGIBLE", 1e-3)
    instance = adadim.instances.sphere(arms=150, dim=50, intrinsic_dim=2, horizon=400, noise=0.05)
    outcome = adadim.simulate(adadim.PrefixLinUCB(), instance)
    described = outcome.learner.describe()[0]
    assert described["dim"] == 2
    assert described["features_in_use"] < 15
    assert outcome.learner.dimension().mode[0] == 2


@pytest.mark.parametrize("bad", [{"rule": "hope"}, {"decay": -1.0}, {"factor": 0.5}, {"scale": 0.0}, {"taper": -1.0}])
def test_bad_parameters(bad):
    with pytest.raises(adadim.AdadimError, match=next(iter(bad))):
        adadim.PrefixLinUCB(**bad)
