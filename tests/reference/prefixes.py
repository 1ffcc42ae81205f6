"""Prefix-averaged LinUCB written plainly: a regression of its own for every prefix, every round."""

from __future__ import annotations

import math

import numpy as np

RIDGES = [10.0**k for k in range(-6, 3)]


def regression(features, rewards, m, ridge, taper):
    """Log evidence, inverse of V and b of the regression on the first m features."""
    x, r = np.reshape(features, (len(rewards), -1))[:, :m], np.asarray(rewards, dtype=float)
    precisions = ridge * np.arange(1, m + 1) ** taper
    v = np.diag(precisions) + x.T @ x
    b = x.T @ r
    residual = max(r @ r - b @ np.linalg.solve(v, b), 1e-12 * (r @ r))
    logdet = np.linalg.slogdet(v)[1] - np.log(precisions).sum()
    return -0.5 * logdet - 0.5 * len(r) * math.log(residual), np.linalg.inv(v), b, residual


class PrefixAverage:
    """One replication; features (K, d)."""

    def __init__(self, features, horizon, taper=0.0, decay=0.0, factor=20.0, scale=0.35):
        self.features, self.horizon = features, horizon
        self.taper, self.factor, self.scale = taper, factor, scale
        prior = np.arange(1.0, features.shape[1] + 1) ** -decay
        self.prior = np.log(prior / prior.sum())
        self.arms, self.rewards, self.ridge, self.total = [], [], RIDGES[0], 0.0

    def logs(self, ridge):
        """Log of prior times evidence of every prefix."""
        dims = range(1, self.features.shape[1] + 1)
        if not any(self.rewards):
            return self.prior
        found = [regression(self.features[self.arms], self.rewards, m, ridge, self.taper)[0] for m in dims]
        return np.array(found) + self.prior

    def chances(self):
        logs = self.logs(self.ridge)
        return np.exp(logs - np.logaddexp.reduce(logs))

    def predictions(self):
        """(mean, variance in units of the noise variance, residual) of every arm by every prefix."""
        mean, width2, residuals = [], [], []
        for m in range(1, self.features.shape[1] + 1):
            first = self.features[:, :m]
            if self.arms:
                _, inverse, b, residual = regression(self.features[self.arms], self.rewards, m, self.ridge, self.taper)
            else:
                inverse, b, residual = np.diag(1 / (self.ridge * np.arange(1, m + 1) ** self.taper)), np.zeros(m), 0.0
            mean.append(first @ inverse @ b)
            width2.append(np.einsum("ki,ij,kj->k", first, inverse, first))
            residuals.append(residual)
        return np.array(mean), np.array(width2), np.array(residuals)

    def noise(self, chances, residuals):
        n = len(self.rewards)
        if not any(self.rewards):
            return 1.0
        return math.sqrt(chances @ residuals / n * (1 + math.sqrt(2 / n)))

    def scores(self):
        mean, width2, residuals = self.predictions()
        chances = self.chances()
        average = chances @ mean
        variance = self.noise(chances, residuals) ** 2 * (chances @ width2) + chances @ (mean - average) ** 2
        radius = self.scale * math.sqrt(2 * math.log(2 * self.horizon**1.5 * len(self.features)))
        return average + radius * np.sqrt(variance)

    def update(self, arm, reward):
        self.arms.append(arm)
        self.rewards.append(reward)
        n = len(self.arms)
        if n & (n - 1) == 0 and any(self.rewards):
            by_ridge = [np.logaddexp.reduce(self.logs(ridge)) for ridge in RIDGES]
            self.total = np.logaddexp.reduce(by_ridge) - math.log(len(RIDGES))
            best = max(by_ridge) - math.log(self.factor)
            self.ridge = next(r for r, log in zip(RIDGES, by_ridge, strict=True) if log >= best)
