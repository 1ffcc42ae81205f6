"""Information-directed sampling: the sheet's numbers, brute force, a textbook in lock-step, and informative arms."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import adadim
from adadim.agent import Agent
from adadim.core.randomness import Purpose, Streams
from adadim.core.rows import Replications
from adadim.policies.linear.ids import best_pair, exact_pair, regret_and_information
from refusals import assert_refuses

DRAWS = np.array([[1, 0.2, 0.5], [0.1, 0.9, 0.4], [0.8, 0.3, 0.6], [0.2, 0.4, 0.7], [0.9, 0.1, 0.2], [0.3, 1.1, 0.5]])
EVERYONE = Replications.all(np.zeros(1))


def test_six_draws():
    regret, information = regret_and_information(DRAWS, EVERYONE)
    np.testing.assert_allclose(regret, [0.35, 0.4, 0.41666667], rtol=1e-7)
    np.testing.assert_allclose(information, [0.1225, 0.13, 0.00944444], rtol=1e-6)
    assert best_pair(regret, information) == (0, 0, 1.0)
    assert regret[0] ** 2 / information[0] == pytest.approx(1)


def ratio(q, regret, information):
    return (q @ regret) ** 2 / (q @ information)


def test_a_mixture_of_two_arms():
    regret, information = np.array([0.1, 1.0, 0.12]), np.array([0.001, 0.4, 0.0011])
    first, second, share = best_pair(regret, information)
    assert (first, second) == (0, 1)
    assert share == pytest.approx(0.89390142, rel=1e-7)
    assert ratio(np.array([share, 1 - share, 0]), regret, information) == pytest.approx(0.881904008, rel=1e-8)


def test_no_distribution_over_all_arms_is_better():
    rng, mixed = np.random.default_rng(1), 0
    grid = np.array([q for q in itertools.product(np.linspace(0, 1, 21), repeat=4) if abs(sum(q) - 1) < 1e-9])
    for _ in range(200):
        regret, information = rng.exponential(size=4) ** 2, rng.exponential(size=4) ** 3
        first, second, share = best_pair(regret, information)
        found = np.zeros(4)
        found[first] += share
        found[second] += 1 - share
        least = ratio(found, regret, information)
        assert least <= ((grid @ regret) ** 2 / (grid @ information)).min() * (1 + 1e-9)
        for other in rng.dirichlet(np.full(4, 0.3), size=200):
            assert least <= ratio(other, regret, information) * (1 + 1e-9)
        if first != second:
            mixed += 1
            for step in (-1e-4, 1e-4):
                near = found.copy()
                near[first], near[second] = near[first] + step, near[second] - step
                assert least <= ratio(near, regret, information)
    assert 20 < mixed < 180


def test_ratios_of_zeros():
    assert best_pair(np.array([0.3, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])) == (1, 1, 1.0)  # 0/0 is 0
    assert best_pair(np.array([0.3, 0.2, 0.4]), np.zeros(3)) == (1, 1, 1.0)  # all infinite: the least regret
    assert best_pair(np.array([0.2, 0.2]), np.array([0.5, 0.5])) == (0, 0, 1.0)
    first, second, share = best_pair(np.array([0.1, 1.0]), np.array([0.0, 0.1]))  # what earns more says nothing
    assert (first, second) == (0, 1)
    grid = np.linspace(0, 1, 100_001)[:-1]
    ratios = (grid * 0.1 + (1 - grid)) ** 2 / ((1 - grid) * 0.1)
    assert share == pytest.approx(grid[ratios.argmin()], abs=1e-4)


def test_two_arms_exactly():
    p = norm.cdf(0.2 / np.sqrt(1.1))
    assert p == pytest.approx(0.57561675, rel=1e-7)
    regret, information = exact_pair(np.array([0.3, 0.1]), np.array([0.5, 0.8]), 0.5 + 0.8 - 2 * 0.1)
    np.testing.assert_allclose(regret, [0.32599875, 0.52599875], rtol=1e-7)
    np.testing.assert_allclose(information, [0.09138254, 0.27985904], rtol=1e-7)


@pytest.mark.parametrize(("mean", "correlation"), [((0.3, 0.1), 0.2), ((-0.5, 0.6), -0.7), ((0.0, 0.0), 0.9)])
def test_two_arms_are_the_limit_of_many_draws(mean, correlation):
    between = correlation * np.sqrt(0.5 * 0.8)
    covariance = np.array([[0.5, between], [between, 0.8]])
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, size=400_000)
    expected = regret_and_information(draws, EVERYONE)
    found = exact_pair(np.array(mean), np.diag(covariance), 1.3 - 2 * between)
    np.testing.assert_allclose(found, expected, atol=0.005)


def test_two_arms_that_are_told_apart():
    regret, information = exact_pair(np.array([0.3, 0.1]), np.array([1.0, 1.0]), 0.0)
    np.testing.assert_allclose(regret, [0, 0.2])
    assert information.tolist() == [0, 0]
    for apart in (1e-4, 1e-5, 1e-6, 1e-300):
        regret, information = exact_pair(np.array([0.1, 0.3]), np.array([1.0, 1.0]), apart)
        np.testing.assert_allclose(regret, [0.2, 0], atol=1e-12)
        assert (np.isfinite(information)).all()
        assert (information < 1e-8).all()


def naive(draws, offered):
    """Regret and information of every arm by draws of theta, arm by arm."""
    f = draws @ offered.T
    best = f.argmax(axis=1)
    regret = np.array([(f.max(axis=1) - f[:, a]).mean() for a in range(len(offered))])
    information = np.zeros(len(offered))
    for a in range(len(offered)):
        for b in set(best.tolist()):
            information[a] += (best == b).mean() * (f[best == b, a].mean() - f[:, a].mean()) ** 2
    return regret, information


def by_search(regret, information):
    """The best distribution over two arms by a fine search and then a finer one."""
    if regret.min() == 0:
        return (regret == 0) * 1.0
    least, found = np.inf, None
    for i, j in itertools.combinations(range(len(regret)), 2):
        low, high = 0.0, 1.0
        for _ in range(6):
            q = np.linspace(low, high, 101)
            ratios = (q * regret[i] + (1 - q) * regret[j]) ** 2 / (q * information[i] + (1 - q) * information[j])
            at = int(ratios.argmin())
            low, high = q[max(at - 1, 0)], q[min(at + 1, 100)]
        if ratios[at] < least * (1 - 1e-9):
            least, found = ratios[at], np.zeros(len(regret))
            found[i], found[j] = q[at], 1 - q[at]
    return found


@pytest.mark.parametrize("late", [0, 3], ids=["at once", "late"])
@pytest.mark.parametrize("variant", ["bayes", "frequentist"])
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_in_lock_step_with_the_textbook(offer, variant, late):
    """A pending pull counts in V, and in the estimate once its reward is known."""
    rng, mixed = np.random.default_rng(5), 0
    rounds = rng.standard_normal((50, 6, 3)) / 2
    if offer == "fixed":
        rounds[:] = rounds[0]
    sizes = {"features": rounds[0]} if offer == "fixed" else {"arms": 6, "dim": 3}
    learner = adadim.IDS(variant, draws=60, ridge=0.5, delta=0.05, theta_norm=2.0).start(
        adadim.Problem(**sizes, horizon=None, noise=0.3), seed=2
    )
    rule, seen = learner.rule, []
    original = rule.probabilities
    rule.probabilities = lambda rows: seen.append(original(rows)) or seen[-1]
    (generator,) = Streams(2, Purpose.POLICY, [0]).child(0).generators
    pulled, answered, b, waiting = np.eye(3) / 2, np.eye(3) / 2, np.zeros(3), []
    for x in rounds:
        theta = np.linalg.solve(answered, b)
        if variant == "bayes":
            root = np.linalg.inv(np.linalg.cholesky(pulled))
            regret, information = naive(theta + 0.3 * generator.standard_normal((60, 3)) @ root, x)
        else:
            width = np.sqrt(np.vecdot(x @ np.linalg.inv(pulled), x))
            gamma = np.linalg.slogdet(answered)[1] - 3 * np.log(0.5)
            half = np.sqrt(0.3**2 * (gamma + 2 * np.log(20)) + 0.5 * 2.0**2) * width
            regret, information = (x @ theta + half).max() - (x @ theta - half), np.log(1 + width**2)
        decision = learner.ask(*[] if offer == "fixed" else [x])
        expected = by_search(regret, information)
        mixed += np.count_nonzero(expected > 1e-6) == 2
        np.testing.assert_allclose(seen[-1][0], expected, atol=1e-6)
        pulled = pulled + np.outer(x[decision.arms], x[decision.arms])
        waiting.append((decision, x[decision.arms], x[decision.arms, 0] + 0.3 * rng.standard_normal()))
        if len(waiting) > late:
            decision, a, reward = waiting.pop(0)
            learner.tell(decision, reward)
            answered, b = answered + np.outer(a, a), b + reward * a
    assert mixed >= 2


def test_two_arms_are_offered():
    """The posterior's own regret and information, with masks, costs and parameters of their own."""
    x = np.array([[0.8, 0.6], [1.0, 0.0], [0.0, 1.0]])
    learner = adadim.IDS(draws=100_000, ridge=1.0).start(adadim.Problem(arms=3, dim=2, horizon=90, noise=0.5), seed=1)
    learner.learn(x[[0, 1, 1, 2]], [0.3, 0.6, 0.7, 0.4])
    costs = np.array([0.0, 0.1, 0.0])
    rows = learner.everyone.with_offer(x[None], np.array([[False, True, True]]), costs)
    exact = learner.rule.of_two(*(part[0] for part in learner.model.predict(rows)), np.array([1, 2]), rows)
    draws = regret_and_information(learner.rule.means(rows), rows)
    np.testing.assert_allclose(np.array(exact)[:, 1:], np.array(draws)[:, 1:], atol=0.003)
    p = learner.rule.probabilities(rows)[0]
    assert p[0] == 0
    assert p.sum() == pytest.approx(1)
    without = learner.everyone.with_offer(x[None, 1:], None)
    gap = learner.rule.of_two(*(part[0] for part in learner.model.predict(without)), np.array([0, 1]), without)[0]
    assert gap[1] - gap[0] == pytest.approx(exact[0][2] - exact[0][1] + 0.1)  # what it costs


