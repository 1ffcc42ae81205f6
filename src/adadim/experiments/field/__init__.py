"""Other people's tables: experiments of papers whose algorithms are here, and verdicts on their numbers."""

from adadim.experiments.field.plan import TABLES, Reported, Table, study
from adadim.experiments.field.verdicts import Row, rows, rows_markdown

__all__ = ["TABLES", "Reported", "Row", "Table", "rows", "rows_markdown", "study"]
