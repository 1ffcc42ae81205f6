"""Virtual mixture-arms: what a finished iteration did, as a distribution over real arms."""

from __future__ import annotations

import numpy as np

from adadim.arrays import ALL, Array, Rows, indices, like, namespace, take

__all__ = ["Mixtures"]


class Mixtures:
    """The mixture-arms nu_1, nu_2, ... of R replications, flattened to distributions over real arms.

    A mixture may contain earlier ones; with phat_j its empirical frequencies, it flattens to

        q_j = phat_j[:K] + sum_{l<j} phat_j[K+l] q_l,

    which has the law of drawing from phat_j until a real arm comes up, with one draw and K numbers.

    Parameters
    ----------
    reference : array (R, ...)
        Any array of the library and on the device to use; its first axis gives R.
    arms : int
        Number of real arms K.
    count : int
        Number of mixtures there may be.

    Attributes
    ----------
    q : list of array (R, K)
        Flattened distribution of each mixture; rows of replications that have not finished it are zero.

    Examples
    --------
    >>> import numpy as np
    >>> mixtures = Mixtures(np.zeros((1, 1)), arms=3, count=2)
    >>> mixtures.add(0, np.array([[2.0, 1.0, 1.0]]), np.zeros((1, 0)))
    >>> mixtures.add(1, np.array([[1.0, 4.0, 0.0]]), np.array([[3.0]]))
    >>> mixtures.q[1]
    array([[0.3125 , 0.59375, 0.09375]])
    """

    def __init__(self, reference: Array, arms: int, count: int) -> None:
        self.arms = arms
        self.q: list[Array] = []
        self._cumulative = like(np.zeros((reference.shape[0], count, arms)), reference)

    def add(self, j: int, real: Array, virtual: Array, rows: Rows = ALL) -> None:
        """Make mixture `j` (from 0) of `rows` out of pull counts of the real and the earlier virtual arms."""
        xp = namespace(real)
        while len(self.q) <= j:
            self.q.append(self._cumulative[:, 0] * 0.0)
        total = xp.sum(real, axis=-1) + xp.sum(virtual, axis=-1)
        flat = real / total[:, None]
        for earlier in range(virtual.shape[1]):
            flat = flat + (virtual[:, earlier] / total)[:, None] * self.q[earlier][rows]
        self.q[j][rows] = flat
        self._cumulative[rows, j] = xp.cumulative_sum(flat, axis=-1)

    def draw(self, j: Array, uniforms: Array, rows: Rows = ALL) -> Array:
        """Real arm drawn from mixture ``j[i]`` in the i-th of `rows`."""
        xp = namespace(self._cumulative)
        steps = self._cumulative[take(indices(self._cumulative), rows), j]
        below = steps <= (uniforms * steps[:, -1])[:, None]
        return xp.sum(xp.astype(below, xp.int64), axis=-1)

    def mean(self, means: Array) -> Array:
        """Mean reward of every mixture, (R, number of mixtures), given those of the real arms."""
        xp = namespace(means)
        return xp.stack([xp.sum(q * means, axis=-1) for q in self.q], axis=-1)
