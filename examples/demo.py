"""Who finds out fastest that 4 of 150 features matter?

    python examples/demo.py
    python examples/demo.py --out docs/images

Runs six policies on 300 arms over 1000 rounds, eight times, with the constants of their authors and tuned, prints a
table and draws out/demo.png. The second line is how docs/images/demo.png is made.
"""

import argparse
import math
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
ORACLE = f"LinUCB, told d* = {RELEVANT}"
PUBLISHED = {
    "LinUCB, all features": adadim.LinUCB(),
    "Smooth Corral": adadim.SmoothCorral(),
    "Dynamic Balancing": adadim.DynamicBalancing(),
    "LinUCB++": adadim.LinUCBPlusPlus(),
    "recommended": adadim.recommended(instance.problem),
    ORACLE: adadim.LinUCB(dim=RELEVANT),
}
# The setting of each of the others that one rule chose on other problems: "As published, and tuned" in
# docs/notebook/field.md.
NARROW, HALF = adadim.LinUCB(scale=0.35), (-0.5, 0.5)
RATE = min(40 / math.sqrt(options.horizon), 1.0)
TUNED = {
    "LinUCB, all features": adadim.LinUCB(scale=0.2),
    "Smooth Corral": adadim.SmoothCorral(base=NARROW, eta=RATE, loss_range=HALF),
    "Dynamic Balancing": adadim.DynamicBalancing(base=NARROW, bound="sqrt", c=0.1),
    "LinUCB++": adadim.LinUCBPlusPlus(reuse=True, scale=0.35),
    "recommended": PUBLISHED["recommended"],  # as it is
    ORACLE: adadim.LinUCB(dim=RELEVANT, ridge=0.01, scale=0.35),
}
PANELS = {"published": PUBLISHED, "tuned": TUNED}
LOOKS = looks_of({name: name for name in PUBLISHED})  # a policy looks the same in every figure

outcomes = {}
with Progress(console=Console(stderr=True)) as bar:
    for panel, policies in PANELS.items():
        for name, policy in policies.items():
            task = bar.add_task(f"{name}, {panel}".ljust(40), total=options.horizon)
            outcomes[panel, name] = adadim.simulate(
                policy, instance, progress=lambda done, _, task=task: bar.update(task, completed=done)
            )

columns = [heading for panel in PANELS for heading in (panel, "95%")]
table = Table("policy", *columns, title=f"Regret after {options.horizon} rounds, {options.trials} replications")
figure = Figure(figsize=(8, 4), layout="constrained")
axes = figure.subplots(1, 2, sharey=True)
for name in PUBLISHED:
    cells = []
    for panel, axis in zip(PANELS, axes, strict=True):
        outcome = outcomes[panel, name]
        mean, (low, high) = outcome.regret.mean(axis=0), mean_interval(outcome.regret)
        cells += [f"{mean[-1]:.1f}", f"{low[-1]:.1f} to {high[-1]:.1f}" if options.trials > 1 else "-"]
        axis.plot(outcome.times, mean, label=name, markevery=len(mean) // 6 or 1, markersize=5, **LOOKS[name])
        axis.fill_between(outcome.times, low, high, color=LOOKS[name]["color"], alpha=0.15, linewidth=0)
    table.add_row(name, *cells)
for panel, axis in zip(PANELS, axes, strict=True):
    axis.set(xlabel="round", xlim=0)
    axis.set_title("tuned" if panel == "tuned" else "as published", fontsize=9)
    tidy(axis, from_zero=True)
axes[0].set_ylabel("cumulative regret")
axes[1].legend(frameon=False, fontsize=8, loc="upper left")
figure.suptitle(
    f"K = 300, d = 150, d* = {RELEVANT}, T = {options.horizon}, noise = 0.1; "
    f"mean over {options.trials} trials, shaded: 95% interval",
    fontsize=8,
)
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "demo.png", dpi=150)

console = Console()
console.print(table)
console.print(f"wrote {options.out / 'demo.png'}", highlight=False, soft_wrap=True)
console.print("Next: make reproduce", highlight=False)
