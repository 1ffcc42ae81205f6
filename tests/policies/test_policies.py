"""What every public policy must do, whichever it is."""

import dataclasses
import inspect
import json

import numpy as np
import pytest

import adadim
from adadim import ForeignArmError, Learner, NotSelectedError, Policy, Problem


class Stubborn:
    """Pulls the arm that it drew first."""

    def __init__(self, problem, rng):
        self.arm = int(rng.integers(len(problem.features)))

    def select(self):
        return self.arm

    def update(self, arm, reward):
        pass


# Policies that cannot be made without arguments, and more ways to make those that can.
MADE_WITH = {
    "Single": [adadim.Single(Stubborn)],
    "LinUCB": [
        adadim.LinUCB(bonus="squared", form="gram", dim=3),
        adadim.LinUCB(radius="oful", form="feature"),
        adadim.LinUCB(arms="supported", dim=4),
    ],
    "SupLinUCB": [adadim.SupLinUCB(radius=0.1, dim=3, ties="lowest")],
    "UCB": [adadim.UCB(index=index) for index in ("subgaussian", "ucb1", "released")],
    "LinUCBPlusPlus": [
        adadim.LinUCBPlusPlus(bonus="squared", rescale=True),
        adadim.LinUCBPlusPlus(solver="suplinucb", radius=0.2, ridge=1.0),
    ],
}
NOT_WRITTEN_BY_REPR = {"Single"}  # its field is a function

PUBLIC = {
    name: kind
    for name in adadim.__all__
    if inspect.isclass(kind := getattr(adadim, name)) and issubclass(kind, Policy) and not inspect.isabstract(kind)
}


def by_default(kind):
    required = [field.name for field in dataclasses.fields(kind) if field.init and _has_no_default(field)]
    return [] if required else [kind()]


def _has_no_default(field):
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


EXAMPLES = [policy for name, kind in PUBLIC.items() for policy in by_default(kind) + MADE_WITH.get(name, [])]

every_class = pytest.mark.parametrize("kind", PUBLIC.values(), ids=PUBLIC)
every_policy = pytest.mark.parametrize(
    "policy", EXAMPLES, ids=[f"{type(p).__name__}{i}" for i, p in enumerate(EXAMPLES)]
)

HORIZON, ARMS, DIM = 70, 12, 8
REPLICATIONS = (5, 2, 9)


def instance(replications=REPLICATIONS, levels=None):
    return adadim.instances.ball(
        arms=ARMS,
        dim=DIM,
        intrinsic_dim=3,
        horizon=HORIZON,
        replications=replications,
        expressive=levels is not None,
        levels=levels,
    )


class World:
    """Rewards that depend on the replication's number, its own clock and the arm: not on who else is playing."""

    def __init__(self, where):
        self.where = where
        self.noise = {r: 0.1 * np.random.default_rng(r).standard_normal(HORIZON) for r in where.problem.replications}
        self.clock = dict.fromkeys(where.problem.replications, 0)
        self.chosen = {r: [] for r in where.problem.replications}

    def pull(self, arms, rows):
        rewards = []
        for row, arm in zip(rows, np.asarray(arms).tolist(), strict=True):
            r = self.where.problem.replications[row]
            rewards.append(float(self.where.means[row, arm]) + self.noise[r][self.clock[r]])
            self.clock[r] += 1
            self.chosen[r].append(arm)
        return np.array(rewards)


def play(policy, where, steps=HORIZON, seed=3):
    """Arms of each replication, all of them advancing together."""
    world, learner = World(where), policy.start(where.problem, seed=seed)
    rows = range(len(where.problem))
    for _ in range(steps):
        arms = learner.select()
        learner.update(arms, world.pull(arms, rows))
    return world.chosen


# The class


def test_every_public_policy_is_here():
    made = {type(policy).__name__ for policy in EXAMPLES}
    assert made == set(PUBLIC), "add to MADE_WITH how to make the policies that are missing"
    assert set(MADE_WITH) <= set(PUBLIC)
    assert {"LinUCB", "SupLinUCB", "UCB", "Greedy", "Random", "Single"} <= set(PUBLIC)


def test_the_package_of_policies_hides_none():
    from adadim import policies

    concrete = {
        name
        for name in policies.__all__
        if issubclass(getattr(policies, name), Policy) and not inspect.isabstract(getattr(policies, name))
    }
    assert concrete == set(PUBLIC)


@every_class
def test_class_documents_itself(kind):
    lines = [line.strip() for line in inspect.getdoc(kind).splitlines()]
    assert "Examples" in lines
    assert any(line.startswith(">>> ") for line in lines)
    if dataclasses.fields(kind):
        assert "Parameters" in lines
        described = " ".join(lines[lines.index("Parameters") : lines.index("Examples")])
        undescribed = [field.name for field in dataclasses.fields(kind) if field.name not in described]
        assert undescribed == []


