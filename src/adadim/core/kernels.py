"""Kernels for CUDA, where torch has no single operation for what is needed; written in Triton.

The functions here say whether there are any: elsewhere than on CUDA, or without Triton, they give None, and the caller
does the same with the operations of the array library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adadim.core.arrays import Array, device_of, is_numpy, like


def _triton(reference: Array) -> Any:
    """Return the module with the kernels, or None."""
    if is_numpy(reference) or not str(device_of(reference)).startswith("cuda"):
        return None
    try:
        from adadim.core import triton_kernels
    except ImportError:
        return None
    return triton_kernels


def lane_kernels(
    base: Array,
    levels: Sequence[int],
    dims: Sequence[int],
    starts: Sequence[int],
    w: Array,
    mean: Array,
    width2: Array,
) -> Any:
    """What the lanes of `models.tensors` do to the chosen one of each replication, on their memory; or None."""
    module = _triton(base)
    if module is None:
        return None
    host = (dims, starts, levels)
    return module.LaneKernels(base, *(like(np.asarray(part), w) for part in host), w, mean, width2, max(dims))


def log_barrier_kernel(reference: Array) -> Any:
    """``step(p, losses, eta, accuracy, steps)`` as `log_barrier_step` in `policies.masters.corral`, or None."""
    module = _triton(reference)
    return None if module is None else module.log_barrier_step
