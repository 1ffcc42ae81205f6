"""Hardness, and the schedule of LinUCB++."""

import math
from dataclasses import dataclass

from adadim.core.checks import integer, number, require


@dataclass(frozen=True, slots=True)
class Iteration:
    """Iteration i of Algorithm 1 as far as the horizon lets it run: rounds ``start <= t < stop``, 0-based.

    ``index`` is i, from 1; ``dim`` is d_i; ``length`` is DeltaT_i, whether or not all of it is played.

    Examples
    --------
    >>> last = schedule(2500, 0.5, 600).iterations[-1]
    >>> last
    Iteration(index=5, dim=8, length=2048, start=1920, stop=2500)
    >>> last.complete, last.lifted_dim
    (False, 12)
    """

    index: int
    dim: int
    length: int
    start: int
    stop: int

    @property
    def complete(self) -> bool:
        """Whether all DeltaT_i rounds are played; only then is there a virtual mixture-arm of it."""
        return self.stop - self.start == self.length

    @property
    def lifted_dim(self) -> int:
        """Dimension d_i + i - 1 of the modified problem, virtual dimensions included."""
        return self.dim + self.index - 1


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of Algorithm 1: all p dimensions and lengths, and the iterations reached by round T.

    Examples
    --------
    >>> plan = schedule(100, 0.5, 600)
    >>> plan.p, plan.dims, plan.lengths
    (4, (32, 16, 8, 4), (32, 64, 100, 100))
    >>> [(iteration.start, iteration.stop) for iteration in plan.iterations]
    [(0, 32), (32, 96), (96, 100)]
    """

    p: int
    dims: tuple[int, ...]
    lengths: tuple[int, ...]
    iterations: tuple[Iteration, ...]


def hardness(intrinsic_dim: int, horizon: int) -> float:
    """Hardness level psi = ln d_star / ln T (Section 2); above 1 when d_star > T.

    Examples
    --------
    >>> round(hardness(12, 2500), 4)
    0.3176
    """
    d_star, horizon = integer(intrinsic_dim, "intrinsic_dim"), integer(horizon, "horizon", least=2)
    return math.log(d_star) / math.log(horizon)


def schedule(horizon: int, beta: float, dim: int) -> Schedule:
    """Dimensions and lengths of LinUCB++'s iterations (Algorithm 1, line 1), for ambient dimension ``dim``.

    Examples
    --------
    >>> schedule(2500, 0.5, 600).dims
    (128, 64, 32, 16, 8, 4)
    """
    horizon, dim = integer(horizon, "horizon"), integer(dim, "dim")
    # p = ceil(log2 T^beta); the slack keeps T^beta = 2^k at k when the logarithm rounds up.
    p = max(1, math.ceil(checked_beta(beta) * math.log2(horizon) - 1e-9))
    dims = tuple(min(2 ** (p + 2 - i), dim) for i in range(1, p + 1))
    lengths = tuple(min(2 ** (p + i), horizon) for i in range(1, p + 1))
    iterations: list[Iteration] = []
    start = 0
    for i, (d_i, length) in enumerate(zip(dims, lengths, strict=True), start=1):
        if start < horizon:
            stop = min(start + length, horizon)
            iterations.append(Iteration(i, d_i, length, start, stop))
            start = stop
    return Schedule(p, dims, lengths, tuple(iterations))


def checked_beta(beta: float) -> float:
    """The parameter of LinUCB++, in [1/2, 1)."""
    require(0.5 <= number(beta, "beta") < 1.0, "beta", "lie in [1/2, 1)", beta)
    return float(beta)
