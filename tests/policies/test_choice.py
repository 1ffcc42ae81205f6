"""What `choose` gives: arms, the scores by which they were chosen, and the probability of every arm."""

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

import adadim
from adadim.agent import Agent
from adadim.core.arrays import namespace
from adadim.core.ties import argmax, mean_tie_probabilities, tie_probabilities
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.base import Choice
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.rules import ProbabilityRule


class Softmax(ProbabilityRule):
    """Probabilities by the gaps of the means in units of their widths: all that a rule of its own has to say."""

    def probabilities(self, rows):
        mean, width2 = self.model.predict(rows)
        xp, values = namespace(mean), rows.apply_costs_and_mask(mean)
        weights = xp.exp(-((xp.max(values, axis=-1)[:, None] - values) ** 2) / (2 * width2))
        return weights / xp.sum(weights, axis=-1)[:, None]


@dataclass(frozen=True)
class SoftmaxPolicy(LinearPolicy):
    """Choose by `Softmax`."""

    def model_for(self, problem):
        return LinearModel(problem, RidgePrior(1.0))

    def rule_for(self, problem, model, streams):
        return Softmax(problem, model, "random")


TEACHES = {"features": [[1.0, 0.0], [0.0, 1.0]] * 4, "reward": [0.9, 0.4] * 4}
ARMS = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.5, 0.5]}


def softmax(costs):
    """The same by hand: V = (1 + 4) I, theta = (3.6, 1.6) / 5."""
    x = np.array(list(ARMS.values()))
    values, width2 = x @ [3.6 / 5, 1.6 / 5] - costs, np.vecdot(x, x) / 5
    weights = np.exp(-((values.max() - values) ** 2) / (2 * width2))
    return weights / weights.sum()


@pytest.mark.parametrize("costs", [np.zeros(3), np.array([0.5, 0.0, 0.1])], ids=["free", "costs"])
def test_a_rule_that_knows_its_probabilities_is_one_class(tmp_path, costs):
    now = [0.0]
    options = {"plugins": {"SoftmaxPolicy": SoftmaxPolicy}, "expire_after": 1.0, "clock": lambda: now[0]}
    with Agent.create(tmp_path / "a.db", dim=2, policy=SoftmaxPolicy(), **options) as agent:
        agent.learn((TEACHES["features"], TEACHES["reward"]))
        expected, drawn = softmax(costs), []
        for _ in range(60):
            drawn += agent.ask_many([None] * 5, ARMS, costs=dict(zip(ARMS, costs, strict=True)))[:1]
            now[0] += 2.0  # all of them expire, or those pending would count in the next
        for decision in drawn:
            assert decision.probability == pytest.approx(expected["abc".index(decision.arm)])
        share = np.mean([decision.arm == "a" for decision in drawn])
        assert abs(share - expected[0]) < 4 * np.sqrt(expected[0] * (1 - expected[0]) / 60)
        agent.export(tmp_path / "log.parquet")
    log = pl.read_parquet(tmp_path / "log.parquet")
    logged = dict(zip(log["decision"], log["probability"], strict=True))
    assert [logged[decision.id] for decision in drawn] == [decision.probability for decision in drawn]


def test_probabilities_that_are_known_are_mixed_with_exploration(tmp_path):
    with Agent.create(
        tmp_path / "a.db", dim=2, policy=SoftmaxPolicy(), plugins={"SoftmaxPolicy": SoftmaxPolicy}, explore=0.4
    ) as agent:
        agent.learn((TEACHES["features"], TEACHES["reward"]))
        slate = agent.ask(ARMS, slots=3)
        first = softmax(np.zeros(3))
        at = ["abc".index(arm) for arm in slate.arms]
        assert slate.decisions[0].probability == pytest.approx(0.4 / 3 + 0.6 * first[at[0]])
        values, x = np.array([0.72, 0.32, 0.52]), np.array(list(ARMS.values()))
        left = at[1:]
        weights = np.exp(-((values[left].max() - values[left]) ** 2) / (2 * np.vecdot(x, x)[left] / 5))
        assert slate.decisions[1].probability == pytest.approx(0.2 + 0.6 * weights[0] / weights.sum())
        assert slate.decisions[2].probability == pytest.approx(1.0)


def test_it_plays_wherever_a_linear_policy_does():
    policy = SoftmaxPolicy()
    fixed = adadim.instances.sphere(arms=20, dim=4, intrinsic_dim=2, horizon=200, replications=range(3))
    contexts = adadim.instances.contexts(arms=5, dim=4, intrinsic_dim=2, horizon=200, replications=range(3))
    for instance in (fixed, contexts):
        random = adadim.simulate(adadim.Random(), instance).final.mean()
        assert adadim.simulate(policy, instance).final.mean() < random


CONTEXTUAL = [
    adadim.Random(),
    adadim.LinUCB(),
    adadim.LinUCB(ties="lowest"),
    adadim.EvidenceLinUCB(),
    SoftmaxPolicy(),
    adadim.LinMED(),
    adadim.ModCB(),
    adadim.ModCB(base="linucb"),
    adadim.ModCB(base="exp4-ix"),
    adadim.Corral(feedback="importance", bases=(adadim.LinUCB(dim=1), adadim.LinUCB(dim=2), adadim.Random())),
]


