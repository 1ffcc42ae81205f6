"""Systems of 2021 to 2025 as published and tuned, by the rule of tuned.py.

    python benchmarks/newer.py results/newer --run                   # plays what is missing (core-hours)
    python benchmarks/newer.py results/newer --run --only PriorThompson --minutes 8 --jobs 16
    python benchmarks/newer.py results/newer --run --published --group held-out --group contexts
    python benchmarks/newer.py results/newer --run --trials 1 --chunk 1 --group development     # what choosing needs
    python benchmarks/newer.py results/newer                         # the table as Markdown
    python benchmarks/newer.py results/newer --chosen                # every setting by the number that chooses
    python benchmarks/newer.py results/newer --rule                  # by the rule for the recommended policy
    python benchmarks/newer.py results/newer --keep docs/measured/cpu-newer.json      # all of it in one file
    python benchmarks/newer.py docs/measured/cpu-newer.json --published --group held-out  # a table from that file

The settings were fixed before anything was run, at most twelve of each system, the first as published or, where its
authors leave it open, as the library has it. The tuned one has the smallest geometric mean, over the 22 development
families, of mean regret as a share of what uniform play loses, a share below 1% counting as 1%; the first of the list
if two are equal. Published and tuned are then played on the held-out families, on both groups of contexts, and on the
everyday and late families. 10 trials each, replications 0 to 9 of seed 0, the same instances and noise for all.

Where time does not suffice for 10, a setting is chosen by as many of the first trials as have been played of every
setting of its system on every development family: at least one, the same for all settings, and uniform play by the same
trials. A table's cells have as many as published and tuned have on every family of a group, and it says how many. Time
alone decides how many there are. This was added before `FeelGood`, `LinMED`, `IDS`, `ALEXP`, `PriorElimination`,
`PriorBalancing` and `MaxRatio` as Thompson sampling had been played on any development family.

The rule for the recommended policy (docs/notebook/how-the-default-was-chosen.md) has two limits on every family of
development, contexts, late and everyday: 1.2 times the mean regret of LinUCB with 0.35 of its radius, and no trial
above a fifth of what uniform play loses. "over" is the largest excess over them.

Ten trials of one setting of `FeelGood`, `LinMED`, `IDS` or `ALEXP` on the held-out families and contexts take 40 to 90
minutes of a core or more. `FeelGood` draws 200 parameters in a round, a fifth of its default. With `--published` first
settings alone are played, on the groups that are named: the longest first, and with `--chunk 1` the first trial of
every family before the second of any, so that time alone decides how many there are. With `--trials N` at most the
first N trials are played, of all settings.

A machine without polars and matplotlib can play, not tabulate: it reads the families from a file,

    python benchmarks/newer.py results/newer --write-families results/families.json
    python benchmarks/newer.py results/newer --run --families results/families.json
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import adadim
from adadim.policies.linear.evidence import RECOMMENDED

TRIALS, LEAST, NARROW, UNIFORM = 10, 0.01, 0.35, "uniform"
CHOOSING = "development"
REPORTED = ("held-out", "contexts", "contexts-held-out", "everyday", "late")
RULE = ("development", "contexts", "late", "everyday")

MED_99 = {"a_emp": 0.99, "a_opt": 0.005}

SLOW = ("FeelGood", "LinMED", "IDS", "ALEXP")  # each is played after the others, one trial at a time
SYSTEMS: dict[str, tuple[adadim.Policy, ...]] = {
    "RadiusMixture": (
        adadim.RadiusMixture(),
        adadim.RadiusMixture(ridge=0.1),
        adadim.RadiusMixture(ridge=0.01),
        adadim.RadiusMixture(weights="uniform"),
        adadim.RadiusMixture(weights="uniform", ridge=0.1),
        adadim.RadiusMixture(sparsity=1),
        adadim.RadiusMixture(sparsity=1, ridge=0.1),
        adadim.RadiusMixture(sparsity=2, ridge=0.1),
    ),
    "RadiusExp3": (
        adadim.RadiusExp3(),
        adadim.RadiusExp3(ridge=0.1),
        adadim.RadiusExp3(loss_range=(-1.0, 1.0)),
        adadim.RadiusExp3(loss_range=(-1.0, 1.0), ridge=0.1),
        adadim.RadiusExp3(loss_range=(-0.5, 0.5), ridge=0.1),
        adadim.RadiusExp3(weights="uniform", loss_range=(-0.5, 0.5), ridge=0.1),
    ),
    "MaxRatio, greedy": (
        adadim.MaxRatio(inflation=0.0),
        adadim.MaxRatio(inflation=0.0, threshold=30.0),
        adadim.MaxRatio(inflation=0.0, threshold=100.0),
        adadim.MaxRatio(inflation=0.0, ridge=0.01),
        adadim.MaxRatio(inflation=0.0, threshold=30.0, ridge=0.01),
        adadim.MaxRatio(inflation=0.0, threshold=100.0, ridge=0.01),
    ),
    "PriorThompson": tuple(adadim.PriorThompson(sizes=(size,)) for size in (0.5, 0.2, 0.1, 1.0)),
    "recommended": (RECOMMENDED,),
    "Certified": (adadim.Certified(), adadim.Certified(mu=2.0)),
    "PriorElimination": tuple(adadim.PriorElimination(sizes=(size,)) for size in (0.5, 0.2)),
    "PriorBalancing": (adadim.PriorBalancing(),),
    "FeelGood": tuple(adadim.FeelGood(sizes=(size,), draws=200) for size in (0.5, 0.2)),
    "MaxRatio, Thompson": (adadim.MaxRatio(), adadim.MaxRatio(inflation="bayes")),
    "LinMED": (adadim.LinMED(), adadim.LinMED(**MED_99)),
    "IDS": (adadim.IDS(), adadim.IDS(variant="frequentist")),
    "ALEXP": (adadim.ALEXP(),),
}
TITLES = {
    "RadiusMixture": "`RadiusMixture` (Jin, Jang and Cesa-Bianchi 2024)",
    "RadiusExp3": "`RadiusExp3` (Jin, Jang and Cesa-Bianchi 2024)",
    "MaxRatio, greedy": "`MaxRatio(inflation=0.0)` (Luo and Bayati 2025)",
    "MaxRatio, Thompson": "`MaxRatio` (Luo and Bayati 2025)",
    "PriorThompson": "`PriorThompson` (after Sandberg and Haghir Chehreghani 2025)",
    "PriorElimination": "`PriorElimination` (after Ziomek, Adachi and Osborne)",
    "PriorBalancing": "`PriorBalancing` (after Ziomek et al. 2024)",
    "FeelGood": "`FeelGood(draws=200)` (Zhang 2022)",
    "LinMED": "`LinMED` (Balagopalan and Jun 2025)",
    "IDS": "`IDS` (Russo and Van Roy 2018)",
    "ALEXP": "`ALEXP` (Kassraie et al. 2023)",
    "Certified": "`Certified()`, around the recommended policy",
    "recommended": "the recommended policy, for comparison",
}
ORACLES = {"oracle": 1.0, "narrow-oracle": NARROW}  # told d*, by the factor on their radius
LINEAR = "linucb"  # in all features, with the narrow radius

Families = dict[str, dict[str, dict[str, Any]]]
Task = tuple[Any, ...]


def families() -> Families:
    """Tables of instances by group and name."""
    from adadim.experiments.comparison import FAMILIES  # here, since it needs polars

    wanted: Families = {group: {} for group in (CHOOSING, *REPORTED)}
    for family in FAMILIES:
        if family.split in wanted:
            wanted[family.split][family.name] = dict(family.instance)
    return wanted


def source() -> str:
    """Digest of the library's source."""
    files = sorted(Path(adadim.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def policy_of(name: str, table: dict[str, Any]) -> adadim.Policy:
    """A policy by the text of its call, or one of those that all are compared with."""
    if name in ORACLES:
        return adadim.LinUCB(dim=table["intrinsic_dim"], scale=ORACLES[name])
    if name == LINEAR:
        return adadim.LinUCB(scale=NARROW)
    by_text = {repr(policy): policy for settings in SYSTEMS.values() for policy in settings}
    return adadim.Random() if name == UNIFORM else by_text[name]


def play(group: str, family: str, table: dict[str, Any], name: str, trials: range) -> tuple[Any, ...]:
    """Final regrets of a policy on a family, with what they are of."""
    warnings.simplefilter("ignore")
    parameters = {key: value for key, value in table.items() if key != "kind"}
    make = getattr(adadim.instances, table["kind"])
    if "seed" in inspect.signature(make).parameters:
        parameters["seed"] = 0
    with threadpool_limits(1):
        instance = make(**parameters, replications=trials)
        final = adadim.simulate(policy_of(name, table), instance, record=1, progress=False).final
    return group, family, name, dict(zip(map(str, trials), final.tolist(), strict=True))


class Store:
    """Regrets by group, family, policy and trial: a folder with a file for each family, or one file for all."""

    def __init__(self, place: Path) -> None:
        self.folder, self.source = place, source()
        self.kept: dict[str, Any] | None = json.loads(place.read_text()) if place.is_file() else None

    def path(self, group: str, family: str) -> Path:
        """The file of a family."""
        return self.folder / group / f"{family.replace('/', '_of_')}.json"

    def read(self, group: str, family: str) -> dict[str, dict[str, float]]:
        """What has been played with the present source, or was kept."""
        if self.kept is not None:
            kept = self.kept["regrets"].get(group, {}).get(family, {})
            return {name: {str(r): regret for r, regret in enumerate(regrets)} for name, regrets in kept.items()}
        path = self.path(group, family)
        stored = json.loads(path.read_text()) if path.exists() else {}
        return stored.get("regrets", {}) if stored.get("source") == self.source else {}

    def add(self, group: str, family: str, name: str, regrets: dict[str, float]) -> None:
        """Keep what was played."""
        everything = self.read(group, family)
        everything[name] = everything.get(name, {}) | regrets
        path = self.path(group, family)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps({"source": self.source, "regrets": everything}))
        partial.replace(path)

    def keep(self, path: Path, tables: Families) -> None:
        """Write the first trials of everything into one file, to six digits."""
        regrets: dict[str, Any] = {}
        for group, families_of in tables.items():
            for family in families_of:
                for name, played in self.read(group, family).items():
                    first = [float(f"{played[str(r)]:.6g}") for r in range(self.played(group, family, name))]
                    regrets.setdefault(group, {}).setdefault(family, {})[name] = first
        text = json.dumps({"source": self.source, "regrets": regrets}, indent=1)
        # The regrets of a policy in a line.
        path.write_text(re.sub(r"\[[^]]*\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n")

    def finals(self, group: str, family: str, name: str, trials: int) -> np.ndarray | None:
        """Final regrets of the first trials, if all of these have been played."""
        played, wanted = self.read(group, family).get(name, {}), [str(r) for r in range(trials)]
        return np.array([played[r] for r in wanted]) if all(r in played for r in wanted) else None

    def played(self, group: str, family: str, name: str) -> int:
        """How many of the first trials have been played."""
        played = self.read(group, family).get(name, {})
        return next((r for r in range(TRIALS) if str(r) not in played), TRIALS)

    def common(self, group: str, families: list[str], names: list[str]) -> int:
        """How many of the first trials all these policies have on every family."""
        return min(self.played(group, family, name) for family in families for name in names)

    def shares(self, group: str, names: list[str], name: str, trials: int) -> np.ndarray | None:
        """Mean regret on each family as a share of uniform play's, at least 1%; None if some are missing."""
        shares = []
        for family in names:
            mine, uniform = (self.finals(group, family, one, trials) for one in (name, UNIFORM))
            if not trials or mine is None or uniform is None:
                return None
            shares.append(max(mine.mean() / uniform.mean(), LEAST))
        return np.array(shares)


def middle(values: np.ndarray) -> float:
    """Geometric mean."""
    return float(np.exp(np.log(values).mean()))


def chosen(store: Store, tables: Families, system: str) -> adadim.Policy | None:
    """The tuned setting; None while settings are missing."""
    settings = SYSTEMS[system]
    if len(settings) == 1:
        return settings[0]
    families, names = list(tables[CHOOSING]), [repr(policy) for policy in settings]
    trials = store.common(CHOOSING, families, [UNIFORM, *names])
    shares = [store.shares(CHOOSING, families, name, trials) for name in names]
    if any(one is None for one in shares):
        return None
    return settings[int(np.argmin([middle(one) for one in shares if one is not None]))]


def tasks_of(
    store: Store, tables: Families, groups: Sequence[str], names: list[str], chunk: int, most: int = TRIALS
) -> list[Task]:
    """What is missing of these groups, at most the first trials, longest first."""
    tasks, last = [], min(TRIALS, most)
    slow = [repr(policy) for system in SLOW for policy in SYSTEMS.get(system, ())]
    for group in groups:
        for family, table in tables[group].items():
            played = store.read(group, family)
            for name in names:
                size = 1 if name in slow else chunk  # a slow one gains nothing by lock step
                for first in range(0, last, size):
                    missing = [r for r in range(first, min(first + size, last)) if str(r) not in played.get(name, {})]
                    if missing:
                        tasks.append((group, family, table, name, range(missing[0], missing[-1] + 1)))
    return sorted(tasks, key=lambda task: -task[2]["horizon"] * task[2].get("dim", task[2]["intrinsic_dim"]) ** 2)


def run(store: Store, tasks: list[Task], jobs: int, late: Callable[[], bool]) -> bool:
    """Play tasks as long as it is not late; whether all were played."""
    left = len(tasks)

    def in_time() -> Iterator[Any]:
        for task in tasks:
            if late():
                return
            yield delayed(play)(*task)

    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="n_jobs")
    for group, family, name, regrets in parallel(in_time()):
        store.add(group, family, name, regrets)
        left -= 1
        print(f"{left} left: {group} {family} {name}", file=sys.stderr, flush=True)
    return not left


def run_all(
    store: Store,
    tables: Families,
    systems: list[str],
    groups: Sequence[str],
    jobs: int,
    chunk: int,
    late: Callable[[], bool],
    most: int = TRIALS,
) -> bool:
    """Play what is missing: settings on development families, then published and tuned on these groups."""
    compared = [*ORACLES, LINEAR, UNIFORM]
    names = [repr(policy) for system in systems for policy in SYSTEMS[system]]
    if not run(store, tasks_of(store, tables, [CHOOSING], [*compared, *names], chunk, most), jobs, late):
        return False
    pairs = [policy for system in systems for policy in (SYSTEMS[system][0], chosen(store, tables, system))]
    names = list(dict.fromkeys([*compared, *map(repr, pairs)]))
    tasks = [task for group in groups for task in tasks_of(store, tables, [group], names, chunk, most)]
    return run(store, tasks, jobs, late)


def run_published(
    store: Store,
    tables: Families,
    systems: list[str],
    groups: Sequence[str],
    jobs: int,
    chunk: int,
    late: Callable[[], bool],
    most: int = TRIALS,
) -> bool:
    """Play what is missing of first settings on these groups."""
    names = [*ORACLES, UNIFORM, *(repr(SYSTEMS[system][0]) for system in systems)]
    tasks = tasks_of(store, tables, groups, names, chunk, most)
    tasks.sort(key=lambda task: task[-1].start)
    return run(store, tasks, jobs, late)


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def differences(policy: adadim.Policy, other: adadim.Policy) -> str:
    """The parameters in which a policy differs from another of its class."""
    return ", ".join(f"{key}={value!r}" for key, value in vars(policy).items() if getattr(other, key) != value)


def changed(policy: adadim.Policy, published: adadim.Policy) -> str:
    """What a setting changes."""
    text = differences(policy, published)
    return f"`{text}`" if text else "as published"


def short(policy: adadim.Policy) -> str:
    """The call that makes a policy, without parameters that have their default."""
    return f"{type(policy).__name__}({differences(policy, type(policy)())})"


def print_table(
    store: Store, tables: Families, systems: Sequence[str], groups: Sequence[str], published: bool = False
) -> None:
    """Published and tuned, "a / b": geometric means of ratios to the oracle, and to that of the narrow radius."""
    rows = []
    for system in systems:
        settings = SYSTEMS[system]
        policies = [settings[0]] if published else [settings[0], chosen(store, tables, system)]
        cells = []
        for group in groups:
            names, compared = list(tables[group]), [*ORACLES, UNIFORM, repr(settings[0])]
            both = [*compared, *(repr(policy) for policy in policies if policy is not None)]
            trials = store.common(group, names, both) or store.common(group, names, compared)
            oracles = [store.shares(group, names, name, trials) for name in ORACLES]
            for policy in policies:
                mine = None if policy is None else store.shares(group, names, repr(policy), trials)
                known = trials and mine is not None and all(one is not None for one in oracles)
                cells.append(" / ".join(f"{middle(mine / one):.2f}" for one in oracles) if known else "")  # type: ignore
            cells.append(str(trials) if trials else "")
        tuned = [] if published else ["" if policies[-1] is None else changed(policies[-1], settings[0])]
        rows.append([TITLES[system], *cells, *tuned])
    which = ("published", "trials") if published else ("published", "tuned", "trials")
    heads = [f"{group}, {one}" for group in groups for one in which]
    print(markdown(["system", *heads, *([] if published else ["tuned setting"])], rows))


def print_settings(store: Store, tables: Families) -> None:
    """Every setting by the number that chooses."""
    rows, families = [], list(tables[CHOOSING])
    for system, settings in SYSTEMS.items():
        trials = store.common(CHOOSING, families, [UNIFORM, *map(repr, settings)])
        for policy in settings:
            shares = store.shares(CHOOSING, families, repr(policy), trials)
            number = "" if shares is None else f"{100 * middle(shares):.1f}%"
            rows.append([system, changed(policy, settings[0]), number, str(trials)])
    print(markdown(["system", "setting", "of uniform play, development", "trials"], rows))


def print_rule(store: Store, tables: Families) -> None:
    """Largest excess over the limits, where, and geometric means of ratios to the narrow oracle, of each setting.

    By group: of ratios to LinUCB with the narrow radius. A policy has as many trials as on each family that was run.
    """
    rows, everything = [], [(group, *item) for group in RULE for item in tables[group].items()]
    pairs = [policy for system in SYSTEMS for policy in (SYSTEMS[system][0], chosen(store, tables, system))]
    for policy in dict.fromkeys(filter(None, pairs)):
        over, ratios, missing = [], [], 0
        beside: dict[str, list[float]] = {group: [] for group in RULE}
        names = (repr(policy), LINEAR, UNIFORM, "narrow-oracle")
        counts = [store.common(group, [family], list(names)) for group, family, _ in everything]
        trials = min(filter(None, counts), default=0)
        for group, family, table in everything:
            mine, linear, uniform, narrow = (store.finals(group, family, name, trials) for name in names)
            if not trials or mine is None or linear is None or uniform is None or narrow is None:
                missing += 1
                continue
            over.append((max(mine.mean() / (1.2 * linear.mean()), mine.max() / (0.2 * uniform.mean())), family))
            least = LEAST * uniform.mean() if table["intrinsic_dim"] == 1 else 0.0
            beside[group].append(max(mine.mean(), least) / max(linear.mean(), least))
            ratios.append(max(mine.mean(), least) / max(narrow.mean(), least))
        if over:
            missed = sum(value > 1 for value, _ in over)
            worst, where = max(over)
            ratio = f"{middle(np.array(ratios)):.2f}"
            means = [f"{middle(np.array(each)):.2f}" if each else "" for each in beside.values()]
            numbers = [*means, f"{worst:.2f}", where, f"{missed} of {len(over)}", ratio, str(missing), str(trials)]
            rows.append([f"`{short(policy)}`", *numbers])
    heads = ["policy", *RULE, "over", "where", "families missed", "of the narrow oracle", "not run", "trials"]
    print(markdown(heads, rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the regrets are kept: a folder, or a file that --keep wrote")
    parser.add_argument("--run", action="store_true", help="play what is missing")
    parser.add_argument("--only", action="append", choices=SYSTEMS, help="a system; by default all")
    parser.add_argument("--published", action="store_true", help="play and print first settings alone")
    parser.add_argument("--keep", type=Path, help="write the first trials of everything into this file, and stop")
    parser.add_argument("--group", action="append", choices=(CHOOSING, *REPORTED), help="families to report on")
    parser.add_argument("--trials", type=int, default=TRIALS, help="play at most so many of the first trials")
    parser.add_argument("--minutes", type=float, help="begin nothing after so many minutes; another call goes on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--chunk", type=int, default=TRIALS, help="trials that a task plays in lock step")
    parser.add_argument("--chosen", action="store_true", help="print every setting with the number that chooses")
    parser.add_argument("--rule", action="store_true", help="print the excess over the limits of the rule")
    parser.add_argument("--families", type=Path, help="read the families from this file")
    parser.add_argument("--write-families", type=Path, help="write them there, and do nothing else")
    options = parser.parse_args()
    tables = families() if options.families is None else json.loads(options.families.read_text())
    if options.write_families:
        options.write_families.parent.mkdir(parents=True, exist_ok=True)
        options.write_families.write_text(json.dumps(tables, indent=1) + "\n")
        return 0
    store, begun = Store(options.folder), time.monotonic()
    wanted, groups = options.only or list(SYSTEMS), options.group or REPORTED
    if options.run and store.kept is not None:
        parser.error("--run needs a folder, and this is a file")
    if options.keep:
        store.keep(options.keep, tables)
        return 0
    if options.run:
        limit = options.minutes

        def late() -> bool:
            return limit is not None and time.monotonic() - begun > 60 * limit

        parts = [[one for one in wanted if one not in SLOW], *([one] for one in SLOW if one in wanted)]
        play_all = run_all
        if options.published:
            play_all, parts = run_published, [wanted]
        how = (options.jobs, options.chunk, late, options.trials)
        if not all(play_all(store, tables, part, groups, *how) for part in parts):
            print("not all is played: the same command goes on", file=sys.stderr)
            return 3
    if options.rule:
        print_rule(store, tables)
    elif options.chosen:
        print_settings(store, tables)
    elif not options.run or options.families is None:
        print_table(store, tables, wanted, groups, options.published)
    return 0


if __name__ == "__main__":
    sys.exit(main())
