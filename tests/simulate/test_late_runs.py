"""Rewards that come late: widths count what was asked, means what was answered, and nothing else changes."""

import sys

import numpy as np
import pytest

import adadim
from adadim import instances, simulate
from adadim.core.randomness import Purpose, Streams
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.instances import Delay
from scripted_policies import every

SIZES = {"dim": 5, "intrinsic_dim": 3, "noise": 0.2}
DELAYS = {
    "fixed": Delay(7),
    "geometric": Delay(distribution="geometric", mean=9.0, never=0.2),
    "uniform": Delay(distribution="uniform", least=0, most=12, never=0.1),
    "never": Delay(4, never=0.3),
}
POLICIES = {
    "LinUCB": adadim.LinUCB(),
    "TaperedLinUCB": adadim.TaperedLinUCB(),
    "EvidenceLinUCB": adadim.EvidenceLinUCB(),
    "EvidenceLinUCB intercept": adadim.EvidenceLinUCB(taper=(0.0, 1.75), intercept=True, probes=2),
    "LinTS": adadim.LinTS(),
}


def fixed(replications=(0, 3), horizon=150, **more):
    return instances.ball(arms=12, horizon=horizon, replications=replications, **SIZES, **more)


def contextual(replications=(0, 3), horizon=150, **more):
    return instances.contexts(arms=6, horizon=horizon, replications=replications, **SIZES, **more)


KINDS = {"fixed arms": fixed, "contexts": contextual}
by_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
by_delay = pytest.mark.parametrize("delay", DELAYS.values(), ids=DELAYS)


def generator(seed, purpose, r):
    """The stream of a replication, written out."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(int(purpose), r))))


def delays_by_hand(delay, seed, r, horizon):
    """D of every round as the docstring of `Delay` has it, or None for never."""
    if delay.distribution == "fixed" and not delay.never:
        return [delay.rounds] * horizon
    made = []
    for u in generator(seed, Purpose.DELAY, r).random(horizon):
        v = (u - delay.never) / (1 - delay.never)
        if u < delay.never:
            made.append(None)
        elif delay.distribution == "geometric":
            p, k = 1 / (1 + delay.mean), 0
            while 1 - (1 - p) ** (k + 1) <= v:  # the smallest k with P(D <= k) > v
                k += 1
            made.append(k)
        else:
            made.append(
                delay.rounds if delay.distribution == "fixed" else int(delay.least + v * (delay.most - delay.least + 1))
            )
    return made


def linucb_by_hand(features, means, noises, delays, radius, ridge=0.1):
    """Regret after each round of the textbook's algorithm, widths from all pulls and means from the answered ones."""
    dim = features[0].shape[1]
    asked, answered, sums = ridge * np.eye(dim), ridge * np.eye(dim), np.zeros(dim)
    waiting, regret = [], []
    for t, (arms, mean, noise, wait) in enumerate(zip(features, means, noises, delays, strict=True), start=1):
        for known, x, reward in waiting:
            if known == t:
                answered += np.outer(x, x)
                sums += reward * x
        theta = np.linalg.solve(answered, sums)
        widths = np.sqrt([x @ np.linalg.solve(asked, x) for x in arms])
        k = int(np.argmax(arms @ theta + radius * widths))
        asked += np.outer(arms[k], arms[k])
        if wait is not None:
            waiting.append((t + wait + 1, arms[k], mean[k] + noise))
        regret.append(mean.max() - mean[k])
    return np.cumsum(regret)


@by_delay
@by_kind
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_linucb_equals_the_textbook(make, delay, library, request):
    instance, seed = make(), 5
    played = instance if library == "numpy" else request.getfixturevalue("torch") and instance.to("cpu")
    outcome = simulate(adadim.LinUCB(), played, seed=seed, record=every(instance), delay=delay)
    problem = instance.problem
    radius = problem.noise * np.sqrt(2 * np.log(2 * problem.horizon**1.5 * problem.arms))
    rounds = (
        [f for f, _ in zip(instance.rounds(), range(problem.horizon), strict=False)] if make is contextual else None
    )
    for position, r in enumerate(problem.replications):
        if rounds is None:
            features = [problem.actions.dense(position)] * problem.horizon
        else:
            features = [offered[position] for offered in rounds]
        means = [x @ instance.theta[position] for x in features]
        noises = problem.noise * generator(seed, Purpose.NOISE, r).standard_normal(problem.horizon)
        waits = delays_by_hand(delay, seed, r, problem.horizon)
        expected = linucb_by_hand(features, means, noises, waits, radius)
        np.testing.assert_allclose(outcome.regret[position], expected, atol=1e-9)


