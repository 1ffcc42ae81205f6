"""What is asked about d*: past choices, levels and a prior, checked."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adadim.backend.arrays import Array, FloatArray, as_numpy
from adadim.checks import integer, is_number, one_of, require, shown
from adadim.errors import InvalidTypeError, InvalidValueError

__all__ = ["Levels", "Prior", "checked_arms", "checked_choices", "checked_levels", "checked_prior"]

Levels = Mapping[str, int] | Sequence[int] | None
"""Groups of features: the number of leading features up to the end of each, by name or in a list."""

Prior = str | float | Sequence[float] | FloatArray
"""Prior of d*: "uniform", an exponent c for m^-c, or weights."""


def checked_choices(features: Array, rewards: Array) -> tuple[FloatArray, FloatArray]:
    """Features (n, d) and rewards (n,) of past choices as floats."""
    arrays = []
    for name, given in (("features", features), ("rewards", rewards)):
        array = as_numpy(given)
        if array.dtype.kind not in "biuf":
            raise InvalidTypeError(f"{name} must be real numbers, got dtype {array.dtype}")
        arrays.append(array.astype(np.float64))
    table, response = arrays
    if table.ndim != 2 or table.shape[1] == 0:
        raise InvalidValueError(
            f"features must have shape (n, d), a row for each choice and at least one column, got {table.shape}"
        )
    if response.shape != table.shape[:1]:
        raise InvalidValueError(
            f"rewards must have shape ({len(table)},), one for each row of features, got {response.shape}"
        )
    for name, array in (("features", table), ("rewards", response)):
        for where in np.argwhere(~np.isfinite(array))[:1].tolist():
            raise InvalidValueError(
                f"{name} must be finite, but {name}[{', '.join(map(str, where))}] is {array[tuple(where)]}; "
                "drop such rows or fill them in"
            )
    return table, response


def checked_arms(arms: Array, dim: int) -> FloatArray:
    """Features (K, d) of all that could have been chosen as floats."""
    array = as_numpy(arms)
    if array.dtype.kind not in "biuf" or array.ndim != 2 or array.shape[1] != dim or not np.isfinite(array).all():
        raise InvalidValueError(
            f"arms must be finite numbers of shape (K, {dim}), with the columns of features, got {shown(arms)}"
        )
    return array.astype(np.float64)


def checked_levels(levels: Mapping[str, int] | Sequence[int], dim: int) -> dict[str, int]:
    """Levels by name, with the number of leading features up to the end of each."""
    if isinstance(levels, Mapping):
        names, ends = [str(name) for name in levels], list(levels.values())
    elif isinstance(levels, str) or not hasattr(levels, "__iter__") or getattr(levels, "ndim", 1) == 0:
        raise InvalidTypeError(f"levels must be a dict or a list of numbers of features, got {shown(levels)}")
    else:
        ends = list(levels)
        names = [f"first {end}" for end in ends]
    require(bool(ends), "levels", 'name at least one group of features, e.g. {"price": 3}', levels)
    for end in ends:
        integer(end, "levels", most=dim, meaning="the number of leading features up to the end of the level")
    if any(b <= a for a, b in itertools.pairwise(ends)):
        raise InvalidValueError(f"levels must increase, got {shown(levels)}")
    return dict(zip(names, map(int, ends), strict=True))


def checked_prior(prior: Prior, support: np.ndarray[Any, np.dtype[np.int64]]) -> FloatArray:
    """Prior probabilities of the possible values of d*."""
    if isinstance(prior, str):
        one_of(prior, "prior", ("uniform",))
        prior = 0.0
    if isinstance(prior, int | float | np.integer | np.floating) and is_number(prior):
        require(bool(np.isfinite(prior)), "prior", "be a finite exponent c of weights m^-c", prior)
        logs = -float(prior) * np.log(support)
        weights: FloatArray = np.exp(logs - logs.max())
    else:
        try:
            weights = np.asarray(prior, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            weights = np.empty(0)
        good = weights.shape == support.shape and bool(np.isfinite(weights).all()) and bool((weights >= 0).all())
        wanted = f"be 'uniform', an exponent or {len(support)} weights, not negative and not all zero"
        require(good and bool(weights.sum() > 0), "prior", wanted, prior)
    shares: FloatArray = weights / weights.sum()
    return shares
