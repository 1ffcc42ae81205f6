"""Seconds on the wall for whole figures of the paper, through the executor that `adadim reproduce` uses.

Every figure is computed from nothing into a temporary folder by `adadim.study.run`, with all six policies: start of the
worker processes, instances, runs and files are in the time; drawing and judging the claims are not. By default that is
fig2a with 100 trials; name other figures, or say --all for what `adadim reproduce all --trials 100` computes.

    python benchmarks/figures.py                           fig2a, 100 trials, one process per core
    python benchmarks/figures.py --all                     all six figures
    python benchmarks/figures.py fig2a fig2b --device cuda     both on one GPU
    python benchmarks/figures.py fig2b --trials 32 --instances    only its instances, made for lock step

Unlike the other benchmarks this one takes all cores, so its times are those of the whole machine.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

import joblib

from _device import DEVICES, missing
from _report import arguments, describe, load, machine, table, write_json
from adadim import paper
from adadim.study import Study, run
from adadim.study.cells import Unit
from adadim.study.engines import instances_on

# Seconds, 100 trials; on a GPU with what compiling kernels takes the first time.
AT_MOST = {"cpu": {"fig2a": 40.0, "all": 900.0}, "cuda": {"fig2a+fig2b": 20.0, "all": 45.0}}
QUICK = {"arms": 40, "dim": 24, "horizon": 60}


def shrunk(study: Study) -> Study:
    """The same study on tiny instances."""
    tables = study.to_dict()
    tables["instances"] = {
        name: {**spec, **QUICK, "intrinsic_dim": min(spec["intrinsic_dim"], 3 + i)}
        for i, (name, spec) in enumerate(tables["instances"].items())
    }
    return Study.from_dict(tables)


def time_figure(study: Study, jobs: int | None, device: str) -> dict[str, Any]:
    """Run a study from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        results = run(study, folder, jobs=jobs, device=device)
        seconds = time.perf_counter() - begun
        regrets = {
            instance: {policy: float(results.final(instance, policy).mean()) for policy in study.policies}
            for instance in study.instances
        }
    runs = study.trials * len(study.cells)
    return {
        "figure": study.name,
        "seconds": seconds,
        "runs": runs,
        "ms_per_run": 1e3 * seconds / runs,
        "mean_regret": regrets,
    }


def time_instances(study: Study, device: str) -> list[str]:
    """Processor time and seconds to make a study's instances in lock step: all in one call, and each in its own."""
    units = list({cell.instance: Unit(cell, 0, study.trials) for cell in study.cells}.values())
    instances_on(device, units[:1])
    took = []
    for calls in ([units], [[unit] for unit in units]):
        processor, begun = time.process_time(), time.perf_counter()
        for call in calls:
            instances_on(device, call)
        took += [f"{time.process_time() - processor:.2f}", f"{time.perf_counter() - begun:.2f}"]
    return [study.name, str(len(units) * study.trials), took[0], took[2], took[1], took[3]]


def measure(names: list[str], variant: Any, trials: int, jobs: int | None, device: str, quick: bool) -> dict[str, Any]:
    """Every figure in turn, and their sum."""
    before, rows = load(), []
    for name in names:
        study = paper.study(name, variant, trials=trials)
        rows.append(time_figure(shrunk(study) if quick else study, jobs, device))
    described = machine(("adadim", "numpy", "scipy", "joblib"), device)
    described["load"] = {"before": before, "after": load()}
    asked = "all" if names == list(paper.FIGURES) else "+".join(names)
    limit = None if quick or trials != 100 else AT_MOST[device].get(asked)
    return {
        "benchmark": "figures",
        "machine": described,
        "setting": {
            "figures": names,
            "variant": variant,
            "trials": trials,
            "jobs": joblib.cpu_count() if jobs is None and device != "cuda" else jobs,
            "device": device,
        },
        "rows": rows,
        "seconds": sum(row["seconds"] for row in rows),
        "at_most": limit,
    }


def show(report: dict[str, Any]) -> None:
    """Print the report."""
    setting = report["setting"]
    print(describe(report["machine"]))
    processes = "" if setting["jobs"] is None else f"{setting['jobs']} processes, "
    print(f"{setting['trials']} trials, {processes}device {setting['device']}\n")
    lines = [
        [row["figure"], f"{row['seconds']:.1f}", str(row["runs"]), f"{row['ms_per_run']:.1f}"] for row in report["rows"]
    ]
    lines.append(["sum", f"{report['seconds']:.1f}", str(sum(row["runs"] for row in report["rows"])), ""])
    print(table(["figure", "seconds", "runs", "ms per run"], lines))
    print("\na run is one policy on one replication")
    if report["at_most"] is not None:
        verdict = "met" if report["seconds"] <= report["at_most"] else "MISSED"
        print(f"{report['seconds']:.1f} s (at most {report['at_most']:.0f}): {verdict}")


def main() -> int:
    parser = arguments("figures", __doc__, "tiny instances and 4 trials")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"of {', '.join(paper.FIGURES)}; default fig2a")
    parser.add_argument("--all", action="store_true", help="all six figures")
    parser.add_argument("--variant", choices=paper.VARIANTS, default="released", help="default released")
    parser.add_argument("--trials", type=int, default=100, help="replications of each figure (default 100)")
    parser.add_argument("--jobs", type=int, help="processes (default one per core)")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="where the policies run (default the CPU)")
    parser.add_argument("--instances", action="store_true", help="only make the instances that run in lock step")
    options = parser.parse_args()
    names = list(paper.FIGURES) if options.all else options.figures or ["fig2a"]
    if unknown := [name for name in names if name not in paper.FIGURES]:
        parser.error(f"no figure {unknown[0]!r}: choose from {', '.join(paper.FIGURES)}")
    if reason := missing(options.device):
        parser.error(reason)
    trials = 4 if options.quick else options.trials
    if options.instances:
        studies = [paper.study(name, options.variant, trials=trials) for name in names]
        rows = [time_instances(shrunk(study) if options.quick else study, options.device) for study in studies]
        print(table(["figure", "instances", "processor time", "each alone", "seconds", "each alone"], rows))
        return 0
    report = measure(names, options.variant, trials, options.jobs, options.device, options.quick)
    write_json(options.out, report)
    show(report)
    print(f"\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