def test_two_arms_with_parameters_of_their_own():
    problem = adadim.Problem(arms=2, dim=2, horizon=50, noise=0.5, disjoint=True)
    learner = adadim.IDS(ridge=1.0, draws=100_000).start(problem, seed=1)
    x = np.array([0.8, 0.6])
    for arm, reward in ((0, 0.9), (1, 0.4), (1, 0.5)):
        learner.absorb(np.array([arm]), np.array([reward]), learner.everyone, {"features": x[None]})
    rows = learner.everyone.with_offer(x[None], None)
    mean, width2 = learner.model.predict(rows)
    np.testing.assert_allclose(width2, [[1 / 2, 1 / 3]])
    exact = learner.rule.of_two(mean[0], width2[0], np.array([0, 1]), rows)
    np.testing.assert_allclose(exact, exact_pair(mean[0], 0.25 * width2[0], 0.25 * (1 / 2 + 1 / 3)))
    np.testing.assert_allclose(regret_and_information(learner.rule.means(rows), rows), exact, atol=0.004)


def test_copies_of_an_arm_share_what_they_win():
    draws = np.array([[1.0, 1.0, 0.5], [0.2, 0.2, 0.9], [0.7, 0.7, 0.1]])
    regret, information = regret_and_information(draws, EVERYONE)
    alone = regret_and_information(draws[:, 1:], EVERYONE)
    np.testing.assert_allclose(regret, [alone[0][0], *alone[0]])
    np.testing.assert_allclose(information, [alone[1][0], *alone[1]])


