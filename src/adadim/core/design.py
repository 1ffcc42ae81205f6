"""What the features of an arm in a context are made of, as data: which columns there are, and how to fill them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any
from zlib import crc32

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.core.checks import check_fits, flag, integer, is_integer, printable, shown, suggestion
from adadim.errors import InvalidTypeError, InvalidValueError

LONGEST_NAME = 200
MOST_COLUMNS = 100_000


@dataclass(frozen=True)
class Features:
    """What an agent makes features of: a context and the features of an arm, most basic first.

    The columns are, in this order: a constant; the features of the arm; the context; products of both, the first number
    of the context times each of the arm's features, then the second, as in `adadim.interactions`; and columns that
    belong to arms by their names, for what no feature explains.

    Parameters
    ----------
    constant : bool
        A column of ones.
    arm, context : bool
        The numbers of the arm, and those of the context.
    products : int, optional
        How many of the arm's features, the first ones, are multiplied with the context; by default all, 0 for none.
    own : int
        Number of columns for intercepts of the arms. An arm has 1 in the column that a checksum of its name says;
        arms whose names fall into one column share it.

    Examples
    --------
    >>> import adadim
    >>> adadim.Features(products=2, own=16)
    Features(constant=True, arm=True, context=True, products=2, own=16)
    >>> adadim.Features.from_json(adadim.Features(own=16).to_json()) == adadim.Features(own=16)
    True
    """

    constant: bool = True
    arm: bool = True
    context: bool = True
    products: int | None = None
    own: int = 0

    def __post_init__(self) -> None:
        for name in ("constant", "arm", "context"):
            object.__setattr__(self, name, flag(getattr(self, name), name))
        if self.products is not None:
            meaning = "how many features of an arm are multiplied with the context"
            object.__setattr__(self, "products", integer(self.products, "products", 0, meaning=meaning))
        object.__setattr__(self, "own", integer(self.own, "own", 0, meaning="the number of columns for arms"))

    def to_json(self) -> str:
        """The description as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Features:
        """The description that `to_json` wrote."""
        try:
            table = json.loads(text)
        except (TypeError, ValueError):
            table = None
        return cls.from_table(table)

    @classmethod
    def from_table(cls, table: Any) -> Features:
        """The description from a mapping of its parameters."""
        if not isinstance(table, Mapping):
            raise InvalidTypeError(f"features must be described by a mapping, e.g. {{'own': 16}}, got {shown(table)}")
        parameters = list(cls.__dataclass_fields__)
        for name in table:
            if name not in parameters:
                raise InvalidValueError(f"features have no part {shown(name)}; {suggestion(str(name), parameters)}")
        return cls(**table)


