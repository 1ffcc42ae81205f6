"""What `adadim.dimension` gives back, and what it refuses."""

import numpy as np
import pytest
from matplotlib import pyplot

import adadim
from refusals import assert_refuses


def result(probabilities, support=None, dim=None, levels=None, prior=None):
    probabilities = np.asarray(probabilities)
    count = probabilities.shape[-1]
    support = np.arange(1, count + 1) if support is None else np.array(support)
    prior = np.full(count, 1 / count) if prior is None else prior
    noise, choices = (0.1, 20) if probabilities.ndim == 1 else (np.full(len(probabilities), 0.1),) * 2
    return adadim.Dimension(probabilities, noise, choices, prior, support, dim or int(support[-1]), levels)


def test_mode_median_tail_and_intervals():
    found = result([0.1, 0.3, 0.05, 0.4, 0.15])
    assert (found.mode, found.median) == (4, 4)
    np.testing.assert_allclose(found.tail, [1.0, 0.9, 0.6, 0.55, 0.15])
    assert found.interval(0.39) == (4, 4)
    assert found.interval(0.5) == (4, 5)
    assert found.interval(0.75) == (2, 4)
    assert found.interval(0.9) == (2, 5)
    assert found.interval(0.95) == (1, 5)
    assert result([0.5, 0.5]).median == 1
    assert result([0.2, 0.2, 0.2, 0.2, 0.2]).interval(0.6) == (1, 3)


def test_several_replications():
    found = result([[0.1, 0.9, 0.0], [0.0, 0.05, 0.95]])
    np.testing.assert_array_equal(found.mode, [2, 3])
    np.testing.assert_array_equal(found.median, [2, 3])
    np.testing.assert_allclose(found.tail, [[1, 0.9, 0], [1, 1, 0.95]])
    low, high = found.interval(0.9)
    np.testing.assert_array_equal([low, high], [[2, 3], [2, 3]])
    assert str(found).startswith("2 replications: 2.5 of 3 features matter")
    assert "\n" not in str(found)


def test_levels():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((200, 10))
    rewards = features[:, :5].sum(axis=1) + rng.standard_normal(200)
    found = adadim.dimension(features, rewards, levels={"price": 2, "text": 6, "rest": 9})
    assert found.levels == {"price": 2, "text": 6, "rest": 9}
    assert found.probabilities.shape == (3,)
    assert found.tail.shape == (10,)
    np.testing.assert_allclose(found.tail[[0, 1]], 1.0)
    np.testing.assert_allclose(found.tail[2:6], found.probabilities[1:].sum())
    assert found.tail[9] == 0
    assert found.mode == 6
    assert "6 of 10 features matter, up to 'text'," in str(found)
    listed = adadim.dimension(features, rewards, levels=[2, 6, 9])
    np.testing.assert_array_equal(listed.probabilities, found.probabilities)
    assert list(listed.levels.values()) == [2, 6, 9]
    plain = adadim.dimension(features, rewards).probabilities[[1, 5, 8]]
    np.testing.assert_allclose(found.probabilities, plain / plain.sum(), atol=0.02)
    fixed, all_fixed = (adadim.dimension(features, rewards, levels=x, ridge=1.0) for x in ([2, 6, 9], None))
    part = all_fixed.probabilities[[1, 5, 8]]
    np.testing.assert_allclose(fixed.probabilities, part / part.sum(), atol=1e-12)


def test_priors():
    features = np.zeros((0, 4))
    for prior, expected in [("uniform", [1, 1, 1, 1]), (1, [12, 6, 4, 3]), ([0, 0, 1, 3], [0, 0, 1, 3])]:
        found = adadim.dimension(features, [], prior=prior)
        np.testing.assert_allclose(found.probabilities, np.array(expected) / sum(expected))
        np.testing.assert_allclose(found.prior, found.probabilities)
    found = adadim.dimension(features, [], prior=1.0, levels=[1, 4])
    np.testing.assert_allclose(found.probabilities, [0.8, 0.2])
    assert np.isnan(found.noise)
    assert found.choices == 0


def test_what_is_ruled_out_before_stays_so():
    rng = np.random.default_rng(2)
    features = rng.standard_normal((50, 3))
    found = adadim.dimension(features, features[:, 1] * 5, prior=[1.0, 0.0, 1.0])
    assert found.probabilities[1] == 0
    assert found.mode == 3


@pytest.mark.parametrize("ridge", [None, 1.0])
def test_little_is_called_little(ridge):
    rng = np.random.default_rng(1)
    features = rng.standard_normal((40, 4))
    silent = adadim.dimension(features, np.zeros(40), ridge=ridge)
    np.testing.assert_array_equal(silent.probabilities, 0.25)
    assert silent.noise == 0
    few = adadim.dimension(features[:1], [3.0], ridge=ridge)
    np.testing.assert_allclose(few.probabilities, 0.25, atol=1e-9)
    for found in (silent, few, adadim.dimension(features[:0], [], ridge=ridge)):
        assert "the data say little yet" in str(found)
    assert "little" not in str(adadim.dimension(features, features[:, 2], ridge=ridge))
    assert repr(few) == f"<Dimension: {few}>"


