"""A model for each arm: the same choices as LinUCB on the products of arms and covariates."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import adadim
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.models.priors import RELATIVE_RIDGES as RIDGES

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
    for policy in (adadim.Corral(), adadim.SupLinUCB()):
        with pytest.raises(InvalidValueError, match=r"interactions\(context, arms\).*or use adadim.recommended"):
            policy.start(problem)
    with pytest.raises(InvalidValueError, match="leave features out"):
        adadim.Problem(np.eye(3), horizon=9, disjoint=True)
    assert 0 <= adadim.Random().start(problem).select(np.ones(DIM)) < ARMS


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("policy", [adadim.LinUCB(ridge=0.3), adadim.TaperedLinUCB(), adadim.LinTS(ridge=0.3)])
def test_a_parameter_for_each_arm_is_one_for_all_products(policy, library):
    """The same choices as on the products of every arm with every covariate, whose V is block diagonal."""
    rng, arms, dim = np.random.default_rng(3), 3, 4
    apart = adadim.Problem(arms=arms, dim=dim, horizon=200, noise=0.1, disjoint=True)
    if library == "torch":
        pytest.importorskip("torch")
        apart = apart.to("cpu")
    one = policy.start(apart, seed=5)
    taper = getattr(policy, "taper", 0.0)
    weights = np.arange(1.0, dim + 1) ** (-taper / 2)
    theta = rng.standard_normal((arms, dim))
    v = np.stack([policy.ridge * np.eye(dim)] * arms)
    b = np.zeros((arms, dim))
    for _ in range(60):
        context = rng.standard_normal(dim) / 3
        seen = context * weights
        arm = int(one.select(context))
        if isinstance(policy, adadim.LinTS):
            estimate = np.stack([np.linalg.solve(v[k], b[k]) for k in range(arms)])
            zero = one.model.regression.w[:, None, :] * 0.0
            np.testing.assert_allclose(np.asarray(one.model.sample(zero, one.everyone)[:, 0]), estimate, atol=1e-9)
        else:
            mean = [seen @ np.linalg.solve(v[k], b[k]) for k in range(arms)]
            width = [np.sqrt(seen @ np.linalg.solve(v[k], seen)) for k in range(arms)]
            radius = 0.1 * np.sqrt(2 * np.log(2 * 200**1.5 * arms))
            scores = np.array(mean) + radius * np.array(width)
            assert scores[arm] == pytest.approx(scores.max(), rel=1e-9)
        reward = float(context @ theta[arm] + 0.1 * rng.standard_normal())
        one.update([arm], [reward])
        v[arm] += np.outer(seen, seen)
        b[arm] += reward * seen


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_evidence_of_all_arms_together(library):
    """Ridge and noise are those of one regression on all products, of which each arm has a block."""
    rng, arms, dim = np.random.default_rng(4), 3, 5
    problem = adadim.Problem(arms=arms, dim=dim, horizon=400, disjoint=True)
    if library == "torch":
        pytest.importorskip("torch")
        problem = problem.to("cpu")
    learner = adadim.EvidenceLinUCB().start(problem, seed=6)
    theta = rng.standard_normal((arms, dim)) * [1, 0.6, 0.3, 0, 0]
    rows, rewards, longest = [], [], 0.0
    for _ in range(64):
        context = rng.standard_normal(dim) / 2
        longest = max(longest, float(context @ context))
        arm = int(learner.select(context))
        reward = float(context @ theta[arm] + 0.1 * rng.standard_normal())
        learner.update([arm], [reward])
        wide = np.zeros((arms, dim))
        wide[arm] = context * np.arange(1.0, dim + 1) ** (-1.75 / 2)
        rows.append(wide.ravel())
        rewards.append(reward)
    x, r = np.array(rows), np.array(rewards)
    logs, variances = [], []
    for ridge in RIDGES * longest:
        v = ridge * np.eye(arms * dim) + x.T @ x
        rest = r @ r - (x.T @ r) @ np.linalg.solve(v, x.T @ r)
        logs.append(-0.5 * (np.linalg.slogdet(v / ridge)[1] + len(r) * np.log(rest)))
        variances.append(rest / len(r))
    chosen = int(np.argmax(np.array(logs) >= max(logs) - np.log(20.0)))
    described = learner.describe()
    assert described["ridge"] == pytest.approx(RIDGES[chosen] * longest)
    assert described["noise"] == pytest.approx(np.sqrt(variances[chosen] * (1 + np.sqrt(2 / len(r)))))
    assert described["pulls"] == 64
