"""Features of disjoint models, against a loop that writes them one by one."""

import numpy as np
import pytest

import adadim
from adadim.errors import InvalidTypeError, InvalidValueError


def written_out(x, arms, order):
    """Constant, then one block of K columns for the arm itself and for each covariate."""
    rows = []
    for arm in range(arms):
        row = [1.0]
        for value in [1.0, *(x[j] for j in order)]:
            row += [value if other == arm else 0.0 for other in range(arms)]
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("order", [None, [2, 0, 1], [1], []])
@pytest.mark.parametrize("arms", [1, 2, 5])
def test_every_entry(order, arms):
    contexts = np.random.default_rng(0).standard_normal((4, 3))
    expected = np.stack([written_out(x, arms, [0, 1, 2] if order is None else order) for x in contexts])
    found = adadim.interactions(contexts, arms, order=order)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(adadim.interactions(contexts[1], arms, order=order), expected[1])
    assert not np.signbit(found[found == 0]).any()


def test_shared_covariates_come_before_the_arms():
    contexts = np.random.default_rng(4).standard_normal((5, 3))
    plain = adadim.interactions(contexts, 4, order=[2, 0])
    found = adadim.interactions(contexts, 4, order=[2, 0], shared=True)
    np.testing.assert_array_equal(found[..., [0, *range(3, 15)]], plain)
    for arm in range(4):
        np.testing.assert_array_equal(found[:, arm, 1:3], contexts[:, [2, 0]])
    levels = adadim.interaction_levels(4, {"a": 1, "b": 1}, shared=True)
    assert levels == {"constant": 1, "covariates": 3, "arm": 7, "arm x a": 11, "arm x b": 15}
    assert adadim.interaction_levels(4, {}, shared=True) == {"constant": 1, "arm": 5}


def test_torch_gives_torch():
    torch = pytest.importorskip("torch")
    contexts = np.random.default_rng(1).standard_normal((3, 2))
    found = adadim.interactions(torch.tensor(contexts), 4, order=[1, 0])
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), adadim.interactions(contexts, 4, order=[1, 0]))


def test_one_model_is_as_many_as_arms():
    """Ridge regression on the interactions without the shared constant is one regression per arm."""
    rng = np.random.default_rng(2)
    contexts, arms, rewards = rng.standard_normal((90, 2)), rng.integers(3, size=90), rng.standard_normal(90)
    features = adadim.interactions(contexts, 3)[np.arange(90), arms][:, 1:]
    theta = np.linalg.solve(features.T @ features + 0.7 * np.eye(9), features.T @ rewards).reshape(3, 3)
    for arm in range(3):
        own = np.column_stack([np.ones(90), contexts])[arms == arm]
        alone = np.linalg.solve(own.T @ own + 0.7 * np.eye(3), own.T @ rewards[arms == arm])
        np.testing.assert_allclose(theta[:, arm], alone, atol=1e-12)


def test_levels_end_where_the_groups_do():
    levels = adadim.interaction_levels(3, {"age": 1, "lab": 2})
    features = adadim.interactions(np.array([5.0, 7.0, 11.0]), 3)
    assert list(levels) == ["constant", "arm", "arm x age", "arm x lab"]
    ends = list(levels.values())
    assert ends[-1] == features.shape[1]
    groups = [set(np.unique(part)) for part in np.split(features, ends[:-1], axis=1)]
    assert groups == [{1.0}, {0.0, 1.0}, {0.0, 5.0}, {0.0, 7.0, 11.0}]


def test_dimension_finds_the_group_that_matters():
    rng = np.random.default_rng(3)
    contexts, arms = rng.standard_normal((800, 4)), rng.integers(3, size=800)
    rewards = 5 + arms + (arms == 2) * contexts[:, 1] + 0.5 * rng.standard_normal(800)
    features = adadim.interactions(contexts, 3)[np.arange(800), arms]
    levels = adadim.interaction_levels(3, {"cheap": 2, "dear": 2})
    assert adadim.dimension(features, rewards, levels=levels).mode == levels["arm x cheap"]
    assert adadim.dimension(features, 5 + arms + rng.standard_normal(800), levels=levels).mode == levels["arm"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: adadim.interactions(np.ones((2, 2, 2)), 2), InvalidValueError, r"shape \(p,\) or \(n, p\)"),
        (lambda: adadim.interactions([1.0, np.nan], 2), InvalidValueError, "context must be finite"),
        (lambda: adadim.interactions(["a"], 2), InvalidTypeError, "context must be real numbers"),
        (lambda: adadim.interactions([1.0], 0), InvalidValueError, "arms must be an integer of at least 1"),
        (lambda: adadim.interactions([1.0], 2, order=[1]), InvalidValueError, r"in 0..0, got 1"),
        (lambda: adadim.interactions([1.0, 2.0], 2, order=[0, 0]), InvalidValueError, "each column once"),
        (lambda: adadim.interactions([1.0], 2, order="a"), InvalidTypeError, "order must be a sequence"),
        (lambda: adadim.interaction_levels(2, ["a"]), InvalidTypeError, "groups must be a mapping"),
        (lambda: adadim.interaction_levels(2, {"a": 0}), InvalidValueError, r"groups\['a'\] must be an integer"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
