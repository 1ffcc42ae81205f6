"""One colour, marker and line for every policy, in every figure, page and example.

The table below has every policy of the library; `register_look` adds one of your own. What is in neither gets a look
that follows from its name alone, so it too looks the same everywhere.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adadim.core.checks import one_of, shown
from adadim.errors import InvalidValueError
from adadim.policies.base import Policy
from adadim.policies.names import NAMES

ORACLE_KEY = "oracle"
"""Key of LinUCB told d*, which is no kind of its own but looks like one."""

MARKERS = "osD^v<>PX*hpd8Hx+1234"
SOLID, DASHED, DOTTED, MIXED = "-", "--", ":", "-."
LINES = (SOLID, DASHED, MIXED, DOTTED)


@dataclass(frozen=True)
class Look:
    """What a policy looks like: a colour as #RRGGBB, one of matplotlib's one-letter markers, and a line style."""

    colour: str
    marker: str
    line: str = SOLID

    def __post_init__(self) -> None:
        if not isinstance(self.colour, str) or not re.fullmatch(r"#[0-9A-Fa-f]{6}", self.colour):
            raise InvalidValueError(f"colour must be written #RRGGBB, got {shown(self.colour)}")
        if not isinstance(self.marker, str) or len(self.marker) != 1 or self.marker not in MARKERS:
            raise InvalidValueError(f"marker must be one of {' '.join(MARKERS)}, got {shown(self.marker)}")
        one_of(self.line, "line", LINES)


# The first eight are Okabe and Ito's colours and two of Tol's, which colour-blind readers can tell apart; markers and
# line styles serve print in grey.
LOOKS: dict[str, Look] = {
    ORACLE_KEY: Look("#000000", "x", DASHED),
    "EvidenceLinUCB": Look("#D55E00", "o"),
    "LinUCBPlusPlus": Look("#0072B2", "s"),
    "LinUCB": Look("#E69F00", "D", MIXED),
    "DynamicBalancing": Look("#CC79A7", "P", MIXED),
    "SmoothCorral": Look("#009E73", "v", DOTTED),
    "LinUCBPlusPlusCorral": Look("#56B4E9", "^", DASHED),
    "TaperedLinUCB": Look("#882255", "h"),
    "Greedy": Look("#7A5230", "*", DASHED),
    "UCB": Look("#999933", "<", DOTTED),
    "SupLinUCB": Look("#332288", ">", MIXED),
    "LinTS": Look("#AA4499", "p", DASHED),
    "Random": Look("#8C8C8C", "+", DOTTED),
    "Corral": Look("#117733", "X", MIXED),
    "MOSS": Look("#6A6A00", "d", DASHED),
    "TsallisCorral": Look("#44AA99", "d", DASHED),
    "UCBCorral": Look("#44AA99", "8", DOTTED),
    "BoundBalancing": Look("#DDAA33", "X", DASHED),
    "D3RB": Look("#6699CC", "d", DASHED),
    "ED2RB": Look("#6699CC", "H", DOTTED),
    "BanditCombiner": Look("#661100", "8", DOTTED),
    "RegretBalancing": Look("#AA4466", "d", DASHED),
    "RegretBalancingLinear": Look("#AA4466", "H", DOTTED),
    "MOSSPlusPlus": Look("#0072B2", "d", DASHED),
    "EmpMOSSPlusPlus": Look("#0072B2", "8", DOTTED),
    "ParallelMOSS": Look("#56B4E9", "H", MIXED),
    "MeDZO": Look("#CC6677", "p", SOLID),
    "Single": Look("#444444", "8", SOLID),
    "PrefixLinUCB": Look("#D55E00", "h", DASHED),
    "TwoPriorLinUCB": Look("#D55E00", "p", DOTTED),
    "OSOM": Look("#117733", "H", DASHED),
    "ModCB": Look("#332288", "8", DASHED),
    "ALBDim": Look("#CC6677", "d", DASHED),
    "ALBNorm": Look("#CC6677", "8", DOTTED),
    "EpochBalancing": Look("#DDAA33", "d", MIXED),
    "Guarded": Look("#D55E00", "s", MIXED),
    "Certified": Look("#D55E00", "^", DASHED),
    "LinMED": Look("#AA4499", "s", SOLID),
    "PriorThompson": Look("#AA4499", "^", DASHED),
    "PriorElimination": Look("#AA4499", "d", DASHED),
    "PriorBalancing": Look("#AA4499", "8", DASHED),
    "FeelGood": Look("#AA4499", "D", DASHED),
    "RadiusMixture": Look("#AA4499", "v", DASHED),
    "MaxRatio": Look("#AA4499", "o", DOTTED),
    "ALEXP": Look("#AA4499", "X", DASHED),
    "IDS": Look("#AA4499", "*", DASHED),
    "RadiusExp3": Look("#AA4499", "P", DOTTED),
}

