"""Smooth Corral: two-step rounds, what is stored and replayed, and who learns from what."""

import math

import numpy as np
import pytest

import adadim
from adadim import DecisionError, LinUCB, SmoothCorral
from adadim.core.rows import Replications
from adadim.models.fixed import HostPosterior
from adadim.policies.masters.corral import LogBarrier
from reference import SmoothCorral as Reference
from small_problems import in_torch, small
from stepping import ScriptedDraws, Stepper

LOWEST = LinUCB(ties="lowest")
TIGHT = (-0.5, 0.5)


def history(stepper, r=0):
    smoothed = stepper.learner.smoothed
    return [past[:n].tolist() for past, n in zip(smoothed.history[r], smoothed.counts[r], strict=True)]


# In lock step with the reference


@pytest.mark.parametrize("feedback", ["step2", "mean", "sum"])
@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_lock_step(feedback, replay, bonus):
    """With the master's draws handed over, the reference plays the same arms and ends at the same probabilities."""
    instance = small(horizon=201)
    base = LinUCB(bonus=bonus, ties="lowest")
    stepper = Stepper(SmoothCorral(base=base, feedback=feedback, replay=replay, loss_range=TIGHT), instance)
    smoothed = stepper.learner.smoothed
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
        decision = stepper.ask()
        arm = int(decision.arms[0])
        # The base that plays: drawn now, or in a replay the one of the step before.
        chosen = int(smoothed.base[0] if smoothed.replaying[0] else decision.memo["base"][0])
        engine.draw_base = lambda chosen=chosen: chosen
        engine.draw_replay = lambda size, arm=arm, chosen=chosen: engine.stored[chosen].index(arm)
        assert (engine.first_loss is not None) == (replay and t % 2 == 1)
        assert reference.select() == arm
        stepper.tell(decision)
        reference.update(arm, stepper.rewards[0][-1])
        for name in ("p", "pbar", "eta", "rho"):
            ours, theirs = getattr(smoothed.master, name)[0], getattr(engine.master, name)
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, err_msg=name)
        assert history(stepper) == engine.stored
    assert np.abs(smoothed.master.p - 0.2).max() > 0.01
    for ours, theirs in zip(smoothed.bases.learners, reference.bases, strict=True):
        np.testing.assert_allclose(ours.rule.scores(ours.everyone)[0], theirs.scores(), rtol=0, atol=1e-10)


# Section 7.6


