"""Virtual mixture-arms: what a finished iteration did, as a distribution over real arms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adadim.backend.arrays import Array, namespace, zeros
from adadim.backend.rows import Rows
from adadim.backend.state import saved_keys

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
    cumulative : array (R, count, K)
        Their cumulative sums.

    Examples
    --------
    >>> import numpy as np
    >>> mixtures = Mixtures(np.zeros((1, 1)), arms=3, count=2)
    >>> rows = Rows.all(mixtures.cumulative)
    >>> mixtures.add(0, np.array([[2.0, 1.0, 1.0]]), np.zeros((1, 0)), rows)
    >>> mixtures.add(1, np.array([[1.0, 4.0, 0.0]]), np.array([[3.0]]), rows)
    >>> mixtures.q[1]
    array([[0.3125 , 0.59375, 0.09375]])
    """

    def __init__(self, reference: Array, arms: int, count: int) -> None:
        self.arms = arms
        self.q: list[Array] = []
        self.cumulative = zeros(reference, reference.shape[0], count, arms)

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make room for the mixtures that a saved state has."""
        self.q = [self.cumulative[:, 0] * 0.0 for _ in saved_keys(saved["q"])]

    def add(self, j: int, real: Array, virtual: Array, rows: Rows) -> None:
        """Make mixture `j` (from 0) of `rows` out of pull counts of the real and the earlier virtual arms."""
        xp = namespace(real)
        while len(self.q) <= j:
            self.q.append(self.cumulative[:, 0] * 0.0)
        total = xp.sum(real, axis=-1) + xp.sum(virtual, axis=-1)
        flat = real / total[:, None]
        for earlier in range(virtual.shape[1]):
            flat = flat + (virtual[:, earlier] / total)[:, None] * rows.of(self.q[earlier])
        rows.put(self.q[j], flat)
        rows.put(self.cumulative[:, j], xp.cumulative_sum(flat, axis=-1))

    def draw(self, j: Array, uniforms: Array, rows: Rows) -> Array:
        """Real arm drawn from mixture ``j[i]`` in the i-th of `rows`."""
        xp = namespace(self.cumulative)
        steps = rows.at(self.cumulative, j)
        below = steps <= (uniforms * steps[:, -1])[:, None]
        return xp.sum(xp.astype(below, xp.int64), axis=-1)
