"""Memos of decisions whose replications went different ways: put together, and taken apart again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adadim.core.arrays import Array, device_of, namespace
from adadim.core.rows import EVERY
from adadim.policies.base import Memo


def merged(parts: Sequence[tuple[Any, Memo]], count: int) -> Memo:
    """One memo of `count` replications from those of some of them each; what a part lacks is zero."""
    if len(parts) == 1:
        return parts[0][1]
    whole: dict[str, Array] = {}
    for at, memo in parts:
        for key, values in memo.items():
            if key not in whole:
                shape, device = (count, *values.shape[1:]), device_of(values)
                whole[key] = namespace(values).zeros(shape, dtype=values.dtype, device=device)
            whole[key][at] = values
    return whole


def part_of(memo: Memo, at: Any) -> Memo:
    """The memo of the replications at some positions."""
    if at is EVERY:
        return memo
    return {key: values[at] for key, values in memo.items()}


def marked(memo: Memo, mark: int) -> Memo:
    """The memo with a number before every key, which tells it from those of other learners."""
    return {f"{mark}.{key}": values for key, values in memo.items()}


def unmarked(memo: Memo, mark: int) -> Memo:
    """The part of a memo that `marked` made with this number."""
    start = f"{mark}."
    return {key.removeprefix(start): values for key, values in memo.items() if key.startswith(start)}
