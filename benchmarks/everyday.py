"""The recommended policy against its rule: mean, median and largest regret on every family of some groups.

    python benchmarks/everyday.py everyday --trials 20            # development
    python benchmarks/everyday.py everyday-held-out --trials 20   # what was not looked at before the choice
    python benchmarks/everyday.py development contexts --trials 10 --only NAME --only NAME
    python benchmarks/everyday.py cost                            # processor time, in units of EvidenceLinUCB()'s

A cell is mean / median / largest regret. The rule of docs/notebook/how-the-default-was-chosen.md: at most 1.2 times the
mean of LinUCB with the same factor on the radius, no trial above a fifth of what uniform play loses, and then the
geometric mean of the ratios to the narrow oracle (where d* = 1, both count as at least 1% of what uniform play loses).
"over" says by how much a policy misses the stricter of the two conditions, at its worst family; 1 or less is no miss.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np

import adadim
from adadim.core.codec import parse_policy
from adadim.experiments.comparison import FAMILIES, SPLITS
from adadim.policies.linear.evidence import RECOMMENDED
from adadim.report import markdown_table
from adadim.study import from_spec, instance_kinds
from adadim.study.kinds import make_instance

WIDTH = 0.35
POLICIES: dict[str, Any] = {
    "recommended": RECOMMENDED,
    "EvidenceLinUCB()": adadim.EvidenceLinUCB(),
    "LinUCB": adadim.LinUCB(scale=WIDTH),
    "narrow oracle": None,
    "uniform": adadim.Random(),
}


def regrets(table: dict[str, Any], trials: int, policies: dict[str, Any]) -> dict[str, np.ndarray]:
    """Final regrets (trials,) of each policy on one family."""
    parameters = {key: value for key, value in table.items() if key != "kind"}
    drawn = make_instance(instance_kinds()[table["kind"]], parameters, range(trials), seed=0)
    narrow = adadim.LinUCB(dim=table["intrinsic_dim"], scale=WIDTH)
    return {name: adadim.simulate(policy or narrow, drawn, record=1).final for name, policy in policies.items()}


def cost(turns: int = 7) -> None:
    """Print the processor time of whole runs of the recommended policy, in units of `EvidenceLinUCB()`'s."""
    sizes = {"horizon": 2500, "intrinsic_dim": 6, "noise": 0.1, "replications": range(4)}
    problems = [(adadim.instances.sphere, *size) for size in ((30, 10), (200, 50), (400, 200))]
    problems += [(adadim.instances.contexts, *size) for size in ((10, 20), (40, 65))]
    lines = []
    for make, arms, dim in problems:
        instance = make(arms=arms, dim=dim, **sizes)
        seconds: dict[str, list[float]] = {"recommended": [], "EvidenceLinUCB()": []}
        for policy in [*seconds] * turns:  # in turns, so that a machine whose speed changes changes both
            begun = time.process_time()
            adadim.simulate(POLICIES[policy], instance, record=1)
            seconds[policy].append(time.process_time() - begun)
        least, decisions = [min(values) for values in seconds.values()], 4 * sizes["horizon"]
        name = f"{make.__name__}, {arms} arms, {dim} features"
        lines.append([name, *(f"{value / decisions * 1e6:.1f}" for value in least), f"{least[0] / least[1]:.2f}"])
    print(markdown_table(["us a decision", "recommended", "EvidenceLinUCB()", "ratio"], lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="+", choices=[*SPLITS, "cost"], help="groups of families, or processor times")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--only", action="append", help="a family by name; by default all of the groups")
    parser.add_argument("--candidate", action="append", default=[], help="e.g. 'EvidenceLinUCB(intercept=True)'")
    options = parser.parse_args()
    if "cost" in options.groups:
        cost()
        return 0
    candidates = {text: from_spec(parse_policy(text)) for text in options.candidate}
    policies = {"recommended": POLICIES["recommended"], **candidates, **POLICIES}
    warnings.simplefilter("ignore", adadim.NormWarning)
    lines, over, ratios = [], {name: [] for name in policies}, {name: [] for name in policies}
    for family in FAMILIES:
        if family.split not in options.groups or (options.only and family.name not in options.only):
            continue
        finals = regrets(family.instance, options.trials, policies)
        print(f"{family.name}: {finals['recommended'].mean():.1f}", file=sys.stderr, flush=True)
        uniform, linear = finals["uniform"].mean(), finals["LinUCB"].mean()
        least = 0.01 * uniform if family.instance["intrinsic_dim"] == 1 else 0.0
        cells = [f"{r.mean():.0f} / {np.median(r):.0f} / {r.max():.0f}" for r in finals.values()]
        lines.append([family.name, *cells[:-1], f"{uniform:.0f}"])
        for name, r in finals.items():
            over[name].append(max(r.mean() / (1.2 * linear), r.max() / (0.2 * uniform)))
            ratios[name].append(max(r.mean(), least) / max(finals["narrow oracle"].mean(), least))
    print(markdown_table(["family", *list(policies)[:-1], "uniform"], lines))
    for name in list(policies)[:-1]:
        middle = np.exp(np.mean(np.log(ratios[name])))
        missed = sum(value > 1 for value in over[name])
        print(f"{name}: {middle:.2f} of the narrow oracle, over {max(over[name]):.2f}, {missed} families missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
