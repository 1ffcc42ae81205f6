"""What every figure looks like: fonts, frames and colours, and the parts of matplotlib that figures use.

Figures are drawn and saved without a window, so the variable MPLBACKEND, which notebooks set for their own Python, does
not matter here; matplotlib would refuse to be imported where it names a backend that is not installed.
"""

from __future__ import annotations

import contextlib
import io
import os
import textwrap
from collections.abc import Collection, Iterator
from typing import Any


@contextlib.contextmanager
def _no_backend() -> Iterator[None]:
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        yield
        if backend:
            import matplotlib

            with contextlib.suppress(ValueError):  # what the caller's own pyplot would have set
                matplotlib.rcParams["backend"] = backend
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


with _no_backend():
    from matplotlib import colormaps as colormaps
    from matplotlib import style
    from matplotlib.axes import Axes as Axes
    from matplotlib.cm import ScalarMappable as ScalarMappable
    from matplotlib.colors import Normalize as Normalize
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend


class NotebookFigure(Figure):
    """A figure that notebooks show by itself, without pyplot and its backends."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


# Okabe and Ito's colours, which colour-blind readers can tell apart, for curves that are no policy's.
COLOURS = ("#0072B2", "#000000", "#D55E00", "#CC79A7", "#009E73", "#E69F00", "#56B4E9")
PANEL = (4.8, 3.5)  # width and height of one panel in inches

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


def figure_style() -> contextlib.AbstractContextManager[None]:
    """Settings of matplotlib in which figures are drawn and saved, whatever the reader's matplotlibrc says."""
    return style.context(SETTINGS)


def heading(figure: NotebookFigure, title: str | None, caption: str) -> None:
    """Write the title, if there is one, and the caption above a figure, in as many lines as its width needs."""
    width = max(40, int(figure.get_figwidth() * 72 / 5.4))  # letters, of 5.4 points each
    lines = [*([title] if title else []), *caption.split("\n")]
    wrapped = [textwrap.fill(line, width, break_on_hyphens=False, break_long_words=False) for line in lines]
    figure.suptitle("\n".join(wrapped), fontsize=9, parse_math=False)


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
