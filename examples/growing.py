"""What does it cost that arms arrive while the problem is played?

    python examples/growing.py

Arms on the unit sphere of R^100, of whose features 4 matter. In the first column all are there from the start. In the
others 20 are, and the rest arrive at even distances over the horizon; the best arm is one of the 20 (what the paper's
remark on growing sets asks for), or comes after half of the rounds, or after nine tenths. Regret is against the best
arm that is there.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

import adadim

parser = argparse.ArgumentParser(description="Compare policies on arms that arrive.")
parser.add_argument("--horizon", type=int, default=2500, help="number of rounds")
parser.add_argument("--arms", type=int, default=200, help="number of arms in the end")
parser.add_argument("--trials", type=int, default=20, help="number of replications")
options = parser.parse_args()

POLICIES = {
    "UCB": adadim.UCB(),
    "LinUCB": adadim.LinUCB(),
    "LinUCB, told that 4 matter": adadim.LinUCB(dim=4),
    "LinUCB++": adadim.LinUCBPlusPlus(),
    "EvidenceLinUCB": adadim.EvidenceLinUCB(),
}
WHEN = {
    "all there": {"initial_arms": options.arms},
    "arriving": {"initial_arms": 20},
    "best at T/2": {"initial_arms": 20, "best": options.horizon // 2},
    "best at 9T/10": {"initial_arms": 20, "best": options.horizon * 9 // 10},
}

table = Table("policy", *WHEN, title=f"Regret after {options.horizon} rounds, {options.trials} replications")
found = {}
for when, settings in WHEN.items():
    instance = adadim.instances.growing(
        arms=options.arms,
        dim=100,
        intrinsic_dim=4,
        horizon=options.horizon,
        replications=range(options.trials),
        **settings,
    )
    for name, policy in POLICIES.items():
        final = adadim.simulate(policy, instance).final
        error = 1.96 * final.std(ddof=1) / np.sqrt(len(final)) if len(final) > 1 else 0.0
        found[name, when] = f"{final.mean():.1f} ± {error:.1f}"
for name in POLICIES:
    table.add_row(name, *(found[name, when] for when in WHEN))
Console().print(table)
