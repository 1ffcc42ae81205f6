"""Figures of the frontier, the lower bound and the rates."""

import math
import os

import numpy as np
import polars as pl
import pytest
from tradeoff_cases import ALPHA, DELTAS, HARD, HORIZON, KINDS

from adadim.experiments import tradeoff
from adadim.report import save
from adadim.theory import lower_bound_family


def test_frontier_looks_like_figure_1():
    axis = tradeoff.draw_frontier().axes[0]
    dashed = [line for line in axis.get_lines() if line.get_linestyle() == "--"]
    assert len(dashed) == 1
    assert dashed[0].get_color() == "#0072B2"
    np.testing.assert_allclose(dashed[0].get_ydata(), (1 + dashed[0].get_xdata()) / 2)
    assert len(axis.get_lines()) == 5
    assert "alpha" in axis.get_xlabel()
    axis = tradeoff.draw_frontier([0.5], tapers=[1.5, 4]).axes[0]
    labels = [line.get_label() for line in axis.get_lines() if line.get_linestyle() == ":"]
    assert labels == [r"tapered told $\alpha$: $s$ = 1.5", r"tapered told $\alpha$: $s$ = 4"]


def test_bounds_picture_shows_every_policy_and_no_point_in_the_shade(bound_checks):
    checks = bound_checks + tradeoff.closed_forms(HORIZON, ALPHA, DELTAS)
    left, right = tradeoff.draw_bounds(checks).axes
    names = list(dict.fromkeys(check.policy for check in checks))
    assert len(left.get_lines()) == len(right.get_lines()) == len(names)
    families = [lower_bound_family(HORIZON, ALPHA, delta=delta) for delta in DELTAS]
    for line, name in zip(left.get_lines(), names, strict=True):
        ((x,), (y,)) = line.get_data()
        assert x == max(c.easy for c in checks if c.policy == name)
        assert y == max(c.hard for c in checks if c.policy == name)
        assert y >= max(tradeoff.bound_at(family, x) for family in families) - 1e-9
    for line in right.get_lines():
        x, y = line.get_data()
        assert (y >= 1 - 1 / HARD - x).all()


def test_bounds_picture_wants_one_family():
    mixed = tradeoff.closed_forms(400, 0.5, [0.1]) + tradeoff.closed_forms(900, 0.5, [0.1])
    with pytest.raises(ValueError, match="one horizon"):
        tradeoff.draw_bounds(mixed)


def test_rates_picture_shows_estimates_and_says_what_is_missing():
    rows = [
        tradeoff.RateEstimate("mine", 0.0, 0.6, 0.5, 0.7, 0.5, (64, 256, 1024), (), ("uniform",) * 3, 8),
        tradeoff.RateEstimate("mine", 0.5, math.nan, math.nan, math.nan, 1.0, (64,), (256, 1024), ("easy",), 8),
        tradeoff.RateEstimate("$2 shop", 0.5, 0.9, 0.8, 1.0, None, (64, 256, 1024), (), ("uniform",) * 3, 8),
    ]
    figure = tradeoff.draw_rates(rows)
    (axis,) = figure.axes
    points = {c.get_label(): c.lines[0].get_ydata().tolist() for c in axis.containers}
    assert points == {"mine": [0.6], "$2 shop": [0.9]}
    assert "mine at 0.5" in figure.get_suptitle()
    assert "T from 64 to 1024" in figure.get_suptitle()
    assert "stand side by side" in figure.get_suptitle()
    table = tradeoff.rates_table(rows)
    assert table["horizons"].to_list() == ["64; 256; 1024", "64", "64; 256; 1024"]
    assert table["theory"].to_list() == [0.5, 1.0, None]


def test_a_rate_far_below_the_others_is_named_and_does_not_stretch_the_picture():
    horizons = (64, 256, 1024)
    rows = [
        tradeoff.RateEstimate("oracle", 0.0, -0.15, -0.3, 0.0, 0.5, horizons, (), ("uniform",) * 3, 8),
        tradeoff.RateEstimate("LinUCB", 0.0, 0.9, 0.85, 0.95, None, horizons, (), ("uniform",) * 3, 8),
    ]
    (axis,) = tradeoff.draw_rates(rows).axes
    assert axis.get_ylim()[0] > 0.3
    assert [text.get_text() for text in axis.texts if text.get_text()] == ["-0.15"]


def test_both_shades_are_explained(bound_checks):
    checks = bound_checks + tradeoff.closed_forms(HORIZON, ALPHA, DELTAS)
    figure = tradeoff.draw_bounds(checks)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[-2:] == ["impossible: by the sharper bound", "impossible: by the theorem's bound"]
    light, dark = (collection.get_facecolor()[0][0] for collection in figure.axes[0].collections[:2])
    assert light > dark
    assert "square-root scales" in figure.axes[0].get_title()


def test_files_are_complete_and_always_the_same(measured, tmp_path):
    estimates = tradeoff.rate_estimates(measured)
    table = tradeoff.rates_table(estimates)
    written = [save(tradeoff.draw_rates(estimates), table, tmp_path / folder / "rates") for folder in ("a", "b")]
    assert [path.name for path in written[0]] == [f"rates.{kind}" for kind in KINDS]
    for one, other in zip(*written, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert sorted(os.listdir(tmp_path / "a")) == sorted(f"rates.{kind}" for kind in KINDS)
    assert pl.read_csv(written[0][-1])["policy"].to_list() == table["policy"].to_list()
