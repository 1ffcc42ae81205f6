"""The lower-bound family: its structure, and that no policy beats the bound."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adadim import theory


def regrets(family, pulls):
    """Exact regret in every instance of a policy with expected pulls (instances, arms)."""
    means = family.thetas @ family.features.T
    return np.sum((means.max(axis=1, keepdims=True) - means) * pulls, axis=1)


def assert_bounded(family, pulls, slack=0.0):
    average = regrets(family, pulls)[1:].mean()
    regret_0 = regrets(family, pulls)[0]
    counts = pulls[0, 1 : family.arms_count + 1]
    exact = family.average_regret_bound(counts)
    pooled = family.average_regret_bound(np.full_like(counts, counts.mean()))
    weak = family.average_regret_bound_from_regret(regret_0)
    rounding = 1e-9 * family.horizon
    assert average + slack + rounding >= exact
    assert exact + rounding >= pooled
    counted = family.average_regret_bound_from_regret(regret_0, "counts")  # pulls of a zero arm count too
    assert pooled + rounding >= counted
    assert counted + rounding >= weak


@pytest.mark.parametrize("zero_arm", [False, True])
def test_family_structure(zero_arm):
    family = theory.lower_bound_family(2500, 0.5, alpha_easy=0.3, zero_arm=zero_arm)
    count, delta = family.arms_count, family.delta
    assert family.noise == 0.5
    assert family.features.shape == (count + 1 + zero_arm, 2 * count)
    assert family.thetas.shape == (count + 1, 2 * count)
    assert np.linalg.norm(family.features, axis=1).tolist() == [1.0] * (count + 1) + [0.0] * zero_arm
    norms = np.linalg.norm(family.thetas, axis=1)
    assert norms[0] == pytest.approx(delta / 2)
    assert norms[1:] == pytest.approx(math.sqrt(5) * delta / 2)
    means = family.thetas @ family.features.T
    expected = np.zeros_like(means)
    expected[:, 0] = delta / 2
    expected[1:, 1 : count + 1] = delta * np.eye(count)
    assert np.array_equal(means, expected)
    intrinsic = [int(np.flatnonzero(theta)[-1]) + 1 for theta in family.thetas]
    assert intrinsic == [math.floor(2500**0.3), *range(count + 1, 2 * count + 1)]
    assert max(intrinsic) <= 2500**0.5


def test_zero_arm_makes_the_family_expressive():
    family = theory.lower_bound_family(100, 0.5, alpha_easy=0.3, zero_arm=True)
    arms = {tuple(row) for row in family.features}
    for row in family.features:
        for m in range(1, family.dim):
            assert tuple(np.where(np.arange(family.dim) < m, row, 0.0)) in arms


def test_families_compare_and_hash():
    one, same = theory.lower_bound_family(2500, 0.5), theory.lower_bound_family(2500, 0.5)
    assert one == same
    assert hash(one) == hash(same)
    assert one != theory.lower_bound_family(2500, 0.5, delta=0.1)


def test_uniform_policy():
    family = theory.lower_bound_family(2500, 0.5, budget=50.0)
    count, delta, horizon = family.arms_count, family.delta, family.horizon
    pulls = np.full((count + 1, count + 1), horizon / (count + 1))
    found = regrets(family, pulls)
    assert found[0] == pytest.approx(delta / 2 * horizon * count / (count + 1))
    assert found[0] == pytest.approx(18.780048, abs=1e-6)
    assert found[1:] == pytest.approx(horizon * delta * (1 - 1.5 / (count + 1)))
    assert found[1] == pytest.approx(36.808894, abs=1e-6)
    assert family.average_regret_bound(pulls[0, 1:]) == pytest.approx(15.787553, abs=1e-6)
    assert family.average_regret_bound_from_regret(found[0]) == pytest.approx(6.773130, abs=1e-6)
    assert_bounded(family, pulls)


def test_always_the_easy_arm_meets_the_bound_with_equality():
    family = theory.lower_bound_family(2500, 0.5, budget=50.0)
    pulls = np.zeros((26, 26))
    pulls[:, 0] = 2500
    found = regrets(family, pulls)
    assert found[0] == 0.0
    assert found[1:] == pytest.approx(19.53125)
    assert family.average_regret_bound(np.zeros(25)) == pytest.approx(19.53125)


@given(
    weights=st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7).filter(lambda w: sum(w) > 0.01),
    delta=st.floats(1e-4, 0.89),
    zero_arm=st.booleans(),
)
def test_bound_holds_for_every_blind_policy(weights, delta, zero_arm):
    # T = 100: Kl = 5. A policy that ignores rewards has the same expected pulls in every instance.
    family = theory.lower_bound_family(100, 0.5, delta=delta, zero_arm=zero_arm)
    arms = len(family.features)
    shares = np.array(weights[:arms]) + 1e-6
    assert_bounded(family, np.tile(100 * shares / shares.sum(), (family.arms_count + 1, 1)))


@given(
    horizon=st.sampled_from([16, 100, 2500, 10_000]),
    delta=st.floats(1e-3, 0.89),
    share=st.floats(0.01, 0.9),
    threshold=st.floats(-0.2, 1.2),
)
def test_bound_holds_for_test_one_arm_then_commit(horizon, delta, share, threshold):
    # Pick one of a_1..a_Kl at random, pull it m times, and stay with it if its average beats a threshold,
    # else play a_0 for the rest: an adaptive policy whose expected pulls are normal probabilities.
    family = theory.lower_bound_family(horizon, 0.5, delta=delta)
    count, m = family.arms_count, max(1, int(share * horizon))

    def stays(mean):
        return 0.5 * math.erfc((threshold * delta - mean) / (family.noise / math.sqrt(m)) / math.sqrt(2))

    stay = np.full((count + 1, count), stays(0.0))  # (instance, tested arm)
    stay[1:][np.eye(count, dtype=bool)] = stays(delta)
    pulls = np.empty((count + 1, count + 1))
    pulls[:, 1:] = (m + (horizon - m) * stay) / count
    pulls[:, 0] = horizon - pulls[:, 1:].sum(axis=1)
    assert_bounded(family, pulls)


@pytest.mark.parametrize("delta", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("zero_arm", [False, True])
def test_bound_holds_for_explore_then_commit(delta, zero_arm):
    family = theory.lower_bound_family(400, 0.5, delta=delta, zero_arm=zero_arm)
    means = family.thetas @ family.features.T
    instances, arms = means.shape
    trials, each = 2000, 5
    rng = np.random.default_rng(0)
    noise = rng.normal(0.0, family.noise / math.sqrt(each), (trials, instances, arms))
    best = np.argmax(means + noise, axis=2)
    pulls = each + (400 - each * arms) * (best[..., None] == np.arange(arms))
    per_trial = np.stack([regrets(family, trial)[1:].mean() for trial in pulls.astype(float)])
    slack = 4 * per_trial.std() / math.sqrt(trials)
    assert_bounded(family, pulls.mean(axis=0), slack)


def test_one_hard_arm_is_refused_for_a_reason():
    # The form with 1/2 uses Kl >= 2: for Kl = 1, always playing a_1 would break it.
    family = theory.LowerBoundFamily(horizon=100, arms_count=1, delta=0.01)
    pulls = np.array([[0.0, 100.0], [0.0, 100.0]])
    assert regrets(family, pulls)[1] == 0.0
    assert family.average_regret_bound_from_regret(regrets(family, pulls)[0]) > 0.0
    assert family.average_regret_bound([100.0]) <= 0.0
    with pytest.raises(theory.ConditionError):
        theory.lower_bound_family(9, 0.5, delta=0.01)
