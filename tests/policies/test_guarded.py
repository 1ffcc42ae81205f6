"""Guarded: its schedule, the test that drops a policy, its theorem on policies that mislead, and what it refuses."""

import math

import numpy as np
import pytest

import adadim
from refusals import assert_refuses
from scripted_policies import scripted

HORIZON, EVERY, NOISE = 960, 16, 0.1


def world(replications=3, **options):
    return adadim.instances.sphere(
        arms=40, dim=12, intrinsic_dim=3, horizon=HORIZON, noise=NOISE, replications=range(replications), **options
    )


class GoodThenWorst:
    """Pulls the best arm for some rounds, then the worst."""

    def __init__(self, means, good):
        self.best, self.worst, self.good, self.t = int(means.argmax()), int(means.argmin()), good, 0

    def select(self):
        return self.best if self.t < self.good else self.worst

    def update(self, arm, reward):
        self.t += 1


class Swinging(GoodThenWorst):
    """Goes to and fro between the best arm and the worst, longer each time: its average is never settled."""

    def select(self):
        return self.best if int(math.log2(self.t + 1)) % 2 == 0 else self.worst


def misleading(kind, instance, good=200):
    means = iter(np.asarray(instance.means))
    return adadim.Single(lambda problem, rng: kind(next(means), good))


def played(policy, instance, seed):
    """Base and regret of every round, (R, T), the learner, and when each replication dropped its policy, T if never."""
    learner = policy.start(instance.problem, seed=seed)
    rng, means = np.random.default_rng(seed), np.asarray(instance.means)
    bases, regret, dropped = [], [], np.full(len(means), HORIZON)
    for t in range(HORIZON):
        decision = learner.ask()
        rows = np.arange(len(means))
        value = means[rows, decision.arms]
        learner.tell(decision, value + NOISE * rng.standard_normal(len(means)))
        bases.append(decision.memo["base"].copy())
        regret.append(means.max(axis=1) - value)
        dropped[np.asarray(learner.dropped, dtype=bool) & (dropped == HORIZON)] = t + 1
    return np.array(bases).T, np.array(regret).T, learner, dropped


def slack(horizon):
    """The third term of the theorem, in which delta is 1/T."""
    log = math.log(2 * math.pi**2 * horizon**2 / (3 / horizon))
    return 2 * NOISE * math.sqrt(2 * log * horizon) * (1 + math.sqrt(EVERY - 1))


MISLED = {
    "good, then the worst arm": lambda instance: misleading(GoodThenWorst, instance),
    "the worst arm always": lambda instance: misleading(GoodThenWorst, instance, good=0),
    "to and fro": lambda instance: misleading(Swinging, instance),
    "greedy in one feature": lambda instance: adadim.LinUCB(dim=1, scale=0.01),
}


@pytest.mark.parametrize("name", MISLED)
def test_the_theorem_on_policies_that_mislead(name):
    instance = world(8)
    policy = adadim.Guarded(policy=MISLED[name](instance), every=EVERY)
    bases, regret, _, dropped = played(policy, instance, seed=0)
    spread = np.ptp(np.asarray(instance.means), axis=1)
    for r in range(len(regret)):
        of_policy, of_probes, of_guard = (np.where(bases[r] == b, regret[r], 0.0).cumsum() for b in range(3))
        # the balance condition, at every moment from the first test until the policy is dropped
        unjudged = math.ceil(math.sqrt(EVERY * HORIZON))
        allowed = (EVERY - 1) * of_probes + slack(HORIZON) + spread[r]
        assert (of_policy <= allowed)[unjudged : dropped[r]].all()
        assert regret[r].sum() <= allowed[-1] + of_probes[-1] + of_guard[-1] + unjudged * spread[r]


def test_a_policy_that_turns_bad_is_dropped_for_good():
    instance = world()
    policy = adadim.Guarded(policy=misleading(GoodThenWorst, instance), every=EVERY)
    bases, _, learner, dropped = played(policy, instance, seed=1)
    assert (dropped > 200).all()
    assert (dropped < HORIZON).all()
    for r, t in enumerate(dropped):
        assert (bases[r, t:] == 2).all()
        assert set(bases[r, :t]) == {0, 1}
    assert all(row["policy_dropped"] for row in learner.describe())


