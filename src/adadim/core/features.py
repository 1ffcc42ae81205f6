"""Features made of covariates: brought to like units, and every covariate times every arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, device_of, namespace, real_array
from adadim.core.checks import check_fits, flag, integer, is_integer, shown
from adadim.errors import InvalidTypeError, InvalidValueError


def interactions(context: Array, arms: int, order: Sequence[int] | None = None, *, shared: bool = False) -> Array:
    """Features of every arm, given what is known of whom it is for: constant, arm, then arm x covariate.

    A model that is linear in these has coefficients of its own for each arm (a *disjoint* model). Their order is the
    natural one of a contextual problem: the constant says what rewards are like, the arms which is best for all, and
    each covariate in turn whether the best arm depends on it.

    Parameters
    ----------
    context : array (p,) or (n, p)
        Covariates of one decision, or of n of them; NumPy or torch. Bring them to like units, centred.
    arms : int
        Number of arms K.
    order : sequence of int, optional
        Columns of `context` to use, most basic first; by default all, as they come.
    shared : bool
        Put the covariates themselves after the constant, before the arms: what they say about rewards whatever is
        chosen. Then the arms say which is better, and the rest for whom.

    Returns
    -------
    array (K, d) or (n, K, d)
        With q covariates used, d = 1 + K + K q. Of arm a, column 0 is 1, column 1 + a is 1, and column 1 + K j + a is
        covariate number j (from 1) in the order; the rest is 0. With `shared` there are q columns more after the first.

    See Also
    --------
    interaction_levels : where each group of columns ends, for `adadim.dimension`.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> adadim.interactions(np.array([0.5, -2.0]), arms=2, order=[1, 0])
    array([[ 1. , 1. , 0. , -2. , 0. , 0.5, 0. ],
           [ 1. , 0. , 1. , 0. , -2. , 0. , 0.5]])
    """
    table = real_array(context, "context", copy=False)
    if table.ndim not in (1, 2):
        raise InvalidValueError(f"context must have shape (p,) or (n, p), got {tuple(table.shape)}")
    xp, count = namespace(table), integer(arms, "arms", meaning="the number of arms")
    if not bool(xp.all(xp.isfinite(table))):
        raise InvalidValueError("context must be finite, but has a NaN or infinite entry")
    single = table.ndim == 1
    table = table[None] if single else table
    used = _checked_order(order, table.shape[1])
    rows = table.shape[0]
    check_fits(8 * 3 * rows * count * (1 + count) * (1 + len(used)), arms=count, rows=rows)
    ones = xp.ones((rows, 1), dtype=table.dtype, device=device_of(table))
    scaled = xp.concat([ones, *(table[:, j : j + 1] for j in used)], axis=1)  # what each arm's own columns hold
    one_hot = xp.eye(count, dtype=table.dtype, device=device_of(table))
    own = scaled[:, None, :, None] * one_hot[None, :, None, :] + 0.0  # no -0.0
    own = own.reshape(rows, count, (1 + len(used)) * count)
    common = scaled if flag(shared, "shared") else ones
    every = xp.broadcast_to(common[:, None, :], (rows, count, common.shape[1]))
    features = xp.concat([every, own], axis=2)
    return features[0] if single else features


def interaction_levels(arms: int, groups: Mapping[str, int], *, shared: bool = False) -> dict[str, int]:
    """Number of leading columns of `interactions` up to the end of each group of covariates.

    Parameters
    ----------
    arms : int
        Number of arms K.
    groups : mapping of str to int
        How many covariates each group has, in the order in which `interactions` has them.
    shared : bool
        As in `interactions`.

    Returns
    -------
    dict
        What `adadim.dimension` takes as `levels`: "constant", with `shared` "covariates", "arm", and "arm x NAME" for
        each group.

    Examples
    --------
    >>> interaction_levels(4, {"demographics": 3, "lab": 2})
    {'constant': 1, 'arm': 5, 'arm x demographics': 17, 'arm x lab': 25}
    """
    count = integer(arms, "arms", meaning="the number of arms")
    if not isinstance(groups, Mapping):
        raise InvalidTypeError(f"groups must be a mapping from names to numbers of covariates, got {shown(groups)}")
    sizes = {
        name: integer(size, f"groups[{name!r}]", meaning="the number of covariates") for name, size in groups.items()
    }
    levels, end = {"constant": 1}, 1
    if flag(shared, "shared") and sizes:
        levels["covariates"] = end = 1 + sum(sizes.values())
    levels["arm"] = end = end + count
    for name, size in sizes.items():
        levels[f"arm x {name}"] = end = end + count * size
    return levels


def in_like_units(covariates: FloatArray) -> FloatArray:
    """Columns centred and divided by their standard deviation; a constant column becomes 0."""
    centred = covariates - covariates.mean(axis=0)
    spread = centred.std(axis=0)
    rounding = 1e-12 * np.abs(covariates).max(axis=0, initial=0.0)
    scaled: FloatArray = np.where(spread > rounding, centred / np.where(spread > rounding, spread, 1.0), 0.0)
    return scaled


def _checked_order(order: Any, columns: int) -> list[int]:
    if order is None:
        return list(range(columns))
    if isinstance(order, str | bytes) or getattr(order, "ndim", 1) != 1 or not hasattr(order, "__iter__"):
        raise InvalidTypeError(f"order must be a sequence of columns of context, got {shown(order)}")
    used = list(order)
    for j in used:
        if not is_integer(j) or not 0 <= j < columns:
            raise InvalidValueError(f"order must hold columns of context, in 0..{columns - 1}, got {shown(j)}")
    if len(set(used)) < len(used):
        raise InvalidValueError(f"order must name each column once, got {shown(used)}")
    return [int(j) for j in used]
