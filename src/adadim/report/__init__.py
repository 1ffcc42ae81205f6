"""What the results look like: figures and claims."""

from adadim.report.claims import Claim, Verdict, claims, claims_markdown, claims_table
from adadim.report.figures import Band, draw, save, summary, write_whole

__all__ = [
    "Band",
    "Claim",
    "Verdict",
    "claims",
    "claims_markdown",
    "claims_table",
    "draw",
    "save",
    "summary",
    "write_whole",
]
