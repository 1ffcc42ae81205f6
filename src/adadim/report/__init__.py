"""The kit that every experiment reports with: figures, tables, intervals, and what commands share (`console`)."""

from adadim.report.figures import Band, draw, summary
from adadim.report.labels import label, policy_label, title
from adadim.report.looks import register_look
from adadim.report.saving import draw_and_save, save
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
