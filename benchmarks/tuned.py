"""Every system twice: with the constants that its authors give, and tuned, all by one rule and with one budget.

    python benchmarks/tuned.py results/tuned --run      # plays what is missing (core-hours)
    python benchmarks/tuned.py results/tuned            # the tables as Markdown
    python benchmarks/tuned.py results/tuned --picture docs/images/tuned.png   # held-out families, both settings
    python benchmarks/tuned.py results/tuned --figure-2b docs/images/field-fig2b.png   # the same on figure 2b
    python benchmarks/tuned.py results/tuned --chosen   # every setting of every system on the development families

The rule, fixed before anything was run. A system has at most twelve settings of what its authors leave open: the factor
on the radius of its bases, learning rates, constants of its test, what its bases are (`SYSTEMS`); the first is the
published one. Its tuned setting is the one of the smallest geometric mean, over the 22 development families of the
standing comparison, of mean regret as a share of what uniform play loses; a share below 1% counts as 1%, since where
d* = 1 some settings lose nothing. If two are equal, the first of the list. Both, published and tuned, are then reported
on the 22 held-out families and on the paper's six figures, with every d* that they have, which had no part in the
choice. 10 trials each, replications 0 to 9 of seed 0, the same instances and noise for all.

The recommended policy has a row like all others. It has one advantage that this table cannot take away: the twelve
settings listed for it were written by people who had seen it play on the development families before.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import adadim
from adadim import policies as library
from adadim.core.files import write_atomic
from adadim.experiments.comparison import FAMILIES
from adadim.experiments.comparison.plan import policies as compared
from adadim.experiments.paper.plan import FIGURES
from adadim.policies.masters.base import SqrtBound, SqrtLogBound
from adadim.report import markdown_table
from adadim.report.looks import ORACLE_KEY as ORACLE_LOOK
from adadim.report.looks import look_of
from adadim.report.style import figure_style, heading, tidy
from adadim.study import instance_kinds
from adadim.study.kinds import make_instance
from adadim.study.source import present

TRIALS, BUDGET, LEAST = 10, 12, 0.01
ON_FIGURE_2B = (
    "oracle", "linucb++", "recommended", "linucb++corral", "smooth-corral", "corral", "dynamic-balancing",
    "bound-balancing", "regret-balancing", "d3rb", "ed2rb", "bandit-combiner", "tsallis-corral", "ucb-corral",
    "epoch-balancing", "modcb", "osom", "alb-dim", "alb-norm",
)  # fmt: skip
NARROW = 0.35  # factor on the radius of the recommended policy, and of the oracle of the same radius
HALF = (-0.5, 0.5)  # a range of losses half as wide as the safe one

Settings = list[dict[str, Any]]


def grid(**choices: Iterable[Any]) -> Settings:
    """All combinations, the last choice running fastest."""
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


WIDE = (1.0, 0.35, 0.2)
MORE = (1.0, 0.5, 0.35, 0.2)
SEVERAL_TAPERS = {"taper": (0.0, 0.9, 1.75), "intercept": True}

# What is tried of each system, the published setting first. "radius" is the factor on the radius of the bases, "rate" a
# learning rate in units of 1/sqrt(T), "noises" a width in units of the default's, "phase" a length in units of sqrt(T).
SYSTEMS: dict[str, Settings] = {
    "recommended": [
        *(SEVERAL_TAPERS | more for more in grid(scale=(0.35, 0.2, 0.5), doubt=(3.0,), probes=(2,))),
        *(SEVERAL_TAPERS | more for more in grid(scale=(0.35, 0.2, 0.5), doubt=(1.0,), probes=(2, 0))),
        *grid(scale=(0.35, 0.2, 0.5), taper=(1.75,), intercept=(False,), doubt=(1.0,), probes=(0,)),
    ],
    "oracle": grid(ridge=(0.1, 1.0, 0.01), scale=MORE),
    "linucb": grid(ridge=(0.1, 1.0, 0.01), scale=MORE),
    "lints": [*grid(scale=(1.0, 0.5, 0.35, 0.2, 0.1)), {"ridge": 1.0}],
    "greedy": grid(ridge=(0.1, 1.0, 0.01, 10.0)),
    "linucb++": [*grid(reuse=(False, True), scale=MORE), *grid(reuse=(False, True), scale=(0.35,), beta=(0.6, 0.7))],
    "linucb++corral": grid(beta=(0.5, 0.7), loss_range=((-1.0, 1.0), HALF), scale=WIDE),
    "smooth-corral": [
        *grid(radius=WIDE, rate=(1.0, 10.0, 40.0)),
        *grid(radius=(0.35,), rate=(1.0, 10.0, 40.0), loss_range=(HALF,)),
    ],
    "corral": [
        *grid(radius=WIDE, rate=(1.0, 10.0, 40.0)),
        *grid(radius=(0.35,), rate=(1.0, 10.0, 40.0), loss_range=(HALF,)),
    ],
    "dynamic-balancing": grid(bound=("log", "sqrt"), radius=(1.0, 0.35), c=(1.0, 0.3, 0.1)),
    "bound-balancing": [
        *grid(radius=WIDE, c=(1.0, 0.3, 0.1)),
        *grid(radius=(0.35,), c=(1.0, 0.3, 0.1), bound=(SqrtBound(c=0.3),)),
    ],
    "regret-balancing": grid(radius=WIDE, bound=tuple(SqrtBound(c=c) for c in (1.0, 0.3, 0.1, 3.0))),
    "regret-balancing-linear": grid(ridge=(0.1, 1.0), scale=(1.0, 0.5, 0.35, 0.2, 0.1, 0.05)),
    "d3rb": grid(radius=(1.0, 0.35), c=(1.0, 0.2, 0.05), d_min=(1.0, 0.2)),
    "ed2rb": grid(radius=(1.0, 0.35), c=(1.0, 0.2, 0.05), d_min=(1.0, 0.2)),
    "bandit-combiner": grid(radius=(1.0, 0.35, 0.2, 0.1), z=(3.0, 1.0, 0.3)),
    "tsallis-corral": grid(radius=WIDE, eta=(1.0, 4.0), loss_range=((-1.0, 1.0), HALF)),
    "ucb-corral": grid(radius=WIDE, bound=tuple(SqrtLogBound(c=c) for c in (1.0, 0.3, 0.1, 0.03))),
    "epoch-balancing": grid(scale=(1.0, 0.35, 0.2, 0.1), c=(1.0, 0.3, 0.1)),
    "modcb": grid(kappa=(1 / 3, 0.5), exploration=(1.0, 0.3), gamma=(1.0, 10.0, 100.0)),
    "osom": grid(variant=("ellipsoid", "ball"), delta=(None, 0.1), theta_norm=(1.0, 0.35, 0.1)),
    "alb-dim": grid(scale=(1.0, 0.35, 0.2, 0.1), phase=(None, 1.0, 4.0)),
    "alb-norm": grid(scale=(1.0, 0.35, 0.2, 0.1), first_epoch=(100, 20, 500)),
    "suplinucb": grid(ridge=(1.0, 0.1), scale=(1.0, 0.5, 0.35, 0.2, 0.1, 0.05)),
    "ucb": grid(scale=(1.0, 0.5, 0.35, 0.2, 0.1, 0.05)),
    "moss": grid(phase=(None, 1.0), noises=(1.0, 0.5, 0.35, 0.2, 0.1)),
    "moss++": grid(beta=(0.5, 0.6, 0.7), noises=(None, 1.0, 0.35, 0.2)),
    "emp-moss++": grid(beta=(0.5, 0.6, 0.7), noises=(None, 1.0, 0.35, 0.2)),
    "medzo": grid(beta=(0.5, 0.6, 0.7), noises=(None, 1.0, 0.35, 0.2)),
}
UNIFORM = "random"
TITLES = {
    "recommended": "`EvidenceLinUCB` (published: as recommended)",
    "oracle": "`LinUCB(dim=d*)`: the oracle, told d\\*",
    "linucb": "`LinUCB` in all features",
    "lints": "`LinTS` in all features",
    "greedy": "`Greedy` in all features",
    "linucb++": "`LinUCBPlusPlus` (Zhu and Nowak 2022)",
    "linucb++corral": "`LinUCBPlusPlusCorral` (the same)",
    "smooth-corral": "`SmoothCorral` (Pacchiano et al. 2020)",
    "corral": "`Corral` (Agarwal et al. 2017)",
    "dynamic-balancing": "`DynamicBalancing` (Cutkosky et al. 2021)",
    "bound-balancing": "`BoundBalancing` (Pacchiano, Dann, Gentile and Bartlett 2020)",
    "regret-balancing": "`RegretBalancing` (Abbasi-Yadkori, Pacchiano and Phan 2020)",
    "regret-balancing-linear": "`RegretBalancingLinear` (the same)",
    "d3rb": "`D3RB` (Pacchiano, Dann and Gentile 2024)",
    "ed2rb": "`ED2RB` (Pacchiano, Dann and Gentile 2024)",
    "bandit-combiner": "`BanditCombiner` (Cutkosky, Das and Purohit 2020)",
    "tsallis-corral": "`TsallisCorral` (Arora, Marinov and Mohri 2021)",
    "ucb-corral": "`UCBCorral` (the same)",
    "epoch-balancing": "`EpochBalancing` (Pacchiano, Dann, Gentile and Bartlett 2020)",
    "modcb": "`ModCB` (Foster et al. 2019), made for contexts",
    "osom": "`OSOM` (Chatterji et al. 2020), made for contexts",
    "alb-dim": "`ALBDim` (Ghosh et al. 2021), made for contexts",
    "alb-norm": "`ALBNorm` (the same), made for contexts",
    "suplinucb": "`SupLinUCB` (Chu et al. 2011)",
    "ucb": "`UCB`, no features",
    "moss": "`MOSS` (Audibert and Bubeck 2009), no features",
    "moss++": "`MOSSPlusPlus` (Zhu and Nowak 2020), no features",
    "emp-moss++": "`EmpMOSSPlusPlus` (the same), no features",
    "medzo": "`MeDZO` (Hadiji 2019), smooth functions",
}


def policy_of(system: str, setting: dict[str, Any], problem: adadim.Problem, true_dim: int) -> adadim.Policy:
    """A system with a setting, for a problem; only the oracle may look at d*."""
    parameters = dict(setting)
    if system == "oracle":
        return library.LinUCB(dim=true_dim, **parameters)
    policy = compared()[system]
    if "radius" in parameters:
        parameters["base"] = replace(policy.base, scale=parameters.pop("radius"))
    if "rate" in parameters:
        parameters["eta"] = min(parameters.pop("rate") / math.sqrt(problem.horizon), 1.0)
    noises = parameters.pop("noises", None)
    if noises is not None:
        parameters["scale"] = noises * 2 * problem.noise
    phase = parameters.pop("phase", None)
    if phase is not None:
        length = math.ceil(phase * math.sqrt(problem.horizon))
        parameters |= {"sample": min(length, problem.arms)} if system == "moss" else {"first_phase": length}
    return replace(policy, **parameters)


def groups() -> dict[str, dict[str, dict[str, Any]]]:
    """Families by group and name, as tables of a study: to choose on, held-out, and the paper's configurations."""
    splits = {"development": "development", "held-out": "held-out", "figures": "paper"}
    families = {
        group: {family.name: dict(family.instance) for family in FAMILIES if family.split == split}
        for group, split in splits.items()
    }
    for figure in ("fig2a", "fig3a"):
        (families["figures"][figure],) = (dict(table) for table in FIGURES[figure].instances().values())
    return families


