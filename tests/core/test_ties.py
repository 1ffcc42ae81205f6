"""Choosing the largest score, ties broken by a draw."""

import numpy as np
import pytest

from adadim.core.ties import FEW_SCORES, argmax


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_argmax(library, request):
    scores = np.array(
        [
            [0.0, 3.0, 3.0 + 1e-14, 1.0],
            [0.0, 3.0, 3.0 + 1e-6, 1.0],
            [-np.inf, -2.0, -2.0, -np.inf],
            [0.0, 0.0, 0.0, 0.0],
            [np.inf, 1.0, np.inf, 2.0],
            [-5.0, -1e-300, 0.0, -1.0],
        ]
    )
    wanted = {0.0: [1, 2, 1, 0, 0, 2], 0.4999: [1, 2, 1, 1, 0, 2], 0.5: [2, 2, 2, 2, 2, 2], 0.9999: [2, 2, 2, 3, 2, 2]}
    if library == "torch":
        scores = request.getfixturevalue("torch").asarray(scores)
    for draw, expected in wanted.items():
        np.testing.assert_array_equal(argmax(scores, np.full(6, draw)), expected)
    np.testing.assert_array_equal(argmax(scores, None), wanted[0.0])


def test_one_row_alone_is_chosen_as_among_others():
    rng = np.random.default_rng(0)
    for arms in (1, 2, FEW_SCORES, FEW_SCORES + 1, 200):
        scores = rng.integers(-3, 3, size=(300, arms)) * (1.0 + 1e-14 * rng.standard_normal((300, arms)))
        scores[rng.random((300, arms)) < 0.1] = -np.inf
        uniforms = rng.random(300)
        for draws in (uniforms, None):
            together = argmax(scores, draws)
            alone = [argmax(row[None], None if draws is None else draws[i : i + 1]) for i, row in enumerate(scores)]
            np.testing.assert_array_equal(np.concatenate(alone), together)
