"""Kernels that were made by hand for CUDA, run on a CPU by Triton's interpreter; started by `test_triton`."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import adadim
from adadim.core import barrier, triton_kernels
from adadim.core.rows import Replications
from adadim.models import tensors
from driving import small
from recorded_policies import HORIZON, POLICIES

NOWHERE = -1  # the number of an arm where nobody pulls one


@pytest.fixture
def kernels(monkeypatch):
    """Tensors of the CPU go to the kernels, as those of CUDA do."""
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    used = []
    for module in (tensors, barrier):
        monkeypatch.setattr(module, "cuda_kernels", lambda reference: used.append(1) or triton_kernels)
    yield
    assert used


def guarded(values):
    """A tensor beside which there is no number in memory."""
    values = torch.as_tensor(values)
    memory = torch.full((3 * values.numel(),), torch.nan, dtype=torch.float64)
    part = memory[values.numel() : 2 * values.numel()].view(values.shape)
    return part.copy_(values)


def test_a_pull_of_a_gram_matrix():
    rng, count, arms = np.random.default_rng(2), 3, 20
    roots = rng.standard_normal((count, arms, arms)) / 5
    p = roots @ roots.transpose(0, 2, 1)
    mean, width2 = np.zeros((count, arms)), p[:, range(arms), range(arms)].copy()
    (logdet, squares), (pulled, sums) = guarded(np.zeros((2, count))), guarded(np.zeros((2, count, arms)))
    state = [guarded(part) for part in (p, np.zeros((count, 32, arms)))]
    there = [guarded(part) for part in (mean, width2)]
    pulls, slots = torch.zeros((2, count), dtype=torch.int64)
    gram = triton_kernels.GramKernels(*state, slots, *there, [logdet, pulled, sums, squares], pulls)
    counts, earned, first, powers = np.zeros((count, arms)), np.zeros((count, arms)), p.copy(), np.zeros(count)
    for _ in range(25):
        x, reward = rng.integers(arms, size=count), rng.standard_normal(count)
        mask = rng.random(count) < [0.5, 1.0, 0.0]
        gram.step(*map(torch.from_numpy, (np.where(mask, x, NOWHERE), reward, mask)))
        for r in np.flatnonzero(mask):
            g = p[r, x[r]].copy()
            c = 1 / (1 + g[x[r]])
            mean[r] += c * (reward[r] - mean[r, x[r]]) * g
            width2[r] -= c * g * g
            p[r] -= c * np.outer(g, g)
            counts[r, x[r]] += 1
            earned[r, x[r]] += reward[r]
            powers[r] += reward[r] ** 2
    np.testing.assert_allclose(there[0].numpy(), mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(there[1].numpy(), width2, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(pulled.numpy(), counts)
    np.testing.assert_array_equal(pulls.numpy(), counts.sum(axis=1))
    np.testing.assert_allclose(sums.numpy(), earned, rtol=0, atol=1e-12)
    np.testing.assert_allclose(squares.numpy(), powers, rtol=0, atol=1e-12)
    determinants = np.linalg.det(np.eye(arms) + counts[:, :, None] * first)  # of I + N A A^T / ridge
    np.testing.assert_allclose(logdet.numpy(), np.log(determinants), rtol=0, atol=1e-10)
    assert slots.tolist() == [25] * count


@pytest.mark.parametrize("levels", [None, [8, 20, 33]], ids=["plain", "expressive"])
def test_a_pull_of_lanes(kernels, levels, monkeypatch):
    rng, count, dims = np.random.default_rng(8), 3, (1, 8, 33)
    actions = adadim.ActionSet(rng.standard_normal((count, 140, 33)) / 12, levels=levels).to("cpu")
    fast = tensors.Lanes(actions, dims, 0.1)
    monkeypatch.setattr(tensors, "cuda_kernels", lambda reference: None)
    slow = tensors.Lanes(actions, dims, 0.1)
    for _ in range(8):
        lane, x = rng.integers(len(dims), size=count), rng.integers(actions.arms, size=count)
        reward = rng.standard_normal(count)
        mask = rng.random(count) < [1.0, 0.5, 0.0]
        given = [torch.from_numpy(part) for part in (lane, np.where(mask, x, NOWHERE), reward)]
        rows = Replications.where(torch.from_numpy(mask))
        fast.absorb(*given, rows)
        slow.absorb(*given, rows)
    for name in ("mean", "width2", "_w", "pulls"):
        torch.testing.assert_close(getattr(fast, name), getattr(slow, name), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "name", ["LinUCB oful feature", "released linucb++corral", "released smooth-corral", "Tsallis corral importance"]
)
def test_policies_pull_the_same_arms(request, name):
    instance = small(range(3), horizon=HORIZON, arms=20, dim=16, expressive=True, levels=[4, 8, 16]).to("cpu")
    expected = adadim.simulate(POLICIES[name], instance, seed=5)
    request.getfixturevalue("kernels")
    outcome = adadim.simulate(POLICIES[name], instance, seed=5)
    np.testing.assert_array_equal(outcome.pulls, expected.pulls)
    np.testing.assert_allclose(outcome.regret, expected.regret, rtol=0, atol=1e-9)


def test_pulls_that_are_not_in_the_matrix_yet(kernels, monkeypatch):
    """32 pulls at a time are folded into V^-1 where it is large beside the arms."""
    instance = adadim.instances.sphere(arms=5, dim=40, intrinsic_dim=3, horizon=70, replications=range(2)).to("cpu")
    policy = POLICIES["LinUCB oful feature"]
    outcome = adadim.simulate(policy, instance, seed=1)
    assert outcome.learner.model.regression.defers
    for module in (tensors, barrier):
        monkeypatch.setattr(module, "cuda_kernels", lambda reference: None)
    expected = adadim.simulate(policy, instance, seed=1)
    np.testing.assert_array_equal(outcome.pulls, expected.pulls)
    means = (played.learner.model.regression.mean for played in (outcome, expected))
    torch.testing.assert_close(*means, rtol=0, atol=1e-11)
