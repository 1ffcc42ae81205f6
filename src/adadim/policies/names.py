"""What figures, tables and studies call the policies: the one table of these names, and how a name is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from adadim.core.codec import to_table
from adadim.policies.linear.evidence import RECOMMENDED

TRUE_DIM = "@intrinsic_dim"  # what tables have for a parameter of a policy that is told d*
_ORACLE = {"kind": "LinUCB", "dim": TRUE_DIM}

NAMES: Mapping[str, Mapping[str, Any]] = {
    "recommended": to_table(RECOMMENDED, defaults=False),
    "evidence": {"kind": "EvidenceLinUCB"},
    "tapered": {"kind": "TaperedLinUCB"},
    "two-prior": {"kind": "TwoPriorLinUCB"},
    "prefix": {"kind": "PrefixLinUCB"},
    "prefix-thompson": {"kind": "PrefixLinUCB", "rule": "thompson"},
    "LinUCB++ with Corral": {"kind": "LinUCBPlusPlusCorral"},
    "linucb++reuse": {"kind": "LinUCBPlusPlus", "reuse": True},
    "linucb++released": {"kind": "ReleasedLinUCBPlusPlus", "bonus": "squared"},
    "oracle": _ORACLE,
    "LinUCB Oracle": _ORACLE,
    "LinUCB, told": _ORACLE,
    "narrow-oracle": {**_ORACLE, "scale": 0.35},
    "oracle-released": {**_ORACLE, "bonus": "squared"},
}
"""Tables of the policies whose name is more than their kind in other letters (LinUCB++, smooth-corral, MOSS++)."""

# The parameter that a number after the name is: "LinUCB++ 0.5" in the figures of the trade-off.
NUMBERED = {"LinUCBPlusPlus": "beta", "SmoothCorral": "beta"}


def with_kind(table: Any, kinds: Collection[str]) -> Any:
    """A policy's table with one of `kinds` for any name that stands for it ("LinUCB++ 0.5"); others as they are."""
    name = table.get("kind") if isinstance(table, Mapping) else None
    if not isinstance(name, str) or name in kinds:
        return table
    tables = {letters_of(key): named for key, named in NAMES.items() if named["kind"] in kinds}
    tables |= {letters_of(kind): {"kind": kind} for kind in kinds}
    entry = tables.get(letters_of(name))
    if entry is None and (numbered := re.fullmatch(r"(.*\S)\s+(\d*\.?\d+)", name)):
        entry = tables.get(letters_of(numbered[1]))
        if entry is None or entry["kind"] not in NUMBERED:
            return table
        entry = {**entry, NUMBERED[entry["kind"]]: float(numbered[2])}
    return table if entry is None else {**entry, **{key: value for key, value in table.items() if key != "kind"}}


def letters_of(name: str) -> str:
    """A name without what differs between ways to write it: capitals, spaces and hyphens; "+" is "plus"."""
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("+", "plus"))
