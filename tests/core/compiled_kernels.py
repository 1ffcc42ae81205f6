"""Kernels for CUDA are compiled for an H200, on a machine that need not have one; started by `test_triton`."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from adadim.core import triton_kernels
from adadim.core.fusion import Fusing
from adadim.core.rows import Replications
from adadim.instances import sphere
from adadim.models import tensors
from fused_cases import ONE_KERNEL, SEVERAL
from fused_cases import tensors as numbers

COUNT = 3


class Driver:
    """What Triton asks a driver before it compiles."""

    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device=None: 0)


@pytest.fixture
def compiled(monkeypatch):
    """Kernels that are started are compiled instead; gives their names."""
    names = []

    def instead(kernel, grid):
        def compile_it(*given, **constants):
            assert kernel.run(*given, grid=grid, warmup=True, **constants).asm["cubin"]
            names.append(kernel.__name__)

        return compile_it

    triton.runtime.driver.set_active(Driver())
    monkeypatch.setattr(JITFunction, "__getitem__", instead)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(tensors, "cuda_kernels", lambda reference: triton_kernels)
    return names


def arms(**options):
    sizes = {"arms": 140, "dim": 33, "intrinsic_dim": 3, "horizon": 50, "replications": range(COUNT)}
    return sphere(**{**sizes, **options}).to("cpu").problem.actions


INTEGERS, NUMBERS = torch.zeros(COUNT, dtype=torch.int64), torch.zeros(COUNT, dtype=torch.float64)
MASK = torch.ones(COUNT) > 0


def test_a_pull_of_a_gram_matrix(compiled):
    tensors.DeviceGram(arms(), 0.1).step(INTEGERS, NUMBERS, Replications.where(MASK))
    assert compiled == ["_gram_prepare", "_gram_apply"]


@pytest.mark.parametrize("levels", [None, [8, 20, 33]], ids=["plain", "expressive"])
def test_a_pull_of_lanes(compiled, levels):
    lanes = tensors.Lanes(arms(expressive=levels is not None, levels=levels), (1, 8, 33), 0.1)
    lanes.absorb(INTEGERS, INTEGERS, NUMBERS, Replications.where(MASK))
    assert compiled == ["_solve", "_prepare", "_update"]


def test_a_pull_that_stays_out_of_the_matrix(compiled):
    posterior = tensors.DeviceFeature(arms(arms=5, dim=40), 0.1)
    assert posterior.defers
    posterior.step(INTEGERS, NUMBERS, Replications.where(MASK))
    assert compiled == ["_solve", "_prepare", "_update"]


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "some"])
def test_a_round_of_the_log_barrier(compiled, mask):
    state = [torch.full((COUNT, 4), 0.25, dtype=torch.float64) for _ in range(4)]
    triton_kernels.log_barrier_round(state, INTEGERS, NUMBERS, mask, 100, 1e-13, 200)
    assert compiled == ["_log_barrier"]


@pytest.mark.parametrize("function", [*list(ONE_KERNEL.values())[::4], *list(SEVERAL.values())[::4]])
def test_kernels_that_are_written_as_operations_are_met(compiled, function):
    made = []
    with Fusing(lambda *given: made.append(triton_kernels.FusedKernel(*given))) as fusing:
        kept = function(numbers())
        fusing.flush()
    for kernel in made:
        kernel.compile()
        assert kernel.is_compiled
    assert compiled == ["fused"] * len(made)
    assert made
    del kept  # what nobody can ask for would not be written
