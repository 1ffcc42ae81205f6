"""How many covariates is a treatment worth choosing by? The ACTG 175 trial, replayed to policies.

    python examples/actg175.py            (half a minute; needs a file of lifelines: pip install --no-deps lifelines)

2,139 patients with HIV were given one of four treatments, drawn with equal probability. A policy is shown one patient
after the other, in random order, and chooses a treatment. Where it chooses what the patient was given, it learns the
CD4 count after 20 weeks, and that count is its own; the others leave no trace. So each policy treats about 530
patients, and their mean count is what it would have reached in a trial that adapts.

Covariates come in the order of what they cost to obtain: demographics, history, the Karnofsky score, lab values. LinUCB
is told how many to use; the others are not. What to expect, and what not:

- To give all patients the best treatment would reach 403. Finding out which one that is costs something.
- Each group of covariates that LinUCB uses costs patients and gives nothing back. If the best treatment depends on any
  of them, it is by less than 2,139 patients can show; the posterior of d* says so too.
- EvidenceLinUCB, which is told nothing, does as well as LinUCB without covariates and with the radius of
  theory, and worse than LinUCB without covariates and with the smaller radius (scale 0.35) that it uses itself.
- The masters gain little in 530 rounds, whatever the unit of the rewards.
- The intervals are over orders of the same patients. They say nothing about other patients: the standard error of the
  mean count of one treatment is 6.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Column, Table

import adadim
from adadim.instances import real

parser = argparse.ArgumentParser(description="Choose treatments in the ACTG 175 trial, by few or many covariates.")
parser.add_argument("--shuffles", type=int, default=50, help="number of orders in which the patients come")
parser.add_argument("--orders", type=int, default=10, help="number of them for the picture's right panel")
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
options = parser.parse_args()

try:
    trial = real.actg175()
except ImportError as error:
    sys.exit(str(error))

MOST = 1200.0  # no count is above; the masters want rewards in [0, 1]
NOISE = 140.0  # about the standard deviation of one treatment's counts, which LinUCB and the masters are told
WITH = {"arm": "no covariates", "arm x demographics": "and demographics", "arm x history": "and history"}
WITH |= {"arm x Karnofsky": "and Karnofsky", "arm x lab": "and lab: all"}


def replayed(unit):
    """The trial with counts in some unit."""
    return adadim.instances.table(
        {**trial.frame, "reward": trial.frame["cd420"] / unit},
        reward="reward",
        arm="arms",
        features=trial.features,
        noise=NOISE / unit,
        replications=range(options.shuffles),
    )


def linucb(scale):
    """LinUCB with more and more covariates."""
    ends = {WITH[level]: end for level, end in trial.levels().items() if level in WITH}
    return {f"LinUCB({scale:g}), {text}": adadim.LinUCB(dim=end, scale=scale) for text, end in ends.items()}


scaled, raw = replayed(MOST), replayed(1.0)
# LinUCB with the radius of theory, and with the smaller one that EvidenceLinUCB uses inside.
policies = {
    "at random": adadim.Random(),
    "EvidenceLinUCB": adadim.EvidenceLinUCB(),
    **linucb(1.0),
    **linucb(0.35),
    "Corral": adadim.Corral(),
    "Dynamic Balancing": adadim.DynamicBalancing(),
}
runs = {name: (policy, scaled, MOST) for name, policy in policies.items()}
runs["Corral, raw counts"] = (adadim.Corral(loss_range=(0.0, MOST)), raw, 1.0)
runs["Dynamic Balancing, raw counts"] = (adadim.DynamicBalancing(), raw, 1.0)

names = Column("policy", min_width=len("EvidenceLinUCB"))  # longer ones are broken between words
table = Table(names, title=f"ACTG 175: mean CD4 count after 20 weeks, {options.shuffles} orders of the patients")
table.add_column("CD4", justify="right")
table.add_column("patients", justify="right")
for name in ("ZDV", "ZDV+ddI", "ZDV+ddC", "ddI"):
    table.add_column(name, justify="right")
reached = {}
for name, (policy, instance, unit) in runs.items():
    outcome = adadim.simulate(policy, instance)
    means = unit * outcome.mean
    error = means.std(ddof=1) / np.sqrt(options.shuffles) if options.shuffles > 1 else 0.0
    reached[name] = (means.mean(), 1.96 * error)
    shares = outcome.pulls.sum(axis=0) / outcome.pulls.sum()
    cells = (f"{means.mean():.1f} +/- {1.96 * error:.1f}", f"{outcome.matched.mean():.0f}")
    table.add_row(name, *cells, *(f"{share:.0%}" for share in shares))

figure = Figure(figsize=(9.5, 3.8), layout="constrained")
left, right = figure.subplots(1, 2)
texts = list(WITH.values())
for scale, colour, style in ((1.0, "#0072B2", "-"), (0.35, "#56B4E9", "--")):
    values, errors = np.array([reached[f"LinUCB({scale:g}), {text}"] for text in texts]).T
    look = {"color": colour, "linestyle": style, "marker": "o", "capsize": 3}
    left.errorbar(range(len(texts)), values, errors, label=f"LinUCB(scale={scale:g})", **look)
looks = (("EvidenceLinUCB", "#D55E00", "-"), ("Dynamic Balancing", "#009E73", "--"), ("Corral", "#CC79A7", "-."))
for name, colour, style in (*looks, ("at random", "#999999", ":")):
    value, error = reached[name]
    left.axhline(value, color=colour, linestyle=style, label=name)
    left.axhspan(value - error, value + error, color=colour, alpha=0.15, linewidth=0)
left.set_xticks(range(len(texts)), texts, rotation=20, ha="right")
left.set(ylabel="mean CD4 count after 20 weeks", title="What policies reach in about 530 patients")
left.set_ylim(top=left.get_ylim()[1] + 4)  # room for the legend
left.legend(frameon=False, fontsize="small", loc="upper right", ncols=2)

console = Console()
console.print(table)
counts = trial.frame["cd420"]
for shared in (False, True):
    found = adadim.dimension(trial.choices(shared)[0], counts, levels=trial.levels(shared))
    kind = "what covariates say of all treatments counted first" if shared else "a model for each treatment"
    console.print(f"{kind}: {found}", highlight=False, soft_wrap=True)

# The same posterior from fewer patients, in some orders: do treatments differ, and does it depend on whom they are for?
levels, (features, _) = trial.levels(shared=True), trial.choices(shared=True)
sizes = [50, 100, 200, 400, 800, 1400, len(trial)]
differ, depend = (np.empty((options.orders, len(sizes))) for _ in range(2))
for order in range(options.orders):
    rows = np.random.default_rng(order).permutation(len(trial))
    for i, size in enumerate(sizes):
        some = rows[:size]
        tail = adadim.dimension(features[some], counts[some], levels=levels).tail
        differ[order, i], depend[order, i] = tail[levels["arm"] - 1], tail[levels["arm"]]
for probabilities, colour, text in (
    (differ, "#0072B2", "treatments differ"),
    (depend, "#E69F00", "which is best depends on covariates"),
):
    right.plot(sizes, probabilities.T, color=colour, linewidth=0.5, alpha=0.4)
    right.plot(sizes, probabilities.mean(axis=0), color=colour, marker="o", label=text)
right.set(xlabel="patients", ylabel="probability", title="What the trial says", ylim=(-0.02, 1.02))
right.legend(frameon=False, fontsize="small", loc="center right")
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "actg175.png", dpi=150)
console.print(f"wrote {options.out / 'actg175.png'}", highlight=False, soft_wrap=True)
