"""The two places where a benchmark can run, and how time and memory are measured in each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import adadim
from _report import resident

DEVICES = ("cpu", "cuda")


def missing(device: str) -> str | None:
    """Why the device cannot be used, or None."""
    if device == "cpu":
        return None
    try:
        import torch
    except ImportError:
        return "--device cuda needs torch: install adadim[torch]"
    return None if torch.cuda.is_available() else "--device cuda: this machine has no GPU that torch can use"


def sphere(
    device: str, *, arms: int, dim: int, horizon: int, replications: Sequence[int], intrinsic_dim: int
) -> adadim.Instance:
    """`adadim.instances.sphere` in NumPy, or points of the same law drawn on the device itself."""
    size: dict[str, Any] = {"horizon": horizon, "replications": replications}
    if device == "cpu":
        return adadim.instances.sphere(arms=arms, dim=dim, intrinsic_dim=intrinsic_dim, **size)
    import torch

    draw = torch.Generator(device).manual_seed(0)
    features = torch.empty((len(replications), arms, dim), dtype=torch.float64, device=device)
    features.normal_(generator=draw)
    features /= torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    theta = torch.as_tensor(adadim.instances.parameter("uniform", intrinsic_dim, dim), device=device)
    return adadim.Instance(features, theta=theta, noise=0.1, **size)


class Meter:
    """Seconds and peak bytes since it was made.

    On the CPU the seconds are processor time and the bytes those resident, over what was resident before. On a GPU
    the seconds are those on the wall until all work is done, and the bytes those that torch allocated there.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        if device == "cpu":
            self._before = resident()[0]
        else:
            import torch

            self._torch = torch
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()

    def now(self) -> float:
        """A clock: differences are seconds."""
        if self._device == "cpu":
            return time.process_time()
        self._torch.cuda.synchronize()
        return time.perf_counter()

    def peak(self) -> int:
        """Most bytes held at once since the start, over those held then."""
        most = resident()[1] if self._device == "cpu" else self._torch.cuda.max_memory_allocated()
        return int(max(most - self._before, 0))


def warm_up(device: str) -> None:
    """Load what is loaded at first use: BLAS and its buffers, or the GPU's libraries and kernels."""
    for policy in (adadim.LinUCB(form="gram"), adadim.LinUCB(form="feature"), adadim.LinUCBPlusPlus()):
        adadim.simulate(policy, sphere(device, arms=64, dim=8, horizon=100, replications=range(1), intrinsic_dim=2))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Exponent of a power law by least squares on logarithms."""
    return float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-300)), 1)[0])
