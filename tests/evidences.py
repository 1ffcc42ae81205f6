"""Log evidence of every ridge, from rows as a regression has them."""

from adadim.models.priors import RELATIVE_RIDGES, log_evidences
from adadim.models.statistics import QuadraticForm


def evidence_of_rows(design, sums, squares, n):
    """Log evidence and noise variance of each of `RELATIVE_RIDGES`; rows are weighted by the root of their counts."""
    wide = len(design) <= design.shape[1]
    form = (
        QuadraticForm(design @ design.T, sums, float(sums @ sums))
        if wide
        else QuadraticForm(design.T @ design, design.T @ sums)
    )
    logs, variances = log_evidences([[form]], squares, n, RELATIVE_RIDGES)
    return logs[0], variances[0]
