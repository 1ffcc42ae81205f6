"""Smooth Corral: its settings, its bases, batches, and what `describe` says."""

import math
from functools import partial

import numpy as np
import pytest

import adadim
from adadim import Corral, LinUCB, SmoothCorral
from adadim.policies.masters.smooth_corral import Exp3P
from small_problems import in_torch, small
from stepping import Stepper

TIGHT = (-0.5, 0.5)


# Settings


def test_learning_rate_and_horizon():
    def master(horizon=301, **changes):
        return SmoothCorral(**changes).start(small(horizon=horizon).problem).smoothed.master

    assert master().eta[0, 0] == pytest.approx(301**-0.5, rel=1e-12)
    assert master(beta=0.7).eta[0, 0] == pytest.approx(301**-0.7, rel=1e-12)
    assert master(eta=0.3).eta[0, 0] == 0.3
    assert master().gamma == 1 / 151
    assert master(replay=False).gamma == 1 / 301
    assert master(horizon=300).growth == math.exp(1 / math.log(150))
    assert master(horizon=2).gamma == 1 / 3
    exp3p = master(master="exp3p")
    assert isinstance(exp3p, Exp3P)
    assert exp3p.bias == pytest.approx(math.sqrt(math.log(5) / (151 * 5)), rel=1e-12)


def test_nested_bases():
    learner = SmoothCorral(base=LinUCB(bonus="squared", ridge=0.7)).start(small().problem)
    assert learner.policies == tuple(LinUCB(bonus="squared", ridge=0.7, dim=m) for m in (1, 2, 4, 8, 16))
    assert [base.model.regression.actions.dim for base in learner.smoothed.bases.learners] == [1, 2, 4, 8, 16]
    ambient = SmoothCorral(ambient=True).start(small().problem)
    assert [base.model.regression.actions.dim for base in ambient.smoothed.bases.learners] == [1, 2, 4, 8, 16, 24]
    assert ambient.smoothed.master.p.shape == (1, 6)


@pytest.mark.parametrize("replay", [True, False])
def test_one_base(replay):
    """M = 1: the first steps are the base itself; with replays they are every other step."""
    instance = small(range(2), horizon=101)
    stepper = Stepper(SmoothCorral(bases=(LinUCB(dim=8, ties="lowest"),), replay=replay), instance).run()
    assert (stepper.learner.smoothed.master.p == 1.0).all()
    stride = 2 if replay else 1
    plain = LinUCB(dim=8, ties="lowest").start(instance.problem)
    for t in range(0, 101, stride):
        arms = plain.select()
        assert arms.tolist() == [played[t] for played in stepper.arms]
        plain.update(arms, [rewards[t] for rewards in stepper.rewards])
    if replay:
        for played in stepper.arms:
            assert all(played[t] in played[:t:2] for t in range(1, 101, 2))
            assert any(played[t] != played[t - 1] for t in range(1, 101, 2))


def test_without_replay_it_is_stochastic_corral():
    """Same arms, probabilities and counts, step by step."""
    instance = small(range(3))
    smooth = Stepper(SmoothCorral(replay=False, eta=0.2, loss_range=TIGHT), instance, seed=3).run()
    plain = Stepper(Corral(feedback="stochastic", eta=0.2, loss_range=TIGHT), instance, seed=3).run()
    assert smooth.arms == plain.arms
    np.testing.assert_array_equal(smooth.learner.smoothed.master.p, plain.learner.master.p)
    np.testing.assert_array_equal(smooth.learner.smoothed.counts, plain.learner.counts)
    assert (plain.learner.counts.sum(axis=1) == 300).all()


def test_bases_of_different_kinds():
    bases = (adadim.LinUCB(dim=3), adadim.UCB(), adadim.Random(), adadim.SupLinUCB(radius=0.2), adadim.Greedy())
    stepper = Stepper(SmoothCorral(bases=bases, eta=2.0, loss_range=TIGHT), small(range(4), horizon=400)).run()
    counts = stepper.learner.smoothed.counts
    assert (counts.sum(axis=1) == 200).all()
    assert (counts.sum(axis=0) > 0).all()
    # A master that learns gives the blind base less than its fifth.
    assert counts[:, 2].sum() < 160


class Stubborn:
    def __init__(self, arm, problem, rng):
        self.arm = arm

    def select(self):
        return self.arm

    def update(self, arm, reward):
        pass


def test_a_better_base_gains():
    """Mean rewards .5 against -.5: the probability of the better base rises, whichever comes first."""
    instance = adadim.Instance(np.eye(2), means=[0.5, -0.5], horizon=400, noise=0.05, replications=[0])
    stubborn = [adadim.Single(partial(Stubborn, arm)) for arm in (0, 1)]
    for order in ((0, 1), (1, 0)):
        bases = tuple(stubborn[i] for i in order)
        for master in ("corral", "exp3p"):
            outcome = adadim.simulate(SmoothCorral(bases=bases, eta=0.3, master=master), instance)
            p = outcome.learner.describe()["probabilities"]
            assert p[order.index(0)] > 0.6


# Batches, describe, errors


@pytest.mark.parametrize("changes", [{}, {"master": "exp3p"}, {"replay": False}, {"feedback": "sum", "eta": 1.0}])
def test_replications_out_of_step_run_as_if_alone(changes):
    policy = SmoothCorral(loss_range=TIGHT, **changes)
    together = Stepper(policy, small(range(3), horizon=151)).stagger(np.random.default_rng(1))
    assert together.lead > 20
    for r in range(3):
        alone = Stepper(policy, small([r], horizon=151)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


def test_describe_follows_the_run():
    stepper = Stepper(SmoothCorral(loss_range=TIGHT, ambient=True), small([3, 9]))
    for t in range(61):
        for r, entry in enumerate(stepper.learner.describe()):
            assert entry["replication"] == (3, 9)[r]
            assert entry["bases"][0] == repr(LinUCB(dim=1))
            assert len(entry["bases"]) == 6
            assert sum(entry["rounds_of_each_base"]) == (t + 1) // 2
            assert entry["probabilities"] == stepper.learner.smoothed.master.pbar[r].tolist()
            assert sum(entry["probabilities"]) == pytest.approx(1.0, abs=1e-12)
        stepper.step()


def test_torch_bases_of_different_kinds(torch):
    policy = SmoothCorral(bases=(adadim.LinUCB(dim=3), adadim.UCB(), adadim.SupLinUCB(radius=0.2)), eta=1.0)
    instance = small(range(3), horizon=150)
    assert Stepper(policy, in_torch(instance, torch)).run().arms == Stepper(policy, instance).run().arms


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"bases": [LinUCB()]}, TypeError),
        ({"bases": (1,)}, TypeError),
        ({"base": adadim.Random()}, TypeError),
        ({"beta": 0.2}, ValueError),
        ({"eta": 0.0}, ValueError),
        ({"master": "hedge"}, ValueError),
        ({"feedback": "step1"}, ValueError),
        ({"loss_range": (1.0, 1.0)}, ValueError),
        ({"loss_range": (0.0, math.inf)}, ValueError),
    ],
)
def test_bad_hyper_parameters(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        SmoothCorral(**changes)
