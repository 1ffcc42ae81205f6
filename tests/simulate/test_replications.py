"""Replication r depends on (seed, r) alone: in any batch, in turns, in either library."""

import sys

import numpy as np
import pytest

import adadim
from adadim import UCB, Greedy, LinUCB, Random, SupLinUCB, instances, simulate
from scripted_policies import every

# Replication r depends on (seed, r) alone

POLICIES = {
    "LinUCB gram": LinUCB(form="gram"),
    "LinUCB feature": LinUCB(form="feature"),
    "LinUCB dim": LinUCB(dim=3, bonus="squared"),
    "OFUL": LinUCB(radius="oful"),
    "SupLinUCB": SupLinUCB(radius=0.1),
    "UCB": UCB(),
    "Greedy": Greedy(),
    "Random": Random(),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize(
    "shape",
    [
        {"arms": 40, "dim": 11, "horizon": 150},
        {"arms": 211, "dim": 103, "horizon": 60},
        {"arms": 30, "dim": 9, "horizon": 80, "expressive": True, "levels": [2, 5, 9]},
    ],
    ids=["small", "large", "expressive"],
)
def test_replication_17_alone_in_4_and_in_32(policy, shape):
    def run(replications):
        instance = instances.sphere(intrinsic_dim=3, replications=replications, seed=5, **shape)
        outcome = simulate(policy, instance, seed=6, record=every(instance))
        return instance, outcome, list(replications).index(17)

    _, alone, _ = run([17])
    assert alone.regret[0, -1] > 0
    for batch in ([3, 17, 40, 16], range(32)):
        instance, outcome, r = run(batch)
        assert outcome.regret.shape == (len(batch), shape["horizon"])
        np.testing.assert_array_equal(outcome.regret[r], alone.regret[0])
        np.testing.assert_array_equal(outcome.pulls[r], alone.pulls[0])
        if hasattr(outcome.learner, "scores"):
            learner, own = outcome.learner, alone.learner
            np.testing.assert_array_equal(learner.rule.scores(learner.everyone)[r], own.rule.scores(own.everyone)[0])
        others = [outcome.regret[i] for i in range(len(batch)) if i != r]
        assert not any(np.array_equal(other, alone.regret[0]) for other in others)
        assert instance.problem.replications[r] == 17


def test_batch_order_does_not_matter():
    def run(replications):
        instance = instances.ball(arms=20, dim=5, intrinsic_dim=2, horizon=100, replications=replications)
        return simulate(LinUCB(), instance, seed=1).regret

    np.testing.assert_array_equal(run([4, 0, 9])[[2, 0, 1]], run([9, 4, 0]))


def test_seed_decides_noise_and_choices_but_not_arms():
    instance = instances.sphere(arms=20, dim=5, intrinsic_dim=2, horizon=100, replications=range(3))
    first, again, other = (simulate(LinUCB(), instance, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.regret, again.regret)
    assert (first.pulls != other.pulls).any()


# torch


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("levels", [None, [2, 7]], ids=["plain", "expressive"])
def test_torch_pulls_the_same_arms(torch, policy, levels):
    here = instances.sphere(
        arms=25,
        dim=7,
        intrinsic_dim=3,
        horizon=120,
        replications=[4, 0, 9],
        expressive=levels is not None,
        levels=levels,
    )
    there = adadim.Instance(
        adadim.ActionSet(torch.asarray(here.problem.actions.base), levels=levels),
        theta=torch.asarray(here.theta),
        horizon=120,
        noise=0.1,
        replications=[4, 0, 9],
    )
    assert isinstance(there.means, torch.Tensor)
    assert isinstance(there.best, torch.Tensor)
    numpy_run, torch_run = (simulate(policy, instance, seed=3, record=every(here)) for instance in (here, there))
    assert isinstance(torch_run.regret, np.ndarray)
    np.testing.assert_array_equal(torch_run.pulls, numpy_run.pulls)
    np.testing.assert_allclose(torch_run.regret, numpy_run.regret, atol=1e-10)


# Replications in turns


LEVELS = {False: {}, True: {"levels": [2, 8]}}


@pytest.mark.parametrize("expressive", [False, True])
@pytest.mark.parametrize(
    "policy", [LinUCB(form="feature"), LinUCB(form="feature", dim=3), adadim.TaperedLinUCB(form="feature")]
)
def test_playing_replications_in_turns_changes_nothing(policy, expressive, monkeypatch):
    instance = instances.sphere(
        arms=20, dim=8, intrinsic_dim=2, horizon=90, replications=range(5), expressive=expressive, **LEVELS[expressive]
    )
    together = simulate(policy, instance, record=[7, 50])
    streamed = together.learner.bytes_per_round
    assert streamed == 8 * (
        20 * together.learner.model.regression.actions.dim + together.learner.model.regression.actions.dim**2 // 2
    )
    seen = []
    monkeypatch.setattr(sys.modules["adadim.play.simulate"], "CACHE_BYTES", 2 * streamed)
    strips = sys.modules["adadim.play.simulate"].cache_sized_strips(together.learner, instance.means)
    assert [rows.index for rows in strips] == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert [rows.ids.tolist() for rows in strips] == [[0, 1], [2, 3], [4]]
    in_turns = simulate(policy, instance, record=[7, 50], progress=lambda *done: seen.append(done))
    np.testing.assert_array_equal(in_turns.regret, together.regret)
    np.testing.assert_array_equal(in_turns.pulls, together.pulls)
    assert seen == [(2, 90), (16, 90), (32, 90), (46, 90), (62, 90), (76, 90)]


def test_replications_that_fit_the_cache_go_together(torch):
    """And on torch they always do: there a round takes all of them at once."""
    strips = sys.modules["adadim.play.simulate"].cache_sized_strips
    instance = instances.sphere(arms=20, dim=8, intrinsic_dim=2, horizon=9, replications=range(5))
    for policy, where in ((LinUCB(form="feature"), instance), (LinUCB(), instance), (LinUCB(), instance.to("cpu"))):
        (only,) = strips(policy.start(where.problem), where.means)
        assert only.everyone
    learner = LinUCB(form="feature").start(instance.to("cpu").problem)
    learner.bytes_per_round = 10**12
    assert strips(learner, instance.to("cpu").means)[0].everyone
    assert len(strips(learner, instance.means)) == 5