@every_class
def test_class_is_a_dataclass_of_its_own(kind):
    assert "__dataclass_fields__" in vars(kind)
    assert kind.__dataclass_params__.frozen
    assert kind.__module__.startswith("adadim.policies.")


# The policy


@every_policy
def test_policy_is_frozen_and_compares_by_value(policy):
    names = [field.name for field in dataclasses.fields(policy)]
    for name in [*names, "anything_else"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(policy, name, 1)
    copy = dataclasses.replace(policy)
    assert copy is not policy
    assert copy == policy
    assert hash(copy) == hash(policy)
    assert {policy: "found"}[copy] == "found"
    assert policy != "something else"
    for other in EXAMPLES:
        assert (other == policy) == (repr(other) == repr(policy))


@every_policy
def test_repr_makes_the_policy(policy):
    if type(policy).__name__ in NOT_WRITTEN_BY_REPR:
        pytest.skip("a function has no such repr")
    assert eval(repr(policy), {name: getattr(adadim, name) for name in adadim.__all__}) == policy


@every_policy
def test_starting_changes_no_policy(policy):
    before, where = repr(policy), instance()
    play(policy, where, 20)
    assert repr(policy) == before


# The learner


@every_policy
def test_select_and_update(policy):
    where = instance()
    learner = policy.start(where.problem, seed=0)
    assert isinstance(learner, Learner)
    assert learner.problem is where.problem
    rng = np.random.default_rng(0)
    for _ in range(HORIZON):
        arms = learner.select()
        assert isinstance(arms, np.ndarray)
        assert arms.shape == (3,)
        assert arms.dtype.kind in "iu"
        assert ((arms >= 0) & (arms < ARMS)).all()
        before = arms.copy()
        assert learner.update(arms, rng.uniform(-0.2, 0.2, 3)) is None
        np.testing.assert_array_equal(arms, before)


@every_policy
@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_tiny_problems(policy, horizon):
    """One arm, one feature or one round are problems too."""
    for features in (np.ones((1, 1)), np.eye(4), np.full((3, 4), 0.5), np.zeros((2, 4))):
        if getattr(policy, "dim", None) is not None and policy.dim > features.shape[1]:
            continue
        learner = policy.start(Problem(features, horizon=horizon, noise=0.1))
        for _ in range(horizon):
            learner.update(learner.select(), [0.1])


@every_policy
def test_expressive_set(policy):
    where = instance(levels=[2, 5, DIM])
    chosen = play(policy, where, 40)
    assert all(0 <= arm < 3 * ARMS for arms in chosen.values() for arm in arms)
    assert chosen == play(policy, where, 40)


@every_policy
def test_same_seed_same_arms(policy):
    first, again = (play(policy, instance()) for _ in range(2))
    assert first == again


@every_policy
def test_replication_alone_and_in_a_batch(policy):
    together = play(policy, instance())
    for r in REPLICATIONS:
        assert play(policy, instance([r]))[r] == together[r]
    shuffled = play(policy, instance([9, 40, 5, 1, 2]))
    assert all(shuffled[r] == together[r] for r in REPLICATIONS)


@every_policy
def test_rows_advance_on_their_own(policy):
    """Replications that are called a few at a time, ahead of or behind the others, end up with the same arms."""
    together = play(policy, instance())
    where = instance()
    world, learner = World(where), policy.start(where.problem, seed=3)
    rng = np.random.default_rng(1)
    left = np.full(3, HORIZON)
    while left.any():
        unfinished = np.flatnonzero(left)
        rows = rng.permutation(unfinished)[: rng.integers(1, len(unfinished) + 1)]
        arms = learner.select(rows)
        assert arms.shape == rows.shape
        learner.update(arms, world.pull(arms, rows), rows)
        left[rows] -= 1
    assert world.chosen == together


@every_policy
def test_decisions_may_be_pending_side_by_side(policy):
    """select for some rows, then for others, then the updates, in another order."""
    together = play(policy, instance(), 30)
    where = instance()
    world, learner = World(where), policy.start(where.problem, seed=3)
    for _ in range(30):
        first, second = learner.select([2]), learner.select([0, 1])
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
    assert world.chosen == play(policy, instance(), 21)


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
def test_describe(policy):
    where = instance()
    learner = policy.start(where.problem)
    for steps in (0, 1, HORIZON - 1):
        for _ in range(steps):
            learner.update(learner.select(), [0.1, 0.0, -0.1])
        described = learner.describe()
        assert [entry["replication"] for entry in described] == list(REPLICATIONS)
        assert json.loads(json.dumps(described)) == described  # words and numbers, nothing else


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
    expected, learner, world = play(policy, here), policy.start(there.problem, seed=3), World(there)
    for _ in range(HORIZON):
        arms = learner.select()
        assert isinstance(arms, torch.Tensor)
        assert arms.dtype == torch.int64
        learner.update(arms, torch.asarray(world.pull(arms, range(3))))
    assert world.chosen == expected
    assert len(learner.describe()) == 3
