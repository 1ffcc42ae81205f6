"""Tables of pandas and polars: taken as features, and made of results. Neither is imported unless it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from adadim.errors import InvalidTypeError

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["is_frame", "to_pandas", "to_polars", "without_frame"]

LIBRARIES = ("pandas", "polars")


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of pandas or polars."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] in LIBRARIES


def without_frame(value: Any, what: str = "features") -> tuple[Any, tuple[str, ...] | None]:
    """A DataFrame as its numbers and the names of its columns; anything else as it is, without names.

    Examples
    --------
    >>> import polars as pl
    >>> without_frame(pl.DataFrame({"price": [1, 2], "new": [True, False]}))
    (array([[1., 1.], [2., 0.]]), ('price', 'new'))
    >>> without_frame([[1.0, 2.0]])
    ([[1.0, 2.0]], None)
    """
    if not is_frame(value):
        return value, None
    names = tuple(map(str, value.columns))
    if len(set(names)) < len(names):
        raise InvalidTypeError(f"{what}: the columns of a table must have different names, got {list(names)}")
    columns = []
    for position, name in enumerate(names):
        column = value.iloc[:, position] if hasattr(value, "iloc") else value[name]
        numbers = column.to_numpy()
        if numbers.dtype.kind not in "fiub":
            raise InvalidTypeError(
                f"{what}: column {name!r} must hold numbers without gaps, but is {column.dtype}; drop it, fill it in "
                "or turn it into numbers first"
            )
        columns.append(numbers.astype(np.float64))
    return np.stack(columns, axis=1) if columns else np.empty((len(value), 0)), names


def to_polars(columns: Mapping[str, Any]) -> polars.DataFrame:
    """Columns as a polars table."""
    import polars

    return polars.DataFrame(dict(columns))


def to_pandas(columns: Mapping[str, Any]) -> pandas.DataFrame:
    """Columns as a pandas table; an `ImportError` that says what to do where there is no pandas."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas: pip install pandas; or use to_polars()") from error
    return pandas.DataFrame(dict(columns))