@pytest.mark.parametrize("horizon", [300, 301])
@pytest.mark.parametrize("master", ["corral", "exp3p"])
def test_invariants(horizon, master):
    instance = small(range(3), horizon=horizon)
    stepper = Stepper(SmoothCorral(master=master, loss_range=TIGHT), instance)
    smoothed = stepper.learner.smoothed
    for t in range(horizon):
        before = smoothed.base.copy()
        decision = stepper.step()
        for r in range(3):
            if t % 2:
                assert "base" not in decision.memo
                assert smoothed.base[r] == before[r]
                assert stepper.arms[r][-1] in history(stepper, r)[before[r]]
            else:
                assert smoothed.base[r] == decision.memo["base"][r]
                assert stepper.arms[r][-1] == history(stepper, r)[smoothed.base[r]][-1]
        assert (smoothed.counts.sum(axis=1) == t // 2 + 1).all()
    for b, base in enumerate(smoothed.bases.learners):
        for r in range(3):
            assert smoothed.counts[r, b] == len(history(stepper, r)[b]) == base.model.regression.counts[r].sum()
            np.testing.assert_array_equal(
                np.bincount(history(stepper, r)[b], minlength=40), base.model.regression.counts[r]
            )
    assert smoothed.replaying.all() == smoothed.replaying.any() == (horizon % 2 == 1)
    assert smoothed.played.tolist() == [(horizon + 1) // 2] * 3


@pytest.mark.parametrize("horizon", [100, 101])
@pytest.mark.parametrize(("replay", "learnt"), [(True, lambda t: (t + 1) // 2), (False, lambda t: t)])
def test_only_the_chosen_base_is_touched(horizon, replay, learnt, monkeypatch):
    """Replication-updates of posteriors over all bases: one for every first step, none for a replay."""
    seen, real = [], HostPosterior.resolve

    def counted(self, arms, rewards, rows):
        seen.append(len(arms))
        real(self, arms, rewards, rows)

    monkeypatch.setattr(HostPosterior, "resolve", counted)
    instance = small(range(4), horizon=horizon)
    adadim.simulate(SmoothCorral(replay=replay), instance)
    assert sum(seen) == 4 * learnt(horizon)


def test_replay_leaves_the_bases_alone():
    stepper = Stepper(SmoothCorral(), small()).run(51)
    bases = stepper.learner.smoothed.bases.learners
    before = [(base.model.regression.mean.copy(), base.model.regression.width2.copy()) for base in bases]
    stepper.step()
    for base, (mean, width2) in zip(bases, before, strict=True):
        np.testing.assert_array_equal(base.model.regression.mean, mean)
        np.testing.assert_array_equal(base.model.regression.width2, width2)
    stepper.step()
    assert any((base.model.regression.mean != mean).any() for base, (mean, _) in zip(bases, before, strict=True))


def test_replay_law():
    """With H = [3, 1, 1, 2] the replayed arm is 3, 1 or 2 with probability 1/4, 1/2, 1/4."""
    learner = SmoothCorral(bases=(LOWEST,)).start(small().problem)
    smoothed = learner.smoothed
    smoothed.history[0, 0, :4] = [3, 1, 1, 2]
    smoothed.counts[0, 0] = 4
    came = []
    for u in (np.arange(400) + 0.5) / 400:
        smoothed.replaying[0] = True
        smoothed.streams = ScriptedDraws(u)
        came.append(int(learner.choose(learner.everyone)[0][0]))
    assert np.bincount(came).tolist() == [0, 200, 100, 100]
    for u, arm in ((0.0, 3), (1 - 2.0**-53, 2)):
        smoothed.streams = ScriptedDraws(u)
        assert learner.choose(learner.everyone)[0].tolist() == [arm]


def test_replay_reaches_back_to_the_first_policy():
    """Each of the s stored policies, the one just used included, comes up about equally often."""
    stepper = Stepper(SmoothCorral(bases=(adadim.Random(),)), small(range(60), horizon=40, arms=1000)).run()
    ages = []
    for r in range(60):
        for t in range(1, 40, 2):
            past = stepper.arms[r][:t:2]
            ages.append((past.index(stepper.arms[r][t]) + 0.5) / len(past))
    assert np.mean(ages) == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / len(ages)))
    assert max(ages[19::20]) > 0.95
    assert min(ages[19::20]) < 0.05


@pytest.mark.parametrize(("feedback", "expected"), [("step2", 0.25), ("mean", 0.5), ("sum", 1.0)])
@pytest.mark.parametrize("rows", [None, [1]])
def test_feedback(feedback, expected, rows):
    learner = SmoothCorral(bases=(LOWEST, LinUCB(dim=2)), feedback=feedback, eta=0.1).start(small(range(2)).problem)
    count = 2 if rows is None else 1
    learner.update(learner.select(rows=rows), [-0.5] * count, rows)  # loss .75
    smoothed = learner.smoothed
    assert (smoothed.master.p == 0.5).all()
    chosen = smoothed.base.copy()
    learner.update(learner.select(rows=rows), [0.5] * count, rows)  # loss .25
    master = LogBarrier(np.zeros(2), 2, 0.1, 150)
    at = np.arange(2) if rows is None else np.array(rows)
    master.update(chosen[at], np.full(count, expected), Replications.some(at, master.p))
    np.testing.assert_array_equal(smoothed.master.p, master.p)


@pytest.mark.parametrize("steps", [20, 21], ids=["before a step of a base", "before a replay"])
def test_asking_twice_is_refused_and_changes_nothing(steps):
    """The next choice depends on the reward of the open decision; what is stored and drawn stays as it was."""
    stepper, undisturbed = (Stepper(SmoothCorral(), small()).run(steps) for _ in range(2))
    stored = (steps + 1) // 2
    decision = stepper.ask()
    for _ in range(5):
        with pytest.raises(DecisionError, match=r"makes one decision at a time, .* that of replication 0 is not known"):
            stepper.ask()
        with pytest.raises(DecisionError, match="makes one decision at a time"):
            stepper.learner.select()
    assert stepper.learner.smoothed.counts.sum() == stored
    stepper.tell(decision)
    assert stepper.learner.smoothed.counts.sum() == (steps + 2) // 2
    assert stepper.run(20).arms == undisturbed.run(21).arms


# Batches, describe, errors


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("replay", [True, False])
def test_it_goes_on_after_the_horizon(replay, library, request):
    """More is played than was announced: the past keeps growing, and nothing of it is lost."""
    instance = small(range(2), horizon=9)
    if library == "torch":
        instance = in_torch(instance, request.getfixturevalue("torch"))
    stepper = Stepper(SmoothCorral(replay=replay), instance).run(50)
    smoothed = stepper.learner.smoothed
    assert smoothed.counts.sum(axis=1).tolist() == [25 if replay else 50] * 2
    first = [arms[:: 2 if replay else 1] for arms in stepper.arms]
    for r in range(2):
        assert sorted(arm for past in history(stepper, r) for arm in past) == sorted(first[r])
