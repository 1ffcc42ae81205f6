"""What every learner must do, whichever policy it is of."""

import gc
import weakref

import numpy as np
import pytest

import adadim
from adadim import ForeignArmError, NotSelectedError
from policy_examples import ARMS, DIM, HORIZON, REPLICATIONS, World, every_policy, instance, play, played_together


def first_rounds(policy, rounds):
    return {r: arms[:rounds] for r, arms in played_together(policy).items()}


@every_policy
def test_memory_is_free_at_once(policy):
    """A learner that nobody holds is gone, and its arms with it: no part of it refers back to the whole."""
    gc.disable()
    try:
        outcome = adadim.simulate(policy, instance())
        learner = weakref.ref(outcome.learner)
        del outcome
        assert learner() is None
    finally:
        gc.enable()


@every_policy
def test_expressive_set(policy):
    where = instance(levels=[2, 5, DIM])
    chosen = play(policy, where, 40)
    assert all(0 <= arm < 3 * ARMS for arms in chosen.values() for arm in arms)
    assert chosen == play(policy, where, 40)


@every_policy
def test_replication_alone_and_in_a_batch(policy):
    together = played_together(policy)
    for r in REPLICATIONS:
        assert play(policy, instance([r]))[r] == together[r]
    shuffled = play(policy, instance([9, 40, 5, 1, 2]))
    assert all(shuffled[r] == together[r] for r in REPLICATIONS)


@every_policy
def test_rows_advance_on_their_own(policy):
    """Replications that are called a few at a time, ahead of or behind the others, end up with the same arms."""
    together = played_together(policy)
    where = instance()
    world, learner = World(where), policy.start(where.problem, seed=3)
    rng = np.random.default_rng(1)
    left = np.full(3, HORIZON)
    while left.any():
        unfinished = np.flatnonzero(left)
        rows = rng.permutation(unfinished)[: rng.integers(1, len(unfinished) + 1)]
        arms = learner.select(rows=rows)
        assert arms.shape == rows.shape
        learner.update(arms, world.pull(arms, rows), rows)
        left[rows] -= 1
    assert world.chosen == together


@every_policy
def test_decisions_of_several_replications_may_be_open_at_once(policy):
    """select for some rows, then for others, then the updates, in another order."""
    together = first_rounds(policy, 30)
    where = instance()
    world, learner = World(where), policy.start(where.problem, seed=3)
    for _ in range(30):
        first, second = learner.select(rows=[2]), learner.select(rows=[0, 1])
        learner.update(second, world.pull(second, [0, 1]), [0, 1])
        learner.update(first, world.pull(first, [2]), [2])
    assert world.chosen == together


@every_policy
def test_update_is_checked(policy):
    where = instance()
    learner = policy.start(where.problem, seed=3)
    with pytest.raises(NotSelectedError, match="update before select: replication 5"):
        learner.update([0, 0, 0], [0.1, 0.1, 0.1])
    arms = learner.select()
    for wrong_arms, wrong_rewards, message in (
        (arms, [0.1, 0.1], r"rewards must have shape \(3,\)"),
        (arms, [0.1, 0.1, np.nan], "rewards must be finite, got nan"),
        (arms[:2], [0.1, 0.1, 0.1], r"arms must have shape \(3,\)"),
        ([0, 0, ARMS], [0.1, 0.1, 0.1], rf"arms must be in 0\.\.{ARMS - 1}, got {ARMS}"),
        ([-1, 0, 0], [0.1, 0.1, 0.1], rf"arms must be in 0\.\.{ARMS - 1}, got -1"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.update(wrong_arms, wrong_rewards)
    # None of that was learned: the run goes on as if it had not happened.
    world = World(where)
    learner.update(arms, world.pull(arms, range(3)))
    for _ in range(20):
        arms = learner.select()
        learner.update(arms, world.pull(arms, range(3)))
    assert world.chosen == first_rounds(policy, 21)


@every_policy
def test_arms_that_others_chose(policy):
    learner = policy.start(instance().problem, seed=3)
    for _ in range(5):
        foreign = (learner.select() + 1) % ARMS
        if learner.takes_any_arm:
            learner.update(foreign, [0.1, 0.0, -0.1])
        else:
            with pytest.raises(ForeignArmError, match="learns only from the arms it chose"):
                learner.update(foreign, [0.1, 0.0, -0.1])
            learner.update((foreign - 1) % ARMS, [0.1, 0.0, -0.1])


@every_policy
def test_torch_pulls_the_same_arms(torch, policy):
    here = instance()
    there = adadim.Instance(
        torch.asarray(here.problem.actions.base),
        theta=torch.asarray(here.theta),
        horizon=HORIZON,
        noise=0.1,
        replications=REPLICATIONS,
    )
    expected, learner, world = played_together(policy), policy.start(there.problem, seed=3), World(there)
    for _ in range(HORIZON):
        arms = learner.select()
        assert isinstance(arms, torch.Tensor)
        assert arms.dtype == torch.int64
        learner.update(arms, torch.asarray(world.pull(arms, range(3))))
    assert world.chosen == expected
    assert len(learner.describe()) == 3
