"""LinUCB++ on very many arms: time per decision and peak memory.

On the CPU: 100,000 arms with 64 features over 10,000 rounds, in NumPy, to fit into 4 GB. A GPU has room for more:

    python benchmarks/large.py
    python benchmarks/large.py --device cuda --arms 1000000

The arms are points of the unit sphere of which the first 8 features matter; on a GPU they are drawn there, so that
neither the host's memory nor the bus limits their number. A decision is one round of `adadim.simulate`: choose an arm,
pull it, learn. Its time is given on the wall and, on the CPU, in processor time (`simulate` uses one thread); over the
whole horizon, and in each tenth of it, since LinUCB++ learns in ever fewer features. Memory is the most that was held,
libraries included, and how much of that came with the arms; on a GPU, what torch allocated there.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from typing import Any

import adadim
from _device import DEVICES, Meter, missing, sphere, warm_up
from _report import arguments, describe, load, machine, resident, table, write_json

AT_MOST = 4 * 10**9  # bytes on the CPU
RELEVANT = 8
PARTS = 10


def measure(arms: int, dim: int, horizon: int, device: str) -> dict[str, Any]:
    """Make the arms and play every round."""
    before = load()
    warm_up(device)
    held = {"libraries": resident()[0]}
    meter = Meter(device)
    begun = meter.now()
    instance = sphere(
        device, arms=arms, dim=dim, horizon=horizon, replications=range(1), intrinsic_dim=min(RELEVANT, dim)
    )
    making = meter.now() - begun
    held["with_arms"], held["peak_making_arms"] = resident()
    marks: list[tuple[int, float, float]] = []

    def mark(done: int, total: int) -> None:
        clock = meter.now()  # on a GPU this waits until all is done
        marks.append((done, time.perf_counter(), clock))

    mark(0, horizon)
    outcome = adadim.simulate(adadim.LinUCBPlusPlus(), instance, record=min(PARTS, horizon), progress=mark)
    held["peak"] = resident()[1]
    report: dict[str, Any] = {
        "benchmark": "large",
        "machine": machine(device=device),
        "setting": {"arms": arms, "dim": dim, "horizon": horizon, "device": device, "policy": "LinUCBPlusPlus()"},
        "making_arms_seconds": making,
        "us_per_decision": 1e6 * (marks[-1][1] - marks[0][1]) / horizon,
        "parts": [
            {"rounds": [first + 1, last], "us_per_decision": 1e6 * (end - start) / (last - first)}
            for (first, start, _), (last, end, _) in pairwise(marks)
        ],
        "seconds": marks[-1][1] - marks[0][1],
        "host_bytes": held,
        "regret": float(outcome.final[0]),
        "described": outcome.learner.describe()[0],
    }
    if device == "cpu":
        report["core_us_per_decision"] = 1e6 * (marks[-1][2] - marks[0][2]) / horizon
        report["peak_bytes"], report["peak_bytes_at_most"] = held["peak"], AT_MOST
    else:
        report["peak_bytes"] = meter.peak()
    report["machine"]["load"] = {"before": before, "after": load()}
    return report


def show(report: dict[str, Any]) -> None:
    """Print the report."""
    setting, held = report["setting"], report["host_bytes"]
    print(describe(report["machine"]))
    size = f"K={setting['arms']:,} d={setting['dim']} T={setting['horizon']:,}"
    print(f"LinUCB++, {size}, device {setting['device']}; making the arms: {report['making_arms_seconds']:.1f} s\n")
    lines = [[f"{p['rounds'][0]}..{p['rounds'][1]}", f"{p['us_per_decision']:,.0f}"] for p in report["parts"]]
    lines.append(["all", f"{report['us_per_decision']:,.0f}"])
    print(table(["rounds", "us per decision"], lines))
    if "core_us_per_decision" in report:
        print(f"\nprocessor time: {report['core_us_per_decision']:,.0f} us per decision")
    print(
        f"\nhost memory in MB: {held['libraries'] / 1e6:.0f} with the libraries loaded, "
        f"{held['with_arms'] / 1e6:.0f} with the arms made ({held['peak_making_arms'] / 1e6:.0f} on the way), "
        f"{held['peak'] / 1e6:.0f} at the peak"
    )
    if "peak_bytes_at_most" in report:
        verdict = "met" if report["peak_bytes"] <= report["peak_bytes_at_most"] else "MISSED"
        print(f"peak {report['peak_bytes'] / 1e9:.2f} GB (at most {report['peak_bytes_at_most'] / 1e9:.0f}): {verdict}")
    else:
        print(f"peak on the device: {report['peak_bytes'] / 1e9:.2f} GB")


def main() -> int:
    parser = arguments("large", __doc__, "1000 arms and 100 rounds")
    parser.add_argument("--arms", type=int, default=100_000, help="K (default 100,000)")
    parser.add_argument("--dim", type=int, default=64, help="d (default 64)")
    parser.add_argument("--horizon", type=int, default=10_000, help="T (default 10,000)")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="NumPy (default), or torch on a GPU")
    options = parser.parse_args()
    if reason := missing(options.device):
        parser.error(reason)
    arms, horizon = (1000, 100) if options.quick else (options.arms, options.horizon)
    report = measure(arms, options.dim, horizon, options.device)
    write_json(options.out, report)
    show(report)
    print(f"\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
