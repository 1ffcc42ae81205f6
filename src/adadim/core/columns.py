"""The columns of a context or of an arm, numbers and categories, and how their values are coded as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.core.checks import integer, is_integer, is_number, one_of, printable, require, shown, suggestion
from adadim.core.frames import frame_columns, is_frame, is_missing
from adadim.errors import InvalidTypeError, InvalidValueError

CategoryValue = str | int | bool
"""A value of a category."""

Unlisted = dict[str, Any]
"""Values that no level of their category lists, by column."""

Missing = Literal["error", "indicator"]

MAX_NAME_LENGTH = 200  # characters of the name of a column and of a value of a category
LARGEST_FACTOR = 1e15  # of numbers that are multiplied to make features
MAX_INFERRED_VALUES = 100  # different texts of a column that are taken for a category
MAX_LISTED = 50  # values that a message lists
NUMBER_TYPES = (float, int, bool)


@dataclass(frozen=True)
class Category:
    """A column of a context or of an arm that has one of several values, such as the device of a visitor.

    An agent codes it as indicator columns, one for each value, which are 1 where the column has that value and 0
    elsewhere. They come after the numbers of the context, or of the arm.

    Parameters
    ----------
    values : sequence
        The values: all of them texts, or whole numbers, or True and False; the most basic first.
    unknown : {"level", "error"}
        What happens to a value that is not listed: all such values have an indicator column of their own, or they are
        refused.
    missing : {"error", "indicator"}
        What happens where there is no value (None or NaN): it is refused, or has an indicator column of its own.

    Examples
    --------
    >>> import adadim, pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> device = adadim.Category(["phone", "desktop"])
    >>> agent = adadim.Agent.create(
    ...     pathlib.Path(folder.name, "shop.db"),
    ...     context={"device": device, "hour": float},
    ...     arm=["price"],
    ...     features=adadim.Features(products=0),
    ... )
    >>> agent.columns
    ['constant', 'price', 'hour', 'device=phone', 'device=desktop', 'device other']
    >>> agent.set_arms({"red": [3.5], "blue": [2.0]})
    >>> agent.ask(context={"device": "phone", "hour": 13}).id
    1
    >>> agent.ask(context={"device": "tablet", "hour": 13}).id  # its column is 'device other'
    2
    >>> agent.close()
    >>> folder.cleanup()
    """

    values: Sequence[CategoryValue]
    unknown: Literal["level", "error"] = "level"
    missing: Missing = "error"

    def __post_init__(self) -> None:
        try:
            values = None if isinstance(self.values, str | bytes | Mapping) else list(self.values)
        except TypeError:
            values = None
        if values is None:
            example = "['phone', 'desktop']"
            raise InvalidTypeError(f"values must be a list of values, e.g. {example}, got {shown(self.values)}")
        plain = tuple(_checked_value(value) for value in values)
        require(len(plain) > 0, "values", "have at least one value", values)
        one_kind = all(type(value) is type(plain[0]) for value in plain)
        require(one_kind, "values", "be of one kind, all texts or all whole numbers", values)
        require(len(set(plain)) == len(plain), "values", "be different", values)
        object.__setattr__(self, "values", plain)
        one_of(self.unknown, "unknown", ("level", "error"))
        one_of(self.missing, "missing", ("error", "indicator"))

    @property
    def kind(self) -> type[CategoryValue]:
        """What its values are: `str`, `int` or `bool`."""
        return type(self.values[0])


@dataclass(frozen=True)
class Column:
    """A column as its user names it: a number, or a category."""

    name: str
    category: Category | None = None
    missing: Missing = "error"

    def __str__(self) -> str:
        if self.category is not None:
            return f"{self.name}: {self.category}"
        return self.name if self.missing == "error" else f"{self.name}: float, missing='indicator'"

    @classmethod
    def of(cls, name: str, kind: Any, missing: Missing = "error", part: str = "the") -> Column:
        """A column of a kind as callers give it: `float`, or a `Category`; `part` is the argument that has it."""
        if isinstance(kind, Category):
            kind = replace(kind, missing="indicator") if missing == "indicator" else kind
            return cls(name, kind, kind.missing)
        if kind in NUMBER_TYPES:
            return cls(name, None, missing)
        hint = "adadim.Category([...]) with its values"
        raise InvalidTypeError(f"the kind of {part} column {name!r} must be float or {hint}, got {shown(kind)}")

    @classmethod
    def from_table(cls, table: Any) -> Column:
        """The column that `to_table` describes."""
        if isinstance(table, str):
            return cls(table)
        if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
            raise InvalidTypeError(f"a column must be a name or a mapping with its name, got {shown(table)}")
        settings = {key: table[key] for key in ("unknown", "missing") if key in table}
        missing = one_of(settings.get("missing", "error"), "missing", ("error", "indicator"))
        return cls(table["name"], Category(table["values"], **settings) if "values" in table else None, missing)

    def to_table(self) -> str | dict[str, Any]:
        """Its description as plain data: a plain number by its name alone."""
        if self.category is not None:
            kind = self.category
            values = list(kind.values)
            return {"name": self.name, "values": values, "unknown": kind.unknown, "missing": kind.missing}
        return self.name if self.missing == "error" else {"name": self.name, "missing": self.missing}

    @cached_property
    def indicators(self) -> tuple[str, ...]:
        """Names of its columns of 0 and 1: of values, of those not listed, and of missing ones."""
        values = () if self.category is None else self.category.values
        other = () if self.category is None or self.category.unknown == "error" else (self.other,)
        return (*(f"{self.name}={value}" for value in values), *other, *self._of_missing)

    @property
    def other(self) -> str:
        """Name of the indicator of values that are not listed."""
        return f"{self.name} other"

    @property
    def absent(self) -> str:
        """Name of the indicator of missing values."""
        return f"{self.name} missing"

    @property
    def _of_missing(self) -> tuple[str, ...]:
        return (self.absent,) if self.missing == "indicator" else ()

    @cached_property
    def by_value(self) -> dict[CategoryValue, str]:
        """Names of the indicators of its values."""
        values = () if self.category is None else self.category.values
        return dict(zip(values, self.indicators, strict=False))

    def extended(self, new: Column) -> Column:
        """The column with what `new` adds to it: further values, and an indicator of missing ones."""
        missing: Missing = "indicator" if "indicator" in (self.missing, new.missing) else "error"
        if self.category is None and new.category is None:
            return replace(self, missing=missing)
        if self.category is None or new.category is None:
            kinds = ["a number" if one.category is None else "a category" for one in (self, new)]
            raise InvalidValueError(f"column {self.name!r} is {kinds[0]} and cannot become {kinds[1]}")
        before, values = list(self.category.values), list(new.category.values)
        wanted = f"begin with those of before, {shown(before)}"
        require(values[: len(before)] == before, f"values of column {self.name!r}", wanted, values)
        if new.category.unknown != self.category.unknown:
            raise InvalidValueError(
                f"column {self.name!r} was created with unknown={self.category.unknown!r}, which cannot change, got "
                f"{new.category.unknown!r}"
            )
        return Column(self.name, replace(self.category, values=tuple(values), missing=missing), missing)


class Coding:
    """How values by column become numbers: `columns` as users name them, `names` of the numbers that are stored."""

    def __init__(self, columns: tuple[Column, ...], names: tuple[str, ...]) -> None:
        self.columns, self.names = columns, names
        self.given = [column.name for column in columns]
        self.is_plain = self.given == list(names)  # every column is a number, and stored as it is
        self._positions = {name: at for at, name in enumerate(names)}

    @cached_property
    def has_names(self) -> bool:
        """Whether the columns have names of their own, and not those that stand for a number of columns."""
        return not any(self.given == [f"{part} {k + 1}" for k in range(len(self.given))] for part in ("context", "arm"))

    def check_names(self, names: Sequence[Any], what: str) -> None:
        """Raise unless these are the names of the columns, in any order."""
        for name in names:
            if name not in self._given_set:
                raise InvalidValueError(f"{what} has no column {shown(name)}; {suggestion(name, self.given)}")
        if len(names) < len(self.given):
            missing = next(name for name in self.given if name not in names)
            raise InvalidValueError(f"{what} must have the column {missing!r}, which is missing")

    @cached_property
    def _given_set(self) -> frozenset[str]:
        return frozenset(self.given)

    def code(
        self,
        values: Mapping[str, Sequence[Any]],
        count: int,
        where: Callable[[int], str],
        largest: float = LARGEST_FACTOR,
    ) -> tuple[FloatArray, list[Unlisted]]:
        """Numbers (count, names) of columns of so many values, and of each row the values that are not listed.

        Errors name the column; `where` names a row.
        """
        coded: FloatArray = np.zeros((count, len(self.names)))
        unlisted: list[Unlisted] = [{} for _ in range(count)]
        together = self._code_numbers(values, coded, largest)
        for column in self.columns:
            given = values[column.name]
            if column.category is None:
                if together:
                    continue
                numbers = _checked_numbers(given, column.name, where, largest)
                absent = np.isnan(numbers)
                if absent.any():
                    at = int(np.flatnonzero(absent)[0])
                    self._set_missing(column, coded, absent, where(at), list(given)[at])
                    numbers = np.where(absent, 0.0, numbers)
                coded[:, self._positions[column.name]] = numbers
                continue
            listed = column.by_value
            for at, value in enumerate(given):
                if is_missing(value):
                    self._set_missing(column, coded, at, where(at), value)
                    continue
                plain = _plain_value(value, column, where(at))
                if plain not in listed:
                    _check_unlisted(plain, column, where(at))
                    unlisted[at][column.name] = plain
                coded[at, self._positions[listed.get(plain, column.other)]] = 1.0
        return coded, unlisted

    def _code_numbers(self, values: Mapping[str, Sequence[Any]], coded: FloatArray, largest: float) -> bool:
        """Code all columns of numbers at once; False if one has something else, or too large, and must be named."""
        names, positions = self._numbers
        try:
            numbers = np.array([values[name] for name in names])
        except ValueError:
            return False
        fits = numbers.shape == (len(names), len(coded)) and numbers.dtype.kind in "iuf"
        if not fits or not (np.abs(numbers) <= largest).all():
            return False
        coded[:, positions] = numbers.T
        return True

    @cached_property
    def _numbers(self) -> tuple[list[str], list[int]]:
        """Columns of numbers, and where they are among the coded ones."""
        names = [column.name for column in self.columns if column.category is None]
        return names, [self._positions[name] for name in names]

    def _set_missing(self, column: Column, coded: FloatArray, rows: Any, where: str, value: Any) -> None:
        if column.missing == "error":
            raise InvalidValueError(
                f"{where} has no value in column {column.name!r}, got {shown(value)}; give one, or create the agent "
                "with missing='indicator'"
            )
        coded[rows, self._positions[column.absent]] = 1.0

    def decode(self, coded: FloatArray, unlisted: Sequence[Unlisted | None]) -> dict[str, list[Any]]:
        """The columns of values that `code` made these numbers (n, names) of; None where there was none."""
        columns: dict[str, list[Any]] = {}
        for column in self.columns:
            if column.category is None:
                values = coded[:, self._positions[column.name]].tolist()
            else:
                values = [(row or {}).get(column.name) for row in unlisted]
                for value, name in zip(column.category.values, column.indicators, strict=False):
                    for at in np.flatnonzero(coded[:, self._positions[name]] == 1.0).tolist():
                        values[at] = value
            if column.missing == "indicator":
                for at in np.flatnonzero(coded[:, self._positions[column.absent]] == 1.0).tolist():
                    values[at] = None
            columns[column.name] = values
        return columns


def coded_names(columns: Sequence[Column], before: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the numbers that columns are coded as: numbers first, then indicators, all after those of `before`."""
    numbers = [column.name for column in columns if column.category is None]
    names = [*numbers, *(name for column in columns for name in column.indicators)]
    return (*before, *(name for name in names if name not in set(before)))


