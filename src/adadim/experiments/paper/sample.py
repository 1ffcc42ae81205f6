"""Statistics of the trials of the paper's figures, on the data and on bootstrap resamples of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from adadim.backend.arrays import FloatArray
from adadim.experiments.paper.plan import FIGURES
from adadim.report.bootstrap import resamples
from adadim.report.labels import label
from adadim.study import Results
from adadim.theory import hardness

__all__ = ["Sample"]


class Sample:
    """Statistics of the trials of one variant and of its resamples; entry 0 is the data as they are.

    The trials are those that every policy has finished, so that an interrupted study too is compared in pairs.

    Parameters
    ----------
    results : mapping
        Figure to the results of its study, all of one variant.
    """

    def __init__(self, results: Mapping[str, Results]) -> None:
        self._results = results
        self._instances = {
            (figure, described["intrinsic_dim"]): (name, described)
            for figure, found in results.items()
            for name, described in label(found, "instances").items()
        }
        self._numbers = functools.reduce(np.intersect1d, [found.common_trials() for found in results.values()])
        self.trials = len(self._numbers)
        self._index = resamples(self.trials)

    def mean(self, figure: str, d: int, policy: str) -> FloatArray:
        """Mean final regret of a policy at d* = d."""
        value: FloatArray = self._final(figure, d, policy)[self._index].mean(axis=1)
        return value

    def std(self, figure: str, d: int, policy: str) -> FloatArray:
        """Standard deviation of the final regret over trials."""
        value: FloatArray = self._final(figure, d, policy)[self._index].std(axis=1, ddof=1)
        return value

    def slope(self, figure: str, d: int, policy: str, part: slice) -> FloatArray:
        """Mean regret per round between two record points."""
        name, _ = self._instances[figure, d]
        times, regret = self._results[figure].curves(name, policy, trials=self._numbers)
        times, regret = np.concatenate([[0], times]), np.pad(regret, ((0, 0), (1, 0)))
        times, regret = times[part], regret[:, part]
        rate = (regret[:, -1] - regret[:, 0]) / (times[-1] - times[0])
        value: FloatArray = rate[self._index].mean(axis=1)
        return value

    def shape(self, figure: str, d: int, policy: str) -> FloatArray:
        """Mean regret curve divided by its end, (resamples, record points)."""
        name, _ = self._instances[figure, d]
        _, regret = self._results[figure].curves(name, policy, trials=self._numbers)
        shares = np.zeros((len(self._index), self.trials))
        np.add.at(shares, (np.arange(len(self._index))[:, None], self._index), 1 / self.trials)
        means = shares @ regret
        value: FloatArray = means / means[:, -1:]
        return value

    def growth(self, figure: str, policy: str) -> FloatArray:
        """Least-squares slope of the mean final regret in alpha."""
        dims = FIGURES[figure].dims
        alpha = np.array([hardness(d, self._instances[figure, d][1]["horizon"]) for d in dims])
        means = np.stack([self.mean(figure, d, policy) for d in dims], axis=-1)
        centred = alpha - alpha.mean()
        value: FloatArray = means @ centred / (centred @ centred)
        return value

    def _final(self, figure: str, d: int, policy: str) -> FloatArray:
        name, _ = self._instances[figure, d]
        return self._results[figure].final(name, policy, trials=self._numbers)
