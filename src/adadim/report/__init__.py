"""The kit that every experiment reports with: figures, tables, intervals, and what commands share (`console`)."""

from typing import TYPE_CHECKING

from adadim.on_demand import on_demand as _on_demand
from adadim.report.labels import label, policy_label, title
from adadim.report.looks import register_look
from adadim.report.tables import markdown_table

__all__ = [
    "Band",
    "draw",
    "draw_and_save",
    "label",
    "markdown_table",
    "policy_label",
    "register_look",
    "save",
    "summary",
    "title",
]

if TYPE_CHECKING:
    from adadim.report.figures import Band, draw, summary
    from adadim.report.saving import draw_and_save, save
else:  # these need matplotlib
    __getattr__, __dir__ = _on_demand(
        __name__,
        {
            "Band": "adadim.report.figures:Band",
            "draw": "adadim.report.figures:draw",
            "draw_and_save": "adadim.report.saving:draw_and_save",
            "save": "adadim.report.saving:save",
            "summary": "adadim.report.figures:summary",
        },
    )
