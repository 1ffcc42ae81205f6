"""Several Gaussian priors of one parameter: what the data say of each, and its posterior.

Prior m says that theta ~ N(0, sigma^2 / ridge) on the first few columns, and 0 after them. The noise is known, so the
evidence of the data needs no integral over it. All prefixes under one ridge come from one Cholesky factor (see `sums`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.rows import Replications
from adadim.models.statistics import check_total_known
from adadim.models.sums import SumsRegression, inverse_factor


@dataclass(frozen=True)
class Posteriors:
    """Posteriors of n replications under every prior, in n * blocks regressions.

    Attributes
    ----------
    log_evidence : array (n, M)
        -gamma / 2 - S / (2 sigma^2), gamma = ln det(V / ridge) and S the regularised sum of squared residuals.
    log_weights : array (n, M)
        Log probability of every prior given the data.
    inverse, w : arrays (ridges, n * blocks, d, d), (ridges, n * blocks, d)
        L^-1 and L^-1 b under each ridge.
    means, pulls : arrays (n * blocks, d), (n * blocks,)
        Mean of the features and number of the pulls, at least 1: given theta, a constant in the rewards has the mean
        reward less <means, theta> as its own mean, and the variance sigma^2 / pulls.
    """

    prior: HyperPrior
    log_evidence: FloatArray
    log_weights: FloatArray
    inverse: FloatArray
    w: FloatArray
    means: FloatArray
    pulls: FloatArray

    @property
    def probabilities(self) -> FloatArray:
        """Probability of every prior given the data, (n, M)."""
        return np.exp(self.log_weights)

    def draw(self, at: IntArray, spread: FloatArray) -> FloatArray:
        """theta_hat + L^-T spread (n, m, blocks, d), 0 after the prefix, under the priors `at` (n, m).

        Spreads are (n, m, blocks, d); with sigma times standard normals it is a draw from the posterior.
        """
        count, blocks = len(at), spread.shape[2]
        drawn = np.zeros(spread.shape)
        sizes, dims = at % len(self.prior.ridges), np.array(self.prior.dims)[at // len(self.prior.ridges)]
        longest = int(dims.max())  # L^-1 has nothing above its diagonal
        columns, part, spread = np.arange(longest), drawn[..., :longest], spread[..., :longest]
        for i, (inverse, w) in enumerate(zip(self.inverse, self.w, strict=True)):
            kept = (columns < dims[..., None]) & (sizes == i)[..., None]  # (n, m, longest)
            z = (w[:, :longest].reshape(count, 1, blocks, -1) + spread) * kept[:, :, None]
            leading = inverse[:, :longest, :longest].reshape(count, blocks, longest, longest)
            part += (z.swapaxes(1, 2) @ leading).swapaxes(1, 2)
        return drawn

    def predict(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and squared width (n, M, K) of arms under every prior.

        Inputs are (n, K, d), or those of one context (n, d) for all arms where each has a parameter of its own.
        """
        dims, disjoint = self.prior.dims, inputs.ndim == 2
        count, last, starts = len(inputs), dims[-1], (0, *dims[:-1])
        found = []
        for inverse, w in zip(self.inverse[..., :last, :last], self.w[..., :last], strict=True):
            if disjoint:
                x = np.repeat(inputs, len(inverse) // count, axis=0)[:, :last, None]
                z = (inverse @ x)[..., 0].reshape(count, -1, last).swapaxes(1, 2)
                weights = w.reshape(count, -1, last).swapaxes(1, 2)
            else:
                z, weights = inverse @ inputs[..., :last].swapaxes(1, 2), w[:, :, None]
            parts = (np.add.reduceat(each, starts, axis=1) for each in (weights * z, z * z))
            found.append([np.cumsum(part, axis=1) for part in parts])
        mean, width2 = (np.stack(each, axis=2) for each in zip(*found, strict=True))
        return mean.reshape(count, -1, mean.shape[-1]), width2.reshape(count, -1, mean.shape[-1])


@dataclass(frozen=True)
class HyperPrior:
    """Every prefix of `dims` columns with every ridge: prior number i * len(ridges) + j has dims[i] and ridges[j].

    Examples
    --------
    >>> import numpy as np
    >>> state = SumsRegression(np.zeros(1), 2, 1.0)
    >>> everyone = Replications.all(np.zeros(1))
    >>> for _ in range(3):
    ...     state.resolve((np.array([[0.0, 1.0]]), None), np.array([2.0]), everyone)
    >>> state.factorise(everyone)
    >>> prior = HyperPrior((1, 2), (1.0,), (0.5, 0.5), noise=1.0)
    >>> prior.posteriors(state, everyone).probabilities.round(3)  # the second column matters
    array([[0.022, 0.978]])
    """

    dims: tuple[int, ...]
    ridges: tuple[float, ...]
    weights: Sequence[float]
    noise: float
    constant: bool = False  # whether rewards have one, with a flat prior, in regressions that share their parameter

    def posteriors(self, state: SumsRegression, regressions: Replications, blocks: int = 1) -> Posteriors:
        """The posteriors of replications of `blocks` regressions each, which share the prior but not the parameter.

        Of `state`, which is factorised, the factor is used where its ridge is the prior's.
        """
        second, b = regressions.of(state.second), regressions.of(state.b)
        squares = regressions.of(state.squares).reshape(-1, blocks).sum(axis=1)[:, None]
        pulls = np.maximum(regressions.of(state.weight), 1.0)
        means = regressions.of(state.first) / pulls[:, None]
        if self.constant:  # features and rewards less their means
            total = regressions.of(state.total)
            check_total_known(total)
            second = second - pulls[:, None, None] * means[:, :, None] * means[:, None, :]
            b, squares = b - total[:, None] * means, squares - (total**2 / pulls)[:, None]
        count, ends = len(squares), np.array(self.dims) - 1
        evidence, inverses, ws = np.empty((count, len(self.dims), len(self.ridges))), [], []
        for j, ridge in enumerate(self.ridges):
            if not self.constant and (state.ridge == ridge).all():
                inverse, w = regressions.of(state.inverse), regressions.of(state.w)
            else:
                inverse, _ = inverse_factor(second, np.full(len(second), ridge))
                w = (inverse @ b[..., None])[..., 0]
            diagonal = np.log(np.diagonal(inverse, axis1=1, axis2=2))
            gammas = np.cumsum(-2.0 * diagonal - math.log(ridge), axis=1)[:, ends]
            explained = np.cumsum(w * w, axis=1)[:, ends]
            gamma, explained = (each.reshape(count, blocks, -1).sum(axis=1) for each in (gammas, explained))
            evidence[..., j] = -0.5 * (gamma + np.maximum(squares - explained, 0.0) / self.noise**2)
            inverses.append(inverse)
            ws.append(w)
        log_evidence = evidence.reshape(count, -1)
        logs = log_evidence + np.log(self.weights)
        logs = logs - np.logaddexp.reduce(logs, axis=1)[:, None]
        return Posteriors(self, log_evidence, logs, np.array(inverses), np.array(ws), means, pulls)
