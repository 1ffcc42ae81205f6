"""Probabilities of d* mean what they say, whoever collected the data; reduced from `benchmarks/dimension.py`."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def calibration():
    folder = str(Path(__file__).resolve().parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("_calibration")
    finally:
        sys.path.remove(folder)


@pytest.mark.parametrize("collector", ["LinUCB", "Thompson", "random"])
def test_with_the_ridge_of_the_prior(calibration, collector):
    instance, truth = calibration.drawn(200, 80, seed=7)
    assert truth.min() < 5 < 36 < truth.max()
    seen = calibration.collected(instance, collector, seed=7)
    assert (seen[0].sum(axis=1) == 80).all()
    found = calibration.judged(calibration.posteriors(instance.problem.actions, *seen)["given"], truth)
    assert sum(row["hits"] for row in found["bins"]) == 200
    assert sum(row["said"] for row in found["bins"]) == pytest.approx(200)
    assert found["worst_standard_errors"] < 3
    assert found["ks_p"] > 0.01
    for level, covered in found["coverage"].items():
        wanted = float(level)
        assert covered > wanted - 3 * np.sqrt(wanted * (1 - wanted) / 200)
    assert found["hits"] > 0.1  # a prior alone would have 1/40


def test_false_probabilities_are_found_out(calibration):
    instance, truth = calibration.drawn(200, 80, seed=7)
    seen = calibration.collected(instance, "random", seed=7)
    right = calibration.posteriors(instance.problem.actions, *seen)["given"]
    sharp = right**2 / (right**2).sum(axis=1, keepdims=True)
    found = calibration.judged(sharp, truth)
    assert found["worst_standard_errors"] > 4
    shifted = calibration.judged(np.roll(right, 2, axis=1), truth)
    assert shifted["ks_p"] < 1e-4
