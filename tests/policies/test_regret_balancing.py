"""Regret Balancing, over bases and as a linear bandit: oracles, the plain version in lock step, invariants."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adadim
from adadim import LinUCB, PowerBound, RegretBalancing, RegretBalancingLinear, SqrtBound
from adadim.policies.linear.rules import empirical_regrets
from counting_runs import bases, in_lock_step, nested_bases, play_bases, plays
from reference.counting import RegretBalancing as Reference
from small_problems import in_torch, small
from stepping import Stepper

EXACT = {"rel": 0, "abs": 1e-10}


def started(count, **settings):
    policy = RegretBalancing(bases=bases(count), **{"reward_scale": 1.0} | settings)
    return policy.start(adadim.Problem(np.full((2, 4), 0.1), horizon=99, noise=0.1))


def test_one_round_f1():
    learner = started(2)
    learner.plays[0], learner.rewards[0] = [4, 2], [2, 1.4]
    best, regret = learner.regrets(learner.everyone)
    assert best[0] == pytest.approx(1.407106781187, abs=1e-10)
    assert regret[0] == pytest.approx([3.628427124746, 1.414213562373], **EXACT)
    assert learner.ask().memo["base"] == [1]


def test_a_thousand_rounds_f2():
    policy = RegretBalancing(bases=bases(3), bound=SqrtBound(c=math.sqrt(math.log(10) / 2)), reward_scale=1.0)
    picks, best, counts = "", {}, {}
    for t, chosen, learner in play_bases(policy, (0.2, 0.6, 0.5), 1000):
        picks += str(chosen)
        value, regret = learner.regrets(learner.everyone)
        best[t], counts[t] = value[0], plays(learner)
    assert picks[:20] == "01212012102121012121"
    rounds = (10, 30, 100, 1000)
    assert [counts[t] for t in rounds] == [(3, 4, 3), (6, 14, 10), (15, 53, 32), (66, 727, 207)]
    expected = [1.136491506572, 0.886766772644, 0.747385551793, 0.639794737207]
    assert [best[t] for t in rounds] == pytest.approx(expected, **EXACT)
    assert regret[0] == pytest.approx([29.026452655642, 28.930773949263, 28.937510601786], **EXACT)


def test_lock_step():
    def compare(learner, reference):
        assert learner.plays[0].tolist() == reference.n
        if min(reference.n):
            best, regret = reference.regrets()
            found = learner.regrets(learner.everyone)
            assert found[0][0] == pytest.approx(best, rel=1e-12)
            np.testing.assert_allclose(found[1][0], regret, rtol=1e-10)

    policy = RegretBalancing(bases=nested_bases(), bound=PowerBound(c=0.3, power=0.6), reward_scale=0.2)
    picked = in_lock_step(policy, lambda plain: Reference(plain, 0.2, lambda n: 0.3 * n**0.6), compare)
    assert set(picked) == {0, 1, 2, 3}


@given(
    n=st.lists(st.integers(1, 500), min_size=2, max_size=6),
    power=st.floats(0.5, 1.0),
    seed=st.integers(0, 1000),
)
def test_regrets_are_at_least_the_bound(n, power, seed):
    """G_i >= U(n_i), with equality where the optimistic value is attained; so the base played was not played most."""
    bound = PowerBound(power=power)
    learner = started(len(n), bound=bound)
    learner.plays[0] = n
    learner.rewards[0] = np.random.default_rng(seed).uniform(-1, 1, len(n)) * n
    claimed = bound(1.0, np.array(n, dtype=float))
    _, regret = learner.regrets(learner.everyone)
    slack = 1e-9 * np.abs(regret[0]).max()
    assert (regret[0] >= claimed - slack).all()
    top = np.argmin(regret[0] - claimed)
    assert regret[0, top] == pytest.approx(claimed[top], abs=slack)
    chosen = int(learner.ask().memo["base"][0])
    assert n[chosen] <= n[top] or claimed[chosen] <= claimed[top] + slack


def test_the_scale_comes_from_the_problem():
    features = np.full((2, 2, 4), 0.1)
    known = adadim.Problem(features, horizon=9, noise=0.1, reward_range=[0.4, 0.6])
    assert RegretBalancing().start(known).scale.ravel() == pytest.approx([0.3, 0.4])
    unknown = adadim.Problem(features, horizon=9, noise=0.5)
    assert RegretBalancing().start(unknown).scale.ravel().tolist() == [1.0, 1.0]
    assert RegretBalancing(reward_scale=2.0).start(known).scale.ravel().tolist() == [2.0, 2.0]


def test_equal_histories_tie():
    seen = set()
    for seed in range(40):
        learner = RegretBalancing(bases=bases(3)).start(adadim.Problem(np.eye(4), horizon=9, noise=0.1), seed=seed)
        seen.add(int(learner.ask().memo["base"][0]))
    assert seen == {0, 1, 2}


@pytest.mark.parametrize("policy", [RegretBalancing(), RegretBalancing(bases=(LinUCB(dim=3), adadim.UCB()))])
def test_torch_does_the_same(policy, torch):
    instance = small(range(2), horizon=120)
    assert Stepper(policy, in_torch(instance, torch)).run().arms == Stepper(policy, instance).run().arms


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"bound": "sqrt"}, TypeError), ({"reward_scale": 0.0}, ValueError), ({"bases": [LinUCB()]}, TypeError)],
)
def test_bad_hyper_parameters(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        RegretBalancing(**changes)


# As a linear bandit


def test_linear_f3():
    arms, theta = np.array([[1, 0], [0, 0.9], [0.6, 0.7]]), np.array([0.5, 0.2])
    policy = RegretBalancingLinear(ridge=1.0, radius=1.0, ties="lowest")
    learner = policy.start(adadim.Problem(arms, horizon=6, noise=0.1))
    expected = [
        (1.0, [1, 1.234567901235, 1.176470588235]),
        (0.968535277187, [1.437070554374, 1.195722564429, 1.221694443563]),
        (0.957106781187, [1.414213562373, 1.958720091293, 1.651707862157]),
    ]
    pulled = []
    for t in range(6):
        state = learner.model.regression
        if t < 3:
            best, regret = empirical_regrets(state.mean, state.width2, 1.0)
            assert best[0] == pytest.approx(expected[t][0], abs=1e-10)
            assert regret[0] == pytest.approx(expected[t][1], **EXACT)
        pulled.append(learner.select())
        learner.update(pulled[-1], float(arms[pulled[-1]] @ theta))
    assert pulled == [0, 1, 0, 2, 0, 2]
    estimate = np.linalg.solve(arms[:2], learner.model.regression.mean[0, :2])
    assert estimate == pytest.approx([0.401550163682, 0.157956223121], **EXACT)


def test_linear_against_plain_least_squares():
    instance = small(noise=0.05)
    stepper = Stepper(RegretBalancingLinear(ties="lowest", theta_norm=0.7, scale=0.5), instance)
    arms, seen = instance.problem.actions.dense(0), np.eye(24) * 0.1
    weighted = np.zeros(24)
    for _ in range(120):
        inverse = np.linalg.inv(seen)
        mean, width2 = arms @ inverse @ weighted, np.einsum("ij,jk,ik->i", arms, inverse, arms)
        logdet = np.linalg.slogdet(seen)[1] - 24 * math.log(0.1)
        radius = 0.5 * (0.05 * math.sqrt(math.log(300) + logdet) + math.sqrt(0.1) * 0.7)
        regret = ((mean + radius * np.sqrt(width2)).max() - mean) / width2
        arm = int(stepper.step().arms[0])
        assert regret[arm] == pytest.approx(regret.min(), rel=1e-7)
        seen += np.outer(arms[arm], arms[arm])
        weighted += stepper.rewards[0][-1] * arms[arm]


@pytest.mark.parametrize(("reward", "last"), [(0.3, 1), (-0.3, 0)])
def test_linear_with_an_arm_of_norm_zero(reward, last):
    """Its value is certain to be 0: pulled once that is the best there may be, and not before."""
    learner = RegretBalancingLinear().start(adadim.Problem([[0.0, 0.0], [0.5, 0.0]], horizon=99, noise=0.1))
    arms = []
    for _ in range(60):
        arms.append(learner.select())
        learner.update(arms[-1], reward if arms[-1] else 0.0)
    assert arms[0] == 1
    assert set(arms[-20:]) == {last}
