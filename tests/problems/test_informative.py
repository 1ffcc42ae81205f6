"""Cheap arms and costly ones that tell which cheap one is good: the sheet's numbers, and who finds it out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import adadim
from adadim.instances import informative
from refusals import assert_refuses


def test_means_of_the_family():
    """A costly arm with k of the two signs right earns (2 k - 2) 0.2 - 1."""
    instance = informative(
        dim=10, sparsity=3, effect=0.2, positions=(0, 1), informative_arms=40, horizon=50, replications=range(3)
    )
    x = instance.problem.actions.dense_batch() * np.sqrt(10)
    np.testing.assert_allclose(instance.best, 0.4)
    cheap = x[..., -1] == 0
    assert cheap.sum(axis=1).tolist() == [4 * 9 * 8 / 2] * 3
    for r in range(3):
        arms = {tuple(np.round(arm).astype(int)) for arm in x[r][cheap[r]]}
        expected = set()
        for i, j in itertools.combinations(range(9), 2):
            for signs in itertools.product((-1, 1), repeat=2):
                arm = np.zeros(10, dtype=int)
                arm[[i, j]] = signs
                expected.add(tuple(arm.tolist()))
        assert {tuple(map(int, arm)) for arm in arms} == expected
        costly = np.round(x[r][~cheap[r]])
        assert (np.abs(costly) == 1).all()
        assert (costly[:, -1] == 1).all()
        right = (costly[:, :2] == 1).sum(axis=1)
        np.testing.assert_allclose(instance.means[r][~cheap[r]], np.array([-1.4, -1.0, -0.6])[right])
        assert set(right) == {0, 1, 2}
    np.testing.assert_allclose(instance.problem.actions.squared_norms().max(), 1)


def test_what_is_drawn():
    together = informative(dim=12, sparsity=4, informative_arms=9, horizon=50, replications=[5, 2, 9], seed=1)
    alone = informative(dim=12, sparsity=4, informative_arms=9, horizon=50, replications=[2], seed=1)
    np.testing.assert_array_equal(together.means[1], alone.means[0])
    np.testing.assert_array_equal(together.problem.actions.dense_batch()[1], alone.problem.actions.dense_batch()[0])
    many = informative(dim=5, horizon=50, informative_arms=200, replications=range(300))
    effects = (many.theta[:, :-1] > 0).mean(axis=0)
    np.testing.assert_allclose(effects, 0.25, atol=0.1)  # one of four
    costly = many.problem.actions.dense_batch()[:, 8:, :-1] > 0
    np.testing.assert_allclose(costly.mean(axis=(0, 1)), 0.5, atol=0.01)


def pulled(policy, instance, seed, rounds):
    """Regret and pulls of costly arms, by a learner that knows the cost."""
    x, means, dim = instance.problem.actions.dense_batch()[0], instance.means[0], instance.problem.dim
    learner = policy.start(adadim.Problem(arms=len(x), dim=dim, horizon=rounds, noise=0.5), seed=seed)
    known = np.zeros((1, dim))
    known[0, -1] = 1e4
    learner.learn(known, [1e4 * instance.theta[0, -1]])
    rng, lost, costly = np.random.default_rng(seed), 0.0, 0
    for _ in range(rounds):
        decision = learner.ask(x)
        learner.tell(decision, float(means[decision.arms] + 0.5 * rng.standard_normal()))
        lost += float(instance.best[0] - means[decision.arms])
        costly += x[decision.arms, -1] > 0
    return lost, costly


@pytest.mark.filterwarnings("ignore::adadim.errors.NormWarning")
@pytest.mark.filterwarnings("ignore::adadim.errors.PrecisionWarning")
def test_information_is_bought_and_an_optimist_does_not():
    """With a narrow prior, effect / sqrt(d - 1) before features are divided, for every coefficient but the cost."""
    ridge = 0.25 / (0.3**2 / 29 * 30)
    policies = {"optimist": adadim.LinUCB(scale=0.35, ridge=ridge), "ids": adadim.IDS(ridge=ridge)}
    for name, policy in policies.items():
        runs = [pulled(policy, informative(dim=30, horizon=9, replications=[r]), r, 600) for r in range(2)]
        for lost, costly in runs:
            assert 0 < costly < 60 if name == "ids" else costly == 0
            assert lost < 600 * 0.3 + 2 * costly  # less than with no good arm ever


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 1}, "dim must be an integer of at least 2"),
        ({"sparsity": 1}, "sparsity must be an integer of at least 2"),
        ({"sparsity": 9}, "sparsity must be at most 6, the number of features, got 9"),
        ({"effect": 0.0}, "effect must be a positive"),
        ({"cost": -1.0}, "cost must be"),
        ({"cost": 1e308}, r"cost must be at most 1e\+150, got 1e\+308"),
        ({"effect": 1e300}, r"effect must be at most 1e\+150"),
        ({"informative_arms": 0}, "informative_arms must be an integer of at least 1"),
        ({"positions": (5,)}, "positions must be"),
        ({"positions": min}, "positions must be a list of integers, got <built-in function min>"),
        ({"positions": (1, 2)}, "positions must be 1 different features, one less than sparsity"),
    ],
)
def test_bad_parameters(options, message):
    assert_refuses((ValueError, TypeError), message, informative, **{"dim": 6, "horizon": 20} | options)
