"""The command that says how many features matter, of a table of past choices."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from adadim.dimension import Dimension
from adadim.dimension import dimension as how_many
from adadim.errors import InvalidValueError
from adadim.files import write_atomic
from adadim.frames import number_columns, read_frame
from adadim.report.console import errors, print_written
from adadim.report.options import AsJson
from adadim.report.style import PANEL, figure_style

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
        frame = read_frame(file)
        if features is None:
            names = [name for name in frame.columns if name != reward]
        else:
            names = [name.strip() for name in features.split(",")]
        table = number_columns(frame, [reward, *names], str(file))
        found = how_many(table[:, 1:], table[:, 0], levels=_levels(levels), ridge=ridge)
        if out_file is not None:
            _draw(found, out_file)
    if as_json:
        typer.echo(json.dumps(_entry(found, names), indent=2))
    else:
        typer.echo(str(found))
        if out_file is not None:
            print_written([out_file], quiet=False)


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
    write_atomic(path, buffer.getvalue())


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
