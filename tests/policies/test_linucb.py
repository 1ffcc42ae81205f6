"""LinUCB against the specification's oracles and a textbook that rescores every arm."""

import math

import numpy as np
import pytest

import adadim
import reference
from adadim import Greedy, LinUCB, Problem, instances
from adadim.core.rows import Replications
from adadim.policies.confidence import noise_radius
from linucb_runs import ball, both_forms, play
from reference.ridge import Ridge, oful_radius, root_radius

ARMS = np.array([[1.0, 0.0], [0.0, 0.9], [0.6, 0.7]])
MEANS = ARMS @ [0.5, 0.2]


# Oracles of the specification


@both_forms
@pytest.mark.parametrize(
    ("policy", "arms", "scores"),
    [
        pytest.param(
            LinUCB(ridge=1.0, radius=1.0, bonus="norm"),
            [0, 2, 0, 0, 2, 0],
            {
                2: [0.957107, 0.900000, 0.968535],
                3: [0.970009, 0.865930, 0.899749],
                6: [0.883575, 0.790623, 0.858651],
            },
            id="C8",
        ),
        pytest.param(
            LinUCB(ridge=1.0, radius=1.0, bonus="squared"),
            [0, 2, 0, 0, 2, 0],
            {2: [0.75, 0.81, 0.82], 4: [0.671636, 0.657391, 0.669814]},
            id="C9",
        ),
        pytest.param(
            LinUCB(ridge=0.1, radius=0.5, bonus="squared"),
            [0, 1, 0, 2, 0, 0],
            {1: [5, 4.05, 4.25], 2: [0.909091, 4.05, 2.886364], 4: [0.714286, 0.605275, 0.765275]},
            id="C10 squared",
        ),
        pytest.param(
            LinUCB(ridge=0.1, radius=0.5, bonus="norm"),
            [0, 1, 0, 2, 0, 0],
            {1: [1.581139, 1.423025, 1.457738]},
            id="C10 norm",
        ),
    ],
)
def test_oracles(policy, arms, scores, form):
    learner = LinUCB(**{**vars(policy), "form": form}).start(Problem(ARMS, horizon=6, noise=0.1))
    chosen = []
    for t in range(1, 7):
        if t in scores:
            np.testing.assert_allclose(learner.rule.scores(learner.everyone)[0], scores[t], atol=1e-6)
        arm = learner.select()
        learner.update(arm, MEANS[arm])
        chosen.append(arm)
    assert chosen == arms
    if policy.ridge == 1.0:
        np.testing.assert_allclose(learner.model.regression.mean[0], ARMS @ [0.4225988701, 0.1318267420], atol=1e-9)


def radius_of(policy, horizon=2500, arms=1200, noise=0.1):
    learner = policy.start(Problem(np.full((arms, 1), 0.5), horizon=horizon, noise=noise))
    return learner.rule.radius(learner.everyone)


def test_radii():
    """C11."""
    assert radius_of(LinUCB()) == pytest.approx(0.624809, abs=1e-6)
    assert radius_of(LinUCB(radius="full")) == pytest.approx(0.624809 + math.sqrt(0.1), abs=1e-6)
    assert radius_of(LinUCB(radius="full", ridge=4.0, theta_norm=3.0)) == pytest.approx(6.624809, abs=1e-6)
    assert radius_of(LinUCB(radius="paper", ridge=1.0)) == pytest.approx(24.484221, abs=1e-6)
    assert radius_of(LinUCB(radius="paper")) - 2 * math.log(2500) == pytest.approx(8.836129, abs=1e-6)
    assert radius_of(LinUCB(radius="oful-2011")) == pytest.approx(0.595943, abs=1e-6)
    assert radius_of(LinUCB(radius="oful")) == pytest.approx(
        math.hypot(0.595943 - math.sqrt(0.1), math.sqrt(0.1)), abs=1e-6
    )
    assert radius_of(LinUCB(radius=0.7)) == 0.7
    assert radius_of(LinUCB(), noise=0.3) == pytest.approx(3 * 0.624809, abs=3e-6)


def test_radii_of_the_iterations():
    """C11: what LinUCB++ uses, real arms and mixtures of arms with range 0.3."""
    sizes = [(64 * 2**i, 1199 + i) for i in range(1, 6)]
    real = [0.548840, 0.567483, 0.585532, 0.603041, 0.620056]
    mixed = [0.989435, 1.023044, 1.055583, 1.087148, 1.117822]
    assert [noise_radius(0.1, *size) for size in sizes] == pytest.approx(real, abs=1e-6)
    assert [noise_radius(math.hypot(0.1, 0.15), *size) for size in sizes] == pytest.approx(mixed, abs=1e-6)


