"""Damage to bytes and to tables."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

BAD = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, -0.0, float("nan"), float("inf"), 1e308, "", "x", "[/]",
    "../x", "a\x00b", "\ud800", "x" * 100_000, "@dim", "@nothing", [], [1], [[]], [None], {},
    {"kind": "LinUCB"}, {"a": {}},
)  # fmt: skip


seed = 0
"""Chooses among the attacks: a new one where the attack is run by hand, 0 in the tests."""


def generator(subject: int) -> np.random.Generator:
    """The draws of a subject."""
    return np.random.default_rng(subject + 1000 * seed)


def damaged(data: bytes, draw: np.random.Generator) -> bytes:
    """Some bytes with one of several kinds of damage."""
    kind, at = draw.integers(8), int(draw.integers(max(1, len(data))))
    if kind == 0:
        return data[:at]
    if kind == 1 and data:
        return data[:at] + bytes([data[at] ^ (1 << int(draw.integers(8)))]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + draw.bytes(int(draw.integers(1, 64))) + data[at + 32 :]
    if kind == 3:
        return data[:at] + draw.bytes(int(draw.integers(1, 16))) + data[at:]
    if kind == 4:
        return data[:at] + data[at + int(draw.integers(1, 100)) :]
    if kind == 5:
        return data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :]
    if kind == 6:
        return data[at:] + data[:at]
    return draw.bytes(len(data)) if at % 4 == 0 else data + draw.bytes(8)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything inside nested tables and lists."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(content: Any, draw: np.random.Generator, values: tuple[Any, ...] = BAD) -> Any:
    """A copy of nested tables with one value replaced, removed, added or under another name."""
    content = copy.deepcopy(content)
    paths = list(places(content))
    path = paths[int(draw.integers(len(paths)))]
    at = content
    for key in path[:-1]:
        at = at[key]
    value = values[int(draw.integers(len(values)))]
    kind = draw.integers(6)
    if kind == 0:
        del at[path[-1]]
    elif kind == 1 and isinstance(at, dict):
        at[f"{path[-1]}x"] = at.pop(path[-1])
    elif kind == 2 and isinstance(at, dict):
        at["extra"] = value
    else:
        at[path[-1]] = value
    return content
