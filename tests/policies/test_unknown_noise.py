"""A problem whose noise nobody knows: who needs it says so, and the others run."""

import inspect

import numpy as np
import pytest

import adadim


def needs_noise():
    kinds = (getattr(adadim.policies, name) for name in adadim.policies.__all__)
    policies = [k for k in kinds if inspect.isclass(k) and issubclass(k, adadim.Policy) and not inspect.isabstract(k)]
    free = {adadim.EvidenceLinUCB, adadim.Greedy, adadim.Random, adadim.Single}
    return [k() for k in policies if k not in free] + [adadim.TaperedLinUCB(size=1.0, radius=0.5)]


@pytest.mark.parametrize("policy", needs_noise(), ids=lambda p: type(p).__name__)
def test_policies_that_need_the_noise_say_so(policy):
    problem = adadim.Problem(np.eye(6), horizon=100)
    with pytest.raises(ValueError, match=r"noise is None, .*Problem\(noise=...\).*adadim.recommended\(problem\)"):
        policy.start(problem).select()


@pytest.mark.parametrize(
    "policy", [adadim.Greedy(), adadim.Random(), adadim.LinUCB(radius=0.5), adadim.TaperedLinUCB(radius=0.5)]
)
def test_policies_that_do_not_need_it_run(policy):
    problem = adadim.Problem(np.eye(6), horizon=100)
    learner = policy.start(problem)
    learner.update(learner.select(), 0.5)
    assert "noise=None" in repr(problem)
