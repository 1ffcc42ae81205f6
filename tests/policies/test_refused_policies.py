"""Hyper-parameters that make no sense are refused when the policy is made, with an error that names the value."""

import numpy as np
import pytest

import adadim
from adadim import (
    UCB,
    Greedy,
    LinUCB,
    SupLinUCB,
)
from refusals import GOOD, assert_refuses, instance, problem

nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize("policy", [LinUCB, SupLinUCB, Greedy])
@pytest.mark.parametrize("ridge", [0, -0.1, nan, inf, True, None, "0.1"])
def test_ridge(policy, ridge):
    assert_refuses(ValueError, f"ridge must be a positive finite number .*, got {ridge!r}", policy, ridge=ridge)


@pytest.mark.parametrize("policy", [LinUCB, SupLinUCB, Greedy])
@pytest.mark.parametrize("dim", [0, -1, True, 2.5])
def test_dim_below_one(policy, dim):
    assert_refuses(
        ValueError, rf"dim must be an integer of at least 1 \(or None for all features\), got {dim!r}", policy, dim=dim
    )


@pytest.mark.parametrize("policy", [LinUCB, SupLinUCB, Greedy])
@pytest.mark.parametrize("dim", [4, 100])
def test_dim_above_the_number_of_features(policy, dim):
    chosen = policy(dim=dim)
    message = rf"dim must be an integer in 1\.\.3 \(the number of features\), got {dim!r}"
    assert_refuses(ValueError, message, chosen.start, problem())
    assert_refuses(ValueError, message, adadim.simulate, chosen, instance())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LinUCB(bonus="cubed"), "bonus must be 'norm' or 'squared', got 'cubed'"),
        (
            lambda: LinUCB(radius="wide"),
            "radius must be 'noise', 'full', 'paper', 'oful', 'oful-2011' or a number, got 'wide'",
        ),
        (lambda: LinUCB(radius=-1.0), r"radius must be a non-negative finite number or a rule, got -1\.0"),
        (lambda: LinUCB(radius=nan), "radius must be a non-negative finite number or a rule, got nan"),
        (lambda: LinUCB(radius=True), "radius must be a non-negative finite number or a rule, got True"),
        (lambda: LinUCB(scale=0), r"scale must be a positive finite number \(a factor on the radius\), got 0"),
        (
            lambda: adadim.TwoPriorLinUCB(scale=1e308),
            r"scale must be at most 1e\+100 \(a factor on the radius\), got 1e\+308",
        ),
        (lambda: LinUCB(theta_norm=-1), r"theta_norm must be a positive finite number .*, got -1"),
        (lambda: LinUCB(ties="first"), "ties must be 'random' or 'lowest', got 'first'"),
        (lambda: Greedy(ties="first"), "ties must be 'random' or 'lowest', got 'first'"),
        (lambda: SupLinUCB(radius="oful"), "SupLinUCB takes radius 'noise', 'full', 'paper' or a number, got 'oful'"),
        (lambda: SupLinUCB(scale=-2.0), r"scale must be a positive finite number .*, got -2\.0"),
        (lambda: SupLinUCB(ties="first"), "got 'first'"),
        (lambda: UCB(index="ucb2"), "index must be 'self-normalised', .* got 'ucb2'"),
        (lambda: UCB(delta=0.0), r"delta must be a number in \(0, 1\), got 0\.0"),
        (lambda: UCB(delta=1.0), r"delta must be a number in \(0, 1\), got 1\.0"),
        (lambda: UCB(scale=0.0), r"scale must be a positive finite number .*, got 0\.0"),
        (lambda: UCB(ties="first"), "got 'first'"),
        (lambda: LinUCB(form="dense").start(problem()), "form must be 'auto', 'gram' or 'feature', got 'dense'"),
        (lambda: LinUCB().start(problem(), seed=-1), "seed must be a non-negative integer, got -1"),
        (lambda: LinUCB().start(problem(), seed=0.5), r"seed must be a non-negative integer, got 0\.5"),
    ],
)
def test_hyper_parameters(call, message):
    assert_refuses(ValueError, message, call)


@pytest.mark.parametrize("value", ["false", 1, 0.0, None, "supported"])
@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (LinUCB, "only_supported"),
        (adadim.LinUCBPlusPlus, "reuse"),
        (adadim.SmoothCorral, "replay"),
        (adadim.LinUCBPlusPlusCorral, "replay"),
    ],
)
def test_flags_are_true_or_false(policy, name, value):
    assert_refuses(TypeError, f"{name} must be True or False, got {value!r}", policy, **{name: value})
    for flag in (True, False, np.True_):
        assert getattr(policy(**{name: flag}), name) == flag


def test_start_needs_a_problem():
    assert_refuses(TypeError, r"start needs an adadim\.Problem, got Instance", LinUCB().start, instance())
    assert_refuses(TypeError, r"start needs an adadim\.Problem, got ndarray", LinUCB().start, GOOD)


@pytest.mark.parametrize("kind", [k for k in adadim.policies.kinds().values() if "ambient" in k.__dataclass_fields__])
@pytest.mark.parametrize("ambient", ["yes", 1, None])
def test_ambient(kind, ambient):
    assert_refuses(TypeError, f"ambient must be True or False, got {ambient!r}", kind, ambient=ambient)


def test_copies_of_a_base_are_learners_each():
    assert_refuses(ValueError, r"copies must be an integer in 1\.\.1000", adadim.UCBCorral, copies=2**31)