@by_kind
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_delay_of_zero_is_none(make, policy):
    plain = simulate(policy, make(), seed=2)
    for same in (
        simulate(policy, make(), seed=2, delay=0),
        simulate(policy, make(delay=30), seed=2, delay=Delay(0)),
        simulate(policy, make(delay=0), seed=2),
    ):
        np.testing.assert_array_equal(same.regret, plain.regret)
        np.testing.assert_array_equal(same.pulls, plain.pulls)


@by_kind
def test_where_the_delay_is_said_does_not_matter(make):
    expected = simulate(adadim.LinUCB(), make(), delay=Delay(distribution="geometric", mean=20.0, never=0.1)).regret
    assert (expected != simulate(adadim.LinUCB(), make()).regret).any()
    written = {"distribution": "geometric", "mean": 20, "never": 0.1}
    for same in (
        simulate(adadim.LinUCB(), make(), delay=written),
        simulate(adadim.LinUCB(), make(delay=written)),
        simulate(adadim.LinUCB(), make(delay={"kind": "Delay", **written})),
        simulate(adadim.LinUCB(), make(delay=3), delay=written),
    ):
        np.testing.assert_array_equal(same.regret, expected)


@by_delay
@by_kind
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_replication_is_the_same_in_any_batch(make, delay, policy):
    def regret(replications):
        return simulate(policy, make(replications, horizon=70), seed=4, delay=delay).regret

    together = regret([0, 3, 8, 9])
    np.testing.assert_array_equal(regret([8, 3]), together[[2, 1]])
    np.testing.assert_array_equal(regret([9]), together[[3]])


def test_replications_in_turns_are_the_same(monkeypatch):
    """Large learners play a few replications at a time, from the first round to the last."""
    together = simulate(adadim.LinUCB(form="feature"), fixed(range(5)), delay=DELAYS["uniform"]).regret
    monkeypatch.setattr(sys.modules["adadim.play.simulate"], "CACHE_BYTES", 1)
    in_turns = simulate(adadim.LinUCB(form="feature"), fixed(range(5)), delay=DELAYS["uniform"]).regret
    np.testing.assert_array_equal(in_turns, together)


def test_a_constant_delay_is_one_call_for_all_replications(monkeypatch):
    calls = []
    original = adadim.LinUCB().start(fixed().problem).__class__.resolve

    def counted(self, arms, rewards, rows, memo):
        calls.append(rows.everyone)
        original(self, arms, rewards, rows, memo)

    monkeypatch.setattr("adadim.policies.linear.learner.LinearLearner.resolve", counted)
    simulate(adadim.LinUCB(), fixed(range(6)), delay=20)
    assert calls == [True] * (150 - 20 - 1)


@pytest.mark.parametrize("name", ["UCB", "Greedy", "PrefixLinUCB", "TwoPriorLinUCB"])
def test_other_policies_play(name):
    outcome = simulate(getattr(adadim, name)(), fixed(), delay=DELAYS["uniform"])
    assert outcome.pulls.sum(axis=1).tolist() == [150, 150]
    assert (outcome.regret != simulate(getattr(adadim, name)(), fixed()).regret).any()


def test_arms_that_arrive_can_be_answered_late():
    sizes = {"arms": 8, "initial_arms": 3, "horizon": 120, "replications": range(2), **SIZES}
    outcome = simulate(adadim.LinUCB(), instances.growing(**sizes, delay=15), record=every(instances.growing(**sizes)))
    assert (np.diff(outcome.regret) >= -1e-12).all()
    assert outcome.learner.describe()[0]["pulls"] == 120 - 16  # the last sixteen rewards were not seen


def test_rewards_on_their_way_at_the_end_are_not_seen():
    outcome = simulate(adadim.LinUCB(), contextual(), delay=1000)
    assert [part["pulls"] for part in outcome.learner.describe()] == [0, 0]
    assert (outcome.pulls > 0).sum() > 2  # and yet it does not repeat one arm


# The distribution of a delay


