"""What figures use of matplotlib, imported so that no setting of the environment can forbid it.

Figures are drawn and saved without a window, so the variable MPLBACKEND, which notebooks set for their own Python, does
not matter here; matplotlib would refuse to be imported where it names a backend that is not installed.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator

__all__ = ["Axes", "Figure", "Legend", "Normalize", "ScalarMappable", "colormaps", "style"]


@contextlib.contextmanager
def _no_backend() -> Iterator[None]:
    wanted = os.environ.pop("MPLBACKEND", None)
    try:
        yield
        if wanted:
            import matplotlib

            with contextlib.suppress(ValueError):  # as a reader's own pyplot would find it
                matplotlib.rcParams["backend"] = wanted
    finally:
        if wanted is not None:
            os.environ["MPLBACKEND"] = wanted


with _no_backend():
    from matplotlib import colormaps, style
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure as _Figure
    from matplotlib.legend import Legend


class Figure(_Figure):
    """A figure that notebooks show by itself, without pyplot and its backends."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()