def test_an_agent_writes_the_probabilities(tmp_path):
    contexts, rng = np.random.default_rng(1).standard_normal((40, 2, 2)) / 2, np.random.default_rng(0)
    with Agent.create(tmp_path / "a.db", dim=2, policy=adadim.IDS(), noise=0.5) as agent:
        for x in contexts:
            decision = agent.ask(dict(zip("ab", x.tolist(), strict=True)))
            agent.tell(decision.id, float(x["ab".index(decision.arm), 0] + 0.5 * rng.standard_normal()))
        agent.export(tmp_path / "log.parquet")
    written = pl.read_parquet(tmp_path / "log.parquet")["probability"].to_numpy()
    assert (written > 0).all()
    assert ((written > 0.01) & (written < 0.99)).sum() > 1
    learner = adadim.IDS().start(adadim.Problem(arms=2, dim=2, horizon=None, noise=0.5))
    p = learner.rule.probabilities(learner.everyone.with_offer(contexts[:1], None))[0]
    assert np.abs(p - written[0]).min() < 1e-9


def test_on_torch_it_decides_the_same(torch):
    instance = adadim.instances.sphere(arms=20, dim=4, intrinsic_dim=2, horizon=60, replications=range(2))
    ours, theirs = (adadim.simulate(adadim.IDS(), which, seed=2) for which in (instance, instance.to("cpu")))
    np.testing.assert_array_equal(ours.pulls, theirs.pulls)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "exact"}, "variant must be 'bayes' or 'frequentist', got 'exact'"),
        ({"draws": 0}, "draws must be an integer of at least 1"),
        ({"ridge": 0.0}, "ridge must be a positive"),
        ({"delta": 2.0}, r"delta must be a number in \(0, 1\), got 2.0"),
    ],
)
def test_bad_parameters(options, message):
    assert_refuses((ValueError, TypeError), message, adadim.IDS, **options)
