"""OSOM, ALB-Norm and ALB-Dim: oracles, the plain versions in lock step, what happens once and for ever."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import OSOM, ALBDim, ALBNorm
from adadim.core.rows import Replications
from adadim.policies.linear.osom import BallRadius, NormRadius, first_norm, paired_estimate
from adadim.policies.linear.round_learner import RoundRegression
from reference import arms_with_features, phases
from round_runs import in_lock_step, sets

EXACT = {"rel": 1e-12, "abs": 1e-10}


# OSOM


def budget(radius, t):
    """W(t): how much optimism the simple model explains by round t."""
    return float(2 * radius(np.arange(radius.arms, t)).sum() + radius.slack(t))


def test_radius_and_budget_f24():
    radius = BallRadius(arms=5, dim=50, horizon=300, delta=0.1, noise=1.0, rho=0.02)
    assert radius.settled == pytest.approx(506143.048512685, **EXACT)
    assert radius.drift(100) == pytest.approx(1114.837113717417, **EXACT)
    assert radius.martingale(100) == pytest.approx(8.715943533969, **EXACT)
    assert float(radius(100)) == pytest.approx(1123.553057251386, **EXACT)
    assert budget(radius, 100) == pytest.approx(171784.958515562757, **EXACT)
    assert budget(radius, 300) == pytest.approx(741902.748480379, **EXACT)
    radius = BallRadius(arms=3, dim=2, horizon=20000, delta=0.05, noise=0.1, rho=0.5)
    assert radius.settled == pytest.approx(990.462316979894, **EXACT)
    assert float(radius(10000)) == pytest.approx(1.364647820839, **EXACT)
    assert budget(radius, 10000) == pytest.approx(1650183.831503722, **EXACT)


def test_index_f25():
    radius = BallRadius(arms=3, dim=2, horizon=100, delta=0.05, noise=0.1, rho=0.5)
    assert OSOM().index(0.3, 5, radius) == pytest.approx(0.462336307168, **EXACT)
    assert OSOM(corrected=True).index(0.3, 5, radius) == pytest.approx(2.010427331250, **EXACT)


def test_scores_f25():
    """mu~ + <x, theta> + radius |x|, as the learner computes them."""
    x = np.array([[0.6, 0.8], [0.0, 1.0], [-0.6, 0.8]])
    theta, index, radius = np.array([0.2, -0.1]), np.array([0.5, 0.45, 0.6]), 0.3
    learner = OSOM(variant="ball").start(adadim.Problem(arms=3, dim=2, horizon=50, noise=0.1))
    learner.pulls[:], learner.clock[:] = 1.0, 3
    learner.index = lambda rows, arms: index[None]
    learner.ball = type(
        "Ball", (), {"__call__": lambda s, t: np.full(len(t), radius), "slack": lambda s, t: 0.0 * t, "noise": 0.1}
    )()
    learner.regression.context.theta[0] = theta
    decision = learner.ask(x)
    assert decision.arms == 2  # the simple model takes the largest index
    assert decision.memo["optimistic"][0] == pytest.approx(0.84, **EXACT)
    assert index + x @ theta + radius == pytest.approx([0.84, 0.65, 0.7], **EXACT)
    assert theta + radius * x[0] == pytest.approx([0.38, 0.14], **EXACT)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("ball", [True, False])
def test_osom_in_lock_step(ball, fixed):
    theta, bias = np.array([1.0, -1.4, 0.8]), np.array([0.1, 0.3, 0.0, -0.2])
    rounds, changed = 300, []
    noise = 0.1 * np.random.default_rng(5).standard_normal((rounds, 2))

    def compare(learner, version, r):
        assert bool(learner.complex[r]) == version.complex
        changed.append(version.complex)
        assert learner.shortfall[r] == pytest.approx(version.statistic, rel=1e-9, abs=1e-9)
        assert learner.optimism[r] == pytest.approx(version.first_sum, rel=1e-9, abs=1e-9)

    delta = 1 / math.sqrt(rounds)
    in_lock_step(
        OSOM(variant="ball" if ball else "ellipsoid", rho=0.3),
        lambda uniform: arms_with_features.OSOM(4, 3, rounds, delta, 0.1, 0.3, ball, uniform),
        sets(rounds, 4, 3),
        lambda t, r, arm, x: float(bias[arm] + x @ theta) + noise[t, r],
        0.1,
        compare,
        takes_arm=True,
        fixed=fixed,
    )
    assert any(changed) == (not ball and not fixed)  # the source's ball is too large to ever change


def play_osom(theta, rounds=700, seed=0, **settings):
    """The learner after every round, on features of mean zero and arms with means of their own."""
    rng, bias = np.random.default_rng(seed), np.array([0.2, 0.0, -0.1])
    learner = OSOM(**settings).start(adadim.Problem(arms=3, dim=2, horizon=rounds, noise=0.05))
    features = sets(rounds, 3, 2, 1, seed)[:, 0]
    for x in features:
        arm = learner.select(x)
        learner.update(arm, bias[arm] + x[arm] @ theta + 0.05 * rng.standard_normal())
        yield learner, arm, x


def test_the_model_changes_when_features_matter_and_not_otherwise():
    *_, (learner, _, _) = play_osom(np.array([1.0, -0.8]), rounds=1500)
    assert learner.complex[0]
    assert learner.describe()["model"] == "complex"
    assert 3 < learner.describe()["changed_in_round"] <= 1500
    *_, (learner, _, _) = play_osom(np.zeros(2), rounds=1500)
    assert not learner.complex[0]


@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_the_model_changes_once_and_is_ucb_before(seed):
    before = False
    sums, pulls = np.zeros(3), np.zeros(3)
    theta = np.random.default_rng(seed).uniform(-1.5, 1.5, 2)
    radius = BallRadius(3, 2, 300, 1 / math.sqrt(300), 0.05, 0.5)
    for learner, arm, _ in play_osom(theta, 300, seed):
        assert learner.complex[0] or not before
        before = bool(learner.complex[0])
        if not before and pulls.min() > 0:
            index = OSOM().index(sums / pulls, pulls, radius)
            assert index[arm] == pytest.approx(index.max())
        pulls[arm], sums[arm] = learner.pulls[0, arm], learner.sums[0, arm]


def test_arms_that_are_not_offered_wait_for_their_first_pull():
    learner = OSOM().start(adadim.Problem(arms=3, dim=2, horizon=20, noise=0.1))
    x, chosen = sets(20, 3, 2, 1)[:, 0], []
    for t in range(6):
        chosen.append(learner.select(x[t], allowed=[True, True, t > 2]))
        learner.update(chosen[-1], 0.5)
    assert chosen[:2] == [0, 1]
    assert 2 not in chosen[:3]
    assert chosen[3] == 2


# ALB-Norm


def test_radius_f27():
    sizes = {"arms": 75, "dim": 50, "horizon": 2000, "delta": 0.01, "noise": math.sqrt(0.5), "rho": 1.0}
    radius = NormRadius(**sizes, bound=10.0)
    assert radius.settled == pytest.approx(313.809866188341, **EXACT)
    assert radius.martingale(1000) == pytest.approx(18.984332536648, **EXACT)
    assert radius.drift(1000) == pytest.approx(8080.456106227687, **EXACT)
    assert float(radius(1000)) == pytest.approx(16.976812330066, **EXACT)
    assert float(radius(100)) == pytest.approx(3373.102720442555, **EXACT)
    assert float(NormRadius(**sizes, bound=1.0)(1000)) == pytest.approx(7.619400763897, **EXACT)


def test_first_bound_f28():
    assert first_norm(0.3, 0.1, 2, 50, 0.05) == 1
    assert first_norm(2.0, 0.1, 2, 50, 0.05) == pytest.approx(2.048954936614, **EXACT)
    x = np.array([(1, 0), (0, 1), (1, 1), (-1, 0), (0, -1), (0.5, 0.5)], dtype=float)
    y = 0.7 + x @ [0.4, -0.2] + [0.01, -0.02, 0.03, 0, 0.01, -0.01]
    assert paired_estimate(x, y) == pytest.approx([0.420389610390, -0.215454545455], **EXACT)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("ball", [True, False])
def test_alb_norm_in_lock_step(ball, fixed):
    theta, bias = np.array([0.5, -0.3, 0.4]), np.array([0.1, 0.3, 0.0, -0.2])
    rounds = 150
    noise = 0.1 * np.random.default_rng(6).standard_normal((rounds, 2))

    def compare(learner, version, r):
        assert learner.bound[r] == pytest.approx(version.b, rel=1e-8)
        assert learner.epoch[r] == max(version.epoch, 1)

    in_lock_step(
        ALBNorm(pairs=4, first_epoch=15, variant="ball" if ball else "ellipsoid", delta=0.1, rho=0.3),
        lambda uniform: arms_with_features.ALBNorm(4, 3, 4, 15, 0.1, 0.1, 0.3, ball, uniform),
        sets(rounds, 4, 3),
        lambda t, r, arm, x: float(bias[arm] + x @ theta) + noise[t, r],
        0.1,
        compare,
        takes_arm=True,
        fixed=fixed,
    )


@pytest.mark.parametrize(("arms", "dim"), [(4, 6), (9, 6), (30, 6)])
def test_solutions_of_fixed_sets(arms, dim):
    """theta and the largest eigenvalue of V^-1, with fewer arms pulled than features and with more."""
    rng = np.random.default_rng(arms)
    problem = adadim.Problem(sets(1, arms, dim)[0], horizon=90, noise=0.1)
    regression, everyone = RoundRegression(problem, dim, 0.3), Replications.all(problem.reference)
    for _ in range(3):  # the second and third time after forgetting everything
        v, b = np.stack([0.3 * np.eye(dim)] * 2), np.zeros((2, dim))
        for _ in range(40):
            pulled, rewards = rng.integers(arms, size=2), rng.standard_normal(2)
            x = problem.actions.base[[0, 1], pulled]
            regression.absorb(pulled, x, rewards, everyone)
            v, b = v + x[:, :, None] * x[:, None, :], b + rewards[:, None] * x
            for r in range(2):
                theta, widest = regression.solution(r)
                np.testing.assert_allclose(theta, np.linalg.inv(v[r]) @ b[r], rtol=0, atol=1e-10)
                np.testing.assert_allclose(widest, np.linalg.eigvalsh(np.linalg.inv(v[r]))[-1], rtol=1e-10)
        for r in range(2):
            regression.forget(r)
            theta, widest = regression.solution(r)
            np.testing.assert_allclose([*theta, widest], [*np.zeros(dim), 1 / 0.3], rtol=1e-14)


def test_means_and_widths_of_cut_arms_whose_features_are_left_out():
    """On an expressive set, in its first 4 features: arms cut after 4 and after 6 features are alike then, and stay."""
    rng, dim = np.random.default_rng(3), 4
    problem = adadim.Problem(adadim.ActionSet(sets(1, 5, 6)[0], levels=[2, 4, 6]), horizon=90, noise=0.1)
    regression, everyone = RoundRegression(problem, dim, 0.3, reweighted=True), Replications.all(problem.reference)
    arms, weights = problem.actions.dense_batch()[..., :dim], np.ones(6)
    for left_out in ([], [1], [0, 3]):
        weights[:] = 1.0
        weights[left_out] = 0.0
        if left_out:
            for r in range(2):
                regression.forget(r, weights)
        v, b, x = np.stack([0.3 * np.eye(dim)] * 2), np.zeros((2, dim)), arms * weights[:dim]
        for _ in range(30):
            pulled, rewards = rng.integers(15, size=2), rng.standard_normal(2)
            regression.absorb(pulled, arms[[0, 1], pulled], rewards, everyone)
            one = x[[0, 1], pulled]
            v, b = v + one[:, :, None] * one[:, None, :], b + rewards[:, None] * one
        mean, width2 = regression.predict(arms, everyone)
        inverse = np.linalg.inv(v)
        np.testing.assert_allclose(mean, (x @ (inverse @ b[..., None]))[..., 0], atol=1e-11)
        np.testing.assert_allclose(width2, np.vecdot(x @ inverse, x), atol=1e-11)


def test_alb_norm_needs_all_arms():
    learner = ALBNorm().start(adadim.Problem(arms=3, dim=2, horizon=30, noise=0.1))
    with pytest.raises(ValueError, match="needs all arms in every round"):
        learner.ask(np.ones((3, 2)), allowed=[True, True, False])
    with pytest.raises(ValueError, match="needs all 3 arms in every round, got 2"):
        learner.ask(np.ones((2, 2)))


# ALB-Dim


def test_phases_f26():
    policy = ALBDim(first_phase=16)
    lengths = [policy.lengths(i, 4) for i in range(4)]
    assert lengths == [(16, 4), (400, 20), (10000, 100), (250000, 500)]
    assert np.cumsum([sum(pair) for pair in lengths]).tolist() == [20, 440, 10540, 261040]


def test_supports_f26():
    estimate = np.array([0.6, -0.3, 0.2, 0.05, -0.02, 0, 0, 0])
    found = [ALBDim(support="coordinates").features(estimate, i, (1, 2, 4, 8)) for i in range(6)]
    assert [len(f) for f in found] == [1, 2, 3, 3, 4, 5]
    assert found[5] == [0, 1, 2, 3, 4]
    nested = [len(ALBDim().features(estimate, i, (1, 2, 4, 8))) for i in range(6)]
    assert nested == [1, 2, 4, 4, 4, 8]
    assert ALBDim().features(np.zeros(8), 1, (2, 4, 8)) == [0, 1]


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_alb_dim_in_lock_step(nested, fixed):
    theta, rounds = np.array([0.6, 0.0, -0.7, 0.0, 0.0]), 170
    noise = 0.05 * np.random.default_rng(7).standard_normal((rounds, 2))

    def compare(learner, version, r):
        assert learner.phase[r] == version.phase
        assert learner.support(r) == version.support

    in_lock_step(
        ALBDim(support="nested" if nested else "coordinates", dims=(1, 3, 5), first_phase=26, delta=0.1),
        lambda uniform: phases.ALBDim(5, [1, 3, 5], nested, 26, 0.05, 0.1, uniform),
        sets(rounds, 12, 5),
        lambda t, r, arm, x: float(x @ theta) + noise[t, r],
        0.05,
        compare,
        fixed=fixed,
    )


@pytest.mark.parametrize(
    ("policy", "changes"),
    [
        (OSOM, {"variant": "box"}),
        (OSOM, {"delta": 0.0}),
        (OSOM, {"rho": -1.0}),
        (OSOM, {"corrected": 1}),
        (OSOM, {"theta_norm": 0.0}),
        (ALBNorm, {"pairs": 0}),
        (ALBNorm, {"norm_bound": 0.0}),
        (ALBNorm, {"first_epoch": 0}),
        (ALBNorm, {"variant": "box"}),
        (ALBNorm, {"scale": 0.0}),
        (ALBDim, {"support": "all"}),
        (ALBDim, {"first_phase": 0}),
        (ALBDim, {"dims": (3, 1)}),
        (ALBDim, {"ridge": 0.0}),
    ],
)
def test_bad_hyper_parameters(policy, changes):
    with pytest.raises(adadim.AdadimError, match=next(iter(changes))):
        policy(**changes)
