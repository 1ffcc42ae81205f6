"""The clock of the engine benchmark, and what the processor can do at best."""

from __future__ import annotations

import time

import numpy as np
from scipy.linalg.blas import dsyrk

SYRK_RANKS = (32, 64, 128)


class Stopwatch:
    """Processor time of this process, and the share of the time on the wall that it got."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def start(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self) -> tuple[float, float]:
        """Processor and wall seconds since the start."""
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        self.cpu, self.wall = self.cpu + cpu, self.wall + wall
        return cpu, wall


WATCH = Stopwatch()


def syrk_rates(n: int, repeats: int = 15) -> dict[int, float]:
    """Best rate of a symmetric rank-k update in place, in flops per second (n^2 k flops each), by k."""
    rng, target, rates = np.random.default_rng(0), np.zeros((n, n), order="F"), {}
    for k in SYRK_RANKS:
        rows = np.asfortranarray(rng.standard_normal((n, k)))
        times = []
        for _ in range(repeats):
            WATCH.start()
            dsyrk(-1.0, rows, beta=1.0, c=target, overwrite_c=1, lower=0)
            times.append(WATCH.stop()[0])
        rates[k] = n * n * k / min(times)
    return rates