@dataclass(frozen=True)
class Design:
    """`Features` of a context and of arms whose numbers have these names."""

    context: tuple[str, ...]
    arm: tuple[str, ...]
    features: Features

    def __post_init__(self) -> None:
        most, m = len(self.arm), self.features.products
        if m is not None and m > most:
            raise InvalidValueError(f"products = {m} are more than the {most} features of an arm (arm=)")
        if not self.dim:
            raise InvalidValueError(f"{self.features} leaves no column")
        check_fits(32.0 * self.dim**2, dim=self.dim)  # what a regression on them takes
        for names in ((*self.context, *self.arm), self.columns):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise InvalidValueError(f"columns must have different names, but {twice[0]!r} is there twice")

    @classmethod
    def of(cls, context: Any, arm: Any, features: Any) -> Design:
        """A design from what a caller gives: numbers of columns or their names, and a description."""
        if features is None:
            features = Features()
        if not isinstance(features, Features):
            raise InvalidTypeError(f"features must be adadim.Features(...), got {shown(features)}")
        return cls(column_names(context, "context", 0), column_names(arm, "arm", 1), features)

    @classmethod
    def from_table(cls, table: Any) -> Design:
        """The design whose fields a mapping has, as JSON gives it back."""
        if not isinstance(table, Mapping) or set(table) != set(cls.__dataclass_fields__):
            raise InvalidTypeError(f"a design must be a mapping of context, arm and features, got {shown(table)}")
        return cls.of(table["context"], table["arm"], Features.from_table(table["features"]))

    @classmethod
    @lru_cache(maxsize=16)
    def from_json(cls, text: str) -> Design:
        """The design that `to_json` wrote."""
        try:
            table = json.loads(text)
        except ValueError:
            raise InvalidValueError(f"a design must be JSON, got {shown(text)}") from None
        return cls.from_table(table)

    def to_json(self) -> str:
        """The design as JSON."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return json.dumps(asdict(self))

    @cached_property
    def multiplied(self) -> int:
        """How many features of an arm are multiplied with the context."""
        return len(self.arm) if self.features.products is None else self.features.products

    @cached_property
    def _widths(self) -> dict[str, int]:
        """Number of columns of each part, in their order."""
        features = self.features
        return {
            "constant": int(features.constant),
            "arm": len(self.arm) if features.arm else 0,
            "context": len(self.context) if features.context else 0,
            "products": self.multiplied * len(self.context),
            "own": features.own,
        }

    @cached_property
    def dim(self) -> int:
        """Number of columns."""
        return sum(self._widths.values())

    @cached_property
    def levels(self) -> dict[str, int]:
        """Number of leading columns up to the end of each part that has any; the constant counts to the first."""
        levels, end = {}, 0
        for part, width in self._widths.items():
            end += width
            if width and part != "constant":
                levels[part] = end
        return levels or {"constant": end}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        widths, multiplied = self._widths, self.arm[: self.multiplied]
        return (
            *(["constant"] * widths["constant"]),
            *self.arm[: widths["arm"]],
            *self.context[: widths["context"]],
            *(f"{arm} x {context}" for context in self.context for arm in multiplied),
            *(f"own {k}" for k in range(1, widths["own"] + 1)),
        )

    def build(self, arms: FloatArray, context: FloatArray, names: Sequence[str]) -> FloatArray:
        """Features (K, d) of arms (K, m) with these names in a context (c,), or in one each (K, c).

        In each of n contexts (n, 1, c) they are (n, K, d). What stands at the end of a design may be missing in `arms`
        and `context`: it is 0.
        """
        shape = (*context.shape[:-2], len(arms))
        built: FloatArray = np.zeros((*shape, self.dim))
        parts, start = {}, 0
        for part, width in self._widths.items():
            parts[part], start = built[..., start : start + width], start + width
        parts["constant"][:] = 1.0
        if self.features.arm:
            parts["arm"][..., : arms.shape[1]] = arms
        if self.features.context:
            parts["context"][..., : context.shape[-1]] = context
        if self.multiplied and context.size:
            given, blocks = arms[:, : self.multiplied], parts["products"]
            blocks = blocks.reshape(*shape, len(self.context), self.multiplied)  # a view
            there = blocks[..., : context.shape[-1], : given.shape[1]]
            np.multiply(context[..., :, None], given[:, None, :], out=there)
        if self.features.own:
            parts["own"][..., np.arange(len(names)), [own_column(name, self.features.own) for name in names]] = 1.0
        return built

    def positions_in(self, other: Design) -> list[int]:
        """Where the columns of this design are among those of one to which features were appended."""
        where = {name: at for at, name in enumerate(other.columns)}
        return [where[name] for name in self.columns]

    def appended(self, context: Any, arm: Any) -> Design:
        """The same with further columns of context and arm, each the new number or all names; None: as it is."""
        parts: dict[str, tuple[str, ...]] = {"context": self.context, "arm": self.arm}
        for part, given in (("context", context), ("arm", arm)):
            if given is None:
                continue
            before, new = parts[part], column_names(given, part, len(parts[part]), before=parts[part])
            if new[: len(before)] != before:
                raise InvalidValueError(
                    f"{part} must begin with its columns of before, {shown(list(before))}, got {shown(list(new))}"
                )
            parts[part] = new
        return Design(parts["context"], parts["arm"], self.features)


def column_names(given: Any, part: str, least: int, before: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the columns of a part, from these or from their number, for which the names `before` go on."""
    if is_integer(given):
        count = integer(given, part, least, MOST_COLUMNS, meaning=f"the number of columns of {part}")
        return (*before, *(f"{part} {k}" for k in range(len(before) + 1, count + 1)))
    try:
        names = None if isinstance(given, str | bytes | Mapping) else list(given)
    except TypeError:
        names = None
    if names is None:
        raise InvalidTypeError(f"{part} must be a number of columns, or their names, got {shown(given)}")
    for name in names:
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise InvalidValueError(
                f"a column of {part} must have a name of 1 to {LONGEST_NAME} characters, got {shown(name)}"
            )
        printable(name, f"a column of {part}")
    if len(names) < least:
        raise InvalidValueError(f"{part} must have at least {least} columns, got {shown(names)}")
    return tuple(names)


@lru_cache(maxsize=100_000)
def own_column(name: str, columns: int) -> int:
    """Which of so many columns belongs to an arm of this name."""
    return crc32(name.encode()) % columns
