"""The kit that every experiment reports with: figures, tables, intervals, and a web page (`page`)."""

from typing import TYPE_CHECKING

from adadim.core.on_demand import on_demand as _on_demand
from adadim.report.looks import register_look
from adadim.report.text import label, markdown_table, policy_label, title

__all__ = [
    "Band",
    "draw",
    "draw_and_save",
    "label",
    "markdown_table",
    "plot",
    "policy_label",
    "register_look",
    "save",
    "summary",
    "title",
]

if TYPE_CHECKING:
    from adadim.report.figures import Band, draw, draw_and_save, plot, save, summary
else:  # these need matplotlib
    __getattr__, __dir__ = _on_demand(
        __name__,
        {name: f"adadim.report.figures:{name}" for name in __all__ if name not in globals()},
    )
