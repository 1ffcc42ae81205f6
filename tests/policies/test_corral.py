"""Corral: stochastic feedback, importance-weighted feedback, and what the master keeps."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import adadim
from adadim import Corral, LinUCB
from adadim.models.fixed import HostPosterior
from reference import Corral as Reference
from small_problems import in_torch, small
from stepping import Stepper

TIGHT = (-0.5, 0.5)
both = pytest.mark.parametrize("feedback", ["stochastic", "importance"])


@both
@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_lock_step(feedback, bonus):
    """With the master's draws handed over, the reference plays the same arms and ends at the same probabilities."""
    instance = small(horizon=200)
    stepper = Stepper(Corral(base=LinUCB(bonus=bonus, ties="lowest"), feedback=feedback, loss_range=TIGHT), instance)
    learner = stepper.learner
    draws = SimpleNamespace()
    reference = Reference(
        instance.problem.actions.dense(0),
        200,
        0.1,
        0.1,
        draws,
        loss_range=TIGHT,
        mode=feedback,
        bonus=bonus,
        ties="lowest",
    )
    for _ in range(200):
        decision = stepper.ask()
        arm, chosen = int(decision.arms[0]), int(decision.memo["base"][0])
        draws.choice = lambda count, p, chosen=chosen: chosen
        assert reference.select() == arm
        stepper.tell(decision)
        reference.update(arm, stepper.rewards[0][-1])
        for name in ("p", "pbar", "eta", "rho"):
            ours, theirs = getattr(learner.master, name)[0], getattr(reference.master, name)
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=name)
    assert np.abs(learner.master.p - 0.2).max() > 0.01
    for ours, theirs in zip(learner.bases.learners, reference.bases, strict=True):
        np.testing.assert_allclose(ours.rule.scores(ours.everyone)[0], theirs.scores(), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("feedback", "learning"), [("stochastic", 1), ("importance", 5)])
def test_who_learns(feedback, learning, monkeypatch):
    seen, real = [], HostPosterior.resolve

    def counted(self, arms, rewards, rows):
        seen.append(len(arms))
        real(self, arms, rewards, rows)

    monkeypatch.setattr(HostPosterior, "resolve", counted)
    outcome = adadim.simulate(Corral(feedback=feedback), small(range(3), horizon=101))
    learner = outcome.learner
    assert sum(seen) == 3 * 101 * learning
    pulls = np.stack([base.model.regression.counts.sum(axis=1) for base in learner.bases.learners], axis=1)
    expected = learner.counts if feedback == "stochastic" else np.full((3, 5), 101)
    np.testing.assert_array_equal(pulls, expected)
    assert (learner.counts.sum(axis=1) == 101).all()


def test_importance_weighted_rewards():
    """Loss .75 at probability 1/2 is learned as loss 1.5, that is reward -2; the base not chosen learns loss 0."""
    rewards = []

    class Heard:
        def __init__(self, problem, rng):
            self.mine = []
            rewards.append(self.mine)

        def select(self):
            return 0

        def update(self, arm, reward):
            self.mine.append(reward)

    learner = Corral(bases=(adadim.Single(Heard), adadim.Single(Heard)), feedback="importance").start(small().problem)
    decision = learner.ask()
    learner.tell(decision, [-0.5])
    chosen = int(decision.memo["base"][0])
    assert decision.memo["probability"].tolist() == [0.5]
    assert rewards[chosen] == [-2.0]
    assert rewards[1 - chosen] == [1.0]


def test_bases_draw_apart():
    """Two bases of the same kind have randomness of their own: they seldom propose the same of 40 arms."""
    stepper = Stepper(Corral(bases=(adadim.Random(), adadim.Random()), feedback="importance"), small(range(2)))
    same = 0
    for _ in range(200):
        proposed = stepper.step().memo["proposed"]
        same += int((proposed[:, 0] == proposed[:, 1]).sum())
    assert same < 25  # 10 expected


@both
def test_one_base_is_the_base(feedback):
    """With M = 1 the weight is 1; only rewards outside the loss range are learned otherwise."""
    instance = small(range(2), horizon=120)
    base = LinUCB(dim=8, ties="lowest")
    stepper = Stepper(Corral(bases=(base,), feedback=feedback, loss_range=(-3.0, 3.0)), instance).run()
    assert stepper.arms == Stepper(base, instance).run().arms
    assert stepper.learner.describe()[0]["probabilities"] == [1.0]


def test_settings():
    def learner(**changes):
        return Corral(**changes).start(small(horizon=400).problem)

    assert learner().master.eta[0, 0] == pytest.approx(0.05, rel=1e-12)
    assert learner(eta=0.3).master.eta[0, 0] == 0.3
    assert learner().master.gamma == 1 / 400
    assert learner().master.growth == math.exp(1 / math.log(400))
    assert [policy.dim for policy in learner().policies] == [1, 2, 4, 8, 16]
    assert [policy.dim for policy in learner(ambient=True).policies] == [1, 2, 4, 8, 16, 24]


@both
def test_replications_out_of_step_run_as_if_alone(feedback):
    policy = Corral(feedback=feedback, loss_range=TIGHT, eta=0.5)
    together = Stepper(policy, small(range(5), horizon=150)).stagger(np.random.default_rng(1))
    assert together.lead > 20
    for r in range(5):
        alone = Stepper(policy, small([r], horizon=150)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


@both
def test_torch_chooses_the_same(feedback, torch):
    policy, instance = Corral(feedback=feedback, loss_range=TIGHT), small(range(2), horizon=200)
    assert Stepper(policy, in_torch(instance, torch)).run().arms == Stepper(policy, instance).run().arms


def test_describe_follows_the_run():
    stepper = Stepper(Corral(loss_range=TIGHT, eta=0.5), small([3, 9]))
    counts = np.zeros((2, 5), dtype=int)
    for t in range(60):
        for r, entry in enumerate(stepper.learner.describe()):
            assert entry["replication"] == (3, 9)[r]
            assert entry["bases"][1] == repr(LinUCB(dim=2))
            assert entry["rounds_of_each_base"] == counts[r].tolist()
            assert sum(entry["rounds_of_each_base"]) == t
            assert sum(entry["probabilities"]) == pytest.approx(1.0, abs=1e-12)
            assert entry["learning_rates"] == stepper.learner.master.eta[r].tolist()
        counts[np.arange(2), stepper.step().memo["base"]] += 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"bases": [LinUCB()]}, TypeError),
        ({"base": None}, TypeError),
        ({"eta": -1.0}, ValueError),
        ({"feedback": "step2"}, ValueError),
        ({"loss_range": (1.0, 0.0)}, ValueError),
    ],
)
def test_bad_hyper_parameters(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        Corral(**changes)
