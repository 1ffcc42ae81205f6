"""The comparison: every policy of the library on families of problems that differ in kind.

`study` runs one group of families; `ratios` and `policy_summaries` say what came of it, `comparison_markdown` and
`draw_ratios` show it.
"""

from typing import TYPE_CHECKING

from adadim.core.on_demand import on_demand as _on_demand
from adadim.experiments.comparison.analysis import (
    PolicySummary,
    Ratio,
    comparison_markdown,
    policy_summaries,
    ratios,
    ratios_table,
)
from adadim.experiments.comparison.families import FAMILIES, SPLITS, Family, Split
from adadim.experiments.comparison.plan import ORACLE, PUBLISHED, policies, study

__all__ = [
    "FAMILIES",
    "ORACLE",
    "PUBLISHED",
    "SPLITS",
    "Family",
    "PolicySummary",
    "Ratio",
    "Split",
    "comparison_markdown",
    "draw_ratios",
    "draw_summary",
    "policies",
    "policy_summaries",
    "ratios",
    "ratios_table",
    "study",
]

if TYPE_CHECKING:
    from adadim.experiments.comparison.figures import draw_ratios, draw_summary
else:  # these need matplotlib
    __getattr__, __dir__ = _on_demand(
        __name__, {name: f"{__name__}.figures:{name}" for name in __all__ if name not in globals()}
    )
