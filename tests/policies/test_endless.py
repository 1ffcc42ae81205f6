"""Problems without an end: the number of the round takes the place of the horizon, or the policy refuses."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import adadim
from adadim.errors import InvalidValueError
from adadim.instances.contexts import ContextInstance
from adadim.policies.confidence import fixed_radius, noise_radius
from adadim.policies.linear.rules import probes_next
from policy_examples import every_policy

RIDGE, NOISE, NORM = 0.3, 0.2, 1.5
ANYTIME = {
    "LinUCB",
    "LinTS",
    "LinMED",
    "PriorThompson",
    "PriorElimination",
    "PriorBalancing",
    "FeelGood",
    "RadiusMixture",
    "RadiusExp3",
    "ALEXP",
    "IDS",
    "MaxRatio",
    "Greedy",
    "TaperedLinUCB",
    "EvidenceLinUCB",
    "Random",
    "UCB",
    "Certified",
    "RegretBalancing",
    "RegretBalancingLinear",
    "Single",
    "ReleasedLinUCB",
}


def anytime_radius(rule, t, arms, v):
    """The radii of the docstring of LinUCB with t for T, written out."""
    if rule == "noise":
        return NOISE * math.sqrt(2 * math.log(2 * t**1.5 * arms))
    if rule == "full":
        return NOISE * math.sqrt(2 * math.log(2 * t**1.5 * arms)) + math.sqrt(RIDGE) * NORM
    if rule == "paper":
        return 2 * math.sqrt(math.log(2 * max(t, 2) ** 1.5 * arms)) + 2 * math.log(max(t, 2))
    logdet = np.linalg.slogdet(v / RIDGE)[1]
    if rule == "oful-2011":
        return NOISE * math.sqrt(math.log(t) + logdet) + math.sqrt(RIDGE) * NORM
    return math.sqrt(NOISE**2 * (math.log(t) + logdet) + RIDGE * NORM**2)


@pytest.mark.parametrize("late", [0, 7], ids=["at once", "late"])
@pytest.mark.parametrize("rule", ["noise", "full", "paper", "oful", "oful-2011"])
@pytest.mark.parametrize("contextual", [False, True], ids=["fixed", "contexts"])
def test_linucb_in_lock_step_with_the_textbook(contextual, rule, late):
    rng = np.random.default_rng(8)
    rounds = rng.standard_normal((300, 9, 4)) / 6
    if not contextual:
        rounds[:] = rounds[0]
    rewards = rounds @ [0.5, -0.4, 0.3, 0] + NOISE * rng.standard_normal((300, 9))
    sizes = {"arms": 9, "dim": 4} if contextual else {"features": rounds[0]}
    problem = adadim.Problem(**sizes, horizon=None, noise=NOISE)
    policy = adadim.LinUCB(ridge=RIDGE, radius=rule, theta_norm=NORM, ties="lowest")
    learner, waiting, x, r = policy.start(problem), [], [], []
    for t, (features, gained) in enumerate(zip(rounds, rewards, strict=True), 1):
        seen = np.array(x).reshape(-1, 4)
        v = RIDGE * np.eye(4) + seen.T @ seen
        unanswered = np.array([pulled for _, pulled, _ in waiting]).reshape(-1, 4)
        asked = v + unanswered.T @ unanswered  # a pull counts in the widths from its decision on
        width = np.sqrt(np.vecdot(features, np.linalg.solve(asked, features.T).T))
        scores = features @ np.linalg.solve(v, seen.T @ np.array(r)) + anytime_radius(rule, t, 9, v) * width
        decision = learner.ask(*([features] if contextual else []))
        arm = decision.arms
        assert arm == int(np.argmax(scores)), t
        waiting.append((decision, features[arm], gained[arm]))
        if len(waiting) > late:  # a round counts from its decision on
            answered = waiting.pop(0)
            learner.tell(answered[0], answered[2])
            x.append(answered[1])
            r.append(answered[2])


def test_radii_of_many_rounds_are_those_of_each():
    t = np.array([[1.0], [2.0], [1000.0]])
    for rule in ("noise", "full", "paper"):
        found = fixed_radius(rule, 0.2, t, 9, 0.3, 1.5)
        each = [fixed_radius(rule, 0.2, int(n), 9, 0.3, 1.5) for n in t[:, 0]]
        np.testing.assert_allclose(found[:, 0], each, rtol=1e-14)


@pytest.mark.parametrize("index", ["self-normalised", "subgaussian"])
def test_ucb_in_lock_step_with_the_textbook(index):
    rng = np.random.default_rng(9)
    learner = adadim.UCB(index=index, ties="lowest").start(adadim.Problem(np.eye(4), horizon=None, noise=NOISE))
    counts, sums = np.zeros(4), np.zeros(4)
    for t in range(1, 200):
        n = np.maximum(counts, 1)
        if index == "subgaussian":
            width = NOISE * np.sqrt(4 * np.log(t) / n)
        else:
            width = NOISE * np.sqrt((1 + n) / n**2 * (1 + 2 * np.log(4 * np.sqrt(1 + n) * np.sqrt(t))))
        arm = learner.select()
        assert arm == int(np.argmax(np.where(counts > 0, sums / n + width, np.inf)))
        reward = [0.1, 0.2, 0.25, 0.0][arm] + NOISE * rng.standard_normal()
        learner.update(arm, reward)
        counts[arm] += 1
        sums[arm] += reward


@pytest.mark.parametrize("contextual", [False, True], ids=["fixed", "contexts"])
def test_the_radius_of_evidence_grows_between_stocktakings(contextual):
    features = np.random.default_rng(1).standard_normal((6, 3)) / 2
    sizes = {"arms": 6, "dim": 3} if contextual else {"features": features}
    problem = adadim.Problem(**sizes, horizon=None)  # neither an end nor the noise is known
    learner = adadim.recommended(problem).start(problem)
    offered = [features] if contextual else []
    for t in range(1, 40):
        noise = learner.describe()["noise"]
        if noise is not None:
            radius = float(learner.rule.radius(learner.everyone)[0, 0])
            scale = 1.0 if probes_next(np.array(t - 1), 2) else 0.35
            assert radius == pytest.approx(scale * noise_radius(noise, t, 6), rel=1e-12)
        learner.update(learner.select(*offered), np.sin(t))


def test_pulls_from_a_log_count_as_rounds():
    learner = adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=None, noise=0.1))
    learner.learn([0, 1, 2, 0], [0.1, 0.2, 0.3, 0.4])
    assert float(learner.rule.radius(learner.everyone)[0, 0]) == pytest.approx(noise_radius(0.1, 5, 3))


@every_policy
def test_policies_play_without_an_end_or_refuse_to_start(policy):
    anytime = type(policy).__name__ in ANYTIME
    problem = adadim.Problem(np.eye(8), horizon=None, noise=0.1)
    if not anytime:
        with pytest.raises(InvalidValueError, match=r"needs the number of rounds: give Problem\(horizon=\.\.\.\)"):
            policy.start(problem)
        return
    play(policy.start(problem, seed=1))


@pytest.mark.parametrize("name", sorted(ANYTIME - {"UCB", "RegretBalancing", "Single", "ReleasedLinUCB"}))
def test_policies_play_without_an_end_in_contexts(name):
    learner = getattr(adadim, name)().start(adadim.Problem(arms=8, dim=8, horizon=None, noise=0.1), seed=1)
    play(learner, np.eye(8))


def play(learner, *offered):
    for t in range(20):
        learner.update(learner.select(*offered), 0.1 * t)
    learner.describe()


@pytest.mark.parametrize("policy", [adadim.LinUCB(), adadim.EvidenceLinUCB(), adadim.UCB(), adadim.LinTS()])
def test_saved_learners_go_on(policy, tmp_path):
    problem = adadim.Problem(np.eye(5), horizon=None, noise=0.1)
    learner = policy.start(problem, seed=3)
    for t in range(30):
        learner.update(learner.select(), np.cos(t))
    learner.save(tmp_path / "learner")
    restored, twin = adadim.load(tmp_path / "learner", problem), copy.deepcopy(learner)
    for t in range(30):
        arm = learner.select()
        assert restored.select() == twin.select() == arm
        for one in (learner, restored, twin):
            one.update(arm, np.cos(t))
    with pytest.raises(adadim.errors.FileError, match="horizon was None, and is 60 here"):
        adadim.load(tmp_path / "learner", adadim.Problem(np.eye(5), horizon=60, noise=0.1))


@pytest.mark.parametrize(
    "policy",
    [adadim.LinUCB(), adadim.UCB(), adadim.EvidenceLinUCB(), adadim.RegretBalancing(), adadim.Random()],
)
def test_torch_chooses_as_numpy_does(policy, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(adadim.Problem, "draws_at_once", 100)  # otherwise 1,024
    features = np.random.default_rng(2).standard_normal((2, 12, 6)) / 5
    here = policy.start(adadim.Problem(features, horizon=None, noise=0.1), seed=4)
    there = policy.start(adadim.Problem(torch.from_numpy(features), horizon=None, noise=0.1), seed=4)
    for t in range(230):  # random numbers are made three times
        arms = here.select()
        assert there.select().tolist() == arms.tolist()
        rewards = features[[0, 1], arms, 0] + 0.1 * np.sin([t, 2 * t])
        here.update(arms, rewards)
        there.update(torch.from_numpy(arms), torch.from_numpy(rewards))


def test_who_needs_a_horizon_says_so():
    problem = adadim.Problem(np.eye(2), horizon=None, noise=0.1)
    assert problem.endless
    assert "horizon=None" in repr(problem)
    with pytest.raises(InvalidValueError, match="needs the number of rounds"):
        _ = problem.horizon
    contextual = adadim.Problem(arms=2, dim=2, horizon=None, noise=0.1)
    instance = ContextInstance(contextual, np.ones((1, 2)), "gaussian", seed=0)
    with pytest.raises(InvalidValueError, match=r"simulate needs a number of rounds.*give it a horizon"):
        adadim.simulate(adadim.LinUCB(), instance)
    for contextual in ({"features": np.eye(2)}, {"arms": 2, "dim": 2}):
        with pytest.raises(InvalidValueError, match="noise is None"):
            adadim.LinUCB().start(adadim.Problem(**contextual, horizon=None))
