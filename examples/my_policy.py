"""A policy of your own, in one file: epsilon-greedy on a ridge regression.

    adadim run examples/my_study.toml --plugin examples/my_policy.py

The study is run with your policy beside adadim's, on the same instances and the same noise. Everything that a study
may vary is a field of the dataclass; everything that changes while it plays is in the learner. The learner below is
written for a single replication, with plain ints and floats, and `adadim.Single` lifts it to many.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

import adadim


@dataclass(frozen=True)
class EpsilonGreedy(adadim.Policy):
    """Pull the arm that looks best, but now and then any arm."""

    epsilon: float = 0.05
    ridge: float = 0.1

    def learner(self, problem, streams):
        return adadim.Single(partial(Learner, self)).learner(problem, streams)


class Learner:
    def __init__(self, policy, problem, rng):
        self.epsilon, self.features, self.rng = policy.epsilon, problem.features, rng
        self.inverse = np.eye(self.features.shape[1]) / policy.ridge  # of the regularised design matrix
        self.total = np.zeros(self.features.shape[1])  # rewards times features

    def select(self):
        # All randomness comes from the generator given, so a replication can be repeated.
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(len(self.features)))
        score = self.features @ (self.inverse @ self.total)
        return int(self.rng.choice(np.flatnonzero(score == score.max())))

    def update(self, arm, reward):
        a = self.features[arm]
        u = self.inverse @ a
        self.inverse -= np.outer(u, u) / (1 + a @ u)  # Sherman and Morrison
        self.total += reward * a
