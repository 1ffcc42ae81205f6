"""Kernels for CUDA, where torch has no operation that stops at each replication's own dimension.

They read W and the features once and only as far as the chosen lane goes. Without Triton, or elsewhere than on CUDA,
`plan` gives None and `Lanes` does the same with torch's own operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adadim.actions import ActionSet
from adadim.arrays import Array, device_of, like

__all__ = ["plan"]


def plan(actions: ActionSet, dims: Sequence[int], starts: Sequence[int], w: Array, mean: Array, width2: Array) -> Any:
    """Kernels for these lanes, or None."""
    if not str(device_of(w)).startswith("cuda"):
        return None
    try:
        import triton  # noqa: F401
    except ImportError:
        return None
    from adadim.posterior.triton_kernels import LaneKernels

    return LaneKernels(
        actions,
        like(np.asarray(dims), w),
        like(np.asarray(starts), w),
        like(np.asarray(actions.levels), w),
        w,
        mean,
        width2,
    )
