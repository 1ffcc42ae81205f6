"""What a posterior costs in time and memory: the one place that says so.

The Gram form does K^2 flops of a symmetric rank-k product for each new arm and holds a K x K matrix; the feature form
streams the K_0 d features and the d^2 entries of V^-1, and holds the latter.
"""

from __future__ import annotations

import math
from typing import Literal

NUMBER_BYTES = 8  # bytes

# A flop of syrk costs about a fifth of a number streamed through gemv (one thread, AVX-512, K from 400 to 2400);
# `benchmarks/engine.py` measures both forms.
STREAM_TO_FLOP = 5.0


def cheaper_form(arms: int, base_arms: int, dim: int) -> Literal["gram", "feature"]:
    """Form that takes less time for K arms, truncations of K_0 base arms, in d features."""
    return "gram" if arms**2 <= STREAM_TO_FLOP * (base_arms * dim + dim**2) else "feature"


def state_bytes(form: Literal["gram", "feature"], arms: int, dim: int) -> int:
    """Memory that a form's matrix takes in each replication."""
    return NUMBER_BYTES * (arms**2 if form == "gram" else dim**2)


def streamed_bytes(form: Literal["gram", "feature"], base_arms: int, dim: int) -> int:
    """Bytes that every round reads anew in each replication; none in the Gram form, which works in blocks of pulls."""
    return 0 if form == "gram" else NUMBER_BYTES * (base_arms * dim + dim * dim // 2)


def least_bytes(base_arms: int, arms: int, dim: int) -> int:
    """Memory that a replication takes at least: features as drawn and as kept, mean, gap, pulls and score of arms."""
    return NUMBER_BYTES * (2 * base_arms * dim + 4 * arms)


def replication_bytes(arms: int, dim: int, horizon: int) -> int:
    """Memory that one replication of a study takes, at most, whatever the policy (with its default form).

    Three times the features; the matrices of nested bases or of the levels of SupLinUCB; random numbers, past and arms.
    """
    dims = [min(2**i, dim) for i in range(math.ceil(math.log2(dim)) + 1)]
    # On a device nested bases are always in the feature form, whichever is cheaper (`lanes`).
    nested = sum(max(state_bytes("feature", arms, m), state_bytes(cheaper_form(arms, arms, m), arms, m)) for m in dims)
    levels = math.ceil(math.log(horizon + 1)) * state_bytes(cheaper_form(arms, arms, dim), arms, dim)
    vectors = 100 * arms + (len(dims) + 1) * (2 * horizon + 2 * arms)
    return 3 * NUMBER_BYTES * arms * dim + max(nested, levels) + NUMBER_BYTES * vectors
