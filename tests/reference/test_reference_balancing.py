"""The reference Dynamic Balancing against the specification's oracles and invariants."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Literal

import numpy as np
import pytest

from .balancing import (
    DynamicBalancing,
    NestedDynamicBalancing,
    nested_bound,
    released_width,
    theory_width,
)
from .instances import approx, instance


class Constant:
    """A base that always plays the same action."""

    def __init__(self, action: int) -> None:
        self.action = action

    def select(self) -> int:
        return self.action

    def update(self, arm: int, reward: float) -> None:
        assert arm == self.action


def balancing(dims: list[int], delta: float, c: float, reference: Literal["lower", "upper"]) -> DynamicBalancing:
    def bound(dim: int) -> Callable[[int], float]:
        return lambda n: sqrt(dim * n)

    return DynamicBalancing(
        [Constant(i) for i in range(len(dims))],
        [bound(dim) for dim in dims],
        np.random.default_rng(0),
        delta,
        c,
        reference=reference,
        ties="lowest",
    )


def test_balanced_counts_c19() -> None:
    """Equal rewards: nobody is de-activated and n_i d_i is balanced; 8.4's ratio of potentials."""
    master = balancing([1, 4, 16], 0.1, 1.0, "lower")
    counts = {}
    for t in range(1, 2101):
        master.update(master.select(), 0.5)
        counts[t] = tuple(int(n) for n in master.counts)
        assert sum(counts[t]) == t
        assert master.active.all()
        if min(counts[t]) > 0:
            potentials = master.potentials()
            assert potentials.max() <= 4 * potentials.min() * (1 + 1e-12)
    assert counts[42] == (32, 8, 2)
    assert counts[210] == (160, 40, 10)
    assert counts[2100] == (1600, 400, 100)


@pytest.mark.parametrize(
    ("reference", "first", "at_first", "at_50"),
    [("lower", 20, (16, 4), (16, 34)), ("upper", 6, (5, 1), (8, 42))],
)
def test_elimination_toy_c19(
    reference: Literal["lower", "upper"], first: int, at_first: tuple[int, int], at_50: tuple[int, int]
) -> None:
    master = balancing([1, 4], 0.1, 0.1, reference)
    deactivated = None
    for t in range(1, 51):
        arm = master.select()
        master.update(arm, (0.2, 0.6)[arm])
        if deactivated is None and not master.active[0]:
            deactivated = (t, tuple(int(n) for n in master.counts))
    assert deactivated == (first, at_first)
    assert tuple(int(n) for n in master.counts) == at_50


def test_released_bounds_and_widths_c19() -> None:
    assert [nested_bound(dim, 1, 1200) for dim in (1, 16, 512)] == [1.0, 1.0, 1.0]
    assert nested_bound(1, 2, 1200) == approx(30.590267)
    assert nested_bound(16, 2, 1200) == approx(122.361068)
    assert nested_bound(1, 10, 1200) == approx(121.366309)
    assert nested_bound(1, 100, 1200) == approx(611.713276)
    widths = [released_width(n, 10, 1 / 50, 1.0) for n in (1, 2, 10, 100)]
    assert widths == approx([0.0, 1.709985, 0.839562, 0.278241])
    assert theory_width(2, 10, 1 / 50, 1.0) == approx(theory_width(1, 10, 1 / 50, 1.0) / sqrt(2), 1e-12)
    assert theory_width(3, 10, 1 / 50, 1.0) == approx(released_width(3, 10, 1 / 50, 1.0), 1e-12)


def test_released_ties_may_draw_an_inactive_learner() -> None:
    """Q8."""
    master = balancing([1, 1, 1], 0.1, 1.0, "upper")
    master.counts[:] = 4
    master.active[:] = [False, True, True]
    master.ties = "random"
    assert {master.pick() for _ in range(100)} == {1, 2}
    master.ties_among_all = True
    assert {master.pick() for _ in range(100)} == {0, 1, 2}


@pytest.mark.parametrize("variant", ["theory", "released"])
def test_nested_balancing(variant: Literal["theory", "released"]) -> None:
    X, mu, rng = instance(24)
    algorithm = NestedDynamicBalancing(X, 300, 0.1, 0.1, rng, variant=variant)
    bases_of_first_steps = []
    for _ in range(300):
        arm = algorithm.select()
        bases_of_first_steps.append(algorithm.base)
        algorithm.update(arm, float(mu[arm] + 0.1 * rng.standard_normal()))
        assert algorithm.active.any()
        assert np.all(algorithm.active[algorithm.counts == 0])
    assert sorted(bases_of_first_steps[:5]) == [0, 1, 2, 3, 4]
    assert algorithm.counts.sum() == 300
    assert list(algorithm.counts) == sorted(algorithm.counts, reverse=True)
