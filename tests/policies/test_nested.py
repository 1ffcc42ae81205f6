"""The bases of a master in nested dimensions, all at once, against separate ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import adadim
from adadim import paper
from adadim.policies.masters.base import NestedLinUCB, are_nested
from adadim.policies.released import ReleasedLinUCB
from recorded_policies import POLICIES
from small_problems import in_torch, small
from stepping import Stepper

MASTERS = {
    "smooth corral": adadim.SmoothCorral(loss_range=(-0.3, 0.3)),
    "smooth corral once": adadim.SmoothCorral(replay=False, master="exp3p"),
    "corral": adadim.Corral(eta=0.5, ambient=True),
    "balancing": adadim.DynamicBalancing(bound="sqrt", c=0.1),
    "balancing released": paper.policies("released")["dynamic-balancing"],
}
BASES = {
    "uniform": ReleasedLinUCB(),
    "supported": adadim.LinUCB(only_supported=True),
    "squared lowest": ReleasedLinUCB(bonus="squared", ties="lowest", only_supported=True),
    "full": adadim.LinUCB(radius="full", scale=0.5, ridge=1.0),
}


def with_base(master, base):
    return replace(master, base=base)


@pytest.mark.parametrize(
    ("base", "expressive"), [("uniform", False), ("full", False), ("supported", True), ("squared lowest", True)]
)
@pytest.mark.parametrize("master", MASTERS)
def test_nested_bases_choose_as_separate_ones(master, base, expressive, torch):
    policy = with_base(MASTERS[master], BASES[base])
    closure = {"expressive": True, "levels": [2, 5, 12]} if expressive else {}
    instance = small(range(3), horizon=60, arms=15, dim=12, **closure)
    ours, theirs = (Stepper(policy, which, seed=4).run() for which in (instance, in_torch(instance, torch)))
    assert isinstance(theirs.learner.bases, NestedLinUCB)
    assert not isinstance(ours.learner.bases, NestedLinUCB)
    assert theirs.arms == ours.arms
    for one, other in zip(theirs.learner.describe(), ours.learner.describe(), strict=True):
        assert one["rounds_of_each_base"] == other["rounds_of_each_base"]
        assert sum(count > 0 for count in one["rounds_of_each_base"]) > 2


OUT_OF_STEP = {f"nested {name}": with_base(policy, BASES["uniform"]) for name, policy in MASTERS.items()}
OUT_OF_STEP |= {name: policy for name, policy in POLICIES.items() if "three" in name or "LinUCB++" in name}


@pytest.mark.parametrize("name", OUT_OF_STEP)
def test_replications_that_fall_out_of_step(name, torch):
    """Some at a time, two groups asked before either is answered."""
    instance = small(range(3), horizon=28, arms=15, dim=12)  # iterations of 16 and 12 rounds
    ours, theirs = (
        Stepper(OUT_OF_STEP[name], which, seed=4).stagger(np.random.default_rng(6))
        for which in (instance, in_torch(instance, torch))
    )
    assert theirs.lead > 3
    assert theirs.arms == ours.arms
    assert isinstance(getattr(theirs.learner, "bases", None), NestedLinUCB) == name.startswith("nested")


def test_a_radius_that_is_a_number_needs_no_noise_here_either(torch):
    features = np.random.default_rng(7).standard_normal((15, 12)) / 12
    policy = adadim.DynamicBalancing(base=adadim.LinUCB(radius=0.3))
    ours, theirs = (policy.start(adadim.Problem(given, horizon=30)) for given in (features, torch.from_numpy(features)))
    assert isinstance(theirs.bases, NestedLinUCB)
    for reward in np.random.default_rng(8).standard_normal(30):
        arm = ours.select()
        assert theirs.select() == arm
        ours.update(arm, reward)
        theirs.update(arm, reward)


def test_who_is_nested():
    """Equal but for the dimension, of one class, and with a radius that does not look at the data."""
    assert are_nested([adadim.LinUCB(dim=1), adadim.LinUCB(dim=4), adadim.LinUCB()])
    assert are_nested([ReleasedLinUCB(dim=1), ReleasedLinUCB(dim=4)])
    assert not are_nested([adadim.LinUCB(dim=1), ReleasedLinUCB(dim=4)])
    assert not are_nested([ReleasedLinUCB(dim=1), adadim.LinUCB(dim=4)])
    assert not are_nested([adadim.LinUCB(dim=1), adadim.LinUCB(dim=4, ridge=0.2)])
    assert not are_nested([adadim.LinUCB(dim=1, radius="oful"), adadim.LinUCB(dim=4, radius="oful")])
    assert not are_nested([adadim.UCB(), adadim.UCB()])


def masters_of_masters():
    inner = adadim.Corral(bases=(adadim.LinUCB(dim=2), adadim.SupLinUCB(radius=0.2)), eta=0.5)
    return {
        "smooth corral": adadim.SmoothCorral(bases=(inner, adadim.UCB(), adadim.LinUCBPlusPlus()), eta=1.0),
        "corral": adadim.Corral(bases=(adadim.SmoothCorral(eta=1.0), inner), eta=0.5),
        "importance": adadim.Corral(bases=(inner, adadim.UCB()), feedback="importance", eta=0.5),
        "balancing": adadim.DynamicBalancing(bases=(adadim.LinUCBPlusPlusCorral(), inner), bound="sqrt", c=0.1),
    }


@pytest.mark.parametrize("name", masters_of_masters())
def test_a_master_may_be_the_base_of_a_master(name, torch):
    """What each has to remember of a decision stays its own, in step and out of step."""
    policy, instance = masters_of_masters()[name], small(range(3), horizon=60, arms=12, dim=12)
    together = Stepper(policy, instance, seed=4).run()
    assert Stepper(policy, in_torch(instance, torch), seed=4).run().arms == together.arms
    out_of_step = Stepper(policy, instance, seed=4).stagger(np.random.default_rng(6))
    assert out_of_step.lead > 3
    assert out_of_step.arms == together.arms
