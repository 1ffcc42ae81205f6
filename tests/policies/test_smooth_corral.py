"""Smooth Corral: two-step rounds, what is stored and replayed, and who learns from what."""

import math
from functools import partial

import numpy as np
import pytest

import adadim
from adadim import Corral, LinUCB, SmoothCorral
from adadim.policies.masters.distributions import Exp3P, LogBarrier
from adadim.posterior import Posterior
from driving import ALL, Driver, Scripted, in_torch, small
from reference import SmoothCorral as Reference

LOWEST = LinUCB(ties="lowest")
TIGHT = (-0.5, 0.5)


def history(driver, r=0):
    smoothed = driver.learner.smoothed
    return [past[:n].tolist() for past, n in zip(smoothed.history[r], smoothed.counts[r], strict=True)]


# In lock step with the reference


@pytest.mark.parametrize("feedback", ["step2", "mean", "sum"])
@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_lock_step(feedback, replay, bonus):
    """With the master's draws handed over, the reference plays the same arms and ends at the same probabilities."""
    instance = small(horizon=201)
    base = LinUCB(bonus=bonus, ties="lowest")
    driver = Driver(SmoothCorral(base=base, feedback=feedback, replay=replay, loss_range=TIGHT), instance)
    smoothed = driver.learner.smoothed
    reference = Reference(
        instance.problem.actions.dense(0),
        201,
        0.1,
        0.1,
        None,
        loss_range=TIGHT,
        feedback=feedback,
        replay=replay,
        bonus=bonus,
        ties="lowest",
    )
    engine = reference.engine
    for t in range(201):
        asked = driver.ask()
        arm, chosen = int(asked[2][0]), int(smoothed.chosen[0])
        engine.draw_base = lambda chosen=chosen: chosen
        engine.draw_replay = lambda size, arm=arm, chosen=chosen: engine.stored[chosen].index(arm)
        assert (engine.first_loss is not None) == (replay and t % 2 == 1)
        assert reference.select() == arm
        driver.tell(*asked)
        reference.update(arm, driver.rewards[0][-1])
        for name in ("p", "pbar", "eta", "rho"):
            ours, theirs = getattr(smoothed.master, name)[0], getattr(engine.master, name)
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, err_msg=name)
        assert history(driver) == engine.stored
    assert np.abs(smoothed.master.p - 0.2).max() > 0.01
    for ours, theirs in zip(smoothed.bases, reference.bases, strict=True):
        np.testing.assert_allclose(ours.scores()[0], theirs.scores(), rtol=0, atol=1e-10)


# Section 7.6