COMMON = tuple(LOOKS)[:14]
"""Policies that are often drawn together: no two have the same colour or the same marker."""

# Names of policies (`adadim.policies.names`) that have the look of their kind; the others have one of their own.
COMMON_NAMES = ("recommended", "evidence", "tapered", "LinUCB Oracle", "LinUCB, told", "LinUCB++ with Corral")

_REGISTERED: dict[str, Look] = {}


def register_look(kind: str, colour: str, marker: str, line: str = SOLID) -> None:
    """Give a policy of your own a fixed look, by the name of its class; call it in the file that defines it.

    The colour is written #RRGGBB; the marker is one of matplotlib's one-letter ones, the line "-", "--", "-." or ":".

    Examples
    --------
    >>> register_look("MyPolicy", "#1B9E77", "p")
    >>> look_of("MyPolicy")["color"]
    '#1B9E77'
    """
    if kind in LOOKS:
        raise InvalidValueError(
            f"{kind} has a look already, which is the same in every figure; register a policy of your own"
        )
    _REGISTERED[kind] = Look(colour, marker, line)


def key_of(policy: Policy | Mapping[str, Any] | str) -> str:
    """The key of a policy's look: its kind, or `ORACLE`; variants after released code share that of the original.

    A name alone is read as the kind in other letters, perhaps with a number or a word after it.

    >>> key_of("LinUCB++ 0.5"), key_of("smooth-corral"), key_of("MyPolicy:width=0.5"), key_of("LinUCBMine")
    ('LinUCBPlusPlus', 'SmoothCorral', 'MyPolicy', 'LinUCBMine')
    """
    if isinstance(policy, str):
        plain = policy.removeprefix("Released")
        return plain if plain in LOOKS else _by_common_name(policy)
    if isinstance(policy, Policy):
        return key_of(type(policy).__name__)
    if policy.get("dim") == "@intrinsic_dim":
        return ORACLE_KEY
    return key_of(str(policy.get("kind", "")))


def look_of(key: str, turn: int = 0, width: float = 1.4) -> dict[str, Any]:
    """The look of a key (see `key_of`) for matplotlib; after turn 0, with other lines and markers."""
    look = LOOKS.get(key) or _REGISTERED.get(key) or _by_name(key)
    looks = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "linewidth": width}
    if turn:
        looks["linestyle"] = LINES[(LINES.index(look.line) + turn) % len(LINES)]
        looks |= ({}, {"markerfacecolor": "white"}, {"fillstyle": "left", "markerfacecoloralt": "white"})[turn % 3]
    return looks


def looks_of(
    policies: Mapping[str, Policy | Mapping[str, Any] | str], chosen: Any = None, width: float = 1.4
) -> dict[str, dict[str, Any]]:
    """Looks of the policies of one figure, by their names in it, from policies, their tables in a study or their kinds.

    `chosen` is a study's ``labels["looks"]``: name to a table of colour, marker and line that replaces a policy's look.
    """
    turns: dict[str, int] = {}
    looks = {}
    for name, policy in policies.items():
        key = key_of(policy)
        turn = turns[key] = turns.get(key, -1) + 1
        looks[name] = look_of(key, turn, width)
        if isinstance(chosen, Mapping) and name in chosen:
            try:
                look = Look(**chosen[name])
            except TypeError as error:
                text = f"must be a table of colour, marker and line, got {shown(chosen[name])}"
                raise InvalidValueError(f"labels.looks.{name}: {text}") from error
            looks[name] |= {"color": look.colour, "marker": look.marker, "linestyle": look.line}
    return looks


def _by_common_name(name: str) -> str:
    """Kind that a name such as "LinUCB++ 0.5" or "linucb++released" stands for; the name itself if it is none."""
    name = name.partition(":")[0]  # without parameters
    if name.isidentifier() and name not in COMMON_NAMES:
        lower = {kind.lower(): kind for kind in LOOKS}
        return lower.get(name, name) if name.islower() else name
    letters = _letters(name)
    names = {_letters(kind): kind for kind in LOOKS} | {_letters(key): key_of(NAMES[key]) for key in COMMON_NAMES}
    matching = [written for written in names if letters.startswith(written)]
    return names[max(matching, key=len)] if matching else name


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower().replace("+", "plus"))


def _by_name(key: str) -> Look:
    """A look that follows from a name: none of those that the library's policies have."""
    taken = {(look.colour, look.marker) for look in LOOKS.values()}
    colours = sorted({LOOKS[name].colour for name in COMMON[1:]})
    free = [(c, m) for m in MARKERS for c in colours if (c, m) not in taken]
    number = zlib.crc32(key.encode())
    colour, marker = free[number % len(free)]
    return Look(colour, marker, LINES[number // len(free) % len(LINES)])
