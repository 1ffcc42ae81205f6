"""Kernels for CUDA, in Triton, where torch has no single operation for what is needed; see `recording.cuda_kernels`.

They read W and the features once, and only as far as the chosen lane goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import triton
import triton.language as tl

from adadim.core.arrays import Array, like
from adadim.core.state import stateless

ROWS = 32  # rows of W that one program works on
ARMS = 128  # arms that one program works on
TILE = 32  # features read at a time


@stateless
class LaneKernels:
    """Operations on the chosen lane of every replication, over the memory of a `Lanes`."""

    def __init__(
        self,
        base: Array,
        levels: Sequence[int],
        dims: Sequence[int],
        starts: Sequence[int],
        w: Array,
        mean: Array,
        width2: Array,
    ) -> None:
        self.base, self.top, self.w, self.mean, self.width2 = base, max(dims), w, mean, width2
        self.levels, self.dims, self.starts = (like(np.asarray(part), w) for part in (levels, dims, starts))
        self.replications, self.lanes, self.arms = mean.shape
        self.base_arms, self.blocks = int(base.shape[1]), len(levels)

    def solve(self, chosen: Array, a: Array) -> Array:
        """u = V^-1 a, zero beyond the lane's dimension."""
        u = a * 0.0
        grid = (self.replications, triton.cdiv(self.top, ROWS))
        _solve[grid](self.w, self.w.stride(0), self.dims, self.starts, chosen, a, u, a.stride(0), ROWS=ROWS, TILE=TILE)
        return u

    def absorb(self, chosen: Array, u: Array, c: Array, surprise: Array) -> None:
        """mean += surprise g and width2 -= c g^2 with g = A u, and V^-1 -= c u u^T."""
        grid = (self.replications, triton.cdiv(self.base_arms, ARMS))
        _absorb[grid](
            self.base,
            *self.base.stride(),
            self.dims,
            self.levels,
            chosen,
            u,
            u.stride(0),
            c,
            surprise,
            self.mean,
            self.width2,
            self.lanes,
            self.arms,
            self.base_arms,
            BLOCKS=self.blocks,
            ARMS=ARMS,
            TILE=TILE,
        )
        grid = (self.replications, triton.cdiv(self.top, ROWS))
        _fold[grid](self.w, self.w.stride(0), self.dims, self.starts, chosen, u, u.stride(0), c, ROWS=ROWS, TILE=TILE)


def log_barrier_step(p: Array, losses: Array, eta: Array, accuracy: float, steps: int) -> tuple[Array, Array]:
    """One step of mirror descent with the log-barrier; each row goes on until it has settled."""
    p, losses, eta = p.contiguous(), losses.contiguous(), eta.contiguous()
    result, multiplier = p * 0.0, p[:, 0] * 0.0
    rows, bases = p.shape
    width = triton.next_power_of_2(bases)
    _log_barrier[(rows,)](p, losses, eta, result, multiplier, bases, STEPS=steps, ACCURACY=accuracy, WIDTH=width)
    return result, multiplier


@triton.jit
def _log_barrier(
    p, losses, eta, result, multiplier, bases, STEPS: tl.constexpr, ACCURACY: tl.constexpr, WIDTH: tl.constexpr
):
    r = tl.program_id(0)
    i = tl.arange(0, WIDTH)
    inside = i < bases
    inverse = 1.0 / tl.load(p + r * bases + i, mask=inside, other=1.0)
    loss = tl.load(losses + r * bases + i, mask=inside, other=0.0)
    rate = tl.load(eta + r * bases + i, mask=inside, other=1.0)
    pole = tl.min(tl.where(inside, loss + inverse / rate, float("inf")), axis=0)
    low = tl.min(tl.where(inside, loss, float("inf")), axis=0)
    high = tl.minimum(tl.max(tl.where(inside, loss, float("-inf")), axis=0), pole)
    at = low
    terms = tl.zeros((WIDTH,), dtype=tl.float64)
    total = tl.sum(terms, axis=0)
    left = STEPS
    while left > 0:
        terms = tl.where(inside, 1.0 / (inverse + rate * (loss - at)), 0.0)
        total = tl.sum(terms, axis=0)
        settled = tl.abs(total - 1.0) <= ACCURACY
        below = total < 1.0
        low = tl.where(below, at, low)
        high = tl.where(below, high, at)
        proposal = at + total * (1.0 - total) / tl.sum(rate * terms * terms, axis=0)
        within = (proposal > low) & (proposal < high)
        following = tl.where(within, proposal, 0.5 * (low + high))
        left = tl.where(settled | (following == at), 0, left - 1)
        at = tl.where(left > 0, following, at)
    tl.store(result + r * bases + i, terms / total, mask=inside)
    tl.store(multiplier + r, at)


