"""UCB on unrelated arms: its indices, its first rounds, and a plain implementation."""

import math

import numpy as np
import pytest
from scipy import stats

import reference
from adadim import UCB, Problem
from adadim.policies.confidence import self_normalised_bonus, subgaussian_bonus, ucb1_bonus

INDICES = ("self-normalised", "subgaussian", "ucb1", "released")
every_index = pytest.mark.parametrize("index", INDICES)


def bonus(function, n, *rest, **options):
    return float(function(np.array([float(n)]), *rest, **options)[0])


# Indices


def test_index_oracles():
    """C17."""
    assert bonus(ucb1_bonus, 4, np.array([100.0])) == pytest.approx(1.517427, abs=1e-6)
    assert bonus(self_normalised_bonus, 4, 3, math.sqrt(2), 0.1) == pytest.approx(2.425365, abs=1e-6)
    table = {(1, 1): (9.5249, 5.8735), (10, 2): (5.1721, 1.6054), (100, 4): (2.1876, 0.5563)}
    for (n, arms), (released, intended) in table.items():
        delta = 1 / math.sqrt(1024)
        got = bonus(self_normalised_bonus, n, arms, math.sqrt(2), delta, released=True)
        assert got == pytest.approx(released, abs=5e-5)
        assert bonus(self_normalised_bonus, n, arms, math.sqrt(2), delta) == pytest.approx(intended, abs=5e-5)
    assert bonus(subgaussian_bonus, 4, 0.5, math.exp(-8)) == pytest.approx(1.0)


@every_index
def test_indices_decrease_in_the_number_of_pulls(index):
    n = np.arange(1.0, 500.0)
    widths = {
        "self-normalised": self_normalised_bonus(n, 5, 0.3, 0.05),
        "subgaussian": subgaussian_bonus(n, 0.3, 0.05),
        "ucb1": ucb1_bonus(n, np.array([1000.0])),
        "released": self_normalised_bonus(n, 5, 0.3, 0.05, released=True),
    }[index]
    assert (np.diff(widths) < 0).all()
    assert (widths > 0).all()


def test_default_confidence():
    assert UCB().confidence(2500) == pytest.approx(1 / 50)
    assert UCB(index="released").confidence(2500) == pytest.approx(1 / 50)
    assert UCB(index="subgaussian").confidence(2500) == pytest.approx(2500**-2)
    assert UCB(index="subgaussian", delta=0.3).confidence(2500) == 0.3


@every_index
def test_scores_of_a_learner(index):
    """The index with the problem's own noise, number of arms and horizon."""
    learner = UCB(index=index, scale=0.5).start(Problem(np.eye(3), horizon=400, noise=0.2))
    for arm, reward in ((0, 0.3), (2, 0.5), (0, 0.1), (0, 0.2)):
        learner.select()
        learner.update([arm], [reward])
    width = {
        "self-normalised": lambda n: 0.2 * math.sqrt((1 + n) / n**2 * (1 + 2 * math.log(3 * math.sqrt(1 + n) * 20))),
        "subgaussian": lambda n: 0.2 * math.sqrt(2 * math.log(400**2) / n),
        "ucb1": lambda n: math.sqrt(2 * math.log(4) / n),
        "released": lambda n: math.sqrt((1 + n) / n**2 * (1 + 4 * 20 * math.log(3 * math.sqrt(1 + n)))),
    }[index]
    expected = [0.2 + 0.5 * width(3), math.inf, 0.5 + 0.5 * width(1)]
    np.testing.assert_allclose(learner.statistics.scores(learner.everyone)[0], expected, rtol=1e-12)


# Behaviour


@every_index
def test_every_arm_once_first(index):
    problem = Problem(np.full((7, 2), 0.1), horizon=50, noise=0.1, replications=[4])
    learner = UCB(index=index).start(problem, seed=3)
    first = []
    for t in range(7):
        first.append(learner.select())
        learner.update([first[-1]], [10.0 - t])
    assert sorted(first) == list(range(7))
    assert first != list(range(7))  # in random order
    lowest = UCB(index=index, ties="lowest").start(problem)
    for t in range(7):
        assert lowest.select() == t
        lowest.update([t], [10.0 - t])


def test_first_arm_is_uniform():
    problem = Problem(np.broadcast_to(np.eye(6), (3000, 6, 6)), horizon=50, noise=0.1)
    counts = np.bincount(UCB().start(problem).select(), minlength=6)
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("index", ["self-normalised", "subgaussian", "released"])
def test_chooses_as_the_textbook(index):
    arms, horizon, count = 6, 400, 3
    rng = np.random.default_rng(1)
    means = rng.random((count, arms))
    learner = UCB(index=index, ties="lowest").start(
        Problem(np.broadcast_to(np.eye(6), (3, 6, 6)), horizon=400, noise=0.3)
    )
    textbooks = [
        reference.UCB(arms, horizon, 0.3, rng, index=index.replace("-", "_"), ties="lowest") for _ in range(count)
    ]
    for _ in range(horizon):
        chosen = learner.select()
        assert chosen.tolist() == [textbook.select() for textbook in textbooks]
        rewards = means[range(count), chosen] + 0.3 * rng.standard_normal(count)
        learner.update(chosen, rewards)
        for textbook, arm, reward in zip(textbooks, chosen, rewards, strict=True):
            textbook.update(int(arm), float(reward))
    np.testing.assert_array_equal(learner.statistics.counts, [textbook.counts for textbook in textbooks])


def test_ucb1_chooses_as_written_out():
    rng = np.random.default_rng(2)
    means, counts, sums = rng.random(5), np.zeros(5), np.zeros(5)
    learner = UCB(index="ucb1", ties="lowest").start(Problem(np.eye(5), horizon=300, noise=0.5))
    for t in range(300):
        if t < 5:
            expected = t
        else:
            expected = int(np.argmax(sums / counts + np.sqrt(2 * np.log(t) / counts)))
        assert learner.select() == expected
        reward = float(rng.random() < means[expected])
        learner.update([expected], [reward])
        counts[expected] += 1
        sums[expected] += reward


def test_description():
    learner = UCB().start(Problem(np.eye(3), horizon=50, noise=0.1, replications=[8]))
    for arm in (1, 2, 1, 0, 1):
        learner.select()
        learner.update([arm], [0.0])
    pulls = {"pulls": 5, "most_pulled_arm": 1, "pulls_of_that_arm": 3}
    assert learner.describe() == {"replication": 8, **pulls, "open_decisions": 0}


def test_any_arm_may_be_reported():
    """Rewards of arms that another policy chose count like one's own."""
    learner = UCB(ties="lowest").start(Problem(np.eye(3), horizon=50, noise=0.1))
    assert learner.select() == 0
    learner.update([2], [0.4])
    assert learner.statistics.counts.tolist() == [[0, 0, 1]]
    assert learner.statistics.sums.tolist() == [[0, 0, 0.4]]
