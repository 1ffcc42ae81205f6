"""Other people's tables: experiments of papers whose algorithms are here, and verdicts on their numbers."""

from adadim.core.on_demand import on_demand as _on_demand
from adadim.experiments.field.analysis import Row, rows, rows_markdown, sphere_rows, z_text
from adadim.experiments.field.learners import SphereTS, play_on_sphere
from adadim.experiments.field.plan import TABLES, PublishedTable, Reported, study

__all__ = [
    "TABLES",
    "PublishedTable",
    "Reported",
    "Row",
    "SphereTS",
    "play_on_sphere",
    "rows",
    "rows_markdown",
    "sphere_rows",
    "study",
    "z_text",
]

__getattr__, __dir__ = _on_demand(__name__, {}, former={"Table": "PublishedTable"})
