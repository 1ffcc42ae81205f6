"""Columns of a table: a polars or pandas frame, a dict of arrays, a Parquet or CSV file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adadim.core.arrays import BoolArray, FloatArray, IntArray
from adadim.core.checks import require, shown, suggestion
from adadim.core.files import explained, open_regular
from adadim.errors import FileError, InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    import pandas
    import polars as pl

Frame = Any
"""A polars or pandas DataFrame, or a mapping from names to columns of one length."""

Offered = Mapping[str, Any] | Iterable[str] | Frame | None
"""Arms with their features, names of the catalogue, or all of it."""

Costs = Mapping[str, float] | None

LIST_COLUMNS = ("features", "context", "offered", "offered_features")
"""Columns of a log of choices that hold lists; a CSV file has each list as JSON."""


def read_frame(
    file: str | Path, kinds: Sequence[str] = (".parquet", ".csv"), texts: Sequence[str] = ()
) -> pl.DataFrame:
    """The table in a file of one of these kinds, which may be .ndjson too; a CSV file has texts in columns `texts`."""
    import polars as pl

    path = Path(file)
    if path.suffix not in kinds:
        raise InvalidValueError(f"{str(file) or repr('')} must be a {', '.join(kinds[:-1])} or {kinds[-1]} file")
    if not path.exists():
        raise FileError(f"{path}: no such file")
    try:
        with open_regular(path) as opened:  # polars would take [ and * in a path for a pattern
            if path.suffix == ".csv":
                # Where names of arms are listed, those chosen are names too, also if they look like numbers.
                names = pl.read_csv(opened, n_rows=0).columns
                opened.seek(0)
                texts = [*texts, "arm"] if "offered" in names else texts
                as_texts = {name: pl.String for name in names if name in texts}
                frame = pl.read_csv(opened, infer_schema_length=None, schema_overrides=as_texts)
                return frame.with_columns(_lists(frame[name]) for name in LIST_COLUMNS if name in frame.columns)
            return pl.read_parquet(opened) if path.suffix == ".parquet" else pl.read_ndjson(opened)
    except OSError as failure:
        raise explained(failure, path) from failure
    except pl.exceptions.PolarsError as error:
        raise FileError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def _lists(column: pl.Series) -> pl.Series:
    """A column of JSON as lists; any other as it is."""
    import polars as pl

    texts = column.to_list()
    if not all(text is None or (isinstance(text, str) and text.startswith("[")) for text in texts):
        return column
    try:
        return pl.Series(column.name, [None if text is None else json.loads(text) for text in texts])
    except (ValueError, TypeError, pl.exceptions.PolarsError):
        return column


class DataTable:
    """A table to read: a polars or pandas frame, a dict of columns, a list of dicts, or a file of one of `kinds`."""

    def __init__(
        self,
        source: Any,
        what: str = "the table",
        kinds: Sequence[str] = (".parquet", ".csv"),
        texts: Sequence[str] = (),
    ) -> None:
        if isinstance(source, str | Path):
            source, what = read_frame(source, kinds, texts), str(source)
        elif isinstance(source, Sequence) and source and all(isinstance(record, Mapping) for record in source):
            records, names = source, dict.fromkeys(name for record in source for name in record)
            source = {name: np.fromiter((record.get(name) for record in records), object) for name in names}
        self.frame, self.what, self.names = source, what, _column_names(source, what)

    def __str__(self) -> str:
        return self.what

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """A column as an array (n,), of whatever type it has; an error names what the table has instead."""
        require(isinstance(name, str), "the name of a column", "be a text", name, InvalidTypeError)
        if name not in self.names:
            raise InvalidValueError(f"{self} has no column {shown(name)}; {suggestion(name, self.names)}")
        column = self.frame[name]
        values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
        if values.ndim != 1:
            raise InvalidValueError(f"column {name!r} of {self} must have one value per row, got shape {values.shape}")
        return values

    def filled(self, name: str) -> BoolArray:
        """Which rows have a value in a column: neither null nor NaN."""
        values = self.column(name)
        if values.dtype.kind == "O":
            return ~np.array([is_missing(value) for value in values], dtype=bool)
        return ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), dtype=bool)

    def numbers(self, name: str, rows: Any = slice(None)) -> FloatArray:
        """Numbers of a column, in all rows or some; a missing value is refused with its row."""
        values = self.column(name)[rows]
        if values.dtype.kind == "O":  # pandas columns of whole numbers with a gap, say
            missing = [value is None or value != value for value in values.tolist()]
            try:
                values = np.where(missing, np.nan, values).astype(np.float64)
            except (TypeError, ValueError):
                raise InvalidValueError(
                    f"column {name!r} of {self} must hold numbers, got {shown(values[0])}"
                ) from None
        if values.dtype.kind not in "biuf":
            raise InvalidValueError(f"column {name!r} of {self} must hold numbers, but is {values.dtype}")
        numbers: FloatArray = values.astype(np.float64)
        for row in np.flatnonzero(~np.isfinite(numbers))[:1].tolist():
            raise InvalidValueError(
                f"column {name!r} of {self} has no finite number in row {row + 1}; drop such rows or fill them in"
            )
        return numbers

    def matrix(self, names: Sequence[str], rows: Any = slice(None)) -> FloatArray:
        """`numbers` of several columns, or of none, side by side, (n, columns)."""
        columns = [self.numbers(name, rows) for name in names]
        return np.stack(columns, axis=1) if columns else np.empty((len(self.column(self.names[0])[rows]), 0))


def is_missing(value: Any) -> bool:
    """Whether a value of a table is missing: None, NaN, or what pandas has in their place."""
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of pandas or polars."""
    return _is_kind(value, "DataFrame")


