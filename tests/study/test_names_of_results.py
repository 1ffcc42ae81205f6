"""Under which names results are stored: those of 0.3 for its policies, and the same when a policy is given a field."""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import dataclass, field, make_dataclass, replace

import pytest

import adadim
from adadim import policies
from adadim.core.codec import identity, parameters_of, source_digest
from adadim.core.released_fields import RELEASED_FIELDS
from adadim.study.kinds import SUPPLIED, instance_identity, instance_kinds

KINDS = {**policies.kinds(), **policies.parts()}
DEFAULT = {name: kind() for name, kind in KINDS.items() if name != "Single"}  # which has no default
DEFAULT["Single"] = adadim.Single(len)


def named(value, kinds=KINDS):
    return json.dumps(identity(value, "policy", kinds))


def test_policies_are_named_as_version_0_3_named_them():
    lines = [f"{name} {named(DEFAULT[name])}\n" for name in sorted(RELEASED_FIELDS) if name != "Single"]
    assert (
        hashlib.sha256("".join(lines).encode()).hexdigest()
        == "00ea839cdb9d8ee0cf16c4f597c320d4320eaf387d723564d6e7272a3aa684de"
    )


def test_a_radius_that_means_something_else_since_is_filed_under_another_name():
    named_then = {"radius": "oful"}  # by 0.3, for the radius that is now called "oful-2011"
    assert json.loads(named(adadim.LinUCB(radius="oful-2011")))["params"].items() >= named_then.items()
    assert json.loads(named(adadim.LinUCB(radius="oful")))["params"]["radius"] == "oful, root of the sum"


@pytest.mark.parametrize("name", KINDS)
def test_a_new_field_renames_nothing_while_it_has_its_default(name):
    kind, former = KINDS[name], DEFAULT[name]
    later, parts = field(default=1.0, kw_only=True), field(default_factory=lambda: (former, 2), kw_only=True)
    grown = make_dataclass(name, [("later", float, later), ("parts", tuple, parts)], bases=(kind,), frozen=True)
    kinds = KINDS | {name: grown}
    given = {key: getattr(former, key) for key in ("make",) if name == "Single"}
    plain = grown(**given)
    assert named(plain, kinds) == named(former)
    assert named(replace(plain, later=1), kinds) == named(former)
    other = json.loads(named(replace(plain, later=2.0), kinds))
    assert other["params"] == {**json.loads(named(former))["params"], "later": 2}


def test_true_is_not_the_default_1():
    counted = make_dataclass("Counted", [("size", int, 1)], frozen=True)
    assert identity(counted(), "", {"Counted": counted}) == {"kind": "Counted", "params": {}}
    assert identity(counted(True), "", {"Counted": counted})["params"] == {"size": True}


def own(first=(1, 2), slots=False):
    @dataclass(frozen=True, slots=slots)
    class Own:
        sizes: tuple[int, ...] = field(default_factory=lambda: first)
        width: float = float(first[0])

    return Own


@pytest.mark.parametrize("slots", [False, True])
def test_the_defaults_of_a_class_of_ones_own_are_in_its_name(slots):
    assert identity(own(slots=slots)(), "", {})["params"] == {}
    assert named(own(slots=slots)(), {}) == named(own(slots=slots)(), {})
    assert source_digest(own((1, 3), slots)) != source_digest(own((1, 2), slots))
    assert source_digest(own((3, 2), slots)) != source_digest(own((1, 2), slots))
    assert named(own((1, 3), slots)(), {}) != named(own((1, 2), slots)(), {})


SIZES = {"arms": 9, "dim": 4, "intrinsic_dim": 2, "horizon": 50}
INSTANCES = {
    "contexts": {**SIZES, "rewards": "bernoulli"},
    "biased_arms": {"arms": 5, "dim": 6, "horizon": 50},
    "growing": SIZES,
    "sphere": {**SIZES, "delay": 3},
    "products": {**SIZES, "attributes": 3},
}


def instance_of(kind, params, generator=None):
    generator = generator or instance_kinds()[kind]
    complete = {key: value for key, value in (parameters_of(generator) | params).items() if key not in SUPPLIED}
    return instance_identity(generator, kind, complete, {}, "instances.one")


def test_instances_are_named_as_version_0_3_named_them():
    assert instance_of("sphere", SIZES) == {
        "kind": "sphere",
        "params": {**SIZES, "noise": 0.1, "theta": "uniform", "expressive": False, "levels": None},
    }
    lines = [json.dumps(instance_of(kind, params)) + "\n" for kind, params in INSTANCES.items()]
    assert (
        hashlib.sha256("".join(lines).encode()).hexdigest()
        == "4784e8feb0e24b40a85c3e6fa0a35f30e5fc9976d0458c3a5fa19787564c02d5"
    )


@pytest.mark.parametrize("kind", INSTANCES)
def test_a_new_parameter_of_a_generator_renames_nothing_while_it_has_its_default(kind):
    generator = instance_kinds()[kind]
    signature = inspect.signature(generator)
    later = inspect.Parameter("later", inspect.Parameter.KEYWORD_ONLY, default=1.0)

    def grown(**params):
        raise AssertionError("not called")

    grown.__signature__ = signature.replace(parameters=[*signature.parameters.values(), later])
    former = instance_of(kind, INSTANCES[kind])
    assert instance_of(kind, INSTANCES[kind], grown) == former
    other = instance_of(kind, {**INSTANCES[kind], "later": 2.0}, grown)
    assert other["params"] == {**former["params"], "later": 2}


def test_a_new_generator_is_named_by_what_differs_from_its_defaults():
    def new(arms, horizon=100, replications=1):
        raise AssertionError("not called")

    assert instance_of("new", {"arms": 3}, new) == {"kind": "new", "params": {"arms": 3}}
    assert instance_of("new", {"arms": 3, "horizon": 9}, new)["params"] == {"arms": 3, "horizon": 9}
