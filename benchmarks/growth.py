"""How cost and memory grow with K, d, T and the number of replications R, beside what the mathematics predicts.

LinUCB in both forms of its posterior and LinUCB++ run on the paper's sphere, LinUCB also on contexts; one size grows
over two decades or more while the others stay. Cost is that of a whole call of `adadim.simulate`: processor time on
one thread, the best of a few runs. Memory is the peak that the process holds above what it held before the instance
was made; every point has a process of its own. With --device cuda cost is time on the wall until the device is done,
memory what torch allocated on the device, and the sizes are larger: small ones cost the launches of kernels alone.

Exponents are least-squares slopes on logarithmic axes over the large sizes, from the value in the column "fitted from"
on. What they should be, with all but the growing size fixed:

  feature form  a step multiplies V^-1 by a vector (d^2), the arms by the result (K d), and scores them (K):
                T R (K d + d^2) in all. Memory R (K d + d^2).
  Gram form     a change of arm is a rank-one change of a K x K matrix, done 32 at a time; a repeated pull costs K. The
                matrix is built once, K^2 d. At most R K^2 (T + d) in all: d hardly matters while it is well below T.
                Memory R (K^2 + K d).
  LinUCB++      iteration i of length 2^(p+i), p = log2(T) / 2, learns in min(d, 2^(p+2-i)) features. Their product is
                the same in each of the p iterations: R K T log T for large d, and nothing of d beyond 4 sqrt(T).
                Memory R K d, for the features themselves.
  contexts      features that are new each round (one of 8 sets made beforehand) are scored by V^-1: T R K d^2 in all,
                and d^3 / 512 a round for making V^-1 anew. Memory R (d^2 + K d).

A policy that settles on an arm repeats itself, so costs may grow more slowly with T. Sizes that outgrow a cache make
them grow faster for a while. Writes a JSON file and a picture; takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

from threadpoolctl import threadpool_limits

import adadim
from _device import DEVICES, Meter, missing, slope, sphere, warm_up
from _report import arguments, describe, load, machine, table, write_json

POLICIES: dict[str, Any] = {
    "LinUCB, feature form": adadim.LinUCB(form="feature"),
    "LinUCB, Gram form": adadim.LinUCB(form="gram"),
    "LinUCB++": adadim.LinUCBPlusPlus(),
    "LinUCB, contexts": adadim.LinUCB(),
}
AXES = {"K": "number of arms K", "d": "number of features d", "T": "horizon T", "R": "replications R"}
ENOUGH = 0.3  # seconds after which a point is not run again
RUNS = 3


@dataclass(frozen=True)
class Series:
    """One size of one policy grows.

    `cost` and `memory` hold the exponent predicted and the value from which on it is fitted.
    """

    policy: str
    axis: str
    fixed: dict[str, int]
    values: tuple[int, ...]
    cost: tuple[float, int]
    memory: tuple[float, int]


FEATURE, GRAM, PLUS, CONTEXTS = POLICIES
CPU = (
    Series(FEATURE, "K", {"d": 32, "T": 100}, (1000, 10**4, 10**5, 300000, 10**6), (1, 10**5), (1, 10**4)),
    Series(FEATURE, "d", {"K": 100000, "T": 100}, (4, 12, 40, 120, 400), (1, 40), (1, 40)),
    Series(FEATURE, "T", {"K": 2000, "d": 32}, (100, 300, 1000, 3000, 10000), (1, 300), (0, 100)),
    Series(FEATURE, "R", {"K": 2000, "d": 32, "T": 100}, (1, 3, 10, 30, 100, 300), (1, 10), (1, 10)),
    Series(GRAM, "K", {"d": 100, "T": 500}, (80, 250, 800, 2000, 4000, 8000), (2, 2000), (2, 2000)),
    Series(GRAM, "d", {"K": 400, "T": 3000}, (30, 100, 300, 1000, 3000), (0, 100), (1, 1000)),
    Series(GRAM, "T", {"K": 500, "d": 250}, (30, 100, 300, 1000, 3000, 10000), (1, 300), (0, 100)),
    Series(GRAM, "R", {"K": 200, "d": 100, "T": 100}, (1, 3, 10, 30, 100, 300), (1, 10), (1, 10)),
    Series(PLUS, "K", {"d": 64, "T": 300}, (1000, 3000, 10000, 30000, 100000, 300000), (1, 30000), (1, 10000)),
    Series(PLUS, "d", {"K": 3000, "T": 1000}, (8, 32, 100, 300, 1000), (0, 100), (1, 100)),
    Series(PLUS, "T", {"K": 4000, "d": 400}, (100, 300, 1000, 3000, 10000), (1, 300), (0, 100)),
    Series(PLUS, "R", {"K": 1000, "d": 32, "T": 100}, (1, 3, 10, 30, 100, 300), (1, 10), (1, 10)),
    Series(CONTEXTS, "K", {"d": 64, "T": 100}, (300, 1000, 3000, 10000, 30000), (1, 3000), (1, 3000)),
    Series(CONTEXTS, "d", {"K": 20, "T": 50}, (20, 100, 300, 1000, 2000), (2, 300), (2, 300)),
    Series(CONTEXTS, "T", {"K": 1000, "d": 100}, (30, 100, 300, 1000, 3000), (1, 300), (0, 30)),
    Series(CONTEXTS, "R", {"K": 20, "d": 50, "T": 100}, (1, 3, 10, 30, 100, 300), (1, 10), (1, 10)),
)
CUDA = (
    Series(FEATURE, "K", {"d": 32, "T": 200}, (10**4, 10**5, 300000, 10**6, 3 * 10**6), (1, 300000), (1, 10**5)),
    Series(FEATURE, "d", {"K": 200000, "T": 200}, (8, 32, 128, 512, 1024), (1, 128), (1, 32)),
    Series(FEATURE, "T", {"K": 2000, "d": 32}, (100, 300, 1000, 3000, 10000), (1, 300), (0, 100)),
    Series(FEATURE, "R", {"K": 2000, "d": 32, "T": 200}, (4, 16, 64, 256, 1024, 2048), (1, 256), (1, 64)),
    Series(GRAM, "K", {"d": 100, "T": 300}, (200, 1000, 5000, 10000, 20000), (2, 5000), (2, 1000)),
    Series(GRAM, "d", {"K": 400, "T": 3000}, (30, 100, 300, 1000, 3000), (0, 100), (1, 1000)),
    Series(GRAM, "T", {"K": 500, "d": 250}, (30, 100, 300, 1000, 3000), (1, 300), (0, 100)),
    Series(GRAM, "R", {"K": 400, "d": 200, "T": 200}, (4, 16, 64, 256, 1024), (1, 64), (1, 64)),
    Series(PLUS, "K", {"d": 64, "T": 300}, (10**4, 10**5, 300000, 10**6), (1, 10**5), (1, 10**5)),
    Series(PLUS, "d", {"K": 3000, "T": 1000}, (8, 32, 100, 300, 1000), (0, 100), (1, 100)),
    Series(PLUS, "T", {"K": 4000, "d": 400}, (100, 300, 1000, 3000, 10000), (1, 300), (0, 100)),
    Series(PLUS, "R", {"K": 1000, "d": 32, "T": 200}, (4, 16, 64, 256, 1024), (1, 64), (1, 64)),
    Series(CONTEXTS, "K", {"d": 64, "T": 100}, (1000, 3000, 10000, 30000, 100000), (1, 10000), (1, 10000)),
    Series(CONTEXTS, "d", {"K": 100, "T": 100}, (30, 100, 300, 1000, 3000), (2, 1000), (2, 300)),
    Series(CONTEXTS, "T", {"K": 50, "d": 50}, (100, 300, 1000, 3000, 10000), (1, 300), (0, 100)),
    Series(CONTEXTS, "R", {"K": 50, "d": 50, "T": 100}, (4, 16, 64, 256, 1024), (1, 64), (1, 64)),
)
SMALL = {"K": 60, "d": 12, "T": 40, "R": 2}


def quick(series: Series) -> Series:
    """The same series at two tiny sizes."""
    fixed = {size: SMALL[size] for size in series.fixed}
    values = tuple(SMALL[series.axis] * factor for factor in (1, 4))
    start = values[0]
    return Series(series.policy, series.axis, fixed, values, (series.cost[0], start), (series.memory[0], start))


def point(policy: str, sizes: dict[str, int], device: str) -> dict[str, Any]:
    """Cost and peak memory of one run; on the CPU, call it in a fresh process."""
    with threadpool_limits(1):
        warm_up(device)
        meter = Meter(device)
        size: dict[str, Any] = {
            "arms": sizes["K"],
            "dim": sizes["d"],
            "horizon": sizes["T"],
            "replications": range(sizes.get("R", 1)),
            "intrinsic_dim": min(8, sizes["d"]),
        }
        if policy == CONTEXTS:
            drawn = adadim.instances.contexts(distribution="repeated", **size)
            instance = drawn if device == "cpu" else drawn.to(device)
        else:
            instance = sphere(device, **size)
        times: list[float] = []
        while not times or (sum(times) < ENOUGH and len(times) < RUNS):
            begun = meter.now()
            adadim.simulate(POLICIES[policy], instance, record=1)
            times.append(meter.now() - begun)
        peak = meter.peak()
    return {"seconds": min(times), "bytes": peak, "runs": len(times)}


def points(series: Series, device: str) -> list[dict[str, Any]]:
    """Every point of a series."""
    measurements = []
    for value in series.values:
        sizes = {**series.fixed, series.axis: value}
        if device == "cpu":
            command = [sys.executable, __file__, "--point", json.dumps([series.policy, sizes])]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{series.policy} at {sizes}: {done.stderr}")
            measured = json.loads(done.stdout)
        else:
            measured = point(series.policy, sizes, device)
        measurements.append({series.axis: value, **measured})
    return measurements


def fitted(series: Series, measurements: list[dict[str, Any]], quantity: str) -> dict[str, float]:
    """Exponent of `quantity` over the large sizes, and what it should be."""
    predicted, start = series.cost if quantity == "seconds" else series.memory
    used = [p for p in measurements if p[series.axis] >= start]
    exponent = slope([p[series.axis] for p in used], [p[quantity] for p in used])
    return {"exponent": exponent, "predicted": predicted, "from": start, "to": series.values[-1]}


def measure(every: tuple[Series, ...], device: str) -> dict[str, Any]:
    """Every series in turn."""
    before, rows = load(), []
    for series in every:
        measurements = points(series, device)
        rows.append(
            {
                "policy": series.policy,
                "axis": series.axis,
                "fixed": dict(series.fixed),
                "points": measurements,
                "cost": fitted(series, measurements, "seconds"),
                "memory": fitted(series, measurements, "bytes"),
            }
        )
        if sys.stderr.isatty():
            print(f"{series.policy}, {series.axis}: done", file=sys.stderr)
    described = machine(device=device)
    described["load"] = {"before": before, "after": load()}
    return {"benchmark": "growth", "machine": described, "device": device, "rows": rows}


def draw(report: dict[str, Any], path: Path) -> None:
    """Cost above, memory below, a column for each size; dashed is the predicted slope over the range fitted."""
    from matplotlib.figure import Figure

    from adadim.report.looks import looks_of
    from adadim.report.style import figure_style, heading, tidy

    looks = looks_of(POLICIES, width=1.3)
    with figure_style():
        figure = Figure(figsize=(11, 6.0), layout="constrained")
        axes = figure.subplots(2, len(AXES), sharex="col")
        fits: dict[Any, list[dict[str, float]]] = {}
        for row in report["rows"]:
            column = list(AXES).index(row["axis"])
            x = [p[row["axis"]] for p in row["points"]]
            for axis, fit, values in (
                (axes[0, column], row["cost"], [p["seconds"] for p in row["points"]]),
                (axes[1, column], row["memory"], [max(p["bytes"], 1) / 2**20 for p in row["points"]]),
            ):
                look, name = looks[row["policy"]], row["policy"]
                axis.loglog(x, values, **{**look, "linestyle": "-", "markersize": 4}, label=name)
                fits.setdefault(axis, []).append(fit)
                ends = [fit["from"], fit["to"]]
                line = [values[-1] * (end / x[-1]) ** fit["predicted"] for end in ends]
                axis.loglog(ends, line, color=look["color"], linestyle="--", linewidth=1, alpha=0.7)
        clock = "core-seconds" if report["device"] == "cpu" else "seconds"
        axes[0, 0].set_ylabel(f"{clock} of a run")
        axes[1, 0].set_ylabel("peak memory (MiB)")
        for column, text in enumerate(AXES.values()):
            axes[1, column].set_xlabel(text)
        for axis in axes.flat:
            tidy(axis)
            measured = ", ".join(f"{round(fit['exponent'], 2) + 0.0:.2f}" for fit in fits[axis])  # no -0.00
            predicted = ", ".join(f"{fit['predicted']:g}" for fit in fits[axis])
            axis.set_title(f"{measured}\n(predicted {predicted})", fontsize=8)
        lines, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside lower center", ncols=len(names), frameon=False)
        heading(
            figure,
            None,
            "above each panel: exponents in the order of the legend; dashed: predicted slopes, over the range fitted",
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, metadata={"Software": None} if path.suffix == ".png" else None)


def show(report: dict[str, Any]) -> None:
    """Print the report."""
    print(describe(report["machine"]) + "\n")
    lines = []
    for row in report["rows"]:
        axis, last = row["axis"], row["points"][-1]
        fixed = " ".join(f"{key}={value}" for key, value in row["fixed"].items() if key != axis)
        lines.append(
            [
                row["policy"],
                axis,
                f"{row['points'][0][axis]}..{last[axis]}",
                fixed,
                f"{row['cost']['exponent']:.2f}",
                f"{row['cost']['predicted']:g}",
                str(row["cost"]["from"]),
                f"{row['memory']['exponent']:.2f}",
                f"{row['memory']['predicted']:g}",
                str(row["memory"]["from"]),
                f"{last['seconds']:.3f}",
                f"{last['bytes'] / 2**20:.0f}",
            ]
        )
    headers = ["policy", "grows", "range", "fixed", "cost", "predicted", "fitted from"]
    print(table([*headers, "memory", "predicted", "fitted from", "seconds at the end", "MiB"], lines))


def main() -> int:
    parser = arguments("growth", __doc__, "two tiny sizes each")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="NumPy (default), or torch on a GPU")
    parser.add_argument("--plot", type=Path, help="where the picture goes (default beside the JSON, as .png)")
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        policy, sizes = options.point
        print(json.dumps(point(policy, sizes, "cpu")))
        return 0
    if reason := missing(options.device):
        parser.error(reason)
    every = CPU if options.device == "cpu" else CUDA
    report = measure(tuple(map(quick, every)) if options.quick else every, options.device)
    plot = options.plot or options.out.with_suffix(".png")
    write_json(options.out, report)
    draw(report, plot)
    show(report)
    print(f"\nwrote {options.out} and {plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
