"""The paper's experiments: its policies, its figures as studies, and verdicts on its claims."""

from adadim.experiments.paper.analysis import Verdict, claims, claims_markdown, claims_table
from adadim.experiments.paper.plan import FIGURES, VARIANTS, Figure, Variant, policies, study, unvaried, vary

__all__ = [
    "FIGURES",
    "VARIANTS",
    "Figure",
    "Variant",
    "Verdict",
    "claims",
    "claims_markdown",
    "claims_table",
    "policies",
    "study",
    "unvaried",
    "vary",
]
