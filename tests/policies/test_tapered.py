"""TaperedLinUCB against ridge regression in the original coordinates."""

import numpy as np
import pytest

import adadim
from adadim.policies.confidence import noise_radius


def ball(**changes):
    settings = {"arms": 40, "dim": 12, "intrinsic_dim": 4, "horizon": 200, "replications": range(2), "seed": 3}
    return adadim.instances.ball(**{**settings, **changes})


@pytest.mark.parametrize(("taper", "size"), [(0.0, None), (1.5, None), (2.0, 0.7)])
@pytest.mark.parametrize("form", ["gram", "feature"])
def test_tapered_is_ridge_regression_with_a_growing_ridge(taper, size, form):
    instance = ball()
    problem = instance.problem
    learner = adadim.TaperedLinUCB(taper=taper, ridge=0.3, size=size, form=form).start(problem, seed=1)
    ridge = 0.3 if size is None else (problem.noise / size) ** 2
    index = np.arange(1, problem.dim + 1)
    designs = [np.diag(ridge * index**taper) for _ in range(2)]
    totals = [np.zeros(problem.dim) for _ in range(2)]
    radius = noise_radius(problem.noise, problem.horizon, problem.arms)
    noise = instance.noise_streams(0)
    for _ in range(problem.horizon):
        arms = learner.select()
        for r in range(2):
            a = problem.actions.dense(r)
            inverse = np.linalg.inv(designs[r])
            scores = a @ inverse @ totals[r] + radius * np.sqrt(np.einsum("kd,de,ke->k", a, inverse, a))
            assert arms[r] == scores.argmax()
        rewards = instance.pull(arms, noise)
        learner.update(arms, rewards)
        for r in range(2):
            x = problem.actions.dense(r)[arms[r]]
            designs[r] += np.outer(x, x)
            totals[r] += rewards[r] * x


def test_no_taper_is_linucb():
    instance = ball()
    plain = adadim.simulate(adadim.LinUCB(), instance)
    flat = adadim.simulate(adadim.TaperedLinUCB(taper=0.0), instance)
    np.testing.assert_array_equal(plain.pulls, flat.pulls)


def test_tapered_oful_radius_is_that_of_the_tapered_design():
    instance = ball(horizon=60)
    learner = adadim.TaperedLinUCB(radius="oful", theta_norm=2.0).start(instance.problem)
    noise, counts = instance.noise_streams(0), np.zeros((2, 40))
    for _ in range(60):
        arms = learner.select()
        learner.update(arms, instance.pull(arms, noise))
        counts[[0, 1], arms] += 1
    prior = 0.1 * np.arange(1, 13.0) ** 1.5
    for r in range(2):
        a = instance.problem.actions.dense(r)
        gain = np.linalg.slogdet(np.diag(prior) + a.T @ (counts[r][:, None] * a))[1] - np.log(prior).sum()
        expected = np.sqrt(0.1**2 * (2 * np.log(np.sqrt(60)) + gain) + 0.1 * 2.0**2)
        assert learner.rule.radius(learner.everyone)[r, 0] == pytest.approx(expected)


@pytest.mark.parametrize("bad", [{"taper": -1.0}, {"taper": float("nan")}, {"size": 0.0}, {"ridge": -1.0}])
def test_tapered_refuses(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        adadim.TaperedLinUCB(**bad)
