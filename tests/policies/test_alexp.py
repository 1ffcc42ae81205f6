"""ALEXP: the sheet's numbers, a textbook in lock-step as published and as released, and when predictions count."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.agent import Agent
from adadim.policies.linear.alexp import lasso_penalty
from refusals import assert_refuses

GROUPS = ((0,), (0, 1), (2, 3))


def test_the_penalty():
    assert lasso_penalty(10, 20, 3, 0.01, 0.1) == pytest.approx(0.226607169, rel=1e-8)
    assert 0.009 * lasso_penalty(100, 165, 8, 0.01, 0.1) == pytest.approx(0.000763032429, rel=1e-8)


def test_weights_of_three_rounds():
    """Released: every prediction has the rate of its own round, and the first is the same for all."""
    policy = adadim.ALEXP(((0,), (1,), (2,)), rate=2.0, released=True)
    learner = policy.start(adadim.Problem(np.eye(3), horizon=100, noise=0.1), seed=1)
    rule, everyone = learner.rule, learner.everyone
    for predicted in ([0.9, 0.3, 0.5], [0.2, -0.1, 0.0], [0.1, -0.3, 0.2]):
        learner.learn([0], [0.5])
        rule.estimates = lambda one, answered, values=predicted: np.array(values)
        rule._count(everyone, np.eye(3))
    expected = [0.44284499, 0.18255938, 0.37459563]
    np.testing.assert_allclose(rule.model_probabilities(everyone), [expected], rtol=1e-7)
    np.testing.assert_allclose(rule.exploration(np.array([3])), [0.0577350269], rtol=1e-8)
    # As published, the rate of the last round is that of all.
    rule = adadim.ALEXP(((0,), (1,), (2,)), rate=2.0).start(learner.problem).rule
    rule.counted[:], rule.earned[:] = 3, [1.2, -0.1, 0.7]
    weights = np.exp(2 / np.sqrt(3) * rule.earned)
    np.testing.assert_allclose(rule.model_probabilities(everyone), weights / weights.sum())
    np.testing.assert_allclose(rule.exploration(np.array([3])), 0.1 * 3**-0.25)


def test_a_model_after_one_reward():
    arms = np.array([[1.0, 0.5], [1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
    learner = adadim.ALEXP(((0, 1),), released=True).start(adadim.Problem(arms, horizon=9, noise=0.001), seed=1)
    learner.learn([0], [0.3])
    mean, deviation = learner.rule.predictions(learner.everyone)
    np.testing.assert_allclose(mean[0, 0, 1:3], [0.23998615, 0.11999308], rtol=1e-7)
    assert deviation[0, 0, 3] == pytest.approx(1.1169928, rel=1e-7)
    learner.learn([0], [0.3])  # another one: what was counted twice is not any more
    np.testing.assert_allclose(learner.rule.predictions(learner.everyone)[0], mean, rtol=1e-12)


def lasso(x, y, penalty, sweeps=60):
    """Sum of the copies of every column, and which groups are not 0, by proximal steps in one group at a time."""
    design = np.concatenate([x[:, list(group)] for group in GROUPS], axis=1)
    at, v = [[0], [1, 2], [3, 4]], np.zeros(5)
    for _ in range(sweeps):
        for columns in at:
            own = design[:, columns]
            bound = max(np.linalg.eigvalsh(own.T @ own / len(y)).max(), 1e-12)
            for _ in range(20):
                u = v[columns] + own.T @ (y - design @ v) / len(y) / bound
                norm = np.linalg.norm(u)
                v[columns] = u * max(0.0, 1 - penalty / bound / norm) if norm > 0 else 0.0
    return np.array([v[0] + v[1], v[2], v[3], v[4]]), [bool(v[columns].any()) for columns in at]


def ridge(x, y, columns, noise):
    """Parameter and covariance by a prior of variance ln 2 on some columns."""
    precision = np.eye(len(columns)) / np.log(2) + x[:, columns].T @ x[:, columns] / noise**2
    covariance = np.linalg.inv(precision)
    return covariance @ x[:, columns].T @ y / noise**2, covariance


class Textbook:
    """What is known after some answered rounds; features and rewards are kept, and all is computed anew."""

    def __init__(self, released, noise, rate, explore):
        self.released, self.noise, self.rate, self.explore = released, noise, rate, explore
        self.x, self.y, self.logs, self.counted = np.zeros((0, 4)), np.zeros(0), np.zeros(3), 0

    def probabilities(self, arms):
        n = len(self.y)
        if n == 0:
            return np.full(len(arms), 1 / len(arms))
        times = 2 if self.released and n == 1 else 1
        x, y = np.tile(self.x, (times, 1)), np.tile(self.y, times)
        chosen = []
        for group in GROUPS:
            theta, covariance = ridge(x, y, list(group), self.noise)
            own = arms[:, list(group)]
            chosen.append(int((own @ theta + 2 * np.sqrt([a @ covariance @ a for a in own])).argmax()))
        if n > self.counted:
            log = np.log(8 * 3 / 0.1)
            penalty = (
                0.05 * 8 * self.noise / np.sqrt(n) * np.sqrt(1 + 5 / 2**0.5 * (2 * log) ** 0.5 + 12 / 2**0.5 * log)
            )
            theta, kept = lasso(self.x, self.y, penalty)
            if self.released:
                kept = kept if any(kept) and n > 1 else [True] * 3
                columns = sorted({column for group, has in zip(GROUPS, kept, strict=True) if has for column in group})
                self.kept = kept
                theta = np.zeros(4)
                theta[columns] = ridge(x, y, columns, self.noise)[0]
            for s in range(self.counted + 1, n + 1):
                rate = (s > 1) * self.rate / np.sqrt(s) if self.released else 1.0
                self.logs = self.logs + rate * (arms @ theta)[chosen]
            self.counted = n
        logs = self.logs if self.released else self.rate / np.sqrt(n) * self.logs
        q = np.exp(logs - logs.max())
        gamma = self.explore * n ** (-0.5 if self.released else -0.25)
        p = np.full(len(arms), gamma / len(arms))
        np.add.at(p, chosen, (1 - gamma) * q / q.sum())
        return p


@pytest.mark.parametrize("late", [0, 3], ids=["at once", "late"])
@pytest.mark.parametrize("released", [False, True], ids=["published", "released"])
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
def test_in_lock_step_with_the_textbook(offer, released, late):
    """A reward counts once it is known, by the arms that are offered then."""
    rng = np.random.default_rng(5)
    rounds = rng.standard_normal((40, 6, 4)) / 2
    if offer == "fixed":
        rounds[:] = rounds[0]
    sizes = {"features": rounds[0]} if offer == "fixed" else {"arms": 6, "dim": 4}
    policy = adadim.ALEXP(GROUPS, explore=0.3, rate=3.0, penalty=0.05, released=released)
    learner = policy.start(adadim.Problem(**sizes, horizon=None, noise=0.2), seed=2)
    book, waiting, kept = Textbook(released, 0.2, 3.0, 0.3), [], set()
    for x in rounds:
        decision = learner.ask(*[] if offer == "fixed" else [x])
        rows = learner.everyone.with_offer(x[None] if offer == "contexts" else None, None)
        p = book.probabilities(x)
        np.testing.assert_allclose(learner.rule.probabilities(rows)[0], p, atol=2e-6)
        waiting.append((decision, x[decision.arms], x[decision.arms] @ [0.6, 0.5, 0, 0] + 0.2 * rng.standard_normal()))
        if len(waiting) > late:
            decision, pulled, reward = waiting.pop(0)
            learner.tell(decision, reward)
            book.x, book.y = np.vstack([book.x, pulled]), np.append(book.y, reward)
        if released and len(book.y) > 3:
            kept.add(tuple(book.kept))
    if released:
        assert not all(all(groups) for groups in kept)  # the Lasso leaves some out


def test_several_rewards_between_two_decisions_count_several_times():
    earned = []
    for apart in (False, True):
        learner = adadim.ALEXP(GROUPS).start(adadim.Problem(np.eye(4), horizon=90, noise=0.2), seed=3)
        decisions = [learner.ask() for _ in range(3)]
        for decision, reward in zip(decisions, (0.5, 0.1, 0.9), strict=True):
            learner.tell(decision, reward)
            if apart:
                learner.rule.probabilities(learner.everyone)
        learner.rule.probabilities(learner.everyone)
        earned.append(learner.rule.earned[0].copy())
        before = earned[-1].copy()
        learner.rule.probabilities(learner.everyone)
        assert (learner.rule.earned[0] == before).all()  # nothing new
        assert learner.rule.counted.tolist() == [3]
    last = learner.rule.estimates(learner.everyone, 3)
    shares = learner.rule.proposals(learner.everyone)[0]
    np.testing.assert_allclose(earned[0], 3 * shares @ last, rtol=1e-6)
    assert not np.allclose(earned[0], earned[1])


def test_the_end_of_the_run_in_the_place_of_t():
    rule = adadim.ALEXP(GROUPS, anytime=False).start(adadim.Problem(np.eye(4), horizon=400, noise=0.2)).rule
    np.testing.assert_allclose(rule.exploration(np.array([3, 300])), 0.1 * 400**-0.25)
    rule.earned[:] = [[1.0, 0.0, 0.0]]
    weights = np.exp([10 / 20, 0, 0])
    np.testing.assert_allclose(rule.model_probabilities(rule.everyone)[0], weights / weights.sum())


def test_masks_and_costs():
    learner = adadim.ALEXP(GROUPS).start(adadim.Problem(arms=3, dim=4, horizon=90, noise=0.2), seed=3)
    x = np.array([[1.0, 0, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 0.6, 0.8]])
    learner.learn(x, [0.9, 0.6, 0.1])
    rows = learner.everyone.with_offer(x[None], np.array([[False, True, True]]))
    p = learner.choose(rows).probabilities[0]
    assert p[0] == 0
    assert p.sum() == pytest.approx(1)
    other = adadim.ALEXP(GROUPS).start(learner.problem, seed=3)
    other.learn(x, [0.9, 0.6, 0.1])
    costly = other.everyone.with_offer(x[None], None, np.array([50.0, 0.0, 0.0]))
    p = other.choose(costly).probabilities[0]
    assert p[0] == pytest.approx(0.1 * 3**-0.25 / 3)  # by exploration alone
    assert (other.rule.proposals(costly)[0][:, 0] == 0).all()
    assert (other.rule.earned[0] > -1).all()


def test_parameters_for_each_arm():
    """Where the parameters of arms have nothing in common, only what was seen of each arm counts."""
    problem = adadim.Problem(arms=2, dim=2, horizon=300, noise=0.1, disjoint=True)
    learner, rng, right = adadim.ALEXP(((0,), (1,))).start(problem, seed=1), np.random.default_rng(0), 0
    for t in range(200):
        x = rng.standard_normal(2)
        decision = learner.ask(x)
        learner.tell(decision, float(x @ [[0.0, 0.8], [0.0, -0.8]][decision.arms]))
        right += t >= 100 and (decision.arms == 0) == (x[1] > 0)
    assert right >= 85
    assert learner.describe()["model_probabilities"][1] > 0.9


def test_an_agent_refuses_it(tmp_path):
    with pytest.raises(ValueError, match=r"an agent cannot play ALEXP: it keeps more than a regression"):
        Agent.create(tmp_path / "a.db", dim=2, policy=adadim.ALEXP(), noise=0.5)


@pytest.mark.parametrize("released", [False, True])
def test_on_torch_it_decides_the_same(torch, released):
    instance = adadim.instances.sphere(arms=20, dim=4, intrinsic_dim=2, horizon=60, replications=range(2))
    policy = adadim.ALEXP(released=released)
    ours, theirs = (adadim.simulate(policy, which, seed=2) for which in (instance, instance.to("cpu")))
    np.testing.assert_array_equal(ours.pulls, theirs.pulls)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ()}, r"groups must be a tuple of tuples of numbers of features, e.g. \(\(0,\), \(0, 1\)\)"),
        ({"groups": ((0,), ())}, "groups must be a tuple of tuples"),
        ({"groups": ((0, -1),)}, "groups must be an integer of at least 0"),
        ({"groups": ((0, 0),)}, r"groups must have every feature once in each group, got \(0, 0\)"),
        ({"explore": -0.1}, r"explore must be a number in \[0, 1\], got -0.1"),
        ({"rate": 0.0}, "rate must be a positive"),
        ({"penalty": -1.0}, "penalty must be a positive"),
        ({"delta": 0.0}, r"delta must be a number in \(0, 1\)"),
    ],
)
def test_bad_parameters(options, message):
    assert_refuses((ValueError, TypeError), message, adadim.ALEXP, **options)


def test_groups_that_the_problem_does_not_have():
    policy, problem = adadim.ALEXP(((0, 4),)), adadim.Problem(np.eye(3), horizon=9, noise=0.1)
    assert_refuses(ValueError, "groups must have features 0 to 2, which the problem has, got 4", policy.start, problem)
    endless = adadim.Problem(np.eye(5), horizon=None, noise=0.1)
    assert_refuses(ValueError, "horizon", adadim.ALEXP(anytime=False).start, endless)
