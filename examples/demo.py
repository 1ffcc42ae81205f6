"""Who finds out fastest that 4 of 150 features matter?

    python examples/demo.py
    python examples/demo.py --out docs/images

Runs six policies on 300 arms over 1000 rounds, eight times, prints a table and draws out/demo.png. The second line is
how docs/images/demo.png is made.
"""

import argparse
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import adadim
from adadim.report.bootstrap import mean_interval
from adadim.report.looks import looks_of
from adadim.report.style import tidy

parser = argparse.ArgumentParser(description="Compare six policies when 4 of 150 features matter.")
parser.add_argument("--horizon", type=int, default=1000, help="number of rounds")
parser.add_argument("--trials", type=int, default=8, help="number of replications")
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
options = parser.parse_args()

RELEVANT = 4
# Every policy meets the same arms and the same noise in the same replication.
instance = adadim.instances.sphere(
    arms=300, dim=150, intrinsic_dim=RELEVANT, horizon=options.horizon, replications=range(options.trials)
)
POLICIES = {
    "LinUCB, all features": adadim.LinUCB(),
    "Smooth Corral": adadim.SmoothCorral(),
    "Dynamic Balancing": adadim.DynamicBalancing(),
    "LinUCB++": adadim.LinUCBPlusPlus(),
    "recommended": adadim.recommended(instance.problem),
    f"LinUCB, told that {RELEVANT} matter": adadim.LinUCB(dim=RELEVANT),
}
LOOKS = looks_of({name: name for name in POLICIES})  # a policy looks the same in every figure

outcomes = {}
with Progress(console=Console(stderr=True)) as bar:
    for name, policy in POLICIES.items():
        task = bar.add_task(f"{name:<28}", total=options.horizon)
        outcomes[name] = adadim.simulate(
            policy, instance, progress=lambda done, _, task=task: bar.update(task, completed=done)
        )

table = Table(
    "policy", "regret", "95% interval", title=f"Regret after {options.horizon} rounds, {options.trials} replications"
)
figure = Figure(figsize=(6, 4), layout="constrained")
axis = figure.subplots()
for name, outcome in outcomes.items():
    mean, (low, high) = outcome.regret.mean(axis=0), mean_interval(outcome.regret)
    table.add_row(name, f"{mean[-1]:.1f}", f"{low[-1]:.1f} to {high[-1]:.1f}" if options.trials > 1 else "-")
    axis.plot(outcome.times, mean, label=name, markevery=len(mean) // 6 or 1, markersize=5, **LOOKS[name])
    axis.fill_between(outcome.times, low, high, color=LOOKS[name]["color"], alpha=0.15, linewidth=0)
axis.set(xlabel="round", ylabel="cumulative regret", xlim=0)
axis.set_title(
    f"K = 300, d = 150, d* = {RELEVANT}, T = {options.horizon}, noise = 0.1; "
    f"mean over {options.trials} trials, shaded: 95% interval",
    fontsize=8,
)
axis.legend(frameon=False, fontsize=8)
tidy(axis, from_zero=True)
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "demo.png", dpi=150)

console = Console()
console.print(table)
console.print(f"wrote {options.out / 'demo.png'}", highlight=False, soft_wrap=True)
console.print("Next: make reproduce", highlight=False)
