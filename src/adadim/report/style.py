"""What every figure looks like: colours, line styles, fonts and frames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

from adadim.report.drawing import Axes, Legend, style

__all__ = ["COLOURS", "MARKERS", "PANEL", "STYLES", "figure_style", "literal_texts", "look", "tidy"]

# Okabe and Ito's colours, which colour-blind readers can tell apart; line styles and markers serve print in grey.
COLOURS = ("#0072B2", "#000000", "#D55E00", "#CC79A7", "#009E73", "#E69F00", "#56B4E9", "#F0E442")
STYLES = ("-", "--", "-", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("s", "x", "o", "v", "^", "D", "P", "*")

PANEL = (4.8, 3.5)
"""Width and height of one panel in inches."""

# Fonts go into a PDF as TrueType, which publishers want.
SETTINGS: list[Any] = [
    "default",
    {
        "axes.labelsize": 9,
        "font.size": 9,
        "legend.fontsize": 8,
        "pdf.fonttype": 42,
        "svg.hashsalt": "adadim",
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
    },
]


def figure_style() -> AbstractContextManager[None]:
    """Settings of matplotlib in which figures are drawn and saved, whatever the reader's matplotlibrc says."""
    return style.context(SETTINGS)


def look(i: int, colours: Sequence[str] = COLOURS, width: float = 1.4) -> dict[str, Any]:
    """Colour, line style, marker and line width of the i-th policy; a colour that comes again has another style.

    Examples
    --------
    >>> look(0)
    {'color': '#0072B2', 'linestyle': '-', 'marker': 's', 'linewidth': 1.4}
    >>> look(8)["color"], look(8)["marker"]
    ('#0072B2', 'x')
    """
    turn, k = divmod(i, len(colours))
    j = (k + turn) % len(MARKERS)
    return {"color": colours[k], "linestyle": STYLES[j], "marker": MARKERS[j], "linewidth": width}


def tidy(axis: Axes, from_zero: bool = False) -> None:
    """Take away the frame above and on the right, add a faint grid, and let the vertical axis start at 0 if asked."""
    axis.spines[["top", "right"]].set_visible(False)
    if from_zero:
        axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25, linewidth=0.5)


def literal_texts(legend: Legend, texts: Collection[str] | None = None) -> None:
    """Show names in a legend as they are, dollar signs included; by default all, else those in `texts`."""
    for text in legend.get_texts():
        text.set_parse_math(texts is not None and text.get_text() not in texts)
