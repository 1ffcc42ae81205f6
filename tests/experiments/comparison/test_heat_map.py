"""The heat map of the comparison."""

import numpy as np
import pytest
from made_up_comparison import stub
from matplotlib.colors import to_rgb

from adadim.experiments import comparison
from adadim.experiments.comparison.figures import RATIO_COLOURS


@pytest.fixture
def rows():
    parts = [
        stub(
            {"a": {"oracle": [1], "linucb++": [2], "mine": [0.5]}, "b": {"oracle": [0], "linucb++": [3], "mine": [3]}}
        ),
        stub({"c": {"oracle": [1], "linucb++": [40], "mine": [1]}}, split="held-out"),
    ]
    return comparison.ratios(parts)


def test_heat_map_says_every_ratio_in_a_colour_centred_at_one(rows):
    figure = comparison.draw_ratios(rows)
    development, held_out = figure.axes[:2]
    assert [t.get_text() for t in development.get_xticklabels()] == ["linucb++", "mine"]
    assert [t.get_text() for t in development.get_yticklabels()] == ["a", "b", "median", "worst"]
    texts = [t.get_text() for t in development.texts]
    assert texts == ["2.00", "0.50", "–", "–", "2.00", "0.50", "2.00", "0.50"]
    assert [t.get_text() for t in held_out.texts][:2] == ["40", "1.00"]
    (image,) = development.images
    red, blue = image.to_rgba(image.get_array())[0, :, :3]
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    (image,) = held_out.images
    farthest, even = image.to_rgba(image.get_array())[0, :, :3]
    assert min(even) > 0.95
    np.testing.assert_allclose(farthest, to_rgb(RATIO_COLOURS(1.0)))
    assert [axis.get_ylabel() for axis in figure.axes[:2]] == ["development", "held-out"]


def test_heat_map_against_the_published_algorithm(rows):
    development = comparison.draw_ratios(rows, "linucb++").axes[0]
    assert [t.get_text() for t in development.get_xticklabels()] == ["oracle", "mine"]
    assert [t.get_text() for t in development.texts][:4] == ["0.50", "0.25", "0.00", "1.00"]
    with pytest.raises(ValueError, match="reference must be 'oracle' or 'linucb\\+\\+', got 'mine'"):
        comparison.draw_ratios(rows, "mine")


def test_rows_of_the_heat_map_say_horizon_and_noise():
    part = stub({"sphere-flip-8/60": {"oracle": [1], "linucb++": [2]}}, split="held-out")
    (label, *_) = comparison.draw_ratios(comparison.ratios([part])).axes[0].get_yticklabels()
    assert label.get_text() == "sphere-flip-8/60, T 10000, σ 1"


def test_the_summary_has_a_line_for_each_policy_best_median_first(rows):
    figure = comparison.draw_summary(rows)
    (axis,) = figure.axes
    assert "1 held-out families" in figure.get_suptitle()
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["mine", "linucb++"]
    assert [text.get_text() for text in axis.texts] == ["1.00", "40", "worst"]
    marks, median = (line.get_data() for line in axis.get_lines()[2:4])
    assert (marks[0].tolist(), median[0].tolist()) == ([30.0], [30.0])  # at the edge
    assert axis.get_lines()[2].get_color() == "#0072B2"
    development = comparison.draw_summary(rows, split="development").axes[0]
    assert [tick.get_text() for tick in development.get_yticklabels()] == ["mine", "linucb++"]
    with pytest.raises(ValueError, match="split must be"):
        comparison.draw_summary(rows, split="other")
