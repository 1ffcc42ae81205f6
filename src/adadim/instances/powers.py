"""Powers of one variable in raw units, as somebody who has not thought about scales would give them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from adadim.checks import integer, positive, require
from adadim.errors import NormWarning
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.instances.parameters import check_sizes
from adadim.randomness import Purpose, Streams

__all__ = ["powers"]


def powers(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    top: float = 30.0,
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Arms are values x in [0, top]; features are 1, x, x^2, ... as they are, however large.

    The mean reward is a random polynomial of degree d* - 1, scaled to a range of 1 over the arms. Norms are far above
    1 and columns nearly dependent, which no theorem allows and every user does; the warning about norms is left out.

    Parameters
    ----------
    arms, dim : int
        Number of arms K and of features d: powers up to d - 1.
    intrinsic_dim : int
        Number d* of leading features that matter, at least 2: the constant alone decides nothing.
    horizon, noise, replications, seed, delay
        As in `sphere`.
    top : float
        Largest x.

    Examples
    --------
    >>> instance = powers(arms=40, dim=4, intrinsic_dim=2, horizon=100)
    >>> bool(np.ptp(instance.means[0]).round(9) == 1.0), instance.theta.shape
    (True, (1, 4))
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    integer(intrinsic_dim, "intrinsic_dim", least=2, most=dim, meaning="the constant counts")
    positive(top, "top", "the largest x, e.g. 30")
    require(abs(math.log10(top)) * dim < 100, "top", f"have powers up to {dim} that are numbers", top)
    base, vectors = np.empty((len(replications), arms, dim)), np.zeros((len(replications), dim))
    for r, generator in enumerate(Streams(seed, Purpose.INSTANCE, replications).generators):
        x = np.sort(generator.uniform(0, top, arms))
        base[r] = x[:, None] ** np.arange(dim)
        # A polynomial in u = 2 x / top - 1, written out in powers of x.
        wave = np.polynomial.Legendre(generator.standard_normal(intrinsic_dim), domain=[0, top])
        raw = wave.convert(kind=np.polynomial.Polynomial, domain=[-1, 1], window=[-1, 1])
        coefficients = np.asarray(raw.coef, dtype=float)
        vectors[r, : len(coefficients)] = coefficients / (np.ptp(base[r, :, : len(coefficients)] @ coefficients) or 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NormWarning)
        return Instance(base, theta=vectors, horizon=horizon, noise=noise, replications=replications, delay=delay)