@pytest.mark.parametrize("horizon", [300, 301])
@pytest.mark.parametrize("master", ["corral", "exp3p"])
def test_invariants(horizon, master):
    instance = small(range(3), horizon=horizon)
    driver = Driver(SmoothCorral(master=master, loss_range=TIGHT), instance)
    smoothed = driver.learner.smoothed
    for t in range(horizon):
        before = smoothed.chosen.copy()
        driver.step()
        for r in range(3):
            if t % 2:
                assert smoothed.chosen[r] == before[r]
                assert driver.arms[r][-1] in history(driver, r)[before[r]]
            else:
                assert driver.arms[r][-1] == history(driver, r)[smoothed.chosen[r]][-1]
        assert (smoothed.counts.sum(axis=1) == t // 2 + 1).all()
    for b, base in enumerate(smoothed.bases):
        for r in range(3):
            assert smoothed.counts[r, b] == len(history(driver, r)[b]) == base.posterior.counts[r].sum()
            np.testing.assert_array_equal(np.bincount(history(driver, r)[b], minlength=40), base.posterior.counts[r])
    assert smoothed._replaying.all() == (horizon % 2 == 1)


@pytest.mark.parametrize("horizon", [100, 101])
@pytest.mark.parametrize(("replay", "learnt"), [(True, lambda t: (t + 1) // 2), (False, lambda t: t)])
def test_only_the_chosen_base_is_touched(horizon, replay, learnt, monkeypatch):
    """Replication-updates of posteriors over all bases: one for every first step, none for a replay."""
    seen, real = [], Posterior.absorb

    def counted(self, arms, rewards, rows=ALL):
        seen.append(len(arms))
        real(self, arms, rewards, rows)

    monkeypatch.setattr(Posterior, "absorb", counted)
    instance = small(range(4), horizon=horizon)
    adadim.simulate(SmoothCorral(replay=replay), instance)
    assert sum(seen) == 4 * learnt(horizon)


def test_replay_leaves_the_bases_alone():
    driver = Driver(SmoothCorral(), small()).run(51)
    bases = driver.learner.smoothed.bases
    before = [(base.posterior.mean.copy(), base.posterior.width2.copy()) for base in bases]
    driver.step()
    for base, (mean, width2) in zip(bases, before, strict=True):
        np.testing.assert_array_equal(base.posterior.mean, mean)
        np.testing.assert_array_equal(base.posterior.width2, width2)
    driver.step()
    assert any((base.posterior.mean != mean).any() for base, (mean, _) in zip(bases, before, strict=True))


def test_replay_law():
    """With H = [3, 1, 1, 2] the replayed arm is 3, 1 or 2 with probability 1/4, 1/2, 1/4."""
    learner = SmoothCorral(bases=(LOWEST,)).start(small().problem)
    smoothed = learner.smoothed
    smoothed.history[0, 0, :4] = [3, 1, 1, 2]
    smoothed.counts[0, 0] = 4
    came = []
    for u in (np.arange(400) + 0.5) / 400:
        smoothed._replaying[0] = True
        smoothed._draws = Scripted(u)
        came.append(int(learner._select(ALL)[0]))
    assert np.bincount(came).tolist() == [0, 200, 100, 100]
    for u, arm in ((0.0, 3), (1 - 2.0**-53, 2)):
        smoothed._draws = Scripted(u)
        assert learner._select(ALL).tolist() == [arm]


def test_replay_reaches_back_to_the_first_policy():
    """Each of the s stored policies, the one just used included, comes up about equally often."""
    driver = Driver(SmoothCorral(bases=(adadim.Random(),)), small(range(60), horizon=40, arms=1000)).run()
    ages = []
    for r in range(60):
        for t in range(1, 40, 2):
            past = driver.arms[r][:t:2]
            ages.append((past.index(driver.arms[r][t]) + 0.5) / len(past))
    assert np.mean(ages) == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / len(ages)))
    assert max(ages[19::20]) > 0.95
    assert min(ages[19::20]) < 0.05


@pytest.mark.parametrize(("feedback", "expected"), [("step2", 0.25), ("mean", 0.5), ("sum", 1.0)])
@pytest.mark.parametrize("rows", [None, [1]])
def test_feedback(feedback, expected, rows):
    learner = SmoothCorral(bases=(LOWEST, LinUCB(dim=2)), feedback=feedback, eta=0.1).start(small(range(2)).problem)
    count = 2 if rows is None else 1
    learner.update(learner.select(rows), [-0.5] * count, rows)  # loss .75
    smoothed = learner.smoothed
    assert (smoothed.master.p == 0.5).all()
    chosen = smoothed.chosen.copy()
    learner.update(learner.select(rows), [0.5] * count, rows)  # loss .25
    master = LogBarrier(2, 2, 0.1, 150)
    at = np.arange(2) if rows is None else np.array(rows)
    master.update(chosen[at], np.full(count, expected), at)
    np.testing.assert_array_equal(smoothed.master.p, master.p)


def test_asking_twice_stores_once():
    driver = Driver(SmoothCorral(), small()).run(20)
    for _ in range(5):
        driver.ask()
    assert driver.learner.smoothed.counts.sum() == 10
    driver.step()
    assert driver.learner.smoothed.counts.sum() == 11


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
    assert [base.posterior.actions.dim for base in learner.smoothed.bases] == [1, 2, 4, 8, 16]
    ambient = SmoothCorral(ambient=True).start(small().problem)
    assert [base.posterior.actions.dim for base in ambient.smoothed.bases] == [1, 2, 4, 8, 16, 24]
    assert ambient.smoothed.master.p.shape == (1, 6)


@pytest.mark.parametrize("replay", [True, False])
def test_one_base(replay):
    """M = 1: the first steps are the base itself; with replays they are every other step."""
    instance = small(range(2), horizon=101)
    driver = Driver(SmoothCorral(bases=(LinUCB(dim=8, ties="lowest"),), replay=replay), instance).run()
    assert (driver.learner.smoothed.master.p == 1.0).all()
    stride = 2 if replay else 1
    plain = LinUCB(dim=8, ties="lowest").start(instance.problem)
    for t in range(0, 101, stride):
        arms = plain.select()
        assert arms.tolist() == [played[t] for played in driver.arms]
        plain.update(arms, [rewards[t] for rewards in driver.rewards])
    if replay:
        for played in driver.arms:
            assert all(played[t] in played[:t:2] for t in range(1, 101, 2))
            assert any(played[t] != played[t - 1] for t in range(1, 101, 2))


def test_without_replay_it_is_stochastic_corral():
    """Same arms, probabilities and counts, step by step."""
    instance = small(range(3))
    smooth = Driver(SmoothCorral(replay=False, eta=0.2, loss_range=TIGHT), instance, seed=3).run()
    plain = Driver(Corral(feedback="stochastic", eta=0.2, loss_range=TIGHT), instance, seed=3).run()
    assert smooth.arms == plain.arms
    np.testing.assert_array_equal(smooth.learner.smoothed.master.p, plain.learner.master.p)
    np.testing.assert_array_equal(smooth.learner.smoothed.counts, plain.learner.counts)
    assert (plain.learner.counts.sum(axis=1) == 300).all()


def test_bases_of_different_kinds():
    bases = (adadim.LinUCB(dim=3), adadim.UCB(), adadim.Random(), adadim.SupLinUCB(radius=0.2), adadim.Greedy())
    driver = Driver(SmoothCorral(bases=bases, eta=2.0, loss_range=TIGHT), small(range(4), horizon=400)).run()
    counts = driver.learner.smoothed.counts
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
            p = outcome.learner.describe()[0]["probabilities"]
            assert p[order.index(0)] > 0.6


# Batches, describe, errors


@pytest.mark.parametrize("changes", [{}, {"master": "exp3p"}, {"replay": False}, {"feedback": "sum", "eta": 1.0}])
def test_replications_out_of_step_run_as_if_alone(changes):
    policy = SmoothCorral(loss_range=TIGHT, **changes)
    together = Driver(policy, small(range(5), horizon=151)).stagger(np.random.default_rng(1))
    assert together.lead > 20
    for r in range(5):
        alone = Driver(policy, small([r], horizon=151)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


def test_describe_follows_the_run():
    driver = Driver(SmoothCorral(loss_range=TIGHT, ambient=True), small([3, 9]))
    for t in range(61):
        told = driver.learner.describe()
        for r, entry in enumerate(told):
            assert entry["replication"] == (3, 9)[r]
            assert entry["bases"][0] == repr(LinUCB(dim=1))
            assert len(entry["bases"]) == 6
            assert sum(entry["rounds of each base"]) == (t + 1) // 2
            assert entry["probabilities"] == driver.learner.smoothed.master.pbar[r].tolist()
            assert sum(entry["probabilities"]) == pytest.approx(1.0, abs=1e-12)
        driver.step()


def test_torch_bases_of_different_kinds(torch):
    policy = SmoothCorral(bases=(adadim.LinUCB(dim=3), adadim.UCB(), adadim.SupLinUCB(radius=0.2)), eta=1.0)
    instance = small(range(3), horizon=150)
    assert Driver(policy, in_torch(instance, torch)).run().arms == Driver(policy, instance).run().arms


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
