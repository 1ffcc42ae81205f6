"""What do late rewards cost?

    python examples/late.py
    python examples/late.py --out docs/images

Policies that take late rewards, on 60 arms of the unit sphere of R^20, of whose features 4 matter. Each reward is known
a fixed number of rounds after its decision. Prints the regrets, and draws which share of what can be earned over chance
is earned: late.png in the folder. The second line is how docs/images/late.png is made.
"""

import argparse
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import adadim
from adadim.policies.linear.evidence import RECOMMENDED
from adadim.report.looks import looks_of
from adadim.report.style import tidy

parser = argparse.ArgumentParser(description="Regret against the delay of the rewards.")
parser.add_argument("--horizon", type=int, default=6000, help="number of rounds")
parser.add_argument("--trials", type=int, default=4, help="number of replications")
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
parser.add_argument("--results", type=Path, default=Path("results/late"), help="folder for what was computed")
parser.add_argument("--jobs", type=int, help="processes; by default one for each core")
options = parser.parse_args()

DELAYS = [delay for delay in (0, 10, 30, 100, 300, 1000, 3000) if delay < options.horizon]
POLICIES = {
    "recommended": RECOMMENDED,
    "EvidenceLinUCB": adadim.EvidenceLinUCB(),
    "PrefixLinUCB": adadim.PrefixLinUCB(),
    "TwoPriorLinUCB": adadim.TwoPriorLinUCB(),
    "TaperedLinUCB": adadim.TaperedLinUCB(),
    "LinUCB": adadim.LinUCB(),
    "LinTS": adadim.LinTS(),
    "Greedy": adadim.Greedy(),
    "UCB": adadim.UCB(),
}
LOOKS = looks_of(POLICIES)  # a policy looks the same in every figure

sphere = {"kind": "sphere", "arms": 60, "dim": 20, "intrinsic_dim": 4, "horizon": options.horizon, "noise": 0.3}
plan = adadim.study.Study(
    name="late",
    instances={f"delay {delay}": {**sphere, "delay": delay} for delay in DELAYS},
    policies={**POLICIES, "chance": adadim.Random()},
    trials=options.trials,
    record=1,
    only={"chance": ["delay 0"]},
)
results = adadim.study.run(plan, options.results, jobs=options.jobs)
chance = results.final("delay 0", "chance").mean()
regrets = {name: [results.final(instance, name).mean() for instance in plan.instances] for name in POLICIES}

title = f"Regret after {options.horizon} rounds, {options.trials} replications; by chance {chance:.0f}"
table = Table("policy", *plan.instances, title=title)
figure = Figure(figsize=(6.4, 4.2), layout="constrained")
axis = figure.subplots()
for name, values in regrets.items():
    table.add_row(name, *(f"{value:.0f}" for value in values))
    axis.plot(DELAYS, [1 - value / chance for value in values], label=name, markersize=5, **LOOKS[name])
blind = [1 - (delay + 1) / options.horizon for delay in DELAYS]  # by chance until the first reward, then the best arm
axis.plot(DELAYS, blind, color="black", linewidth=0.8, label="chance until the first reward, then the best")
axis.set_xscale("symlog", linthresh=10)
axis.set_xticks(DELAYS, [str(delay) for delay in DELAYS])
axis.minorticks_off()
axis.set(xlabel="delay in rounds", ylabel="share of what can be earned over chance", xlim=0, ylim=(0, 1.02))
axis.set_title(
    f"K = 60, d = 20, d* = 4, T = {options.horizon}, noise = 0.3; mean over {options.trials} trials", fontsize=8
)
axis.legend(frameon=False, fontsize=8, loc="lower left")
tidy(axis)
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "late.png", dpi=150)

console = Console()
console.print(table)
console.print(f"wrote {options.out / 'late.png'}", highlight=False, soft_wrap=True)
