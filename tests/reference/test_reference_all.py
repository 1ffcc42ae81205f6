"""Every reference algorithm runs, and repeats itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from .balancing import (
    NestedDynamicBalancing,
)
from .common import Algorithm, Floats, run
from .corral import Corral, SmoothCorral
from .instances import instance
from .linucbpp import LinUCBPP
from .linucbpp_corral import LinUCBPPCorral
from .ridge import LinUCB
from .suplinucb import SupLinUCB

Generator = np.random.Generator
Factory = Callable[[Floats, int, Generator], Algorithm]
ALGORITHMS: dict[str, Factory] = {
    "linucb": lambda X, T, rng: LinUCB(X, T, 0.1, 0.1, rng),
    "suplinucb": lambda X, T, rng: SupLinUCB(X, T, 0.1, 1.0, rng),
    "linucbpp": lambda X, T, rng: LinUCBPP(X, T, 0.1, 0.1, rng),
    "released": lambda X, T, rng: LinUCBPP(X, T, 0.1, 0.1, rng, bonus="squared", rescale=True),
    "corral": lambda X, T, rng: Corral(X, T, 0.1, 0.1, rng),
    "smooth": lambda X, T, rng: SmoothCorral(X, T, 0.1, 0.1, rng),
    "linucbpp_corral": lambda X, T, rng: LinUCBPPCorral(X, T, 0.1, 0.1, rng),
    "balancing": lambda X, T, rng: NestedDynamicBalancing(X, T, 0.1, 0.1, rng),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("T", [2, 3, 5, 97])
def test_every_algorithm_runs_and_repeats(name: str, T: int) -> None:
    X, mu, _ = instance(25, K=15, d=6)
    runs = [
        run(ALGORITHMS[name](X, T, np.random.default_rng(1)), mu, T, 0.1, np.random.default_rng(2)) for _ in range(2)
    ]
    assert np.array_equal(runs[0].arms, runs[1].arms)
    assert np.all(np.diff(runs[0].regret) >= 0)
    assert runs[0].regret[-1] <= T * np.ptp(mu) + 1e-9
