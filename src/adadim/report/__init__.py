"""What the results look like: figures and claims."""

from adadim.report.claims import Claim, Verdict, claims, claims_markdown
from adadim.report.figures import Band, draw, save, summary, write_whole

__all__ = ["Band", "Claim", "Verdict", "claims", "claims_markdown", "draw", "save", "summary", "write_whole"]
