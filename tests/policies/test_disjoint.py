"""A model for each arm: the same choices as LinUCB on the products of arms and covariates."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import adadim
from adadim.errors import InvalidTypeError, InvalidValueError

PLAY = {
    "noise": adadim.LinUCB(ridge=0.4),
    "dim": adadim.LinUCB(dim=3),
    "oful": adadim.LinUCB(radius="oful", ties="lowest"),
    "squared": adadim.LinUCB(bonus="squared"),
    "Greedy": adadim.Greedy(),
}
ARMS, DIM = 4, 5


def products(context, dim):
    """Features of every arm: the first `dim` covariates in its own block."""
    features = np.zeros((len(context), ARMS, ARMS, dim))
    for arm in range(ARMS):
        features[:, arm, arm] = context[:, :dim]
    return features.reshape(len(context), ARMS, ARMS * dim)


@pytest.mark.parametrize("horizon", [300, None])
@pytest.mark.parametrize("name", PLAY)
@pytest.mark.parametrize("count", [1, 3])
def test_the_same_arms_as_on_the_products(name, horizon, count):
    policy, rng = PLAY[name], np.random.default_rng(1)
    dim = getattr(policy, "dim", None) or DIM
    here = adadim.Problem(arms=ARMS, dim=DIM, horizon=horizon, noise=0.1, disjoint=True, replications=range(3)[:count])
    there = adadim.Problem(arms=ARMS, dim=ARMS * dim, horizon=horizon, noise=0.1, replications=range(3)[:count])
    wide = adadim.LinUCB(radius=0.0) if name == "Greedy" else dataclass_without_dim(policy)
    one, other = policy.start(here, seed=2), wide.start(there, seed=2)
    theta = rng.standard_normal((ARMS, DIM)) / 3
    for _ in range(300):
        context = rng.standard_normal((count, DIM)) / 2
        arms = one.select(context)
        assert arms.tolist() == other.select(products(context, dim)).tolist()
        rewards = np.vecdot(theta[arms], context) + 0.1 * rng.standard_normal(count)
        one.update(arms, rewards)
        other.update(arms, rewards)


def dataclass_without_dim(policy):
    from dataclasses import replace

    return replace(policy, dim=None)


def test_single_saved_masked_and_described(tmp_path):
    problem = adadim.Problem(arms=ARMS, dim=DIM, horizon=90, noise=0.1, disjoint=True)
    learner, rng = adadim.recommended(problem).start(problem, seed=1), np.random.default_rng(0)
    for _ in range(40):
        allowed = rng.random(ARMS) < 0.5
        allowed[rng.integers(ARMS)] = True
        arm = learner.select(rng.standard_normal(DIM).tolist(), allowed=allowed)
        assert allowed[arm]
        learner.update(arm, float(rng.standard_normal()))
    assert learner.describe()["pulls"] == 40
    learner.save(tmp_path / "learner")
    restored, twin = adadim.load(tmp_path / "learner", problem), copy.deepcopy(learner)
    for _ in range(30):
        context = rng.standard_normal(DIM)
        decisions = [one.ask(context) for one in (learner, restored, twin)]
        assert len({decision.arms for decision in decisions}) == 1
        for one, decision in zip((learner, restored, twin), decisions, strict=True):
            one.tell(decision, 0.3)


BAD = {
    "none": (None, InvalidValueError, "a context comes with each round"),
    "another length": (np.zeros(4), InvalidValueError, r"shape \(5,\) or \(1, 5\), got \(4,\)"),
    "features of arms": (np.zeros((4, 5)), InvalidValueError, r"got \(4, 5\)"),
    "NaN": ([0, 1, np.nan, 0, 0], InvalidValueError, "covariate 2 is not"),
    "text": ("context", InvalidValueError, "a context comes with each round"),
    "complex": (np.zeros(5) + 1j, InvalidTypeError, "must be real numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_contexts_are_refused_and_change_nothing(case):
    context, kind, message = BAD[case]
    problem = adadim.Problem(arms=ARMS, dim=DIM, horizon=90, noise=0.1, disjoint=True)
    learner, other = (adadim.LinUCB().start(problem, seed=1) for _ in range(2))
    with pytest.raises(kind, match=message):
        learner.ask(context)
    assert learner.select(np.ones(DIM)) == other.select(np.ones(DIM))


def test_who_cannot_says_what_to_do():
    problem = adadim.Problem(arms=ARMS, dim=DIM, horizon=90, noise=0.1, disjoint=True)
    for policy in (adadim.EvidenceLinUCB(), adadim.LinTS(), adadim.Corral(), adadim.SupLinUCB()):
        with pytest.raises(InvalidValueError, match=r"interactions\(context, arms\).*or use LinUCB"):
            policy.start(problem)
    with pytest.raises(InvalidValueError, match="leave features out"):
        adadim.Problem(np.eye(3), horizon=9, disjoint=True)
    assert 0 <= adadim.Random().start(problem).select(np.ones(DIM)) < ARMS
