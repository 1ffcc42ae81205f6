"""What the results look like: figures, claims and the standing comparison."""

from adadim.report.claims import Claim, Verdict, claims, claims_markdown, claims_table
from adadim.report.comparison import (
    Ratio,
    Standing,
    comparison_markdown,
    draw_ratios,
    ratios,
    ratios_table,
    standings,
)
from adadim.report.figures import Band, draw, save, summary, write_whole

__all__ = [
    "Band",
    "Claim",
    "Ratio",
    "Standing",
    "Verdict",
    "claims",
    "claims_markdown",
    "claims_table",
    "comparison_markdown",
    "draw",
    "draw_ratios",
    "ratios",
    "ratios_table",
    "save",
    "standings",
    "summary",
    "write_whole",
]