@pytest.mark.parametrize("policy", CONTEXTUAL, ids=repr)
def test_probabilities_are_those_of_the_arms_that_come(policy):
    """Each arm, over replications in one state which draw their own numbers."""
    count, arms = 4000, [[1.0, 0.2], [1.0, 0.2], [0.3, 0.9]]
    problem = adadim.Problem(arms=3, dim=2, horizon=50, noise=0.5, replications=range(count), sets="iid")
    learner = policy.start(problem)
    choice = learner.choose(learner.everyone.with_offer(np.broadcast_to(arms, (count, 3, 2)), None))
    probabilities = choice.probabilities
    assert probabilities.shape == (count, 3)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities[np.arange(count), choice.arms] > 0).all()
    came = (choice.arms[:, None] == np.arange(3)).mean(axis=0)
    assert np.abs(came - probabilities.mean(axis=0)).max() < 4 * 0.5 / np.sqrt(count)


def test_masks_and_arms_that_a_model_leaves_out_have_probability_zero():
    features = np.array([[1.0, 0.0], [0.5, 0.0], [0.2, 0.8]])
    for policy in (adadim.LinUCB(), adadim.UCB(), adadim.Random(), SoftmaxPolicy(), adadim.MOSS()):
        learner = policy.start(adadim.Problem(features, horizon=10, noise=0.1))
        allowed = learner.everyone.with_offer(None, np.array([[False, True, True]]))
        probabilities = learner.choose(allowed).probabilities
        assert probabilities[0, 0] == 0
        assert probabilities.sum() == pytest.approx(1.0)
    actions = adadim.ActionSet(np.array([[0.6, 0.8], [0.0, 1.0]]), levels=[1, 2])
    learner = adadim.LinUCB(dim=1, ties="lowest").start(adadim.Problem(actions, horizon=10, noise=0.1))
    choice = learner.choose(learner.everyone)
    assert choice.probabilities.shape == (1, learner.problem.arms)
    assert choice.probabilities[0, choice.arms[0]] == 1.0


def test_what_is_not_known_is_none():
    problem = adadim.Problem(np.eye(4), horizon=20, noise=0.3)
    for policy in (adadim.LinTS(), adadim.RegretBalancing(), adadim.Corral()):
        learner = policy.start(problem)
        assert learner.choose(learner.everyone).probabilities is None


def test_ties_have_equal_probabilities(torch):
    scores = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [-np.inf, -1.0, -1.0], [np.nan, 1.0, 1.0]])
    expected = [[0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5], [1, 0, 0]]
    assert tie_probabilities(scores, "random").tolist() == expected
    assert tie_probabilities(torch.from_numpy(scores[:3]), "random").tolist() == expected[:3]
    assert tie_probabilities(scores, "lowest").tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0]]
    for row, probabilities in zip(scores, expected, strict=True):
        assert tie_probabilities(row[None], "random").tolist() == [probabilities]
        assert tie_probabilities(row[None], "lowest").argmax() == argmax(row[None], None)[0]


@pytest.mark.parametrize("ties", ["random", "lowest"])
def test_means_of_tie_probabilities(ties):
    """In some of these as many scores are the largest as there are rows, though two tie: one of another row is NaN."""
    drawn = np.random.default_rng(0).standard_normal((1001, 30))
    tied = np.array([[1.0, 1.0, 0.0], [np.nan, 2.0, 3.0], [0.0, 1.0, 3.0]])
    for scores in (drawn, np.round(drawn), tied, tied[:1], tied[2:], np.full((2, 3), -np.inf), np.ones((4, 1))):
        expected = np.array([tie_probabilities(row[None], ties)[0] for row in scores])
        shares = mean_tie_probabilities(scores, ties)
        assert shares.tolist() == np.ascontiguousarray(expected.T).mean(axis=1).tolist()


def test_a_learner_of_ones_own_may_give_a_pair():
    class Pair(adadim.Learner):
        def choose(self, rows):
            return self.zeros(integers=True) + 1, {}

        def absorb(self, arms, rewards, rows, memo):
            return

    @dataclass(frozen=True)
    class PairPolicy(adadim.Policy):
        def learner(self, problem, streams):
            return Pair(problem, streams)

    instance = adadim.instances.sphere(arms=3, dim=2, intrinsic_dim=1, horizon=4)
    assert adadim.simulate(PairPolicy(), instance).pulls.tolist() == [[0, 4, 0]]
    problem = adadim.Problem(np.eye(2), horizon=4, noise=1.0)
    assert Choice(*PairPolicy().start(problem).choose(None)).probabilities is None


def test_a_policy_that_draws_is_judged_by_its_probabilities():
    rng = np.random.default_rng(0)
    arm = rng.integers(2, size=400)
    log = {"arm": arm, "reward": arm * 1.0 + rng.normal(size=400), "propensity": [0.5] * 400, "x": rng.normal(size=400)}
    judged = adadim.evaluate(adadim.Random(), log)
    assert (judged.replay, judged.mean_weight, judged.matched) == (None, 1.0, 320)
    assert adadim.evaluate(SoftmaxPolicy(), log).matched > 300  # most arms have some probability, not a half of them
