"""What a certificate costs where the policy is good, and what it saves where the policy is bad.

K arms on the unit sphere, theta of norm 1 in all d features: mean regret over some trials, share of the rounds in
which the policy was overruled, and mean of the bound on the regret that was certain in the end.

    python examples/certified.py
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

import adadim

SIZES = {20: 100, 60: 200}  # arms by the number of features


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--horizon", type=int, default=20_000)
    arguments = parser.parse_args()
    title = f"after {arguments.horizon} rounds, {arguments.trials} trials"
    table = Table("features", "policy", "regret", "overruled", "certain", "promised", title=title)
    for dim, arms in SIZES.items():
        instance = adadim.instances.sphere(
            arms=arms, dim=dim, intrinsic_dim=dim, horizon=arguments.horizon, replications=range(arguments.trials)
        )
        good = adadim.LinUCB(ridge=0.01, scale=0.35)
        played = {"LinUCB 0.35": good, "recommended": adadim.recommended(instance.problem), "greedy": adadim.Greedy()}
        for name, policy in played.items():
            alone = adadim.simulate(policy, instance)
            table.add_row(str(dim), name, f"{alone.final.mean():.1f}")
            for mu in (0.25, 1.0):
                outcome = adadim.simulate(adadim.Certified(policy, mu=mu), instance)
                certificates = outcome.learner.certificate()
                share = np.mean([certificate.overruled for certificate in certificates]) / arguments.horizon
                certain = np.mean([certificate.regret_at_most for certificate in certificates])
                promised = f"{certificates[0].promised:,.0f}"
                cells = f"{outcome.final.mean():.1f}", f"{share:.2%}", f"{certain:,.0f}", promised
                table.add_row(str(dim), f"  certified, mu = {mu:g}", *cells)
        optimist = adadim.LinUCB(radius="oful", ridge=0.025 * dim)
        table.add_row(str(dim), "the optimist of the proof", f"{adadim.simulate(optimist, instance).final.mean():.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
