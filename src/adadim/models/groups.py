"""Regressions on groups of columns: a ridge regression on each, and one with a penalty on the norm of each (NumPy).

Groups may overlap: the prefixes of the columns do. The penalised regression then has a copy of a column for every group
that it is in, and the parameter of the column is the sum over its copies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.state import stateless
from adadim.models.sums import inverse_factor

LASSO_STEPS, LASSO_ACCURACY = 2000, 1e-8  # most steps of the group Lasso, and the relative change after which it stops


def ridge_predictions(
    second: FloatArray, moment: FloatArray, ridge: float, arms: FloatArray, group: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Mean and squared width (n, K) of arms (n, K, d) by ridge regressions on the columns of a group.

    `second` and `moment` are the sums x x^T (n, d, d) and r x (n, d).

    Examples
    --------
    >>> arms = np.array([[[1.0, 5.0], [2.0, 0.0]]])
    >>> mean, width2 = ridge_predictions(np.ones((1, 2, 2)), np.ones((1, 2)), 1.0, arms, [0])
    >>> mean.round(9).tolist(), width2.round(9).tolist()
    ([[0.5, 1.0]], [[0.5, 2.0]])
    """
    kept = np.array(group)
    inverse, _ = inverse_factor(second[:, kept[:, None], kept], np.full(len(second), ridge))
    w = inverse @ moment[:, kept, None]
    z = inverse @ np.swapaxes(arms[:, :, kept], 1, 2)
    return np.sum(z * w, axis=1), np.sum(z * z, axis=1)


@stateless
class GroupLasso:
    """Least squares with a penalty on the norm of the coefficients of each group, of which it sets some to 0 together.

    Examples
    --------
    >>> lasso = GroupLasso(((0,), (1,)), 2)
    >>> x, y = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 0.0, 1.0])
    >>> found = lasso.fit(x.T @ x / 3, x.T @ y / 3, penalty=0.1, start=np.zeros((1, 2)))
    >>> lasso.kept(found).tolist()  # the first column alone explains the data
    [True, False]
    >>> lasso.coefficients(found).round(3)
    array([[0.85, 0.  ]])
    """

    def __init__(self, groups: tuple[tuple[int, ...], ...], dim: int) -> None:
        self.groups, self.dim = groups, dim
        self.columns: IntArray = np.concatenate([np.array(group) for group in groups])  # of copies, group after group
        self.sizes: IntArray = np.array([len(group) for group in groups])
        self._starts = np.cumsum(self.sizes) - self.sizes
        self._folds = np.asarray(self.columns[:, None] == np.arange(dim), dtype=float)  # 1: a copy of this column

    def coefficients(self, copies: FloatArray) -> FloatArray:
        """Parameters (blocks, d) of the columns, given those of the copies."""
        return np.asarray(copies @ self._folds)

    def norms(self, copies: FloatArray) -> FloatArray:
        """Norm of the coefficients of each group, in all blocks together."""
        return np.sqrt(np.add.reduceat((copies * copies).sum(axis=0), self._starts))

    def kept(self, copies: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool]]:
        """Which groups are not 0."""
        return self.norms(copies) > 0

    def fit(self, second: FloatArray, moment: FloatArray, penalty: float, start: FloatArray) -> FloatArray:
        """Coefficients v (blocks, copies) that minimise theta^T second theta / 2 - moment theta + penalty sum |v_j|.

        theta (blocks, d) are the sums over copies, `second` (blocks, d, d) the mean of x x^T and `moment` that of r x.
        Accelerated proximal steps, which begin anew where they overshoot (O'Donoghue and Candès 2015).
        """
        second, moment = second.reshape(-1, self.dim, self.dim), moment.reshape(-1, self.dim)
        copies = np.sqrt(self._folds.sum(axis=0))
        curvature = float(np.linalg.eigvalsh(copies[:, None] * second * copies).max())
        if curvature <= 0:
            return np.zeros(start.shape)
        v, ahead, momentum = start, start, 1.0
        for _ in range(LASSO_STEPS):
            theta = self.coefficients(ahead)
            slope = (second @ theta[..., None])[..., 0] - moment
            u = ahead - slope[:, self.columns] / curvature
            norms = self.norms(u)
            shrunk = np.maximum(norms - penalty / curvature, 0.0) / np.where(norms > 0, norms, 1.0)
            new = u * np.repeat(shrunk, self.sizes)
            change, moved = new - v, float(np.abs(new - ahead).max())
            overshoots = float(((ahead - new) * change).sum()) > 0
            following = 1.0 if overshoots else (1.0 + (1.0 + 4.0 * momentum * momentum) ** 0.5) / 2.0
            ahead = new if overshoots else new + (momentum - 1.0) / following * change
            v, momentum = new, following
            if moved <= LASSO_ACCURACY * float(np.abs(new).max()):
                break
        return v
