"""What every benchmark reports alike: the machine, a table for people and a JSON file for programs."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

ROOT = Path(__file__).resolve().parent.parent


def arguments(name: str, description: str | None, quick: str) -> argparse.ArgumentParser:
    """Parser with the options that every benchmark has; `quick` says what --quick does."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{quick}, to see that it runs")
    out = Path("out") / "bench" / f"{name}.json"
    parser.add_argument("--out", type=Path, default=ROOT / out, help=f"where the JSON goes (default {out})")
    return parser


def machine(packages: Sequence[str] = ("adadim", "numpy", "scipy"), device: str = "cpu") -> dict[str, Any]:
    """Processor, system, package versions and the thread pools now loaded; call it after every import.

    For a CUDA device also the card.
    """
    pools = [
        {key: pool.get(key) for key in ("user_api", "internal_api", "version", "architecture", "num_threads")}
        for pool in threadpool_info()
    ]
    card = {} if device == "cpu" else {"gpu": _gpu(device)}
    if card:
        packages = (*packages, "torch")
    return {
        **card,
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in packages},
        "pools": pools,
        "load": load(),
    }


def load() -> float | None:
    """Load average of the last minute, where the system has one."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def describe(report: dict[str, Any]) -> str:
    """The machine in one line."""
    pools = {
        f"{pool['internal_api']} {pool['version'] or ''}".strip()
        + (f" ({pool['architecture']})" if pool["architecture"] else "")
        for pool in report["pools"]
    }
    threads = {pool["num_threads"] for pool in report["pools"]}
    packages = ", ".join(f"{name} {version}" for name, version in report["packages"].items())
    card = f"{report['gpu']}, " if "gpu" in report else ""
    return (
        f"{card}{report['cpu']}, {report['cores']} cores, {report['system']}, Python {report['python']}, {packages}, "
        f"{', '.join(sorted(pools))}; threads per pool: {'/'.join(map(str, sorted(threads)))}"
    )


def resident() -> tuple[int, int]:
    """Bytes of memory that this process holds now, and the most that it ever held.

    Where the system does not say what it holds now, the most stands for both.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        facts = dict(line.split(":", 1) for line in lines)
        return int(facts["VmRSS"].split()[0]) * 1024, int(facts["VmHWM"].split()[0]) * 1024
    except (OSError, KeyError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return most, most


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text: the first is aligned to the left, the others to the right."""
    widths = [max(len(line[i]) for line in (headers, *rows)) for i in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()

    return "\n".join([line(headers), "  ".join("-" * width for width in widths), *map(line, rows)])


def write_json(path: Path, report: dict[str, Any]) -> None:
    """Write the report under a temporary name, then give it its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(path)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or "unknown"
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = facts.get("model name", platform.processor() or "unknown")
    return f"{name} (family {facts['cpu family']}, model {facts['model']})" if "cpu family" in facts else name


def _gpu(device: str) -> str:
    import torch

    return str(torch.cuda.get_device_name(device))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
