"""A study for the device path: some of its units can run together, some cannot."""

from __future__ import annotations

import numpy as np

import adadim
from adadim.study import Study
from adadim.study.store import Store

SPHERE = {"kind": "sphere", "arms": 20, "dim": 8, "intrinsic_dim": 2, "horizon": 60}


def device_study(**changes):
    """Two instances that can run together, and two that cannot join them: another noise, and another horizon."""
    parts = {
        "name": "small",
        "instances": {
            "easy": SPHERE,
            "hard": {**SPHERE, "intrinsic_dim": 8},
            "loud": {**SPHERE, "noise": 0.3},
            "ball": {**SPHERE, "kind": "ball", "horizon": 40},
        },
        "policies": {
            "LinUCB": adadim.LinUCB(),
            "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"},
            "adaptive": adadim.LinUCBPlusPlus(),
            "balancing": adadim.DynamicBalancing(),
        },
        "trials": 5,
        "record": 10,
    }
    return Study(**{**parts, **changes})


def opened(plan, folder):
    store = Store(folder)
    store.prepare(plan)
    store.open(plan)
    return store


def assert_same_results(one, other):
    assert one.cells() == other.cells()
    for instance, policy in one.cells():
        np.testing.assert_array_equal(one.replications(instance, policy), other.replications(instance, policy))
        times, regret = one.curves(instance, policy)
        expected_times, expected = other.curves(instance, policy)
        np.testing.assert_array_equal(times, expected_times)
        np.testing.assert_allclose(regret, expected, rtol=0, atol=1e-9, err_msg=f"{policy} on {instance}")
