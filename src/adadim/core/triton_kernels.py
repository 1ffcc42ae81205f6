"""Kernels for CUDA, in Triton, where torch has no single operation for what is needed; see `recording.cuda_kernels`.

A round is a few of them, since starting one takes longer than what it does. Those of a regression read W and the
features once, and only as far as the chosen lane goes. None of them writes where a mask does not hold. Sizes that
differ between the iterations of a policy are no reason to compile a kernel again (`do_not_specialize`).
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from adadim.core.arrays import Array, like, zeros
from adadim.core.recording import settle
from adadim.core.state import stateless

ROWS = 32  # rows of W that one program works on
ARMS = 128  # arms that one program works on
TILE = 32  # features read at a time
NUMBERS_OF_A_WARP = 128  # of a row, in a kernel that was written down


class FusedKernel:
    """A kernel that `fusion` has written down, for so many replications, its arguments and sizes of blocks."""

    texts: ClassVar[dict[str, Any]] = {}
    compiled: ClassVar[set[Any]] = set()  # of those, by text, types and sizes

    def __init__(self, text: str, count: int, arguments: Sequence[Any], blocks: Sequence[int]) -> None:
        self.text, self.count, self.arguments, self.blocks = text, count, arguments, blocks
        kinds = [(part.dtype, part.device) for part in arguments if isinstance(part, torch.Tensor)]
        self.key = text, *kinds, *blocks

    @property
    def is_compiled(self) -> bool:
        """Whether it need not be compiled any more."""
        return self.key in self.compiled

    def run(self, count: int | None = None) -> None:
        """Run it."""
        if self.text not in self.texts:
            self.texts[self.text] = _from_text(self.text)
        warps = min(16, max(1, max(self.blocks, default=1) // NUMBERS_OF_A_WARP))
        grid = (self.count if count is None else count,)
        with torch.cuda.device(self.arguments[0].device):
            # Multiplied and added one after the other, as torch does it.
            self.texts[self.text][grid](*self.arguments, *self.blocks, num_warps=warps, enable_fp_fusion=False)
        self.compiled.add(self.key)

    def compile(self) -> None:
        """Compile it without running it."""
        self.run(0)


def _from_text(text: str) -> Any:
    """A kernel for Triton, which reads the text of a function as that of a file."""
    # Named by its content: other threads write kernels at the same time.
    file = f"<fused kernel {hashlib.sha256(text.encode()).hexdigest()}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"tl": tl, "libdevice": libdevice, "larger": larger, "smaller": smaller}
    exec(compile(text, file, "exec", dont_inherit=True), scope)  # with annotations that are not quoted
    function = scope["fused"]
    function.__module__ = __name__
    # One for all numbers: memory may begin anywhere, and 1 is a number like others.
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    kernel = triton.jit(function, do_not_specialize=[name for name in names if not name.startswith("BLOCK")])
    if any(getattr(part, "annotation_type", "") != "fp64" for part in kernel.params if part.name.startswith("f")):
        raise RuntimeError(f"Triton {triton.__version__} rounds the numbers that a kernel is given to 32 bits")
    return kernel


@triton.jit
def larger(a, b):
    """The larger number; NaN if one of the two is."""
    return tl.where((a != a) | (b != b), a + b, tl.maximum(a, b))


@triton.jit
def smaller(a, b):
    """The smaller number; NaN if one of the two is."""
    return tl.where((a != a) | (b != b), a + b, tl.minimum(a, b))


def _flags(mask: Array | None, other: Array) -> Array:
    """A mask as bytes; without one any array, which is not read."""
    return other if mask is None else _ready(mask).view(torch.uint8)


def _ready(array: Array) -> Array:
    """An array one after the other in memory, whatever operations it waits for."""
    array = array.contiguous()
    settle()
    return array


@triton.jit
def _tally(r, x, on, g_x, reward, arms, logdet, counts, sums, squares):
    """Count a pull of arm x."""
    one = 1.0 + g_x
    # ln(1 + g) to the last digits, however small g is.
    grown = tl.where(one == 1.0, g_x, tl.log(one) * (g_x / tl.where(one == 1.0, 1.0, one - 1.0)))
    tl.store(logdet + r, tl.load(logdet + r) + grown, mask=on)
    tl.store(counts + r * arms + x, tl.load(counts + r * arms + x) + 1, mask=on)
    tl.store(sums + r * arms + x, tl.load(sums + r * arms + x) + reward, mask=on)
    tl.store(squares + r, tl.load(squares + r) + reward * reward, mask=on)


@stateless
class GramKernels:
    """A pull of `tensors.DeviceGram`, in the memory of one."""

    def __init__(self, p: Array, h: Array, slots: Array, mean: Array, width2: Array, tallies: Sequence[Array]) -> None:
        self.p, self.h, self.slots, self.mean, self.width2, self.tallies = p, h, slots, mean, width2, tallies
        self.replications, self.rows, self.arms = h.shape
        self.c, self.surprise, self.g_x = mean[:, 0] * 0.0, mean[:, 0] * 0.0, mean[:, 0] * 0.0

    def step(self, arms: Array, rewards: Array, mask: Array) -> Array:
        """Learn a pull in every replication where the mask holds; returns g_x."""
        arms = _ready(arms)
        _gram_prepare[(self.replications,)](
            self.p,
            self.h,
            self.slots,
            arms,
            _ready(rewards),
            _flags(mask, mask),
            self.mean,
            self.c,
            self.surprise,
            self.g_x,
            *self.tallies,
            self.arms,
            ROWS=self.rows,
        )
        _gram_apply[(self.replications, triton.cdiv(self.arms, ARMS))](
            self.p,
            self.h,
            self.slots,
            arms,
            self.c,
            self.surprise,
            self.mean,
            self.width2,
            self.arms,
            ROWS=self.rows,
            ARMS=ARMS,
        )
        return self.g_x


@triton.jit
def _gram_prepare(
    p,
    h,
    slots,
    chosen,
    rewards,
    mask,
    mean,
    c,
    surprise,
    gains,
    logdet,
    counts,
    sums,
    squares,
    pulls,
    arms,
    ROWS: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    x = tl.load(chosen + r)
    on = tl.load(mask + r) != 0
    used = tl.load(slots + r)
    j = tl.arange(0, ROWS)
    column = tl.load(h + (r * ROWS + j) * arms + x, mask=j < used, other=0.0)
    g_x = tl.load(p + (r * arms + x) * arms + x) - tl.sum(column * column, axis=0)
    reward = tl.load(rewards + r)
    weight = tl.where(on, 1.0 / (1.0 + g_x), 0.0)
    push = tl.where(on, weight * (reward - tl.load(mean + r * arms + x)), 0.0)
    tl.store(c + r, weight)
    tl.store(surprise + r, push)
    tl.store(gains + r, g_x)
    tl.store(slots + r, used + 1)
    tl.store(pulls + r, tl.load(pulls + r) + 1, mask=on)
    _tally(r, x, on, g_x, reward, arms, logdet, counts, sums, squares)


@triton.jit
def _gram_apply(p, h, slots, chosen, c, surprise, mean, width2, arms, ROWS: tl.constexpr, ARMS: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    x = tl.load(chosen + r)
    weight = tl.load(c + r)
    slot = tl.load(slots + r) - 1
    k = tl.program_id(1) * ARMS + tl.arange(0, ARMS)
    there = k < arms
    j = tl.arange(0, ROWS)
    rows = h + (r * ROWS + j) * arms
    column = tl.load(rows + x, mask=j < slot, other=0.0)
    tile = tl.load(rows[:, None] + k[None, :], mask=(j < slot)[:, None] & there[None, :], other=0.0)
    g = tl.load(p + (r * arms + x) * arms + k, mask=there, other=0.0) - tl.sum(column[:, None] * tile, axis=0)
    at = r * arms + k
    tl.store(mean + at, tl.load(mean + at, mask=there, other=0.0) + tl.load(surprise + r) * g, mask=there)
    width = tl.load(width2 + at, mask=there, other=0.0) - weight * g * g
    tl.store(width2 + at, tl.maximum(width, 0.0), mask=there)
    tl.store(h + (r * ROWS + slot) * arms + k, tl.sqrt(weight) * g, mask=there)


@stateless
class LaneKernels:
    """A pull in the chosen lane of every replication, in the memory of a `tensors.Lanes`.

    `tallies` are those of a `tensors.DeviceFeature`, of which it is the only lane. With `block` its last pulls are not
    in W yet: U holds sqrt(c) u of each and H sqrt(c) g, so that V^-1 a_x is W a_x less U^T times column x of H.
    """

    def __init__(
        self,
        base: Array,
        levels: Sequence[int],
        dims: Sequence[int],
        starts: Sequence[int],
        w: Array,
        mean: Array,
        width2: Array,
        pulls: Array,
    ) -> None:
        self.base, self.top, self.w, self.mean, self.width2, self.pulls = base, max(dims), w, mean, width2, pulls
        self.levels, self.dims, self.starts = (like(np.asarray(part), w) for part in (levels, dims, starts))
        self.replications, self.lanes, self.arms = mean.shape
        self.base_arms, self.blocks = int(base.shape[1]), len(levels)
        self.u = zeros(w, self.replications, self.top)
        self.c, self.surprise, self.g_x = (self.u[:, 0] * 0.0 for _ in range(3))
        self.tallies: Sequence[Array] | None = None
        self.block: Sequence[Array] | None = None

    def absorb(self, chosen: Array, arms: Array, rewards: Array, mask: Array) -> Array:
        """Learn a pull in every replication where the mask holds; returns g_x there."""
        count, flags = self.replications, _flags(mask, mask)
        pieces = triton.cdiv(self.top, ROWS)
        where = (self.dims, self.starts, _ready(chosen), self.levels, _ready(arms))
        features = (self.base, *self.base.stride(), self.base_arms)
        tallies, deferring = self.tallies, self.block is not None
        block = (*(self.block or [self.w, self.w, chosen]), self.top, self.arms)
        _solve[(count, pieces)](
            self.w,
            self.w.stride(0),
            *features,
            *where,
            flags,
            self.u,
            self.top,
            *block,
            DEFERRING=deferring,
            ROWS=ROWS,
            TILE=TILE,
        )
        _prepare[(count,)](
            *features,
            *where,
            flags,
            self.u,
            self.top,
            _ready(rewards),
            self.mean,
            self.pulls,
            self.c,
            self.surprise,
            self.g_x,
            *(tallies or [self.mean] * 4),
            block[2],
            self.lanes,
            self.arms,
            TALLIES=tallies is not None,
            DEFERRING=deferring,
            TILE=TILE,
        )
        blocks = triton.cdiv(self.base_arms, ARMS)
        _update[(count, blocks + pieces)](
            self.w,
            self.w.stride(0),
            *features,
            *where,
            self.u,
            self.top,
            self.c,
            self.surprise,
            self.mean,
            self.width2,
            self.lanes,
            self.arms,
            blocks,
            *block,
            BLOCKS=self.blocks,
            DEFERRING=deferring,
            ROWS=ROWS,
            ARMS=ARMS,
            TILE=TILE,
        )
        return self.g_x


@triton.jit(do_not_specialize=["w_stride", "u_stride", "past_u_stride", "past_g_stride"])
def _solve(
    w,
    w_stride,
    base,
    base_stride,
    arm_stride,
    feature_stride,
    base_arms,
    dims,
    starts,
    chosen,
    levels,
    arms,
    mask,
    u,
    u_stride,
    past_u,
    past_g,
    slots,
    past_u_stride,
    past_g_stride,
    DEFERRING: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
):
    """u = V^-1 a."""
    r = tl.program_id(0).to(tl.int64)
    lane = tl.load(chosen + r)
    d = tl.load(dims + lane)
    first_row = tl.program_id(1) * ROWS
    if (tl.load(mask + r) != 0) & (first_row < d):
        x = tl.load(arms + r)
        cut = tl.minimum(tl.load(levels + x // base_arms), d)
        vector = base + r * base_stride + (x % base_arms) * arm_stride
        i = first_row + tl.arange(0, ROWS)
        matrix = w + r * w_stride + tl.load(starts + lane)
        total = tl.zeros((ROWS, TILE), dtype=tl.float64)
        for first in range(0, cut, TILE):
            j = first + tl.arange(0, TILE)
            inside = (i[:, None] < d) & (j[None, :] < cut)
            block = tl.load(matrix + i[:, None] * d + j[None, :], mask=inside, other=0.0)
            part = tl.load(vector + j * feature_stride, mask=j < cut, other=0.0)
            total += block * part[None, :]
        result = tl.sum(total, axis=1)
        if DEFERRING:
            s = tl.arange(0, ROWS)
            past, used = r * ROWS + s, s < tl.load(slots + r)
            share = tl.load(past_g + past * past_g_stride + x, mask=used, other=0.0)
            inside = used[:, None] & (i[None, :] < d)
            tile = tl.load(past_u + past[:, None] * past_u_stride + i[None, :], mask=inside, other=0.0)
            result -= tl.sum(share[:, None] * tile, axis=0)
        tl.store(u + r * u_stride + i, result, mask=i < d)


@triton.jit(do_not_specialize=["u_stride", "lanes"])
def _prepare(
    base,
    base_stride,
    arm_stride,
    feature_stride,
    base_arms,
    dims,
    starts,
    chosen,
    levels,
    arms,
    mask,
    u,
    u_stride,
    rewards,
    mean,
    pulls,
    c,
    surprise,
    gains,
    logdet,
    counts,
    sums,
    squares,
    slots,
    lanes,
    all_arms,
    TALLIES: tl.constexpr,
    DEFERRING: tl.constexpr,
    TILE: tl.constexpr,
):
    """g_x = a^T V^-1 a, and by how much mean and width follow."""
    r = tl.program_id(0).to(tl.int64)
    on = tl.load(mask + r) != 0
    lane = tl.load(chosen + r)
    x = tl.load(arms + r)
    cut = tl.minimum(tl.load(levels + x // base_arms), tl.load(dims + lane))
    cut = tl.where(on, cut, 0)
    vector = base + r * base_stride + (x % base_arms) * arm_stride
    total = tl.zeros((TILE,), dtype=tl.float64)
    for first in range(0, cut, TILE):
        j = first + tl.arange(0, TILE)
        part = tl.load(vector + j * feature_stride, mask=j < cut, other=0.0)
        total += part * tl.load(u + r * u_stride + j, mask=j < cut, other=0.0)
    g_x = tl.sum(total, axis=0)
    reward = tl.load(rewards + r)
    weight = tl.where(on, 1.0 / (1.0 + g_x), 0.0)
    push = tl.where(on, weight * (reward - tl.load(mean + (r * lanes + lane) * all_arms + x)), 0.0)
    tl.store(c + r, weight)
    tl.store(surprise + r, push)
    tl.store(gains + r, g_x)
    at = pulls + r * lanes + lane
    tl.store(at, tl.load(at) + 1, mask=on)
    if TALLIES:
        _tally(r, x, on, g_x, reward, all_arms, logdet, counts, sums, squares)
    if DEFERRING:
        tl.store(slots + r, tl.load(slots + r) + 1)


@triton.jit(do_not_specialize=["w_stride", "u_stride", "lanes", "pieces", "past_u_stride", "past_g_stride"])
def _update(
    w,
    w_stride,
    base,
    base_stride,
    arm_stride,
    feature_stride,
    base_arms,
    dims,
    starts,
    chosen,
    levels,
    arms,
    u,
    u_stride,
    c,
    surprise,
    mean,
    width2,
    lanes,
    all_arms,
    pieces,
    past_u,
    past_g,
    slots,
    past_u_stride,
    past_g_stride,
    BLOCKS: tl.constexpr,
    DEFERRING: tl.constexpr,
    ROWS: tl.constexpr,
    ARMS: tl.constexpr,
    TILE: tl.constexpr,
):
    """With g = A u: mean += surprise g and width2 -= c g^2, in the first programs; V^-1 -= c u u^T in the others."""
    r = tl.program_id(0).to(tl.int64)
    weight = tl.load(c + r)
    lane = tl.load(chosen + r)
    d = tl.load(dims + lane)
    piece = tl.program_id(1)
    past = r * 0
    if DEFERRING:
        past = r * ROWS + tl.load(slots + r) - 1
        if weight == 0:  # a row that is to change nothing
            if piece < pieces:
                every = piece * ARMS + tl.arange(0, ARMS)
                for block in range(BLOCKS):
                    at = past_g + past * past_g_stride + block * base_arms + every
                    tl.store(at, tl.zeros((ARMS,), dtype=tl.float64), mask=every < base_arms)
            else:
                i = (piece - pieces) * ROWS + tl.arange(0, ROWS)
                tl.store(past_u + past * past_u_stride + i, tl.zeros((ROWS,), dtype=tl.float64), mask=i < d)
    if (weight > 0) & (piece < pieces):
        push = tl.load(surprise + r)
        k = piece * ARMS + tl.arange(0, ARMS)
        there = k < base_arms
        row = base + r * base_stride + k * arm_stride
        out = (r * lanes + lane) * all_arms + k
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
            if DEFERRING:
                tl.store(past_g + past * past_g_stride + block * base_arms + k, tl.sqrt(weight) * g, mask=there)
    first_row = (piece - pieces) * ROWS
    if (weight > 0) & (piece >= pieces) & (first_row < d):
        i = first_row + tl.arange(0, ROWS)
        matrix = w + r * w_stride + tl.load(starts + lane)
        left = weight * tl.load(u + r * u_stride + i, mask=i < d, other=0.0)
        if DEFERRING:
            tl.store(past_u + past * past_u_stride + i, left / tl.sqrt(weight), mask=i < d)
        else:
            for first in range(0, d, TILE):
                j = first + tl.arange(0, TILE)
                inside = (i[:, None] < d) & (j[None, :] < d)
                right = tl.load(u + r * u_stride + j, mask=j < d, other=0.0)
                at = matrix + i[:, None] * d + j[None, :]
                tl.store(at, tl.load(at, mask=inside, other=0.0) - left[:, None] * right[None, :], mask=inside)


def log_barrier_round(
    state: Sequence[Array],
    chosen: Array,
    losses: Array,
    mask: Array | None,
    rounds: int,
    accuracy: float,
    steps: int,
) -> None:
    """As `barrier.log_barrier_round`, whose gamma and growth follow from the number of rounds."""
    count, bases = state[0].shape
    _log_barrier[(count,)](
        *state,
        _ready(chosen),
        _ready(losses),
        _flags(mask, chosen),
        bases,
        rounds,
        MASKED=mask is not None,
        STEPS=steps,
        ACCURACY=accuracy,
        WIDTH=triton.next_power_of_2(bases),
    )


@triton.jit(do_not_specialize=["bases", "rounds"])
def _log_barrier(
    p,
    pbar,
    eta,
    rho,
    chosen,
    losses,
    mask,
    bases,
    rounds,
    MASKED: tl.constexpr,
    STEPS: tl.constexpr,
    ACCURACY: tl.constexpr,
    WIDTH: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, WIDTH)
    at, inside = r * bases + i, i < bases
    inverse = 1.0 / tl.load(p + at, mask=inside, other=1.0)
    rate = tl.load(eta + at, mask=inside, other=1.0)
    hit = inside & (i == tl.load(chosen + r))
    loss = tl.where(hit, tl.load(losses + r) / tl.load(pbar + at, mask=inside, other=1.0), 0.0)
    pole = tl.min(tl.where(inside, loss + inverse / rate, float("inf")), axis=0)
    low = tl.min(tl.where(inside, loss, float("inf")), axis=0)
    high = tl.minimum(tl.max(tl.where(inside, loss, float("-inf")), axis=0), pole)
    now = low
    terms = tl.zeros((WIDTH,), dtype=tl.float64)
    total = tl.sum(terms, axis=0)
    left = STEPS
    while left > 0:
        terms = tl.where(inside, 1.0 / (inverse + rate * (loss - now)), 0.0)
        total = tl.sum(terms, axis=0)
        settled = tl.abs(total - 1.0) <= ACCURACY
        below = total < 1.0
        low = tl.where(below, now, low)
        high = tl.where(below, high, now)
        proposal = now + total * (1.0 - total) / tl.sum(rate * terms * terms, axis=0)
        within = (proposal > low) & (proposal < high)
        following = tl.where(within, proposal, 0.5 * (low + high))
        left = tl.where(settled | (following == now), 0, left - 1)
        now = tl.where(left > 0, following, now)
    if MASKED:
        inside &= tl.load(mask + r) != 0
    number = tl.zeros((1,), dtype=tl.float64) + rounds
    gamma = 1.0 / tl.sum(number, axis=0)
    growth = tl.exp(1.0 / tl.log(tl.sum(number, axis=0)))
    share = terms / total
    mixed = (1.0 - gamma) * share + gamma / bases
    threshold = tl.load(rho + at, mask=inside, other=1.0)
    rare = 1.0 / mixed > threshold
    tl.store(p + at, share, mask=inside)
    tl.store(pbar + at, mixed, mask=inside)
    tl.store(eta + at, tl.where(rare, growth * rate, rate), mask=inside)
    tl.store(rho + at, tl.where(rare, 2.0 / mixed, threshold), mask=inside)
