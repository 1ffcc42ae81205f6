"""Every policy of the library, by default and made otherwise, and a small world to play it in."""

import dataclasses
import functools

import numpy as np
import pytest

import adadim
from adadim import policies
from adadim.policies import released


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
        adadim.LinUCB(only_supported=True, dim=4),
        adadim.LinUCB(memory=9.0, dim=5),
    ],
    "EvidenceLinUCB": [
        adadim.EvidenceLinUCB(memory=9.0),
        adadim.EvidenceLinUCB(taper=(0.0, 1.75), intercept=True, probes=2),
        adadim.EvidenceLinUCB(radius="evidence"),
    ],
    "LinTS": [adadim.LinTS(memory=9.0)],
    "PriorThompson": [
        adadim.PriorThompson(sizes=(0.5, 2.0), ties="lowest"),
        adadim.PriorThompson(intercept=True),
    ],
    "PriorElimination": [adadim.PriorElimination(sizes=(0.5, 2.0), rule="optimism", delta=0.9, ties="lowest")],
    "PriorBalancing": [adadim.PriorBalancing(sizes=(0.5, 2.0), delta=0.9, ties="lowest")],
    "FeelGood": [
        adadim.FeelGood(draws=30, eta=1.0, bonus=0.5),
        adadim.FeelGood(particles=40, ties="lowest"),
        adadim.FeelGood(draws=30, intercept=True),
    ],
    "MaxRatio": [
        adadim.MaxRatio(inflation=0.0, threshold=3.0, dim=3),
        adadim.MaxRatio(inflation="bayes", ties="lowest"),
    ],
    "RadiusMixture": [
        adadim.RadiusMixture(weights="uniform", dim=3),
        adadim.RadiusMixture(sparsity=1, released=True, ties="lowest"),
    ],
    "RadiusExp3": [
        adadim.RadiusExp3(weights="uniform", explore=0.3, dim=3),
        adadim.RadiusExp3(loss_range=(-0.5, 1.0), released=True, ties="lowest"),
    ],
    "ALEXP": [adadim.ALEXP(groups=((0, 1), (2,), (1, 4)), penalty=1.0), adadim.ALEXP(released=True, ties="lowest")],
    "IDS": [adadim.IDS(draws=30, dim=3), adadim.IDS("frequentist", ridge=1.0)],
    "LinMED": [adadim.LinMED(a_emp=0.5, a_opt=0.25, delta="decreasing", dim=3)],
    "Certified": [
        adadim.Certified(adadim.LinUCB(), mu=1e-3, theta_norm=3.0, reward_bounds=(-3.0, 3.0)),
        adadim.Certified(adadim.RegretBalancing(), mu=1e-3, ridge=0.1, delta=0.1),
    ],
    "SupLinUCB": [adadim.SupLinUCB(radius=0.1, dim=3, ties="lowest")],
    "UCB": [adadim.UCB(index=index) for index in ("subgaussian", "ucb1", "released")],
    "LinUCBPlusPlus": [
        adadim.LinUCBPlusPlus(bonus="squared", reuse=True),
        adadim.LinUCBPlusPlus(solver="suplinucb", radius=0.2, ridge=1.0),
    ],
    "ModCB": [
        adadim.ModCB(base="linucb", exploration=None, test="theory"),
        adadim.ModCB(base="exp4-ix", experts=9, every=7, floor=0.01),
    ],
    "OSOM": [adadim.OSOM(variant="ball", corrected=True)],
    "ALBDim": [adadim.ALBDim(support="coordinates", first_phase=9)],
    "ALBNorm": [adadim.ALBNorm(norm_bound=2.0, variant="ball", first_epoch=5), adadim.ALBNorm(pairs=3, first_epoch=9)],
    "EpochBalancing": [adadim.EpochBalancing(ambient=True, c=0.01, scale=0.1)],
    "ReleasedLinUCB": [released.ReleasedLinUCB(dim=3, bonus="squared")],
    "ReleasedLinUCBPlusPlus": [released.ReleasedLinUCBPlusPlus(bonus="squared")],
}
NOT_WRITTEN_BY_REPR = {"Single"}  # its field is a function
PUBLIC = policies.kinds()


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
HORIZON, ARMS, DIM = 52, 12, 8  # three iterations of LinUCB++
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
        self.noise = {
            r: 0.1 * np.random.default_rng(r).standard_normal(where.problem.horizon) for r in where.problem.replications
        }
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


@functools.cache
def played_together(policy):
    """`play` on `instance()`, computed once for all tests that compare with it."""
    return play(policy, instance())
