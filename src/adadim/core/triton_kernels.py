"""Kernels for CUDA, in Triton, where torch has no single operation for what is needed; see `recording.cuda_kernels`.

A round is a few of them, since starting one takes longer than what it does. Those of a regression read W and the
features once, and only as far as the chosen lane goes. Where a mask does not hold none of them writes, and the arm may
have any number. Sizes that differ between the iterations of a policy are no reason to compile a kernel again
(`do_not_specialize`).
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from adadim.core.arrays import Array, like, zeros
from adadim.core.recording import settle
from adadim.core.state import stateless

if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 4):
    raise ImportError(
        f"needs Triton 3.4 or newer: {triton.__version__} rounds numbers that a kernel is given to 32 bits"
    )

ROWS = tl.constexpr(32)  # rows of W that one program works on; pulls that may stay out of it
ARMS = tl.constexpr(128)  # arms that one program works on
TILE = tl.constexpr(32)  # features read at a time
# In kernels made by hand, as versions of Triton have it before 3.10: numbers are not to depend on the version.
OPTIONS = {"enable_fp_fusion": True}
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
    return triton.jit(function, do_not_specialize=[name for name in names if not name.startswith("BLOCK")])


@triton.jit
def larger(a, b):
    """The larger number; NaN if one of the two is."""
    return tl.where((a != a) | (b != b), a + b, tl.maximum(a, b))


@triton.jit
def smaller(a, b):
    """The smaller number; NaN if one of the two is."""
    return tl.where((a != a) | (b != b), a + b, tl.minimum(a, b))


def _ready(array: Array) -> Array:
    """An array one after the other in memory, whatever operations it waits for."""
    array = array.contiguous()
    settle()
    return array


class Pull(NamedTuple):
    """A pull of each replication where the mask holds; the lane that learns it, where there are lanes."""

    arm: Any
    mask: Any
    reward: Any
    lane: Any = None


class Step(NamedTuple):
    """What a pull changes in each replication: c = 1 / (1 + g_x), c times the surprise, and g_x = a^T V^-1 a."""

    weight: Any
    push: Any
    g_x: Any


class Tallies(NamedTuple):
    """What a posterior counts besides: ln det, pulls and rewards of each arm, squares of rewards."""

    logdet: Any
    counts: Any
    sums: Any
    squares: Any


@triton.jit
def _arm(r, pull, on):
    """The arm that is pulled; the first where none is, whatever number it was given."""
    return tl.where(on, tl.load(pull.arm + r), 0)


@triton.jit
def _weigh(r, pull, on, g_x, mean, step):
    """Store the step of a pull, of which `mean` is what was expected; returns the reward."""
    reward = tl.load(pull.reward + r)
    weight = tl.where(on, 1.0 / (1.0 + g_x), 0.0)
    tl.store(step.weight + r, weight)
    tl.store(step.push + r, tl.where(on, weight * (reward - tl.load(mean)), 0.0))
    tl.store(step.g_x + r, g_x)
    return reward


@triton.jit
def _tally(r, x, on, g_x, reward, arms, tallies):
    """Count a pull of arm x."""
    one = 1.0 + g_x
    # ln(1 + g) to the last digits, however small g is.
    grown = tl.where(one == 1.0, g_x, tl.log(one) * (g_x / tl.where(one == 1.0, 1.0, one - 1.0)))
    at = r * arms + x
    tl.store(tallies.logdet + r, tl.load(tallies.logdet + r) + grown, mask=on)
    tl.store(tallies.counts + at, tl.load(tallies.counts + at) + 1, mask=on)
    tl.store(tallies.sums + at, tl.load(tallies.sums + at) + reward, mask=on)
    tl.store(tallies.squares + r, tl.load(tallies.squares + r) + reward * reward, mask=on)


class Gram(NamedTuple):
    """P, H, and how many rows of H are in use, of every replication."""

    p: Any
    h: Any
    slots: Any


@stateless
class GramKernels:
    """A pull of `tensors.DeviceGram`, in the memory of one."""

    def __init__(
        self, p: Array, h: Array, slots: Array, mean: Array, width2: Array, tallies: Sequence[Array], pulls: Array
    ) -> None:
        self.gram, self.mean, self.width2, self.tallies, self.pulls = Gram(p, h, slots), mean, width2, tallies, pulls
        self.replications, rows, self.arms = h.shape
        assert rows == ROWS.value
        self.changes = Step(*(mean[:, 0] * 0.0 for _ in Step._fields))

    def step(self, arms: Array, rewards: Array, mask: Array) -> Array:
        """Learn a pull in every replication where the mask holds; returns g_x."""
        pull = Pull(_ready(arms), _ready(mask), _ready(rewards))
        given = self.gram, pull, self.changes, self.mean
        _gram_prepare[(self.replications,)](*given, Tallies(*self.tallies), self.pulls, self.arms, **OPTIONS)
        pieces = triton.cdiv(self.arms, ARMS.value)
        _gram_apply[(self.replications, pieces)](*given, self.width2, self.arms, **OPTIONS)
        return self.changes.g_x


@triton.jit
def _gram_prepare(gram, pull, step, mean, tallies, pulls, arms):
    """g_x = P_xx - |column x of H|^2, and by how much mean and width follow."""
    r = tl.program_id(0).to(tl.int64)
    on = tl.load(pull.mask + r)
    x = _arm(r, pull, on)
    used = tl.load(gram.slots + r)
    j = tl.arange(0, ROWS)
    column = tl.load(gram.h + (r * ROWS + j) * arms + x, mask=j < used, other=0.0)
    g_x = tl.load(gram.p + (r * arms + x) * arms + x) - tl.sum(column * column, axis=0)
    reward = _weigh(r, pull, on, g_x, mean + r * arms + x, step)
    tl.store(gram.slots + r, used + 1)
    tl.store(pulls + r, tl.load(pulls + r) + 1, mask=on)
    _tally(r, x, on, g_x, reward, arms, tallies)


@triton.jit
def _gram_apply(gram, pull, step, mean, width2, arms):
    """With g row x of P less that of H^T H: mean += push g, width2 -= c g^2, and the next row of H is sqrt(c) g."""
    r = tl.program_id(0).to(tl.int64)
    x = _arm(r, pull, tl.load(pull.mask + r))
    weight = tl.load(step.weight + r)
    slot = tl.load(gram.slots + r) - 1
    k = tl.program_id(1) * ARMS + tl.arange(0, ARMS)
    there = k < arms
    j = tl.arange(0, ROWS)
    rows = gram.h + (r * ROWS + j) * arms
    column = tl.load(rows + x, mask=j < slot, other=0.0)
    tile = tl.load(rows[:, None] + k[None, :], mask=(j < slot)[:, None] & there[None, :], other=0.0)
    g = tl.load(gram.p + (r * arms + x) * arms + k, mask=there, other=0.0) - tl.sum(column[:, None] * tile, axis=0)
    at = r * arms + k
    tl.store(mean + at, tl.load(mean + at, mask=there, other=0.0) + tl.load(step.push + r) * g, mask=there)
    width = tl.load(width2 + at, mask=there, other=0.0) - weight * g * g
    tl.store(width2 + at, tl.maximum(width, 0.0), mask=there)
    tl.store(gram.h + (r * ROWS + slot) * arms + k, tl.sqrt(weight) * g, mask=there)


class FeatureMemory(NamedTuple):
    """Features of the arms, with the steps in memory between replications, arms and features, and levels.

    The `arms` arms of the first level come first, then those of the second; `all_arms` are those of all levels.
    """

    base: Any
    replication: Any
    arm: Any
    feature: Any
    arms: Any
    all_arms: Any
    levels: Any


class Matrices(NamedTuple):
    """The dimension of every lane, and where its V^-1 begins in W."""

    dims: Any
    starts: Any


class Recent(NamedTuple):
    """Pulls that are not in W yet: sqrt(c) u and sqrt(c) g of each, and how many there are."""

    u: Any
    g: Any
    slots: Any


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
        self.w, self.mean, self.width2, self.pulls = w, mean, width2, pulls
        self.top, self.blocks = max(dims), len(levels)
        levels_there, *sizes = (like(np.asarray(part), w) for part in (levels, dims, starts))
        self.matrices = Matrices(*sizes)
        self.replications, self.lanes, arms = mean.shape
        replication, arm, feature = base.stride()
        self.features = FeatureMemory(base, replication, arm, feature, int(base.shape[1]), arms, levels_there)
        self.u = zeros(w, self.replications, self.top)
        self.changes = Step(*(self.u[:, 0] * 0.0 for _ in Step._fields))
        self.tallies: Sequence[Array] | None = None
        self.block: Sequence[Array] | None = None

    def absorb(self, chosen: Array, arms: Array, rewards: Array, mask: Array) -> Array:
        """Learn a pull in every replication where the mask holds; returns g_x there."""
        pull = Pull(_ready(arms), _ready(mask), _ready(rewards), _ready(chosen))
        recent, tallies = self.block and Recent(*self.block), self.tallies and Tallies(*self.tallies)
        matrix, given = (self.w, self.w.stride(0)), (self.matrices, self.features, pull, recent, self.u, self.top)
        posterior = self.changes, self.mean, self.lanes
        pieces, programs = triton.cdiv(self.top, ROWS.value), triton.cdiv(self.features.arms, ARMS.value)
        grid = self.replications, programs + pieces
        _solve[(self.replications, pieces)](*matrix, *given, **OPTIONS)
        _prepare[(self.replications,)](*given, *posterior, self.pulls, tallies, **OPTIONS)
        _update[grid](*matrix, *given, *posterior, self.width2, programs, BLOCKS=self.blocks, **OPTIONS)
        return self.changes.g_x


@triton.jit
def _vector(features, r, x, d):
    """Where the features of arm x are, and how many of them there are in d dimensions."""
    cut = tl.minimum(tl.load(features.levels + x // features.arms), d)
    return features.base + r * features.replication + (x % features.arms) * features.arm, cut


@triton.jit(do_not_specialize=["w_stride", "top"])
def _solve(w, w_stride, matrices, features, pull, recent, u, top):
    """u = V^-1 a."""
    r = tl.program_id(0).to(tl.int64)
    lane = tl.load(pull.lane + r)
    d = tl.load(matrices.dims + lane)
    first_row = tl.program_id(1) * ROWS
    if tl.load(pull.mask + r) & (first_row < d):
        x = tl.load(pull.arm + r)
        vector, cut = _vector(features, r, x, d)
        i = first_row + tl.arange(0, ROWS)
        matrix = w + r * w_stride + tl.load(matrices.starts + lane)
        total = tl.zeros((ROWS, TILE), dtype=tl.float64)
        for first in range(0, cut, TILE):
            j = first + tl.arange(0, TILE)
            inside = (i[:, None] < d) & (j[None, :] < cut)
            block = tl.load(matrix + i[:, None] * d + j[None, :], mask=inside, other=0.0)
            part = tl.load(vector + j * features.feature, mask=j < cut, other=0.0)
            total += block * part[None, :]
        result = tl.sum(total, axis=1)
        if recent is not None:
            s = tl.arange(0, ROWS)
            past, used = r * ROWS + s, s < tl.load(recent.slots + r)
            share = tl.load(recent.g + past * features.all_arms + x, mask=used, other=0.0)
            inside = used[:, None] & (i[None, :] < d)
            tile = tl.load(recent.u + past[:, None] * top + i[None, :], mask=inside, other=0.0)
            result -= tl.sum(share[:, None] * tile, axis=0)
        tl.store(u + r * top + i, result, mask=i < d)


@triton.jit(do_not_specialize=["top", "lanes"])
def _prepare(matrices, features, pull, recent, u, top, step, mean, lanes, pulls, tallies):
    """g_x = a^T V^-1 a, and by how much mean and width follow."""
    r = tl.program_id(0).to(tl.int64)
    on = tl.load(pull.mask + r)
    lane = tl.load(pull.lane + r)
    x = _arm(r, pull, on)
    vector, cut = _vector(features, r, x, tl.load(matrices.dims + lane))
    cut = tl.where(on, cut, 0)
    total = tl.zeros((TILE,), dtype=tl.float64)
    for first in range(0, cut, TILE):
        j = first + tl.arange(0, TILE)
        part = tl.load(vector + j * features.feature, mask=j < cut, other=0.0)
        total += part * tl.load(u + r * top + j, mask=j < cut, other=0.0)
    g_x = tl.sum(total, axis=0)
    at = r * lanes + lane
    reward = _weigh(r, pull, on, g_x, mean + at * features.all_arms + x, step)
    tl.store(pulls + at, tl.load(pulls + at) + 1, mask=on)
    if tallies is not None:
        _tally(r, x, on, g_x, reward, features.all_arms, tallies)
    if recent is not None:
        tl.store(recent.slots + r, tl.load(recent.slots + r) + 1)


@triton.jit(do_not_specialize=["w_stride", "top", "lanes", "programs"])
def _update(
    w, w_stride, matrices, features, pull, recent, u, top, step, mean, lanes, width2, programs, BLOCKS: tl.constexpr
):
    """With g = A u: mean += push g and width2 -= c g^2, in the first programs; V^-1 -= c u u^T in the others."""
    r = tl.program_id(0).to(tl.int64)
    weight = tl.load(step.weight + r)
    lane = tl.load(pull.lane + r)
    d = tl.load(matrices.dims + lane)
    piece = tl.program_id(1)
    past = r * 0
    if recent is not None:
        past = r * ROWS + tl.load(recent.slots + r) - 1
        if weight == 0:  # a row that is to change nothing
            if piece < programs:
                every = piece * ARMS + tl.arange(0, ARMS)
                for block in range(BLOCKS):
                    at = recent.g + past * features.all_arms + block * features.arms + every
                    tl.store(at, tl.zeros((ARMS,), dtype=tl.float64), mask=every < features.arms)
            else:
                i = (piece - programs) * ROWS + tl.arange(0, ROWS)
                tl.store(recent.u + past * top + i, tl.zeros((ROWS,), dtype=tl.float64), mask=i < d)
    if (weight > 0) & (piece < programs):
        push = tl.load(step.push + r)
        k = piece * ARMS + tl.arange(0, ARMS)
        there = k < features.arms
        row = features.base + r * features.replication + k * features.arm
        out = (r * lanes + lane) * features.all_arms + k
        total = tl.zeros((TILE, ARMS), dtype=tl.float64)
        first = d * 0
        for block in range(BLOCKS):
            stop = tl.minimum(tl.load(features.levels + block), d)
            for start in range(first, stop, TILE):
                j = start + tl.arange(0, TILE)
                inside = (j[:, None] < stop) & there[None, :]
                tile = tl.load(row[None, :] + j[:, None] * features.feature, mask=inside, other=0.0)
                part = tl.load(u + r * top + j, mask=j < stop, other=0.0)
                total += tile * part[:, None]
            first = stop
            g = tl.sum(total, axis=0)
            at = out + block * features.arms
            was = tl.load(mean + at, mask=there, other=0.0)
            tl.store(mean + at, was + push * g, mask=there)
            was = tl.load(width2 + at, mask=there, other=0.0)
            tl.store(width2 + at, tl.maximum(was - weight * g * g, 0.0), mask=there)
            if recent is not None:
                at = past * features.all_arms + block * features.arms + k
                tl.store(recent.g + at, tl.sqrt(weight) * g, mask=there)
    first_row = (piece - programs) * ROWS
    if (weight > 0) & (piece >= programs) & (first_row < d):
        i = first_row + tl.arange(0, ROWS)
        matrix = w + r * w_stride + tl.load(matrices.starts + lane)
        left = weight * tl.load(u + r * top + i, mask=i < d, other=0.0)
        if recent is not None:
            tl.store(recent.u + past * top + i, left / tl.sqrt(weight), mask=i < d)
        else:
            for first in range(0, d, TILE):
                j = first + tl.arange(0, TILE)
                inside = (i[:, None] < d) & (j[None, :] < d)
                right = tl.load(u + r * top + j, mask=j < d, other=0.0)
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
    given = *state, _ready(chosen), _ready(losses), None if mask is None else _ready(mask), bases, rounds
    _log_barrier[(count,)](*given, STEPS=steps, ACCURACY=accuracy, WIDTH=triton.next_power_of_2(bases), **OPTIONS)


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
    if mask is not None:
        inside &= tl.load(mask + r)
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
