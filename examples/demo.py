"""Who finds out fastest that 4 of 150 features matter?

    python examples/demo.py

Runs five policies on 300 arms over 1000 rounds, eight times, prints a table and draws out/demo.png.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import adadim

parser = argparse.ArgumentParser(description="Compare five policies when 4 of 150 features matter.")
parser.add_argument("--horizon", type=int, default=1000, help="number of rounds")
parser.add_argument("--trials", type=int, default=8, help="number of replications")
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
options = parser.parse_args()

RELEVANT = 4
POLICIES = {
    "LinUCB, all features": adadim.LinUCB(),
    "Smooth Corral": adadim.SmoothCorral(),
    "Dynamic Balancing": adadim.DynamicBalancing(),
    "LinUCB++": adadim.LinUCBPlusPlus(),
    f"LinUCB, told that {RELEVANT} matter": adadim.LinUCB(dim=RELEVANT),
}
STYLES = zip(("#0072B2", "#009E73", "#E69F00", "#D55E00", "#000000"), ("-", ":", "-.", "-", "--"), strict=True)

# Every policy meets the same arms and the same noise in the same replication.
instance = adadim.instances.sphere(
    arms=300, dim=150, intrinsic_dim=RELEVANT, horizon=options.horizon, replications=range(options.trials)
)
outcomes = {}
with Progress(console=Console(stderr=True)) as bar:
    for name, policy in POLICIES.items():
        task = bar.add_task(f"{name:<28}", total=options.horizon)
        outcomes[name] = adadim.simulate(
            policy, instance, progress=lambda done, _, task=task: bar.update(task, completed=done)
        )

table = Table("policy", "regret", "+/-", title=f"Regret after {options.horizon} rounds, {options.trials} replications")
figure = Figure(figsize=(6, 4), layout="constrained")
axis = figure.subplots()
for (name, outcome), (colour, style) in zip(outcomes.items(), STYLES, strict=True):
    error = outcome.regret.std(axis=0, ddof=1) / np.sqrt(options.trials) if options.trials > 1 else 0.0
    mean = outcome.regret.mean(axis=0)
    table.add_row(name, f"{mean[-1]:.1f}", f"{1.96 * np.broadcast_to(error, mean.shape)[-1]:.1f}")
    axis.plot(outcome.times, mean, label=name, color=colour, linestyle=style)
    axis.fill_between(outcome.times, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.15, linewidth=0)
axis.set(xlabel="round", ylabel="cumulative regret", xlim=0, ylim=0)
axis.set_title(f"{RELEVANT} of 150 features matter; mean and 95% confidence interval", fontsize=10)
axis.legend(frameon=False)
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "demo.png", dpi=150)

console = Console()
console.print(table)
console.print(f"wrote {options.out / 'demo.png'}", highlight=False, soft_wrap=True)
console.print("Next: adadim reproduce fig2a --trials 20", highlight=False)