def play(table: dict[str, Any], system: str, setting: dict[str, Any], trials: int) -> list[float]:
    """Final regrets of a setting of a system on a family."""
    warnings.simplefilter("ignore")
    parameters = dict(table)
    instance = make_instance(instance_kinds()[parameters.pop("kind")], parameters, range(trials), seed=0)
    policy: adadim.Policy = library.Random()
    if system != UNIFORM:
        policy = policy_of(system, setting, instance.problem, table["intrinsic_dim"])
    with threadpool_limits(1):
        return [float(regret) for regret in adadim.simulate(policy, instance, record=1, progress=False).final]


class Store:
    """Regrets by group, family and system, a file each: {setting as text: regrets of the trials}."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, group: str, family: str, system: str) -> Path:
        """The file of a cell."""
        return self.folder / group / family.replace("/", "_of_") / f"{system}.json"

    def read(self, group: str, family: str, system: str) -> dict[str, list[float]]:
        """What has been played, with the present source; nothing if it was another."""
        path = self.path(group, family, system)
        stored = json.loads(path.read_text()) if path.exists() else {}
        return stored.get("regrets", {}) if stored.get("source") == present().source else {}

    def add(self, group: str, family: str, system: str, regrets: dict[str, list[float]]) -> None:
        """Keep what was played."""
        path = self.path(group, family, system)
        content = {"source": present().source, "regrets": self.read(group, family, system) | regrets}
        write_atomic(path, json.dumps(content).encode())

    def means(self, group: str, system: str, setting: dict[str, Any]) -> np.ndarray:
        """Mean regret on each family of a group."""
        cells = [self.read(group, family, system).get(str(setting)) for family in groups()[group]]
        if None in cells:
            raise SystemExit(f"{self.folder}: {system} with {setting} has not played {group}; add --run")
        return np.array([np.mean(cell) for cell in cells])

    def shares(self, group: str, system: str, setting: dict[str, Any]) -> np.ndarray:
        """Mean regret as a share of uniform play's, at least 1%."""
        return np.maximum(self.means(group, system, setting) / self.means(group, UNIFORM, {}), LEAST)

    def chosen(self, system: str) -> dict[str, Any]:
        """The tuned setting: the smallest geometric mean of the shares on development families, the first of these."""
        return min(SYSTEMS[system], key=lambda setting: middle(self.shares("development", system, setting)))


