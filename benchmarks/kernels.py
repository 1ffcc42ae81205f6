"""Kernels of a round on a GPU, microseconds of the device for them, and seconds of whole runs, by policy.

    python benchmarks/kernels.py                     the paper's six policies, 100 replications of figure 2a's size
    python benchmarks/kernels.py --names             each kernel by name too
    python benchmarks/kernels.py --runs              seconds of 20 replications, of more policies
    PYTHONPATH=../before/src python benchmarks/kernels.py      the same of another version

A round is counted in the middle of a run, between rounds 1,500 and 1,600: what PyTorch's profiler sees on the device,
divided by 100. Seconds are the median of three more runs on the wall, the start of the learner included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter as Counts
from pathlib import Path
from typing import Any

import adadim
from _device import missing, sphere
from adadim import paper

FIRST, LAST, HORIZON = 1500, 1600, 2500
SIZE: dict[str, Any] = {"arms": 1200, "dim": 600, "horizon": HORIZON, "intrinsic_dim": 12}


def profiled(policy: adadim.Policy, instance: adadim.Instance) -> tuple[Counts, Counts]:
    """How often the device did what between two rounds, by name, and microseconds of it."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    profiler = profile(activities=[ProfilerActivity.CUDA])

    def progress(done: int, _: int) -> None:
        if done == FIRST:
            profiler.start()
        elif done == LAST:
            profiler.stop()

    adadim.simulate(policy, instance, record=[FIRST, LAST, HORIZON], progress=progress)
    counted, spent = Counts(), Counts()
    for event in profiler.events():
        if event.device_type != DeviceType.CUDA:
            continue
        counted[event.name] += 1
        spent[event.name] += event.device_time
    return counted, spent


def seconds(policy: adadim.Policy, instance: adadim.Instance) -> float:
    """Seconds of a run, start included."""
    import torch

    torch.cuda.synchronize()
    begun = time.perf_counter()
    adadim.simulate(policy, instance, record=1, progress=False)
    torch.cuda.synchronize()
    return time.perf_counter() - begun


def runs() -> None:
    """Seconds of runs with 20 replications, each the median of three after a first one."""
    made, count = adadim.instances, range(20)
    fixed = made.sphere(arms=200, dim=50, intrinsic_dim=5, horizon=500, replications=count).to("cuda")
    contexts = made.contexts(arms=30, dim=20, intrinsic_dim=3, horizon=300, replications=count).to("cuda")
    large = made.sphere(**SIZE, replications=count).to("cuda")
    given = {name: (policy, large) for name, policy in paper.policies("released", SIZE["intrinsic_dim"]).items()} | {
        "recommended, fixed arms": (adadim.recommended(fixed.problem), fixed),
        "recommended, contexts": (adadim.recommended(contexts.problem), contexts),
        "LinUCB, contexts": (adadim.LinUCB(), contexts),
    }
    for name, (policy, instance) in given.items():
        seconds(policy, instance)
        took = statistics.median(seconds(policy, instance) for _ in range(3))
        print(f"| {name} | {took:.3f} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--names", action="store_true", help="print each kernel")
    parser.add_argument("--runs", action="store_true", help="seconds alone, of more policies")
    parser.add_argument("--only", action="append", help="a policy; by default all six")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    if reason := missing("cuda"):
        print(reason, file=sys.stderr)
        return 2
    if options.runs:
        runs()
        return 0
    instance = sphere("cuda", replications=range(options.replications), **SIZE)
    rows = {}
    print("| policy | kernels a round | microseconds on the device | seconds |\n| --- | --- | --- | --- |")
    for name, policy in paper.policies("released", SIZE["intrinsic_dim"]).items():
        if options.only and name not in options.only:
            continue
        counted, spent = profiled(policy, instance)
        rounds, took = LAST - FIRST, statistics.median(seconds(policy, instance) for _ in range(3))
        copies = sum(count for key, count in counted.items() if key.startswith("Mem"))
        kernels, device = (sum(counted.values()) - copies) / rounds, sum(spent.values()) / rounds
        rows[name] = {"kernels": kernels, "microseconds": device, "seconds": took}
        print(f"| {name} | {kernels:.1f} | {device:.0f} | {took:.2f} |", flush=True)
        if options.names:
            for key, count in counted.most_common():
                print(f"    {count / rounds:6.2f} x {spent[key] / count:6.2f} us  {key[:150]}")
    if options.out:
        options.out.write_text(json.dumps({"version": adadim.__version__, "policies": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
