"""Memory that one setting of a tool takes, measured in a process of its own that has imported NumPy and nothing else.

    python benchmarks/_footprint.py TOOL SETTING ORDER.npz

prints two numbers of MB: what the process grew by when the tool was imported and had played a small task once, so that
all it needs is loaded; and the most that it grew by from there while it played the order. Linux only: the peak of a
process is set back through /proc.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from _rivals import TOOLS, Setting, Sizes, Tool

SMALL = 200  # rounds of the small task


def memory(what: str) -> float:
    """MB of memory that this process holds now ("VmRSS"), or held at most ("VmHWM")."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))


def play(tool: type[Tool], setting: Setting, seen: np.ndarray, rewards: np.ndarray) -> Tool:
    """The player after the last round, each reward learned at once."""
    player = tool(Sizes(rewards.shape[1], seen.shape[-1], seen.ndim == 2, 0), setting)
    for row, pays in zip(seen, rewards, strict=True):
        arm, memo = player.choose(row)
        player.learn(memo, float(pays[arm]))
    return player


def grown(tool: type[Tool], setting: Setting, seen: np.ndarray, rewards: np.ndarray) -> tuple[float, float]:
    """MB that a tool grows by when it is loaded, and then while it plays."""
    rng, before = np.random.default_rng(0), memory("VmRSS")
    numbers = rng.normal(size=(SMALL, 4) if seen.ndim == 2 else (SMALL, 3, 4))
    numbers[..., 0] = 1.0
    play(tool, setting, numbers, rng.integers(2, size=(SMALL, 3)).astype(float))
    gc.collect()
    loaded = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins again
    player = play(tool, setting, seen, rewards)
    found = loaded - before, max(0.0, memory("VmHWM") - loaded)
    del player  # alive until then
    return found


def footprint(name: str, setting: Setting, seen: np.ndarray, rewards: np.ndarray) -> tuple[float, float]:
    """`grown` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        order = Path(folder, "order.npz")
        np.savez(order, seen=seen, rewards=rewards)
        command = [sys.executable, __file__, name, json.dumps(setting), str(order)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded, most = map(float, done.stdout.split())
    return loaded, most


if __name__ == "__main__":
    with np.load(sys.argv[3]) as given:
        arrays = given["seen"], given["rewards"]
    print(*grown(TOOLS[sys.argv[1]], json.loads(sys.argv[2]), *arrays))