def test_the_geometric_law_has_its_mean_and_the_uniform_one_its_ends():
    uniforms = np.random.default_rng(0).random(200_000)
    drawn = Delay(distribution="geometric", mean=40.0).of_uniforms(uniforms)
    assert drawn.min() == 0
    assert abs(drawn.mean() - 40) < 5 * np.sqrt(40 * 41 / 200_000)
    assert abs((drawn == 0).mean() - 1 / 41) < 0.002
    drawn = Delay(distribution="uniform", least=200, most=2000).of_uniforms(uniforms)
    assert (drawn.min(), drawn.max()) == (200, 2000)
    assert abs(drawn.mean() - 1100) < 5 * 520 / np.sqrt(200_000)


@by_delay
def test_the_share_that_never_comes(delay):
    drawn = delay.of_uniforms(np.random.default_rng(1).random(100_000))
    assert abs((drawn == -1).mean() - delay.never) < 0.006


def test_the_largest_number_below_one_is_a_delay():
    for delay in (
        Delay(distribution="geometric", mean=1e300),
        Delay(distribution="uniform", least=3, most=5, never=0.1),
        Delay(3, never=1),
    ):
        drawn = delay.of_uniforms(np.array([0.0, 1 - 2**-53]))
        assert (drawn >= -1).all()
    assert Delay(distribution="uniform", least=3, most=5, never=0.1).of_uniforms(np.array([1 - 2**-53])) == 5


def test_delays_have_a_stream_of_their_own():
    """With and without delay a policy that ignores its rewards meets the same noise and makes the same choices."""
    assert Streams(3, Purpose.DELAY, [0]).uniforms() != Streams(3, Purpose.NOISE, [0]).uniforms()
    late, plain = (simulate(adadim.Random(), fixed(), seed=3, delay=delay) for delay in (DELAYS["geometric"], None))
    np.testing.assert_array_equal(late.pulls, plain.pulls)


# Refusals


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "rounds must be an integer in 0..9007199254740992 .*got -1"),
        (2.5, r"delay must be a whole number of rounds or .*got 2\.5"),
        (True, "delay must be a whole number of rounds or .*got True"),
        ("geometric", "delay must be a whole number of rounds or .*got 'geometric'"),
        ({"distribution": "geometric"}, "a delay with distribution 'geometric' is given by mean and by no other"),
        ({"distribution": "uniform", "least": 5, "most": 3}, "most must be an integer in 5.*got 3"),
        (
            {"distribution": "poisson", "mean": 3},
            "distribution must be 'fixed', 'geometric' or 'uniform', got 'poisson'",
        ),
        (
            {"rounds": 5, "mean": 3.0},
            "a delay with distribution 'fixed' is given by rounds and by no other .*rounds=5, mean=3.0",
        ),
        ({"rounds": 5, "never": 1.5}, r"never must be a number in \[0, 1\], got 1\.5"),
        ({"distribution": "geometric", "mean": 0}, "mean must be a positive finite number .*got 0"),
        ({"rouds": 5}, "delay.rouds: a delay has no parameter 'rouds'; did you mean 'rounds'"),
    ],
)
def test_what_is_no_delay(value, message):
    with pytest.raises((InvalidValueError, InvalidTypeError), match=message):
        simulate(adadim.LinUCB(), fixed(), delay=value)
    with pytest.raises((InvalidValueError, InvalidTypeError), match=message):
        fixed(delay=value)


def test_policies_that_need_each_reward_are_refused():
    refusal = r"LinUCBPlusPlus needs each reward before its next decision .*adadim\.recommended\(problem\) can"
    with pytest.raises(InvalidValueError, match=refusal):
        simulate(adadim.LinUCBPlusPlus(), fixed(delay=5))
    assert simulate(adadim.LinUCBPlusPlus(), fixed(delay=5), delay=0).times[-1] == 150


def test_logged_choices_take_no_delay():
    frame = {"x": [0.1, 0.9, 0.2, 0.8], "drug": ["a", "b", "b", "a"], "better": [1.0, 0.0, 1.0, 1.0]}
    columns = {"reward": "better", "arm": "drug", "features": ["x"]}
    with pytest.raises(InvalidValueError, match=r"logged choices are replayed .*got 5"):
        instances.table(frame, **columns, delay=5)
    with pytest.raises(InvalidValueError, match=r"logged choices are replayed .*got 5"):
        simulate(adadim.LinUCB(), instances.table(frame, **columns), delay=5)


def test_labels_may_come_late():
    instance = instances.labelled(data="digits", covariates=3, horizon=60, delay=10)
    assert instance.delay == Delay(10)
    assert simulate(adadim.LinUCB(), instance).learner.describe()[0]["pulls"] == 60 - 11
