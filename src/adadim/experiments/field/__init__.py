"""Other people's tables: experiments of papers whose algorithms are here, and verdicts on their numbers."""

from adadim.experiments.field.analysis import Row, rows, rows_markdown, sphere_rows, z_text
from adadim.experiments.field.learners import SphereTS, play_on_sphere
from adadim.experiments.field.plan import TABLES, Reported, Table, study

__all__ = [
    "TABLES",
    "Reported",
    "Row",
    "SphereTS",
    "Table",
    "play_on_sphere",
    "rows",
    "rows_markdown",
    "sphere_rows",
    "study",
    "z_text",
]