def declared_columns(
    columns: Any, part: str, least: int, before: Sequence[Column] = (), missing: Any = "error"
) -> tuple[Column, ...]:
    """Columns of a part ("context" or "arm") from what a caller gives: their number, names, kinds by name, or a frame.

    Columns `before` stay, or are extended by what is given; a number of columns continues them. Columns that are new
    have an indicator of missing values with `missing="indicator"`.
    """
    missing = one_of(missing, "missing", ("error", "indicator"))
    if is_integer(columns):
        count = integer(columns, part, least, 100_000, meaning=f"the number of columns of {part}")
        return (*before, *(Column(f"{part} {k}", None, missing) for k in range(len(before) + 1, count + 1)))
    if is_frame(columns):
        kinds = inferred_kinds(columns, part)
    elif isinstance(columns, Mapping):
        kinds = dict(columns)
    else:
        try:
            names = None if isinstance(columns, str | bytes) else list(columns)
        except TypeError:
            names = None
        if names is None:
            raise InvalidTypeError(f"{part} must be a number of columns, or their names, got {shown(columns)}")
        for name in names:
            _check_name(name, part)
        require(len(names) >= least, part, f"have at least {least} columns", names)
        wanted = f"begin with its columns of before, {shown([column.name for column in before])}"
        require(names[: len(before)] == [column.name for column in before], part, wanted, names)
        return (*before, *(Column(name, None, missing) for name in names[len(before) :]))
    for name in kinds:
        _check_name(name, part)
    for column in before:
        if column.name not in kinds:
            raise InvalidValueError(f"{part} must have its column of before {column.name!r}, which is missing")
    require(len(kinds) >= least, part, f"have at least {least} columns", list(kinds))
    extended = [column.extended(Column.of(column.name, kinds.pop(column.name), part=part)) for column in before]
    return (*extended, *(Column.of(name, kind, missing, part) for name, kind in kinds.items()))