def middle(values: np.ndarray) -> float:
    """Geometric mean."""
    return float(np.exp(np.log(values).mean()))


def run(store: Store, group: str, wanted: Callable[[str], Settings], trials: int, jobs: int) -> None:
    """Play what is missing of a group, longest first."""
    tasks = []
    for family, table in groups()[group].items():
        for system in (*SYSTEMS, UNIFORM):
            done = store.read(group, family, system)
            tasks += [(family, table, system, s) for s in wanted(system) if len(done.get(str(s), ())) < trials]
    # Files are written by this process alone.
    cost = {"lints": 40, "recommended": 5, "suplinucb": 2}
    tasks.sort(key=lambda task: -cost.get(task[2], 1) * task[1]["horizon"] * task[1].get("dim", 50))
    parallel = Parallel(n_jobs=jobs, return_as="generator")
    played = parallel(delayed(play)(table, system, setting, trials) for _, table, system, setting in tasks)
    for k, ((family, _, system, setting), regrets) in enumerate(zip(tasks, played, strict=True), 1):
        store.add(group, family, system, {str(setting): regrets})
        print(f"\r{group}: {k} of {len(tasks)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def changes_of(setting: dict[str, Any], published: dict[str, Any]) -> str:
    """What a setting changes."""
    changed = [f"{key}={value}" for key, value in setting.items() if published.get(key) != value]
    return f"`{', '.join(changed)}`" if changed else "as published"


def print_tables(store: Store) -> None:
    """Published and tuned: on the figures in units of LinUCB++'s regret, on held-out families in units of two oracles'.

    Regrets on the figures are means of the six figures' ratios, on held-out families the geometric mean of ratios to
    the oracle of the theory's radius and to that of 0.35 times it.
    """
    oracles = [store.shares("held-out", "oracle", {"ridge": 0.1, "scale": scale}) for scale in (1.0, NARROW)]
    families = list(groups()["figures"])
    by_figure = [[i for i, name in enumerate(families) if name.startswith(figure)] for figure in FIGURES]

    def on_figures(system: str, setting: dict[str, Any]) -> np.ndarray:
        regrets = store.means("figures", system, setting)
        return np.array([regrets[at].mean() for at in by_figure])

    published, rows = on_figures("linucb++", SYSTEMS["linucb++"][0]), []
    for system, settings in SYSTEMS.items():
        pair = (settings[0], store.chosen(system))
        figures = [f"{(on_figures(system, setting) / published).mean():.2f}" for setting in pair]
        shares = [store.shares("held-out", system, setting) for setting in pair]
        held_out = [" / ".join(f"{middle(share / oracle):.2f}" for oracle in oracles) for share in shares]
        rows.append([TITLES[system], *figures, *held_out, changes_of(pair[1], settings[0])])
    heads = ["figures, published", "figures, tuned", "held-out, published", "held-out, tuned", "tuned setting"]
    print(markdown_table(["system", *heads], rows))


def label_of(system: str) -> str:
    """Its name in pictures and lists: of the recommended policy that of the class, whose settings vary here."""
    return "EvidenceLinUCB" if system == "recommended" else system


def draw(store: Store, path: Path) -> None:
    """Each system as published and tuned on the held-out families, best tuned first, and both oracles."""
    oracles = [store.shares("held-out", "oracle", {"ridge": 0.1, "scale": scale}) for scale in (1.0, NARROW)]
    rows = []
    for system, settings in SYSTEMS.items():
        pair = (settings[0], store.chosen(system))
        ratios = (middle(store.shares("held-out", system, s) / oracles[0]) for s in pair)
        rows.append((label_of(system), *ratios))
    rows.sort(key=lambda row: -row[2])
    names, published, tuned = zip(*rows, strict=True)
    at = range(len(rows))
    with figure_style():
        figure, axes = plt.subplots(figsize=(7.5, 7.5), layout="constrained")
        axes.hlines(at, tuned, published, color="0.8", zorder=1)
        axes.scatter(published, at, marker="o", facecolors="none", edgecolors="C0", label="as published", zorder=2)
        axes.scatter(tuned, at, marker="o", color="C0", label="tuned", zorder=3)
        axes.axvline(1.0, color="0.3", linestyle="--", linewidth=1, label="oracle, radius of the theory")
        narrow = middle(oracles[1] / oracles[0])
        axes.axvline(narrow, color="0.3", linestyle=":", linewidth=1, label="oracle, 0.35 of that radius")
        axes.set(xscale="log", yticks=list(at), yticklabels=names, xlabel="regret over that of the oracle")
        axes.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
        figure.legend(frameon=False, loc="outside lower center", ncols=2)
        heading(figure, "As published, and tuned", "22 held-out families, geometric mean, 10 trials each")
        figure.savefig(path, dpi=150, metadata={"Software": None} if path.suffix == ".png" else None)


def draw_figure_2b(store: Store, path: Path) -> None:
    """Mean regret against d* on figure 2b, as published and tuned, of the masters and what they are compared with."""
    figures = groups()["figures"]
    shown = [i for i, name in enumerate(figures) if name.startswith("fig2b")]
    tables = [list(figures.values())[i] for i in shown]
    dims = [table["intrinsic_dim"] for table in tables]
    with figure_style():
        figure, panels = plt.subplots(1, 2, figsize=(9.5, 5), sharey=True, layout="constrained")
        for axes, title in zip(panels, ("as published", "tuned"), strict=True):
            for system in ON_FIGURE_2B:
                setting = store.chosen(system) if title == "tuned" else SYSTEMS[system][0]
                look = look_of(ORACLE_LOOK if system == "oracle" else type(compared()[system]).__name__)
                regrets = store.means("figures", system, setting)[shown]
                label = label_of(system) if title == "tuned" else None
                axes.plot(dims, regrets, markersize=5, label=label, **look)
            axes.set(xlabel="d*", title=title)
            tidy(axes, from_zero=True)
        panels[0].set_ylabel(f"mean regret after {tables[0]['horizon']} rounds (reward units)")
        figure.legend(loc="outside right center", frameon=False, handlelength=3.2)
        sizes = f"K = {tables[0]['arms']}, d = {tables[0]['dim']}, noise = 0.1, mean over {TRIALS} trials"
        heading(figure, "The field on figure 2b", sizes)
        figure.savefig(path, dpi=150, metadata={"Software": None} if path.suffix == ".png" else None)


def print_settings(store: Store) -> None:
    """Every setting by the number that chooses."""
    rows = [
        [
            label_of(system),
            changes_of(setting, settings[0]),
            f"{100 * middle(store.shares('development', system, setting)):.1f}%",
        ]
        for system, settings in SYSTEMS.items()
        for setting in settings
    ]
    print(markdown_table(["system", "setting", "of uniform play, development"], rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the regrets are kept")
    parser.add_argument("--run", action="store_true", help="play what is missing")
    parser.add_argument("--picture", type=Path, help="draw both settings of every system on the held-out families")
    parser.add_argument("--figure-2b", type=Path, help="draw the masters on figure 2b in both settings")
    parser.add_argument("--chosen", action="store_true", help="print every setting with the number that chooses")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"replications of each (default {TRIALS})")
    parser.add_argument("--jobs", type=int, default=-1, help="processes (default: as many as there are cores)")
    options = parser.parse_args()
    store = Store(options.folder)
    if options.run:
        run(store, "development", lambda name: SYSTEMS.get(name, [{}]), options.trials, options.jobs)
        narrow = {"oracle": [{"ridge": 0.1, "scale": NARROW}]}
        for group in ("held-out", "figures"):
            run(
                store,
                group,
                lambda name: [{}] if name == UNIFORM else [SYSTEMS[name][0], store.chosen(name), *narrow.get(name, [])],
                options.trials,
                options.jobs,
            )
    if options.picture:
        draw(store, options.picture)
    elif options.figure_2b:
        draw_figure_2b(store, options.figure_2b)
    elif options.chosen:
        print_settings(store)
    else:
        print_tables(store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
