"""Writing figures and the numbers behind them."""

from __future__ import annotations

import io

import polars as pl

from adadim.files import Place, as_place, write_atomic
from adadim.report.drawing import Figure
from adadim.report.figures import Band, draw, summary
from adadim.report.labels import title
from adadim.report.style import figure_style
from adadim.study import Results

__all__ = ["draw_and_save", "save"]

FORMATS = ("png", "pdf", "svg")
NO_DATES = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


def save(figure: Figure, numbers: Results | pl.DataFrame, stem: str | Place) -> list[Place]:
    """Write a figure as PNG, PDF and SVG, and the numbers behind it as CSV; returns the paths.

    The numbers are a table, or results, whose `summary` is written. The bytes depend on figure and numbers alone: no
    dates go in. Each file is written whole or not at all.
    """
    stem = as_place(stem, "stem")
    contents = {}
    for kind in FORMATS:
        buffer = io.BytesIO()
        with figure_style():
            figure.savefig(buffer, format=kind, dpi=200, metadata=NO_DATES[kind])
        contents[kind] = buffer.getvalue()
    table = numbers if isinstance(numbers, pl.DataFrame) else summary(numbers)
    contents["csv"] = table.write_csv().encode()
    return [write_atomic(stem.with_name(f"{stem.name}.{kind}"), data) for kind, data in contents.items()]


def draw_and_save(results: Results, stem: str | Place, band: Band = "ci", titled: bool = True) -> list[Place]:
    """Draw a study, under its title if wanted, and write figure and numbers; returns the paths."""
    return save(draw(results, band=band, title=title(results) if titled else None), results, stem)