def test_a_perfect_fit_is_found():
    features = np.random.default_rng(3).standard_normal((30, 6))
    found = adadim.dimension(features, features[:, :4].sum(axis=1))
    assert found.mode == 4
    assert found.probabilities[3] > 0.9
    assert found.noise < 0.01


def test_fewer_choices_than_features():
    rng = np.random.default_rng(4)
    features = rng.standard_normal((30, 100))
    found = adadim.dimension(features, 10 * features[:, :3].sum(axis=1) + rng.standard_normal(30))
    assert found.probabilities.shape == (100,)
    assert found.probabilities.sum() == pytest.approx(1.0)
    assert found.mode == 3


def test_lists_integers_and_tensors(torch):
    features, rewards = [[1, 0], [1, 1], [1, 2], [1, 4]], [0, 1, 2, 5]
    expected = adadim.dimension(np.array(features, dtype=float), np.array(rewards, dtype=float)).probabilities
    np.testing.assert_array_equal(adadim.dimension(features, rewards).probabilities, expected)
    tensors = torch.asarray(features, dtype=torch.float64), torch.asarray(rewards, dtype=torch.float64)
    np.testing.assert_array_equal(adadim.dimension(*tensors).probabilities, expected)


@pytest.mark.parametrize("levels", [None, {"a$b": 2, "rest": 5}])
def test_plots(levels):
    rng = np.random.default_rng(5)
    features = rng.standard_normal((60, 5))
    found = adadim.dimension(features, features[:, 0], levels=levels)
    figure, axis = pyplot.subplots()
    assert found.plot(axis) is axis
    heights = [bar.get_height() for bar in axis.patches]
    np.testing.assert_allclose(heights, found.probabilities)
    np.testing.assert_allclose(axis.lines[0].get_ydata(), found.tail)
    assert [text.get_text() for text in axis.texts] == list(levels or {})
    figure.canvas.draw()
    assert all(tick == round(tick) for tick in axis.get_xticks())
    assert all(text.get_window_extent().y0 >= axis.bbox.y1 for text in axis.texts)  # above what is drawn
    own = result([[0.5, 0.5], [1.0, 0.0]]).plot()
    assert len(own.lines) == 3
    pyplot.close("all")


GOOD = np.ones((3, 2)), np.ones(3)


@pytest.mark.parametrize(
    ("error", "message", "arguments", "options"),
    [
        (ValueError, r"features must have shape \(n, d\).* got \(3,\)", (np.ones(3), np.ones(3)), {}),
        (ValueError, r"features must have shape \(n, d\)", (np.ones((3, 0)), np.ones(3)), {}),
        (ValueError, r"rewards must have shape \(3,\).* got \(2,\)", (np.ones((3, 2)), np.ones(2)), {}),
        (ValueError, r"features\[1, 0\] is nan; drop", (np.array([[0, 1], [np.nan, 1]]), np.ones(2)), {}),
        (ValueError, r"rewards\[1\] is inf", (np.ones((2, 2)), np.array([0, np.inf])), {}),
        (TypeError, "features must be real numbers, got dtype <U1", (np.array([["a"]]), np.ones(1)), {}),
        (ValueError, "ridge must be a positive finite number", GOOD, {"ridge": 0}),
        (ValueError, r"arms must be finite numbers of shape \(K, 2\)", GOOD, {"arms": np.ones((4, 3))}),
        (ValueError, r"arms must be finite numbers", GOOD, {"arms": [[np.nan, 1.0]]}),
        (ValueError, r"taper must be a number in \[0, 4.*got -1", GOOD, {"taper": -1}),
        (ValueError, r"ridge must be a number in \[1e-100, 1e\+100\], got 1e\+308", GOOD, {"ridge": 1e308}),
        (ValueError, "levels must increase", GOOD, {"levels": [2, 1]}),
        (ValueError, r"levels must be an integer in 1\.\.2", GOOD, {"levels": {"a": 1, "b": 3}}),
        (ValueError, r"levels must be an integer in 1\.\.2", GOOD, {"levels": [0, 1]}),
        (ValueError, "levels must name at least one group", GOOD, {"levels": {}}),
        (TypeError, "levels must be a dict or a list", GOOD, {"levels": 3}),
        (TypeError, "levels must be a dict or a list", GOOD, {"levels": "abc"}),
        (ValueError, "prior must be 'uniform', got 'flat'", GOOD, {"prior": "flat"}),
        (ValueError, "prior must be a finite exponent", GOOD, {"prior": np.inf}),
        (ValueError, "prior must be 'uniform', an exponent or 2 weights", GOOD, {"prior": [1, 1, 1]}),
        (ValueError, "prior must be 'uniform', an exponent or 2 weights", GOOD, {"prior": [0, 0]}),
        (ValueError, "prior must be 'uniform', an exponent or 2 weights", GOOD, {"prior": [1, -1]}),
    ],
)
def test_refusals(error, message, arguments, options):
    assert_refuses(error, message, adadim.dimension, *arguments, **options)


def test_an_interval_of_no_level():
    assert_refuses(ValueError, r"level must be a number in \(0, 1\)", result([1.0]).interval, 1.0)