def inferred_kinds(frame: Any, part: str) -> dict[str, Any]:
    """The kinds of a frame's columns by their types: numbers, and categories for texts and categorical columns."""
    kinds: dict[str, Any] = {}
    for name, column in frame_columns(frame, part).items():
        values = [value for value in column.to_list() if not is_missing(value)]
        categories = _categories_of(column)
        if categories is not None:
            kinds[name] = Category(categories)
        elif values and all(isinstance(value, str) for value in values):
            texts = sorted(set(values))
            if len(texts) > MAX_INFERRED_VALUES:
                raise InvalidValueError(
                    f"column {name!r} of {part} has {len(texts)} different texts, too many for a category: drop it, or "
                    "give adadim.Category([...]) with its values"
                )
            kinds[name] = Category(texts)
        elif all(isinstance(value, bool) or is_number(value) for value in values):
            kinds[name] = float
        else:
            raise InvalidTypeError(
                f"column {name!r} of {part} must hold numbers or texts, but is {column.dtype}; drop it or convert it"
            )
    return kinds


def _categories_of(column: Any) -> list[Any] | None:
    """The categories of a categorical column of a frame, None for any other."""
    if hasattr(column.dtype, "categories"):  # of pandas, and Enum of polars
        return list(column.dtype.categories)
    if str(column.dtype).startswith("Categorical"):
        return sorted({value for value in column.to_list() if value is not None})
    return None


