"""The authors' released code where it departs from the paper's text."""

import dataclasses

import numpy as np
import pytest

import adadim
from adadim import DynamicBalancing, LinUCB, LinUCBPlusPlus, Problem
from adadim.policies.released import ReleasedDynamicBalancing, ReleasedLinUCB, ReleasedLinUCBPlusPlus
from linucb_runs import ball, chi_square
from small_problems import in_torch, small

PAIRS = [
    (ReleasedLinUCB, LinUCB),
    (ReleasedLinUCBPlusPlus, LinUCBPlusPlus),
    (ReleasedDynamicBalancing, DynamicBalancing),
]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_uniform_first_pull(library, request):
    """Scores are set aside for one pull, in each replication for its own first."""
    rng = np.random.default_rng(8)
    arms = ball(rng, 6, 3)
    features = np.broadcast_to(arms, (3000, 6, 3))
    array = np.asarray if library == "numpy" else request.getfixturevalue("torch").asarray
    problem = Problem(array(features.copy()), horizon=10, noise=0.1)
    plain, uniform = (policy.start(problem) for policy in (LinUCB(), ReleasedLinUCB()))
    assert (plain.select() == int(np.linalg.norm(arms, axis=1).argmax())).all()
    first = uniform.select()
    assert chi_square(np.bincount(first, minlength=6)) > 1e-3
    some = np.arange(0, 3000, 2)
    uniform.update(first[some], array(np.zeros(1500)), some)
    again = np.asarray(uniform.select())
    scores = np.asarray(uniform.rule.scores(uniform.everyone))
    np.testing.assert_array_equal(again[some], scores[some].argmax(axis=1))
    assert chi_square(np.bincount(again[1::2], minlength=6)) > 1e-3


def test_after_the_first_pull_it_is_linucb():
    instance = small(range(3), horizon=80)
    released, plain = (policy.start(instance.problem) for policy in (ReleasedLinUCB(dim=8), LinUCB(dim=8)))
    noise = instance.noise_streams(0)
    for _ in range(80):
        arms = released.select()
        rewards = instance.pull(arms, noise)
        released.update(arms, rewards)
        plain.select()
        plain.update(arms, rewards)
        np.testing.assert_array_equal(released.rule.scores(released.everyone), plain.rule.scores(plain.everyone))


@pytest.mark.parametrize(("released", "plain"), PAIRS)
def test_parameters_are_those_of_the_policy_itself(released, plain):
    assert issubclass(released, plain)
    fields = [(f.name, f.default) for f in dataclasses.fields(plain) if f.name != "base"]
    assert [(f.name, f.default) for f in dataclasses.fields(released) if f.name != "base"] == fields
    assert released() != plain()
    assert repr(released()).startswith(f"{released.__name__}(")


def tight(dims, plays, arms):
    """Bounds so small that bases are dropped."""
    return 0.02 * np.sqrt(dims * plays)


# Where the two differ: arms of different length, and bases that are dropped.
WHERE = [
    (*PAIRS[0], {"dim": 8}, small(range(3))),
    (*PAIRS[1], {}, small(range(3))),
    (*PAIRS[2], {"bound": tight, "c": 0.02, "reference": "upper"}, small(range(3), noise=0.02)),
]
where_they_differ = pytest.mark.parametrize(("released", "plain", "changes", "instance"), WHERE)


@where_they_differ
def test_it_is_another_policy(released, plain, changes, instance):
    """On the same problem with the same seed it pulls other arms."""
    one, other = (adadim.simulate(kind(**changes), instance, seed=2).pulls for kind in (released, plain))
    assert (one != other).any()


@where_they_differ
def test_torch_pulls_the_same_arms(torch, released, plain, changes, instance):
    policy = released(**changes)
    here, there = (adadim.simulate(policy, which, seed=2) for which in (instance, in_torch(instance, torch)))
    np.testing.assert_array_equal(there.pulls, here.pulls)


def test_released_width_is_zero_at_the_first_play():
    plays = np.array([1.0, 2.0, 50.0])
    released, guarded = (kind().confidence(plays, 5, 0.1) for kind in (ReleasedDynamicBalancing, DynamicBalancing))
    assert released[0] == 0
    assert (guarded > 0).all()
    np.testing.assert_allclose(released[2], guarded[2], rtol=1e-12)
    tied, active = np.array([[True, True, False]]), np.array([[False, True, True]])
    assert ReleasedDynamicBalancing().candidates(tied, active).tolist() == [[True, True, False]]
    assert DynamicBalancing().candidates(tied, active).tolist() == [[False, True, False]]