@pytest.mark.parametrize("radius", ["noise", "full", "paper", "oful", "oful-2011", 0.7])
def test_scale_multiplies_every_radius(radius):
    assert radius_of(LinUCB(radius=radius, scale=0.25)) == pytest.approx(0.25 * radius_of(LinUCB(radius=radius)))


# Against the textbook


@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_both_forms_choose_as_the_textbook(bonus):
    arms, dim, horizon = 200, 60, 2500
    rng = np.random.default_rng(1)
    features = ball(rng, arms, dim)
    means, noise = features @ instances.parameter("uniform", 5, dim), 0.1 * rng.standard_normal(horizon)
    textbook = reference.LinUCB(features, horizon, 0.1, 0.1, rng, bonus=bonus)
    expected = []
    for error in noise:
        expected.append(textbook.select())
        textbook.update(expected[-1], means[expected[-1]] + error)
    assert len(set(expected)) > 50
    problem = Problem(features, horizon=horizon, noise=0.1)
    for form in ("gram", "feature"):
        learner = LinUCB(bonus=bonus, form=form).start(problem)
        np.testing.assert_array_equal(play(learner, means[None], noise[:, None])[:, 0], expected)
        np.testing.assert_allclose(learner.rule.scores(learner.everyone)[0], textbook.scores(), atol=1e-8)


@both_forms
@pytest.mark.parametrize(("rule", "formula"), [("oful", root_radius), ("oful-2011", oful_radius)])
@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_oful_follows_the_formula(form, bonus, rule, formula):
    rng = np.random.default_rng(2)
    features = ball(rng, 3, 12, 4)
    means, horizon = np.einsum("rkd,d->rk", features, [0.5, 0.5, 0.5, 0.5]), 80
    policy = LinUCB(radius=rule, ridge=0.3, theta_norm=2.0, scale=0.5, form=form, bonus=bonus)
    learner = policy.start(Problem(features, horizon=horizon, noise=0.2))
    textbooks = [Ridge(4, 0.3) for _ in range(3)]
    for _ in range(horizon):
        scores, radii = learner.rule.scores(learner.everyone), learner.rule.radius(learner.everyone)
        arms = learner.select()
        for r, textbook in enumerate(textbooks):
            radius = 0.5 * formula(0.2, 0.3, 2.0, horizon**-0.5, textbook.logdet)
            mean, width2 = textbook.predict(features[r])
            expected = mean + radius * (np.sqrt(width2) if bonus == "norm" else width2)
            np.testing.assert_allclose(radii[r], radius, atol=1e-10)
            np.testing.assert_allclose(scores[r], expected, atol=1e-9)
            assert arms[r] == expected.argmax()
        rewards = means[range(3), arms] + 0.2 * rng.standard_normal(3)
        learner.update(arms, rewards)
        for r, textbook in enumerate(textbooks):
            textbook.add(features[r, arms[r]], rewards[r])
    assert len({float(radius) for radius in learner.rule.radius(learner.everyone)[:, 0]}) == 3


def test_greedy_is_linucb_without_a_bonus():
    instance = instances.ball(arms=30, dim=6, intrinsic_dim=3, horizon=100, replications=range(5))
    greedy = adadim.simulate(Greedy(ridge=0.5, dim=4), instance)
    linucb = adadim.simulate(LinUCB(ridge=0.5, dim=4, radius=0.0), instance)
    np.testing.assert_array_equal(greedy.pulls, linucb.pulls)
    np.testing.assert_array_equal(
        greedy.learner.rule.scores(greedy.learner.everyone), linucb.learner.model.regression.mean
    )


# Some replications only


@both_forms
def test_scores_and_radii_of_some_rows(form):
    rng = np.random.default_rng(7)
    features = ball(rng, 4, 10, 3)
    learner = LinUCB(radius="oful", form=form).start(Problem(features, horizon=50, noise=0.1))
    for _ in range(20):
        rows = rng.permutation(4)[: rng.integers(1, 5)]
        learner.update(learner.select(rows=rows), rng.standard_normal(len(rows)), rows)
    some = Replications.some(np.array([2, 0]), features)
    np.testing.assert_array_equal(learner.rule.scores(some), learner.rule.scores(learner.everyone)[[2, 0]])
    np.testing.assert_array_equal(learner.rule.radius(some), learner.rule.radius(learner.everyone)[[2, 0]])
