"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["markdown_table"]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A header and rows as a Markdown table.

    Examples
    --------
    >>> markdown_table(["a", "b"], [["1", "x|y"]])
    '| a | b |\n| --- | --- |\n| 1 | x\\|y |\n'
    """
    lines = [header, ["---"] * len(header), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
