"""What the tests of LinUCB share: arms that do not tie, and runs with given noise."""

import numpy as np
import pytest
from scipy import stats

both_forms = pytest.mark.parametrize("form", ["gram", "feature"])


def ball(rng, *shape):
    """Points of the unit ball: their norms differ, so that arms do not tie."""
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True) * rng.random((*shape[:-1], 1)) ** 0.5


def play(learner, means, noise):
    """Arms chosen, (T, R), when arm k of replication r is worth means[r, k] + noise[t, r] at step t."""
    chosen = []
    for errors in noise:
        arms = np.atleast_1d(learner.select())
        learner.update(arms, means[np.arange(len(arms)), arms] + errors)
        chosen.append(arms)
    return np.array(chosen)


def chi_square(counts):
    """P-value of the hypothesis that the counts come from equal probabilities."""
    return stats.chisquare(counts).pvalue