@triton.jit
def _solve(w, w_stride, dims, starts, chosen, a, u, a_stride, ROWS: tl.constexpr, TILE: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.load(chosen + r)
    d = tl.load(dims + lane)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    if tl.program_id(1) * ROWS < d:
        matrix = w + r * w_stride + tl.load(starts + lane)
        total = tl.zeros((ROWS, TILE), dtype=tl.float64)
        for first in range(0, d, TILE):
            j = first + tl.arange(0, TILE)
            inside = (i[:, None] < d) & (j[None, :] < d)
            block = tl.load(matrix + i[:, None] * d + j[None, :], mask=inside, other=0.0)
            part = tl.load(a + r * a_stride + j, mask=j < d, other=0.0)
            total += block * part[None, :]
        tl.store(u + r * a_stride + i, tl.sum(total, axis=1), mask=i < d)


@triton.jit
def _absorb(
    base,
    base_stride,
    arm_stride,
    feature_stride,
    dims,
    levels,
    chosen,
    u,
    u_stride,
    c,
    surprise,
    mean,
    width2,
    lanes,
    arms,
    base_arms,
    BLOCKS: tl.constexpr,
    ARMS: tl.constexpr,
    TILE: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    weight = tl.load(c + r)
    if weight > 0:
        lane = tl.load(chosen + r)
        d = tl.load(dims + lane)
        push = tl.load(surprise + r)
        k = tl.program_id(1) * ARMS + tl.arange(0, ARMS)
        there = k < base_arms
        row = base + r * base_stride + k * arm_stride
        out = (r * lanes + lane) * arms + k
        total = tl.zeros((TILE, ARMS), dtype=tl.float64)
        first = d * 0
        for block in range(BLOCKS):
            stop = tl.minimum(tl.load(levels + block), d)
            for start in range(first, stop, TILE):
                j = start + tl.arange(0, TILE)
                inside = (j[:, None] < stop) & there[None, :]
                features = tl.load(row[None, :] + j[:, None] * feature_stride, mask=inside, other=0.0)
                part = tl.load(u + r * u_stride + j, mask=j < stop, other=0.0)
                total += features * part[:, None]
            first = stop
            g = tl.sum(total, axis=0)
            at = out + block * base_arms
            was = tl.load(mean + at, mask=there, other=0.0)
            tl.store(mean + at, was + push * g, mask=there)
            was = tl.load(width2 + at, mask=there, other=0.0)
            tl.store(width2 + at, tl.maximum(was - weight * g * g, 0.0), mask=there)


@triton.jit
def _fold(w, w_stride, dims, starts, chosen, u, u_stride, c, ROWS: tl.constexpr, TILE: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    weight = tl.load(c + r)
    lane = tl.load(chosen + r)
    d = tl.load(dims + lane)
    if (weight > 0) & (tl.program_id(1) * ROWS < d):
        i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
        matrix = w + r * w_stride + tl.load(starts + lane)
        left = weight * tl.load(u + r * u_stride + i, mask=i < d, other=0.0)
        for first in range(0, d, TILE):
            j = first + tl.arange(0, TILE)
            inside = (i[:, None] < d) & (j[None, :] < d)
            right = tl.load(u + r * u_stride + j, mask=j < d, other=0.0)
            at = matrix + i[:, None] * d + j[None, :]
            tl.store(at, tl.load(at, mask=inside, other=0.0) - left[:, None] * right[None, :], mask=inside)