def _check_name(name: Any, part: str) -> None:
    fits = isinstance(name, str) and 0 < len(name) <= MAX_NAME_LENGTH
    require(fits, f"a column of {part}", f"have a name of 1 to {MAX_NAME_LENGTH} characters", name)
    printable(name, f"a column of {part}")


def _plain(value: Any) -> Any:
    """A value of a category as Python has it; a column of whole numbers with gaps has them as floats."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _checked_value(value: Any) -> CategoryValue:
    """A value of a category that is listed: a plain text, whole number or truth value."""
    plain = _plain(value)
    wanted = "be a text, a whole number, True or False"
    require(isinstance(plain, str | int), "a value of a category", wanted, value, InvalidTypeError)
    if not isinstance(plain, str):
        require(abs(plain) < 2**63, "a value of a category", "be below 2^63", value)
        return bool(plain) if isinstance(plain, bool) else int(plain)
    fits = 0 < len(plain) <= MAX_NAME_LENGTH
    require(fits, "a value of a category", f"be a text of 1 to {MAX_NAME_LENGTH} characters", value)
    return printable(str(plain), "a value of a category")


def _plain_value(value: Any, column: Column, where: str) -> CategoryValue:
    """A value of a category, which must be of the kind that its listed values are."""
    assert column.category is not None
    plain, kind = _plain(value), column.category.kind
    if type(plain) is kind or (kind is str and isinstance(plain, str)):
        return plain
    wanted = {str: "a text", int: "a whole number", bool: "True or False"}[kind]
    raise InvalidTypeError(f"{where} must have {wanted} in column {column.name!r}, got {shown(value)}")


def _check_unlisted(value: CategoryValue, column: Column, where: str) -> None:
    """Raise if a column takes only values that it lists, or if the value is none that a log can hold."""
    assert column.category is not None
    if column.category.unknown == "error":
        values = [str(one) for one in column.category.values[:MAX_LISTED]]
        raise InvalidValueError(
            f"{where} has {shown(value)} in column {column.name!r}, which is not one of its values; "
            f"{suggestion(str(value), values)}"
        )
    if isinstance(value, str):
        wanted = f"have a text of at most {MAX_NAME_LENGTH} characters in column {column.name!r}"
        require(len(value) <= MAX_NAME_LENGTH, where, wanted, value)
        printable(value, f"column {column.name!r} of {where}")
    else:
        require(abs(value) < 2**63, where, f"have a number below 2^63 in column {column.name!r}", value)


def _checked_numbers(given: Sequence[Any], column: str, where: Callable[[int], str], largest: float) -> FloatArray:
    """Numbers of a column, NaN where there is none; anything else is refused."""
    array = np.asarray(given) if hasattr(given, "dtype") else None
    if array is None or array.dtype.kind not in "biuf":
        numbers = []
        for at, value in enumerate(given):
            if not (is_missing(value) or is_number(value) or isinstance(value, bool | np.bool)):
                raise InvalidTypeError(f"{where(at)} must have a number in column {column!r}, got {shown(value)}")
            numbers.append(np.nan if is_missing(value) else float(value))
        array = np.array(numbers, dtype=np.float64)
    floats: FloatArray = array.astype(np.float64)
    for at in np.flatnonzero(np.abs(floats) > largest)[:1].tolist():
        wanted = f"be at most {largest:g} in size" if np.isfinite(floats[at]) else "be finite"
        raise InvalidValueError(f"{where(at)} must {wanted}, but column {column!r} is {floats[at]}")
    return floats
