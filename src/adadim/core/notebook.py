"""Objects as short pieces of HTML, which notebooks show in place of a line of text."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

LONGEST = 300  # characters of a value


def card(heading: str, rows: Mapping[str, Any]) -> str:
    """A heading and a small table of names and values; what is None is left out."""
    left = 'style="text-align: left"'
    cells = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(_text(value))}</td></tr>"
        for name, value in rows.items()
        if value is not None
    )
    return f"<div><strong>{escape(heading)}</strong><table>{cells}</table></div>"


def _text(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