def is_series(value: Any) -> bool:
    """Whether a value is a Series of pandas or polars."""
    return _is_kind(value, "Series")


def _is_kind(value: Any, kind: str) -> bool:
    for base in type(value).__mro__[:-1]:
        if base.__name__ == kind and base.__module__.partition(".")[0] in ("pandas", "polars"):
            return True
    return False


def frame_columns(frame: Frame, what: str) -> dict[str, Any]:
    """The columns of a DataFrame, each a Series, by their names, which must be different."""
    names = [str(name) for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValueError(f"the frame of {what} has two columns {name!r}; rename one")
    if hasattr(frame, "iloc"):
        return {name: frame.iloc[:, at] for at, name in enumerate(names)}
    return {name: frame[name] for name in names}


def _column_names(frame: Frame, what: str) -> list[str]:
    """Names of the columns, in their order."""
    if isinstance(frame, Mapping):
        names = list(frame)
        sizes = {name: len(values) for name, values in frame.items() if hasattr(values, "__len__")}
        require(len(set(sizes.values())) < 2, f"columns of {what}", "have the same number of rows", sizes)
    elif hasattr(frame, "columns") and hasattr(frame, "__getitem__"):
        names = list(frame.columns)
    else:
        raise InvalidTypeError(
            f"{what} must be a polars or pandas DataFrame or a dict of columns, got {type(frame).__name__}"
        )
    if not names:
        raise InvalidValueError(f"{what} has no columns")
    return names


def checked_names(names: Any, name: str) -> list[str]:
    """A list of names of columns, each once."""
    fits = isinstance(names, Sequence) and not isinstance(names, str | bytes)
    fits = fits and all(isinstance(column, str) for column in names)
    require(fits, name, "be a list of names of columns", names, InvalidTypeError)
    require(len(set(names)) == len(names), name, "name each column once", list(names))
    return list(names)


def distinct(values: np.ndarray[Any, Any], name: str) -> tuple[list[Any], IntArray]:
    """The different values of a column, sorted, at least two of them, and which of them each row has."""
    for row, value in enumerate(values.tolist()):
        if value is None or value != value:
            raise InvalidValueError(f"column {name!r} has no value in row {row + 1}; drop such rows or fill them in")
    try:
        options, which = np.unique(values, return_inverse=True)
    except TypeError:
        raise InvalidTypeError(
            f"column {name!r} must hold values of one kind, all numbers or all texts, got {shown(values.tolist())}"
        ) from None
    require(len(options) > 1, f"column {name!r}", "have at least two different values", options.tolist())
    return options.tolist(), which.astype(np.int64)


def numbers_and_names(value: Any) -> tuple[Any, tuple[str, ...] | None]:
    """A DataFrame as its numbers and the names of its columns; anything else as it is, without names."""
    if not is_frame(value):
        return value, None
    names = tuple(map(str, value.columns))
    if len(set(names)) < len(names):
        raise InvalidTypeError(f"features: the columns of a table must have different names, got {list(names)}")
    columns = []
    for position, name in enumerate(names):
        column = value.iloc[:, position] if hasattr(value, "iloc") else value[name]
        numbers = column.to_numpy()
        if numbers.dtype.kind not in "fiub":
            raise InvalidTypeError(
                f"features: column {name!r} must hold numbers without gaps, but is {column.dtype}; drop it, fill it in "
                "or turn it into numbers first"
            )
        columns.append(numbers.astype(np.float64))
        for row in np.flatnonzero(~np.isfinite(columns[-1]))[:1].tolist():
            raise InvalidValueError(
                f"features: column {name!r} must hold finite numbers, but row {row + 1} has {columns[-1][row]}; drop "
                "such rows or fill them in"
            )
    return np.stack(columns, axis=1) if columns else np.empty((len(value), 0)), names


def column_values(column: Any) -> Sequence[Any]:
    """The values of a Series: an array where they are numbers, a list of any others."""
    values = column.to_numpy()
    return values if values.dtype.kind in "biuf" else column.to_list()  # type: ignore[no-any-return]


class Tabular:
    """Base of results that can be exported as a table; each class says what a row is."""

    def _columns(self) -> dict[str, Any]:
        """The columns by name."""
        raise NotImplementedError

    def to_polars(self) -> pl.DataFrame:
        """The table for polars."""
        import polars

        return polars.DataFrame(self._columns())

    def to_pandas(self) -> pandas.DataFrame:
        """The table for pandas; an `ImportError` that says what to do where there is none."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas: pip install pandas; or use to_polars()") from error
        return pandas.DataFrame(self._columns())
