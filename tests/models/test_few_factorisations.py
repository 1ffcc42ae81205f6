"""The default plays on fixed arms with few factorisations, which take most of the time where features are many."""

import numpy as np

import adadim
from adadim.models.fixed import Posterior


def test_an_arm_pulled_first_is_no_reason_to_factor_anew(monkeypatch):
    """With the least ridge a first pull leaves 1e-6 of a squared width: most led to a factorisation, 57 in all."""
    factored = []
    original = Posterior._rebuild_one
    monkeypatch.setattr(Posterior, "_rebuild_one", lambda *a, **k: factored.append(a[1]) or original(*a, **k))
    instance = adadim.instances.sphere(arms=150, dim=120, intrinsic_dim=20, horizon=300, noise=0.1)
    outcome = adadim.simulate(adadim.recommended(instance.problem), instance)
    assert np.count_nonzero(outcome.pulls) > 50
    assert len(factored) < 10
