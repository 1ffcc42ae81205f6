"""A problem whose noise nobody knows: who needs it says so, and the others run."""

import re

import numpy as np
import pytest

import adadim

NEED_IT = ["UCB", "Corral", "DynamicBalancing", "LinUCB", "LinUCBPlusPlus", "LinUCBPlusPlusCorral", "SmoothCorral"]
NEED_IT += ["SupLinUCB", "TaperedLinUCB", "ReleasedLinUCB"]
EVERY = {name: kind() for name, kind in adadim.policies.kinds().items() if name != "Single"}
EVERY["tapered, its size known"] = adadim.TaperedLinUCB(size=1.0, radius=0.5)


@pytest.mark.parametrize("name", EVERY)
def test_without_the_noise_a_policy_runs_or_says_what_it_needs(name):
    problem = adadim.Problem(np.eye(6), horizon=100)
    try:
        EVERY[name].start(problem).select()
    except adadim.InvalidValueError as error:
        refusal = str(error)
    else:
        refusal = ""
    if name in NEED_IT or refusal:
        assert re.match(r"noise is None, .*Problem\(noise=...\).*adadim.recommended\(problem\)", refusal)


@pytest.mark.parametrize(
    "policy", [adadim.Greedy(), adadim.Random(), adadim.LinUCB(radius=0.5), adadim.TaperedLinUCB(radius=0.5)]
)
def test_policies_that_do_not_need_it_run(policy):
    problem = adadim.Problem(np.eye(6), horizon=100)
    learner = policy.start(problem)
    learner.update(learner.select(), 0.5)
    assert "noise=None" in repr(problem)
