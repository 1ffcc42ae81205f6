"""The command that says how many features matter, of a table of past choices."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from adadim.checks import suggestion
from adadim.dimension import Dimension
from adadim.dimension import dimension as how_many
from adadim.errors import InvalidValueError
from adadim.files import write_whole
from adadim.report.console import AsJson, errors, print_written
from adadim.report.style import PANEL, figure_style

if TYPE_CHECKING:
    import polars as pl

__all__ = ["dimension"]


def dimension(
    file: Annotated[Path, typer.Argument(help="Past choices, one per row: Parquet or CSV.", show_default=False)],
    reward: Annotated[str, typer.Option("--reward", "-r", help="Column of the rewards.", show_default=False)],
    features: Annotated[
        str | None,
        typer.Option(
            "--features", "-f", help="Columns of the features, a,b,c: most basic first. By default all others."
        ),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(help="Groups of features by their ends, price=3,text=67, or 3,67: d* is one of them."),
    ] = None,
    ridge: Annotated[float | None, typer.Option(help="Fix the ridge, for the features as they are.")] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="Draw it into this file: PNG, PDF or SVG.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell how many of the features matter, from a table of past choices and their rewards.

    Example: adadim dimension choices.csv --reward sales --features constant,price,age,clicks --out picture.png
    """
    with errors():
        frame = _read(file)
        if features is None:
            names = [name for name in frame.columns if name != reward]
        else:
            names = [name.strip() for name in features.split(",")]
        table = _columns(frame, [reward, *names], file)
        found = how_many(table[:, 1:], table[:, 0], levels=_levels(levels), ridge=ridge)
        if out_file is not None:
            _draw(found, out_file)
    if as_json:
        typer.echo(json.dumps(_entry(found, names), indent=2))
    else:
        typer.echo(str(found))
        if out_file is not None:
            print_written([out_file], quiet=False)


def _read(file: Path) -> pl.DataFrame:
    import polars as pl

    if file.suffix not in (".parquet", ".csv"):
        raise InvalidValueError(f"{file} must be a .parquet or .csv file")
    try:
        return pl.read_parquet(file) if file.suffix == ".parquet" else pl.read_csv(file, infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise InvalidValueError(f"{file} cannot be read: {str(error).splitlines()[0]}") from error


def _columns(frame: pl.DataFrame, names: list[str], file: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Columns as numbers, (n, columns); a missing value is refused with its row."""
    columns = []
    for name in names:
        if name not in frame.columns:
            raise InvalidValueError(f"{file} has no column {name!r}; {suggestion(name, frame.columns)}")
        column = frame[name]
        if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
            raise InvalidValueError(f"column {name!r} of {file} must hold numbers, but is {column.dtype}")
        values = column.cast(float).to_numpy()
        for row in np.flatnonzero(~np.isfinite(values))[:1].tolist():
            raise InvalidValueError(
                f"column {name!r} of {file} has no finite number in row {row + 1}; drop such rows or fill them in"
            )
        columns.append(values)
    return np.stack(columns, axis=1).astype(np.float64)


def _levels(text: str | None) -> dict[str, int] | list[int] | None:
    """Levels as `adadim.dimension` takes them, from "price=3,text=67" or "3,67"."""
    if text is None:
        return None
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(end.strip().isdigit() for _, _, end in pairs):
        raise InvalidValueError(f"levels must look like price=3,text=67 or 3,67, got {text!r}")
    if not any(sign for _, sign, _ in pairs):
        return [int(end) for _, _, end in pairs]
    named = {name.strip(): int(end) for name, _, end in pairs}
    if len(named) < len(pairs) or "" in named:
        raise InvalidValueError(f"levels must have names that differ, got {text!r}")
    return named


def _draw(found: Dimension, path: Path) -> None:
    from matplotlib.figure import Figure

    kind = path.suffix.removeprefix(".")
    if kind not in ("png", "pdf", "svg"):
        raise InvalidValueError(f"--out must end in .png, .pdf or .svg, got {path}")
    buffer = io.BytesIO()
    with figure_style():
        figure = Figure(figsize=PANEL, layout="constrained")
        found.plot(figure.subplots())
        figure.savefig(buffer, format=kind, dpi=200)
    write_whole(path, buffer.getvalue())


def _entry(found: Dimension, names: list[str]) -> dict[str, Any]:
    low, high = found.interval(0.9)
    return {
        "features": names,
        "levels": found.levels,
        "choices": found.choices,
        "support": found.support.tolist(),
        "probabilities": found.probabilities.tolist(),
        "tail": found.tail.tolist(),
        "mode": found.mode,
        "median": found.median,
        "interval90": [low, high],
        "noise": None if np.isnan(found.noise) else found.noise,
    }
