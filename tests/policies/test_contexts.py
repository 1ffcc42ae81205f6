"""Features that come with each round: exact regression, the same choices as textbook LinUCB, refusals with reasons."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.errors import ForeignArmError, InvalidTypeError, InvalidValueError
from adadim.models.priors import taper_weights
from evidences import evidence_of_rows

PLAY = {
    "LinUCB": adadim.LinUCB(),
    "LinUCB dim": adadim.LinUCB(dim=3),
    "LinUCB oful": adadim.LinUCB(radius="oful"),
    "LinUCB squared": adadim.LinUCB(bonus="squared", ties="lowest"),
    "Greedy": adadim.Greedy(),
    "tapered": adadim.TaperedLinUCB(),
    "tapered size": adadim.TaperedLinUCB(size=1.0),
    "evidence": adadim.EvidenceLinUCB(),
    "Random": adadim.Random(),
    "LinTS": adadim.LinTS(),
    "LinTS dim": adadim.LinTS(dim=3, scale=0.5),
    "Corral": adadim.Corral(eta=0.3),
    "Corral importance": adadim.Corral(feedback="importance", eta=0.2),
    "balancing": adadim.DynamicBalancing(bound="sqrt", c=0.1),
    "SupLinUCB": adadim.SupLinUCB(radius=0.1),
    "SupLinUCB dim": adadim.SupLinUCB(radius=0.05, dim=3),
    "Smooth Corral": adadim.SmoothCorral(loss_range=(-0.5, 0.5)),
    "Smooth Corral, no replay": adadim.SmoothCorral(replay=False, master="exp3p"),
    "regret balancing": adadim.RegretBalancing(),
    "regret balancing linear": adadim.RegretBalancingLinear(),
    "bound balancing": adadim.BoundBalancing(c=0.1),
    "D3RB": adadim.D3RB(c=0.1),
    "ED2RB released": adadim.ED2RB(variant="released", bases=(adadim.LinTS(dim=2), adadim.LinUCB())),
    "combiner": adadim.BanditCombiner(z=0.5),
    "UCB corral": adadim.UCBCorral(copies=2),
    "Tsallis corral": adadim.TsallisCorral(threshold=3.0, first_plays=1),
    "Tsallis corral importance": adadim.TsallisCorral(feedback="importance", threshold=3.0, first_plays=2),
    "epochs": adadim.EpochBalancing(),
    "ModCB": adadim.ModCB(every=9),
    "ModCB exp4-ix": adadim.ModCB(base="exp4-ix", experts=20),
    "OSOM": adadim.OSOM(),
    "ALB-Dim": adadim.ALBDim(first_phase=20),
    "ALB-Norm": adadim.ALBNorm(first_epoch=10),
}
REFUSE = {
    "UCB": (adadim.UCB(), "knows arms by their number.*use adadim.recommended"),
    "LinUCB++": (adadim.LinUCBPlusPlus(), "a mixture-arm replays arms of earlier rounds.*use adadim.recommended"),
    "LinUCB++Corral": (adadim.LinUCBPlusPlusCorral(), "a mixture-arm replays arms of earlier rounds"),
    "Smooth Corral": (adadim.SmoothCorral(bases=(adadim.LinTS(),)), "each base must be optimistic .*got LinTS"),
    "Corral of UCB": (adadim.Corral(bases=(adadim.UCB(), adadim.LinUCB())), "knows arms by their number"),
}


def contexts(replications=range(3), horizon=80, **changes):
    settings = {"arms": 7, "dim": 9, "intrinsic_dim": 2, "noise": 0.1} | changes
    return adadim.instances.contexts(horizon=horizon, replications=replications, **settings)


# Choices


def textbook(problem, rounds, rewards, ridge, radius, dim):
    """LinUCB as it is written in textbooks, solving anew in every round."""
    v, b, arms = ridge * np.eye(dim), np.zeros(dim), []
    for features, gained in zip(rounds, rewards, strict=True):
        x = features[:, :dim]
        theta = np.linalg.solve(v, b)
        width = np.sqrt(np.vecdot(x, np.linalg.solve(v, x.T).T))
        arm = int(np.argmax(x @ theta + radius * width))
        arms.append(arm)
        v += np.outer(x[arm], x[arm])
        b += gained[arm] * x[arm]
    return arms


@pytest.mark.parametrize("dim", [None, 4])
def test_linucb_in_lock_step_with_the_textbook(dim):
    rng = np.random.default_rng(3)
    problem = adadim.Problem(arms=12, dim=6, horizon=1200, noise=0.1)
    rounds = rng.standard_normal((1200, 12, 6)) / 3
    rewards = rounds @ [0.5, -0.4, 0.3, 0, 0, 0] + 0.1 * rng.standard_normal((1200, 12))
    learner = adadim.LinUCB(dim=dim, ridge=0.3).start(problem)
    arms = []
    for features, gained in zip(rounds, rewards, strict=True):
        arms.append(learner.select(features))
        learner.update(arms[-1], gained[arms[-1]])
    radius = 0.1 * np.sqrt(2 * np.log(2 * 1200**1.5 * 12))
    assert arms == textbook(problem, rounds, rewards, 0.3, radius, dim or 6)


SAME_AS_FIXED = ["LinUCB", "Greedy", "LinUCB oful", "LinUCB dim", "Corral", "Corral importance", "balancing"]
SAME_AS_FIXED += ["regret balancing", "regret balancing linear", "bound balancing", "D3RB", "combiner", "UCB corral"]
SAME_AS_FIXED += ["Tsallis corral", "Tsallis corral importance", "epochs", "ModCB", "OSOM", "ALB-Dim", "ALB-Norm"]


@pytest.mark.parametrize("name", SAME_AS_FIXED)
def test_the_same_features_every_round_are_a_fixed_set(name):
    rng = np.random.default_rng(4)
    features = rng.standard_normal((15, 6)) / 3
    here = adadim.Problem(arms=15, dim=6, horizon=150, noise=0.1)
    there = adadim.Problem(features, horizon=150, noise=0.1)
    one, other = (PLAY[name].start(problem, seed=2) for problem in (here, there))
    for _ in range(150):
        arm = one.select(features)
        assert arm == other.select()
        reward = features[arm, 0] + 0.1 * rng.standard_normal()
        one.update(arm, reward)
        other.update(arm, reward)


def test_evidence_takes_stock_as_on_a_fixed_set():
    """The same ridge and noise as the evidence of the arms pulled says, found here by brute force."""
    instance = contexts(range(1), horizon=64)
    learner = adadim.EvidenceLinUCB().start(instance.problem)
    rounds, rng = instance.rounds(), np.random.default_rng(0)
    x, rewards = [], []
    for _ in range(64):
        features = next(rounds)
        decision = learner.ask(features)
        x.append(decision.memo["features"][0])
        rewards.append(float(instance.means(features)[0, decision.arms[0]] + 0.1 * rng.standard_normal()))
        learner.tell(decision, [rewards[-1]])
    design = np.array(x) * taper_weights(1.75, learner.model.dim) / np.sqrt(learner.model.offer.longest[0])
    logs, variance = evidence_of_rows(design, np.array(rewards), float(np.square(rewards).sum()), 64)
    chosen = int(np.argmax(logs >= logs.max() - np.log(20.0)))
    described = learner.describe()[0]
    assert described["ridge"] == pytest.approx(10.0 ** (-6 + 0.5 * chosen) * learner.model.offer.longest[0])
    assert described["noise"] == pytest.approx(np.sqrt(variance[chosen] * (1 + np.sqrt(2 / 64))), rel=1e-9)


@pytest.mark.parametrize("name", ["LinUCB", "LinUCB dim", "tapered", "Greedy"])
def test_the_order_of_late_answers_does_not_matter(name):
    instance = contexts(range(1))
    ends = []
    for order in (range(25), reversed(range(25)), np.random.default_rng(1).permutation(25)):
        learner, rounds = PLAY[name].start(instance.problem), instance.rounds()
        decisions = [learner.ask(next(rounds)) for _ in range(25)]
        for t in list(order):
            learner.tell(decisions[t], [np.sin(t)])
        ends.append(learner.model.regression.theta)
    for theta in ends[1:]:
        np.testing.assert_allclose(theta, ends[0], atol=1e-9)


def test_what_adapts_beats_what_does_not():
    instance = contexts(range(10), horizon=600, arms=10, dim=60, intrinsic_dim=3)
    final = {name: adadim.simulate(PLAY[name], instance).final.mean() for name in ("LinUCB", "evidence", "Random")}
    told = adadim.simulate(adadim.LinUCB(dim=3), instance).final.mean()
    assert told < final["LinUCB"] < final["Random"] / 3
    assert final["evidence"] < 0.8 * final["LinUCB"]


@pytest.mark.parametrize("distribution", ["gaussian", "sphere", "bounded", "correlated", "repeated"])
def test_laws_of_features(distribution):
    instance = contexts(range(2), arms=40, dim=25, distribution=distribution)
    rounds = instance.rounds()
    drawn = np.stack([next(rounds) for _ in range(60)])
    again = instance.rounds()
    np.testing.assert_array_equal(drawn[:3], [next(again) for _ in range(3)])
    squared = np.vecdot(drawn, drawn)
    mean = {"bounded": 1 / 3}.get(distribution, 1.0)
    assert squared.mean() == pytest.approx(mean, rel=0.1 if distribution == "repeated" else 0.05)
    if distribution == "sphere":
        np.testing.assert_allclose(squared, 1.0)
    if distribution == "bounded":
        assert np.abs(drawn).max() <= 1 / 5
    shared = np.mean(drawn[..., :20, :] * drawn[..., 20:, :]) * 25
    assert shared == pytest.approx(0.7 if distribution == "correlated" else 0.0, abs=0.1)
    different = len({row.tobytes() for row in drawn[:, 0]})
    assert different == (8 if distribution == "repeated" else 60)


def test_regret_is_against_the_best_arm_of_each_round():
    instance = contexts(range(2), horizon=30)
    outcome = adadim.simulate(adadim.Random(), instance, seed=4, record=[1, 2, 30])
    learner, rounds = adadim.Random().start(instance.problem, seed=4), instance.rounds()
    total = np.zeros(2)
    for t in range(1, 31):
        means = instance.means(features := next(rounds))
        arms = learner.select(features)
        learner.update(arms, [0.0, 0.0])
        total += means.max(axis=1) - means[[0, 1], arms]
        if t in (1, 2, 30):
            np.testing.assert_allclose(outcome.regret[:, [1, 2, 30].index(t)], total)


# Logs, masks, refusals


def test_logged_features_are_learned():
    rng = np.random.default_rng(5)
    problem = adadim.Problem(arms=5, dim=4, horizon=50, noise=0.1)
    x, rewards = rng.standard_normal((20, 4)), rng.standard_normal(20)
    learner = adadim.LinUCB(ridge=0.7).start(problem)
    learner.learn(x, rewards)
    theta = np.linalg.solve(0.7 * np.eye(4) + x.T @ x, x.T @ rewards)
    np.testing.assert_allclose(learner.model.regression.theta[0], theta, atol=1e-12)
    evident = adadim.EvidenceLinUCB().start(problem)
    evident.learn(x, rewards)
    assert evident.describe()["noise"] is not None
    with pytest.raises(InvalidValueError, match=r"logged features must be \(n, 4\).*got \(20, 3\) and \(20,\)"):
        learner.learn(x[:, :3], rewards)


@pytest.mark.parametrize("name", ["Smooth Corral", "Smooth Corral, no replay"])
def test_arms_that_are_not_allowed_are_never_chosen(name):
    """It takes masks here alone; on arms that stay it refuses them, so that the conformance suite tries none."""
    instance, rng = contexts(horizon=60), np.random.default_rng(6)
    learner, rounds = PLAY[name].start(instance.problem), instance.rounds()
    for _ in range(60):
        allowed = rng.random((3, 7)) < 0.3
        allowed[np.arange(3), rng.integers(7, size=3)] = True
        arms = learner.select(next(rounds), allowed=allowed)
        assert allowed[np.arange(3), arms].all()
        learner.update(arms, rng.standard_normal(3))


def test_random_is_uniform_over_what_is_allowed():
    problem = adadim.Problem(np.broadcast_to(np.eye(5), (4000, 5, 5)), horizon=2)
    arms = adadim.Random().start(problem).select(allowed=[True, False, True, False, True])
    counts = np.bincount(arms, minlength=5)
    assert counts[[1, 3]].tolist() == [0, 0]
    assert abs(counts[[0, 2, 4]] - 4000 / 3).max() < 4 * np.sqrt(4000 * 2 / 9)


@pytest.mark.parametrize("policy", [adadim.LinUCBPlusPlus(), adadim.SmoothCorral()])
def test_policies_that_need_all_arms_say_so(policy):
    learner = policy.start(adadim.Problem(np.eye(4), horizon=20, noise=0.1))
    with pytest.raises(InvalidValueError, match=r"use adadim\.recommended\(problem\) with allowed="):
        learner.select(allowed=[True, True, True, False])
    learner.select()


@pytest.mark.parametrize("name", REFUSE)
def test_policies_that_make_no_sense_here_say_why(name):
    policy, message = REFUSE[name]
    with pytest.raises(InvalidValueError, match=message):
        policy.start(contexts().problem)


BAD = {
    "none": (None, None, "features come with each round"),
    "another d": (np.zeros((5, 8)), None, r"features must have dim = 9 columns, got 8"),
    "too many arms": (np.zeros((8, 9)), None, r"this round has 8 arms, more than the problem's arms = 7"),
    "no arms": (np.zeros((0, 9)), None, r"features must have shape \(K_t, 9\).*got \(1, 0, 9\)"),
    "a vector": (np.zeros(9), None, r"features must have shape"),
    "NaN": (np.full((3, 9), np.nan), None, "features must be finite, but feature 0 of arm 0 is not"),
    "text": ("features", None, "features must be an array"),
    "empty mask": (np.zeros((3, 9)), [False] * 3, "allowed leaves no arm to choose"),
    "mask of numbers": (np.zeros((3, 9)), [1, 0, 1], "allowed must be an array of True and False"),
    "mask of another size": (np.zeros((3, 9)), [True, True], r"allowed must have shape \(3,\) or \(1, 3\), got \(2,\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rounds_are_refused_and_change_nothing(case):
    features, allowed, message = BAD[case]
    problem = adadim.Problem(arms=7, dim=9, horizon=20, noise=0.1)
    learner, other = (adadim.LinUCB().start(problem, seed=1) for _ in range(2))
    with pytest.raises((InvalidValueError, InvalidTypeError), match=message):
        learner.ask(features, allowed=allowed)
    x = np.random.default_rng(0).standard_normal((7, 9))
    assert learner.select(x) == other.select(x)


def test_fewer_arms_in_a_round_are_fine():
    problem = adadim.Problem(arms=7, dim=2, horizon=20, noise=0.1)
    learner = adadim.LinUCB().start(problem)
    for count in (1, 7, 3):
        arm = learner.select(np.random.default_rng(count).standard_normal((count, 2)))
        assert 0 <= arm < count
        learner.update(arm, 0.1)


def test_another_arm_than_chosen_is_refused():
    problem = adadim.Problem(arms=3, dim=2, horizon=20, noise=0.1)
    learner = adadim.LinUCB().start(problem)
    arm = learner.select(np.eye(2))
    with pytest.raises(ForeignArmError):
        learner.update(1 - arm, 0.1)


def test_problems_without_features_are_checked():
    with pytest.raises(InvalidValueError, match=r"arms must be an integer of at least 1 .the largest number.*got None"):
        adadim.Problem(horizon=10)
    with pytest.raises(InvalidValueError, match="dim is that of the features given"):
        adadim.Problem(np.eye(3), arms=3, dim=3, horizon=10)
    with pytest.raises(InvalidValueError, match="the features of this problem are fixed"):
        adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=10, noise=0.1)).ask(np.eye(3))
    assert "up to 7 arms, dim=9" in repr(contexts().problem)


def test_contexts_in_a_study(tmp_path):
    from adadim.study import Study, run

    here = {"kind": "contexts", "arms": 6, "dim": 8, "intrinsic_dim": 2, "horizon": 40, "distribution": "sphere"}
    plan = Study(
        "contexts", {"here": here}, {"a": adadim.LinUCB(), "b": {"kind": "LinUCB", "dim": "@intrinsic_dim"}}, 3
    )
    results = run(plan, tmp_path, jobs=1)
    instance = adadim.instances.contexts(
        arms=6, dim=8, intrinsic_dim=2, horizon=40, distribution="sphere", replications=range(3)
    )
    np.testing.assert_array_equal(results.final("here", "a"), adadim.simulate(adadim.LinUCB(), instance).final)
