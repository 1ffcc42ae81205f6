"""What a page shows beside studies: tables that can be sorted, and a heat map of ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adadim.codec import finite

__all__ = ["Cell", "Column", "HeatMap", "Table"]

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
        Its heading.
    means : str
        What it holds, in a sentence; shown with the heading.
    kind : {"text", "number", "verdict"}
        Numbers are written with four digits, verdicts in colour.
    """

    name: str
    means: str = ""
    kind: Literal["text", "number", "verdict"] = "text"


@dataclass(frozen=True)
class Table:
    """A table of a page, which readers can sort by any column.

    Attributes
    ----------
    title : str
        Heading of the section.
    text : sequence of str
        Paragraphs above the table.
    columns : sequence of Column
        Its columns.
    rows : sequence of sequence
        Its rows, a cell for each column.
    choose : str
        Name of the column by whose values readers can narrow the table down, or "".
    meanings : mapping
        What words in the table mean, as a list above it.
    """

    title: str
    text: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    choose: str = ""
    meanings: Mapping[str, str] | None = None

    def plain(self) -> dict[str, Any]:
        """The table as plain data."""
        columns = [{"name": c.name, "means": c.means, "kind": c.kind} for c in self.columns]
        rows = [[finite(cell) for cell in row] for row in self.rows]
        meanings = list((self.meanings or {}).items())
        texts = {"title": self.title, "text": list(self.text), "choose": self.choose}
        return {**texts, "columns": columns, "rows": rows, "meanings": meanings}


@dataclass(frozen=True)
class HeatMap:
    """Ratios of families (rows) and policies (columns), for one or several references.

    Attributes
    ----------
    title : str
        Heading of the section.
    text : sequence of str
        Paragraphs above it.
    families : sequence of (str, str)
        Group and name of each row.
    policies : sequence of str
        Names of the columns.
    ratios : mapping
        Reference to {(row, column): (ratio, low, high)}; what is missing stays empty.
    regrets : mapping
        Mean regret of (row, column).
    """

    title: str
    text: Sequence[str]
    families: Sequence[tuple[str, str]]
    policies: Sequence[str]
    ratios: Mapping[str, Mapping[tuple[int, int], tuple[float, float, float]]]
    regrets: Mapping[tuple[int, int], float]

    def plain(self) -> dict[str, Any]:
        """The heat map as plain data."""
        pairs = [[(i, j) for j in range(len(self.policies))] for i in range(len(self.families))]
        return {
            "title": self.title,
            "text": list(self.text),
            "families": [list(family) for family in self.families],
            "policies": list(self.policies),
            "references": list(self.ratios),
            "ratios": [
                [[[finite(_short(x)) for x in found.get(pair, ())] for pair in row] for row in pairs]
                for found in self.ratios.values()
            ],
            "regrets": [[finite(_short(self.regrets.get(pair))) for pair in row] for row in pairs],
        }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
