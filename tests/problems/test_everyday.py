"""Problems as users have them: what matters, constants, and that a replication depends on its number alone."""

import numpy as np
import pytest

import adadim
from adadim.instances import everyday

SIZES = {"arms": 12, "dim": 16, "intrinsic_dim": 9, "first_relevant": 6, "horizon": 50}
DISTRIBUTIONS = ["gaussian", "heavy", "correlated", "binary", "counts"]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_effects_have_size_one_around_the_constant_and_the_longest_arm_norm_one(distribution):
    instance = everyday(distribution=distribution, constant=7.0, replications=range(3), **SIZES)
    np.testing.assert_allclose(instance.means.std(axis=1), 1.0)
    norms = instance.problem.actions.squared_norms()
    np.testing.assert_allclose(norms.max(axis=1), 1.0)
    features = np.stack([instance.problem.actions.dense(r) for r in range(3)])
    for x, means in zip(features, instance.means, strict=True):  # features 6 to 9 explain all but the constant
        design = np.column_stack([np.ones(12), x[:, 5:9]])
        assert np.linalg.lstsq(design, means, rcond=None)[1].max(initial=0.0) < 1e-18
        assert np.linalg.lstsq(design[:, :-1], means, rcond=None)[1].max(initial=0.0) > 1e-6


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_round_has_its_constant_in_the_column_or_in_the_rewards(distribution):
    known = everyday(distribution=distribution, constant=20.0, column=True, per_round=True, **SIZES)
    hidden = everyday(distribution=distribution, constant=20.0, per_round=True, **SIZES)
    x = next(known.rounds())
    assert np.ptp(x[..., 0]) == 0
    assert abs(known.means(x).mean() - 20) < 3
    assert abs(hidden.means(next(hidden.rounds())).mean()) < 3  # regret does not see it
    means, arms = np.zeros((1, 12)), np.zeros(1, dtype=int)
    rewards = [hidden.pull(means, arms, draws) for draws in [hidden.noise_streams(0)] for _ in range(200)]
    assert abs(np.mean(rewards) - 20) < 0.5


@pytest.mark.parametrize("per_round", [False, True])
def test_a_replication_does_not_depend_on_the_others(per_round):
    many = everyday(distribution="counts", per_round=per_round, replications=range(4), **SIZES)
    one = everyday(distribution="counts", per_round=per_round, replications=[2], **SIZES)
    if per_round:
        np.testing.assert_array_equal(many.theta[2], one.theta[0])
        np.testing.assert_array_equal(next(many.rounds())[2], next(one.rounds())[0])
    else:
        np.testing.assert_array_equal(many.means[2], one.means[0])


def test_categories():
    single = everyday(distribution="one-hot", arms=6, dim=6, intrinsic_dim=6, horizon=50)
    np.testing.assert_array_equal(single.problem.actions.dense(0), np.eye(6))
    segments = everyday(distribution="one-hot", arms=3, dim=12, intrinsic_dim=12, horizon=50, per_round=True)
    seen = {int(x[0].argmax(axis=1)[0]) for x, _ in zip(segments.rounds(), range(60), strict=False)}
    assert seen == {0, 3, 6, 9}
    groups = everyday(distribution="groups", arms=6, dim=8, intrinsic_dim=8, horizon=50)
    np.testing.assert_allclose(groups.problem.actions.dense(0).sum(axis=1), np.sqrt(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distribution": "words"}, "distribution must be"),
        ({"first_relevant": 10}, "first_relevant"),
        ({"column": True, "first_relevant": 1}, "first_relevant .* after the constant of column=True"),
        ({"column": True, "intrinsic_dim": 1}, "intrinsic_dim .* after the constant of column=True"),
        ({"distribution": "one-hot"}, "dim must be"),
        ({"distribution": "groups", "dim": 12}, "dim must be"),
        ({"noise": 0.0}, "noise"),
    ],
)
def test_what_is_wrong_is_said(change, message):
    with pytest.raises(adadim.errors.InvalidValueError, match=message):
        everyday(**{"distribution": "gaussian", **SIZES, **change})
