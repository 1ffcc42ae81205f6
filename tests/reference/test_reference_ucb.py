"""The reference UCB, and LinUCB++ with Corral, which runs it, against the specification."""

from __future__ import annotations

from collections import Counter
from math import sqrt

import numpy as np
import pytest

from .common import run
from .instances import approx, instance
from .linucbpp_corral import LinUCBPPCorral
from .ucb import UCB, Index, released_bonus, self_normalised_bonus, ucb1_bonus

# UCB


def test_ucb_bonuses_c17() -> None:
    assert ucb1_bonus(4, 100) == approx(1.517427)
    assert self_normalised_bonus(4, 3, sqrt(2), 0.1) == approx(2.425365)
    cases = [(1, 1, 9.5249, 5.8735), (10, 2, 5.1721, 1.6054), (100, 4, 2.1876, 0.5563)]
    for n, m, released, intended in cases:
        assert released_bonus(n, m, 1024) == approx(released, 5e-5)
        assert self_normalised_bonus(n, m, sqrt(2), 1024**-0.5) == approx(intended, 5e-5)


@pytest.mark.parametrize("index", ["self_normalised", "subgaussian", "released"])
def test_ucb_plays_every_arm_first_and_its_bonus_shrinks(index: Index) -> None:
    rng = np.random.default_rng(7)
    algorithm = UCB(5, 400, 0.2, rng, index)
    outcome = run(algorithm, np.array([0.1, 0.9, 0.2, 0.3, 0.4]), 400, 0.1, rng)
    assert sorted(outcome.arms[:5]) == [0, 1, 2, 3, 4]
    bonuses = [algorithm.bonus(n) for n in range(1, 50)]
    assert bonuses == sorted(bonuses, reverse=True)
    if index != "released":
        assert algorithm.counts[1] > 200


# LinUCB++ with Corral


@pytest.mark.parametrize("index", ["self_normalised", "subgaussian", "released"])
def test_linucbpp_corral_invariants(index: Index) -> None:
    """Section 5: frequencies, fresh masters, no mixture of an unfinished iteration."""
    X, mu, rng = instance(22)
    algorithm = LinUCBPPCorral(X, 301, 0.1, 0.1, rng, index=index)
    masters: list[int] = []
    for t in range(301):
        arm = algorithm.select()
        if algorithm.engine is not None and algorithm.engine.rounds == 0:
            assert list(algorithm.engine.master.p) == [0.5, 0.5]
            masters.append(t)
        algorithm.update(arm, float(mu[arm] + 0.1 * rng.standard_normal()))
    assert masters == [64, 65, 192, 193]
    assert Counter(i for i, _ in algorithm.history) == {1: 64, 2: 128, 3: 109}
    assert all(column < 39 + i for i, column in algorithm.history)
    engine = algorithm.engine
    assert engine is not None
    assert engine.rounds == 54
    assert engine.first_loss is not None
    assert engine.master.gamma == 1 / 128
    assert algorithm.ucb is not None
    pulls = [algorithm.linucb.ridge.n, int(algorithm.ucb.counts.sum())]
    assert [len(stored) for stored in engine.stored] == pulls
    virtual = sum(column >= 40 for _, column in algorithm.history)
    assert 0 < virtual < 237
    gaps = [mu.max() - algorithm.mixtures.mean(j, mu) for j in range(2)]
    assert algorithm.mixture_regret(mu, 192) == approx(64 * gaps[0] + 128 * gaps[1], 1e-9)


def test_linucbpp_corral_step_size() -> None:
    X, mu, rng = instance(23)
    algorithm = LinUCBPPCorral(X, 300, 0.1, 0.1, rng)
    run(algorithm, mu, 66, 0.1, rng)
    assert algorithm.engine is not None
    assert algorithm.engine.master.eta == approx(1 / sqrt(24 * 128), 1e-12)
