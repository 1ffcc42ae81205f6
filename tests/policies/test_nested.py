"""The bases of a master in nested dimensions, all at once, against separate ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import adadim
from adadim import paper
from adadim.policies.masters.nested import NestedLinUCB
from driving import Driver, in_torch, small
from recordable import POLICIES

MASTERS = {
    "smooth corral": adadim.SmoothCorral(loss_range=(-0.3, 0.3)),
    "smooth corral once": adadim.SmoothCorral(replay=False, master="exp3p"),
    "corral": adadim.Corral(eta=0.5, ambient=True),
    "balancing": adadim.DynamicBalancing(bound="sqrt", c=0.1),
    "balancing released": paper.policies("released")["dynamic-balancing"],
}
BASES = {
    "uniform": {"first_pull": "uniform"},
    "supported": {"arms": "supported"},
    "squared lowest": {"bonus": "squared", "ties": "lowest", "first_pull": "uniform", "arms": "supported"},
    "full": {"radius": "full", "scale": 0.5, "ridge": 1.0},
}


def with_base(master, changes):
    return replace(master, base=replace(master.base, **changes))


@pytest.mark.parametrize(
    ("base", "expressive"), [("uniform", False), ("full", False), ("supported", True), ("squared lowest", True)]
)
@pytest.mark.parametrize("master", MASTERS)
def test_nested_bases_choose_as_separate_ones(master, base, expressive, torch):
    policy = with_base(MASTERS[master], BASES[base])
    closure = {"expressive": True, "levels": [2, 5, 12]} if expressive else {}
    instance = small(range(3), horizon=60, arms=15, dim=12, **closure)
    ours, theirs = (Driver(policy, which, seed=4).run() for which in (instance, in_torch(instance, torch)))
    assert isinstance(theirs.learner.bases, NestedLinUCB)
    assert not isinstance(ours.learner.bases, NestedLinUCB)
    assert theirs.arms == ours.arms
    for one, other in zip(theirs.learner.describe(), ours.learner.describe(), strict=True):
        assert one["rounds of each base"] == other["rounds of each base"]
        assert sum(count > 0 for count in one["rounds of each base"]) > 2


OUT_OF_STEP = {f"nested {name}": with_base(policy, BASES["uniform"]) for name, policy in MASTERS.items()}
OUT_OF_STEP |= {name: policy for name, policy in POLICIES.items() if "three" in name or "LinUCB++" in name}


@pytest.mark.parametrize("name", OUT_OF_STEP)
def test_replications_that_fall_out_of_step(name, torch):
    """Some at a time through `select(rows=...)`, two groups asked before either is told."""
    instance = small(range(4), horizon=40, arms=15, dim=12)
    ours, theirs = (
        Driver(OUT_OF_STEP[name], which, seed=4).stagger(np.random.default_rng(6))
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
        arms = ours.select()
        assert theirs.select().tolist() == arms.tolist()
        ours.update(arms, [reward])
        theirs.update(torch.from_numpy(arms), [reward])
