"""The posterior of d* from sums over the choices is that from the choices, if these differ from each other."""

import numpy as np
import pytest

import adadim
from adadim.dimension import dimension_of_moments
from adadim.models.statistics import Moments


def sums_of(features, rewards):
    sums = Moments.zeros(features.shape[1])
    sums.add(features, rewards)
    return sums


def choices(count, dim, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, dim))
    return features, features[:, :3] @ [1.0, -0.5, 0.4] + 0.5 * rng.normal(size=count)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("count", "dim"), [(200, 8), (40, 30), (12, 20), (1, 4), (500, 1)])
@pytest.mark.parametrize("prior", ["uniform", 1.0])
def test_it_is_that_of_the_choices(count, dim, prior, constant):
    features, rewards = choices(count, max(dim, 3))
    features, rewards = features[:, :dim] + 2.0, rewards + 30.0
    direct, found = (
        adadim.dimension(features, rewards, prior=prior, constant=constant),
        dimension_of_moments([sums_of(features, rewards)], None, prior, constant=constant),
    )
    assert np.allclose(found.probabilities, direct.probabilities, atol=1e-6)
    assert found.noise == pytest.approx(direct.noise, abs=1e-6, nan_ok=constant and count == 1)
    assert (found.choices, found.dim) == (count, dim)


def test_dependent_and_empty_columns_and_units_change_nothing():
    features, rewards = choices(150, 5)
    wide = np.column_stack([features[:, :2], features[:, 0] - features[:, 1], np.zeros(150), 1e6 * features[:, 2:]])
    direct, found = adadim.dimension(wide, rewards), dimension_of_moments([sums_of(wide, rewards)])
    assert np.allclose(found.probabilities, direct.probabilities, atol=1e-6)


def test_levels_and_no_data():
    features, rewards = choices(150, 6)
    levels = {"few": 2, "more": 4, "all": 6}
    direct, found = (
        adadim.dimension(features, rewards, levels),
        dimension_of_moments([sums_of(features, rewards)], levels),
    )
    assert np.allclose(found.probabilities, direct.probabilities, atol=1e-8)
    assert found.levels == levels
    empty = dimension_of_moments([Moments.zeros(3)])
    assert np.allclose(empty.probabilities, 1 / 3)
    assert np.isnan(empty.noise)


@pytest.mark.parametrize("seed", [402, 779, 824, 1022, 1167])
def test_sums_of_fewer_choices_than_features_give_one_answer_in_any_order(seed):
    """24 features of 12 choices: half of them depend on the others, and what rounding leaves of them must not count."""
    rng, n = np.random.default_rng(seed), 12
    catalogue, chosen = rng.normal(size=(5, 3)), rng.integers(5, size=n)
    context, arms = rng.normal(size=(n, 4)), catalogue[chosen]
    products = (arms[:, :, None] * context[:, None, :]).reshape(n, -1)
    features = np.column_stack([np.ones(n), arms, context, products, np.eye(4)[chosen % 4]])
    rewards, weights = rng.normal(size=n), np.exp2((np.arange(n) - n) / 30)
    answers = []
    for order in (np.arange(n), rng.permutation(n)):
        sums = Moments.zeros(features.shape[1])
        for at in order:
            sums.add(features[[at]], rewards[[at]], weights[[at]])
        answers.append(dimension_of_moments([sums]).probabilities)
    assert np.abs(answers[0] - answers[1]).max() < 1e-6
