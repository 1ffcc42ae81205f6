"""LinMED: the published numbers, a textbook version in lock-step, and probabilities that a log can be judged by."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import adadim
from adadim.agent import Agent
from adadim.policies.linear.linmed import design, design_of_reduced, start_set
from refusals import assert_refuses

Z = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
PULLED, REWARDS = [0, 1, 2, 0], [0.9, 0.2, 0.7, 1.1]
SETTINGS = {"LinMED-50": {"a_emp": 0.5, "a_opt": 0.25}, "LinMED-99": {"a_emp": 0.99, "a_opt": 0.005}}


def learned(policy, noise=0.5, scale=1.0, features=Z):
    learner = policy.start(adadim.Problem(features, horizon=100, noise=noise), seed=1)
    learner.learn(PULLED, scale * np.array(REWARDS))
    return learner


def probabilities(learner, **offer):
    rows = learner.everyone.with_offer(offer.get("features"), offer.get("allowed"), offer.get("costs"))
    return learner.choose(rows).probabilities[0]


def test_quantities_on_the_small_data_set():
    learner = learned(adadim.LinMED(**SETTINGS["LinMED-50"]))
    rule, everyone = learner.rule, learner.everyone
    assert rule.policy.ridge_for(learner.problem) == 0.25
    best, f = rule.divergences(everyone)
    difference, apart = learner.model.contrasts(best, everyone)
    assert best.tolist() == [0]
    np.testing.assert_allclose(rule.beta(everyone), [[5.45245858]], rtol=1e-8)
    np.testing.assert_allclose(learner.model.predict(everyone)[0][0, :2], [0.8646693, 0.12730356], rtol=1e-7)
    np.testing.assert_allclose(-difference[0], [0, 0.73736574, 0.09655172], atol=1e-8)
    np.testing.assert_allclose(apart[0], [0, 1.23459582, 0.27586207], atol=1e-8)
    np.testing.assert_allclose(f[0], [1, 0.92240605, 0.99382139], rtol=1e-8)
    np.testing.assert_allclose(design(np.sqrt(f[0])[:, None] * Z), [1 / 3] * 3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LinMED-50", [0.67610653, 0.15591119, 0.16798228]),
        ("LinMED-99", [0.99361079, 0.00307555, 0.00331366]),
    ],
)
def test_probabilities_on_the_small_data_set(name, expected):
    np.testing.assert_allclose(probabilities(learned(adadim.LinMED(**SETTINGS[name]))), expected, rtol=2e-6)


def test_the_design_of_six_rows():
    rows = np.array([[1, 0], [0.6, 0.8], [0, 1], [-0.6, 0.8], [0.3, 0.3], [-0.2, 0.5]])
    assert sorted(start_set(rows)) == [0, 1, 3, 5]
    assert design_of_reduced(rows).tolist() == [0.25, 0.25, 0, 0.25, 0, 0.25]


def test_the_design_leaves_out_what_all_rows_share():
    rows = np.array([[1, 0], [1, 1], [1, -1], [1, 0.5], [1, -0.5]])
    assert design(rows).tolist() == [0, 0.5, 0.5, 0, 0]


def test_few_rows_that_differ_are_all_in_the_design():
    """As the whole way gives it, through eigenvectors and a start set, with K below d and above."""
    rng = np.random.default_rng(1)
    for count, dim, rank in ((9, 5, 5), (10, 5, 5), (5, 9, 5), (8, 8, 4), (8, 8, 3), (2, 1, 1), (30, 40, 2)):
        rows = rng.standard_normal((count, rank)) @ rng.standard_normal((rank, dim))
        spectrum, basis = np.linalg.eigh(np.atleast_2d(np.cov(rows, rowvar=False)))
        whole = design_of_reduced(rows @ basis[:, spectrum > 1e-6])
        np.testing.assert_allclose(design(rows), whole)
        assert (count <= 2 * (spectrum > 1e-6).sum()) == (design(rows).tolist() == [1 / count] * count)


def test_a_design_observes_every_direction():
    rng = np.random.default_rng(0)
    for count, dim in ((40, 3), (5, 4), (200, 12), (9, 1)):
        rows = rng.standard_normal((count, dim)) * 10.0 ** -rng.integers(0, 3, size=dim)
        weights = design(rows)
        picks = round(1 / weights[weights > 0].min())
        while np.abs(weights * picks - np.round(weights * picks)).max() > 1e-9:
            picks += 1
        w = (rows * (weights * picks)[:, None]).T @ rows
        spectrum, basis = np.linalg.eigh(np.atleast_2d(np.cov(rows, rowvar=False)))
        kept = basis[:, spectrum > 1e-6]
        reduced = rows @ kept
        assert np.vecdot(np.linalg.solve(kept.T @ w @ kept, reduced.T).T, reduced).max() <= 1 + 1e-8
        assert picks <= 8 * dim
    assert design(np.ones((4, 3))).tolist() == [0.25] * 4
    assert design(np.ones((1, 3))).tolist() == [1.0]


def test_an_axis_in_the_span_of_earlier_directions_is_replaced():
    """Along the first axis the extremes differ by (1, 1) of three axes, which holds no later axis alone."""
    rows = np.array([[1, 1, 0], [-1, -1, 0], [0.9, 1, 0.5], [0, 0.9, -0.5], [0, 0, 0.1], [0.5, 0, 0], [0, 0.1, 0.2]])
    assert len(start_set(rows)) >= 3
    assert np.linalg.matrix_rank(rows[start_set(rows)]) == 3


def textbook(x, pulls, rewards, noise, norm, delta, a_emp, a_opt):
    """Probabilities of the arms `x` (K, d), K at most twice d, after pulls of features (n, d)."""
    if not len(pulls):
        return np.full(len(x), 1 / len(x))
    ridge = noise**2 / norm**2
    v = ridge * np.eye(x.shape[1]) + pulls.T @ pulls
    inverse = np.linalg.inv(v)
    mean = x @ inverse @ pulls.T @ rewards
    best = int(mean.argmax())
    gamma = np.linalg.slogdet(v)[1] - len(v) * np.log(ridge)
    beta = (noise * np.sqrt(gamma + 2 * np.log(1 / delta)) + np.sqrt(ridge) * norm) ** 2
    apart = x - x[best]
    distance = np.einsum("kd,de,ke->k", apart, inverse, apart)
    f = np.array(
        [1.0 if i == best else np.exp(-((mean[best] - m) ** 2) / (beta * distance[i])) for i, m in enumerate(mean)]
    )
    q = a_opt / len(x) + a_emp * (np.arange(len(x)) == best) + (1 - a_opt - a_emp) / len(x)  # every arm is a pick
    return q * f / (q * f).sum()


@pytest.mark.parametrize("late", [0, 5], ids=["at once", "late"])
@pytest.mark.parametrize("delta", [0.05, "decreasing"])
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_in_lock_step_with_the_textbook(offer, delta, late):
    """Six arms in four features, so that the design has each of them once; pending rounds do not count."""
    rng = np.random.default_rng(5)
    rounds = rng.standard_normal((60, 6, 4)) / 2
    if offer == "fixed":
        rounds[:] = rounds[0]
    sizes = {"features": rounds[0]} if offer == "fixed" else {"arms": 6, "dim": 4}
    policy = adadim.LinMED(a_emp=0.6, a_opt=0.3, delta=delta, theta_norm=2.0)
    learner = policy.start(adadim.Problem(**sizes, horizon=None, noise=0.3), seed=2)
    pulls, rewards, waiting = [], [], []
    for t, x in enumerate(rounds, 1):
        offered = [] if offer == "fixed" else [x]
        told = np.array(pulls).reshape(-1, 4), np.array(rewards)
        confidence = 1 / (t + 1) if delta == "decreasing" else delta
        expected = textbook(x, *told, 0.3, 2.0, confidence, 0.6, 0.3)
        rows = learner.everyone.with_offer(x[None] if offered else None, None)
        np.testing.assert_allclose(learner.rule.probabilities(rows)[0], expected, rtol=1e-8)
        decision = learner.ask(*offered)
        waiting.append((decision, x[decision.arms], x[decision.arms, 0] + 0.3 * rng.standard_normal()))
        if len(waiting) > late:
            decision, pulled, reward = waiting.pop(0)
            learner.tell(decision, reward)
            pulls.append(pulled)
            rewards.append(reward)


def test_copies_of_the_best_arm_and_scales():
    copies = np.concatenate([Z, Z[:1]])
    p = probabilities(learned(adadim.LinMED(a_emp=0.5, a_opt=0.25), features=copies))
    learner = learned(adadim.LinMED(a_emp=0.5, a_opt=0.25), features=copies)
    assert learner.rule.divergences(learner.everyone)[1][0, 3] == 1.0
    assert p[0] >= 0.5 + 0.25 / 4
    scaled = learned(adadim.LinMED(a_emp=0.5, a_opt=0.25, theta_norm=7.0), 3.5, 7.0, copies)
    np.testing.assert_allclose(probabilities(scaled), p, rtol=1e-9)


def test_masks_costs_and_one_arm():
    policy = adadim.LinMED(a_emp=0.5, a_opt=0.25)
    p = probabilities(learned(policy), allowed=np.array([[False, True, True]]))
    assert p[0] == 0
    assert p.sum() == pytest.approx(1)
    without = adadim.LinMED(a_emp=0.5, a_opt=0.25).start(adadim.Problem(arms=3, dim=2, horizon=50, noise=0.5))
    without.learn(Z[PULLED], REWARDS)
    np.testing.assert_allclose(p[1:], probabilities(without, features=Z[None, 1:]), rtol=1e-9)
    costly = probabilities(without, features=Z[None], costs=np.array([5.0, 0.0, 0.0]))
    assert costly.argmax() == 2
    assert costly[0] < 0.05
    copies = probabilities(without, features=Z[None, [0, 0]], costs=np.array([0.0, 1e-3]))
    assert copies.tolist() == [1.0, 0.0]  # the same mean, for less
    assert probabilities(without, features=Z[None, :1]).tolist() == [1.0]


def test_each_arm_with_a_parameter_of_its_own():
    """Parameters of two arms are independent: ||a - a_k||^2 is the sum of both squared widths."""
    problem = adadim.Problem(arms=3, dim=2, horizon=50, noise=0.5, disjoint=True)
    learner = adadim.LinMED(a_emp=0.5, a_opt=0.25).start(problem, seed=1)
    x, rewards = np.array([0.8, 0.6]), [0.9, 0.4, 0.2]
    for arm, reward in enumerate(rewards):
        rows = learner.everyone.with_offer(x[None], None)
        learner.absorb(np.array([arm]), np.array([reward]), learner.everyone, {"features": x[None]})
    width2 = 1 / 1.25  # ridge 1/4 and one pull of norm 1
    mean = np.array(rewards) * width2
    beta = (0.5 * np.sqrt(3 * np.log(5) + 2 * np.log(100)) + 0.5) ** 2
    f = np.exp(-((mean[0] - mean) ** 2) / (beta * 2 * width2))
    q = np.array([0.5 + 1 / 6, 1 / 6, 1 / 6])
    np.testing.assert_allclose(learner.rule.probabilities(rows)[0], q * f / (q * f).sum(), rtol=1e-9)


def test_an_agent_writes_the_probabilities_and_the_log_can_be_judged(tmp_path):
    rng, contexts = np.random.default_rng(0), np.random.default_rng(1).standard_normal((150, 3, 2)) / 2
    with Agent.create(tmp_path / "a.db", dim=2, policy=adadim.LinMED(a_emp=0.5, a_opt=0.2), noise=0.5) as agent:
        for x in contexts:
            decision = agent.ask(dict(zip("abc", x.tolist(), strict=True)))
            assert 0 < decision.probability <= 1
            agent.tell(decision.id, float(x["abc".index(decision.arm), 0] + 0.5 * rng.standard_normal()))
        agent.export(tmp_path / "log.parquet")
    log = pl.read_parquet(tmp_path / "log.parquet")
    assert log["probability"].n_unique() > 100
    judged = adadim.evaluate(adadim.Random(), tmp_path / "log.parquet")
    assert judged.mean_weight == pytest.approx(1.0, abs=0.25)  # E[(1/3)/p] over arms drawn from p is 1


def test_it_beats_chance():
    instance = adadim.instances.sphere(arms=20, dim=4, intrinsic_dim=2, horizon=80, replications=range(2))
    regret = adadim.simulate(adadim.LinMED(), instance, seed=2).final.mean()
    assert regret < adadim.simulate(adadim.Random(), instance).final.mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"a_emp": 0.8, "a_opt": 0.3}, r"a_emp \+ a_opt must be at most 1, .* got 0.8 \+ 0.3"),
        ({"a_emp": 1.2}, r"a_emp must be a number in \[0, 1\], got 1.2"),
        ({"delta": 1.0}, r"delta must be a number in \(0, 1\), got 1.0"),
        ({"delta": "falling"}, r"delta must be 'decreasing' or a number in \(0, 1\), got 'falling'"),
    ],
)
def test_bad_parameters(options, message):
    assert_refuses(ValueError, message, adadim.LinMED, **options)