def test_a_drop_is_where_the_two_means_are_apart():
    """In the first round in which the lower value of the guard's mean passes the upper one of the policy's."""
    problem = adadim.Problem(np.eye(2), horizon=HORIZON, noise=NOISE)
    policy = adadim.Guarded(policy=scripted([0] * HORIZON)[0], guard=scripted([1] * HORIZON)[0], every=4)
    learner, sums, counts = policy.start(problem), [0.0, 0.0], [0, 0]
    for t in range(HORIZON):
        arm = learner.select()
        assert arm == (t % 4 == 0)  # the guard has the first of every four
        learner.update(arm, 0.1 * arm)
        sums[arm], counts[arm] = sums[arm] + 0.1 * arm, counts[arm] + 1
        means = [s / max(n, 1) for s, n in zip(sums, counts, strict=True)]
        widths = [
            NOISE * math.sqrt(2 * math.log(2 * math.pi**2 * n * n * HORIZON / 3) / n) if n else math.inf for n in counts
        ]
        apart = t + 1 >= math.sqrt(4 * HORIZON) and means[1] - widths[1] > means[0] + widths[0]
        assert learner.describe()["policy_dropped"] == apart
        if apart:
            break
    assert 61 < t < 500


def test_a_good_policy_stays_and_costs_the_share_of_the_guard():
    instance = world(6)
    guarded = adadim.simulate(adadim.Guarded(every=EVERY), instance)
    assert not any(row["policy_dropped"] for row in guarded.learner.describe())
    assert guarded.learner.describe()[0]["rounds_of_each_base"] == [HORIZON - 60, 60, 0]
    assert guarded.final.mean() < adadim.simulate(adadim.LinUCBPlusPlus(), instance).final.mean()


def test_the_guard_learns_from_its_own_rounds_alone_and_the_policy_from_all():
    instance = world(1)
    policy = adadim.Guarded(policy=adadim.LinUCB(), guard=adadim.LinUCB(dim=3), every=EVERY)
    outcome = adadim.simulate(policy, instance)
    learned = [base.describe()[0]["pulls"] for base in outcome.learner.bases.learners]
    assert learned == [HORIZON, 60, 0]


def test_the_rounds_of_the_guard_are_a_run_of_its_own():
    """The arms in its rounds are those of a guard alone, on its share of the horizon, that earns the same rewards."""
    instance = world(2)
    guard, share = adadim.LinUCBPlusPlus(), HORIZON // EVERY
    learner = adadim.Guarded(guard=guard, every=EVERY).start(instance.problem, seed=4)
    alone = guard.learner(instance.problem.with_horizon(share), learner.streams.child(2))
    rng, means = np.random.default_rng(0), np.asarray(instance.means)
    for t in range(HORIZON):
        decision = learner.ask()
        rewards = means[[0, 1], decision.arms] + NOISE * rng.standard_normal(2)
        if t % EVERY == 0:
            arms, memo, *_ = alone.choose(alone.everyone)
            assert (arms == decision.arms).all()
            alone.absorb(arms, rewards, alone.everyone, memo)
        learner.tell(decision, rewards)


@pytest.mark.parametrize("expressive", [False, True])
def test_the_usual_guard_is_the_one_whose_theorem_holds(expressive):
    instance = adadim.instances.sphere(arms=20, dim=8, intrinsic_dim=2, horizon=300, expressive=expressive)
    kinds = [type(policy) for policy in adadim.Guarded().policies(instance.problem)]
    guard = adadim.LinUCBPlusPlus if expressive else adadim.LinUCBPlusPlusCorral
    assert kinds == [type(adadim.recommended(instance.problem)), guard, guard]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (adadim.Problem(arms=3, dim=2, horizon=50, noise=0.1), "the same arms in each"),
        (adadim.Problem(np.eye(3), arrives=[1, 1, 9], horizon=50, noise=0.1), "the same arms in each"),
        (adadim.Problem(np.eye(3), horizon=50), "noise is None"),
    ],
)
def test_problems_without_a_guarantee_are_refused(problem, words):
    assert_refuses(ValueError, words, adadim.Guarded().start, problem)


def test_arms_left_out_are_refused():
    learner = adadim.Guarded().start(adadim.Problem(np.eye(3), horizon=50, noise=0.1))
    assert_refuses(ValueError, "the same arms in each", learner.ask, allowed=[True, True, False])


@pytest.mark.parametrize("options", [{"every": 1}, {"every": 2.5}, {"policy": 3}, {"guard": "LinUCB"}, {"delta": 0}])
def test_parameters_that_cannot_be_are_refused(options):
    assert_refuses((ValueError, TypeError), next(iter(options)), lambda: adadim.Guarded(**options))
