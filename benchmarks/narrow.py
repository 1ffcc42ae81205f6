"""Every policy of a comparison against the narrow oracle: LinUCB told d*, with a radius as small as theirs.

    adadim study regret --families development --trials 10 --out results/prefix-candidates \\
        --policy evidence --policy prefix --policy prefix-thompson --policy two-prior --policy narrow-oracle \\
        --candidates examples/prefix_candidates.toml
    python benchmarks/narrow.py results/prefix-candidates    # a table as Markdown for each group of families

Median and worst ratio of mean regrets over the families of each group in the folder, with 95% intervals. No family is
left out: where the narrow oracle loses nothing there is no ratio, and the mean regret stands in a column of its own.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from adadim.experiments.comparison import SPLITS, policy_summaries, ratios
from adadim.experiments.comparison.analysis import ratio_text
from adadim.report import label, markdown_table
from adadim.study import Results, load

NARROW = "narrow-oracle"


def with_interval(value: float, low: float, high: float) -> str:
    """A ratio and, if there are trials enough for one, its interval."""
    return ratio_text(value) + (f" ({ratio_text(low)} to {ratio_text(high)})" if math.isfinite(low) else "")


def compared(results: Results) -> str:
    """What was run and the table of one group of families, the smallest worst ratio first."""
    rows = ratios([results], [NARROW])
    lossless = list(dict.fromkeys(row.family for row in rows if math.isnan(row.value)))
    regrets = {(row.family, row.policy): f"{row.regret:.1f}" for row in rows}
    lines = [
        [
            s.policy,
            with_interval(s.median, s.median_low, s.median_high),
            with_interval(s.worst, s.worst_low, s.worst_high),
            s.worst_family,
            *(regrets[family, s.policy] for family in lossless),
        ]
        for s in sorted(policy_summaries([results], [NARROW]), key=lambda s: s.worst)
        if s.policy != NARROW
    ]
    families, trials = len({row.family for row in rows}), min((row.trials for row in rows), default=0)
    heads = ["policy", "median", "worst", "where", *(f"regret, {family}" for family in lossless)]
    return f"{families} {label(results, 'split')} families, {trials} trials each\n\n{markdown_table(heads, lines)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what --out of `adadim study regret` was")
    folder = parser.parse_args().folder
    splits = [split for split in SPLITS if (folder / f"regret-{split}").exists()]
    if not splits:
        parser.error(f"{folder} has no results of `adadim study regret`: folders named regret-development and so on")
    for split in splits:
        results = load(folder / f"regret-{split}")
        if NARROW not in {policy for _, policy in results.cells()}:
            parser.error(f"{folder} has no results of {NARROW}; run the comparison with --policy {NARROW} too")
        print(compared(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
