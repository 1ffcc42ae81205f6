"""Policies as tables, and back."""

from __future__ import annotations

import dataclasses

import pytest
from small_studies import Team

import adadim
from adadim.study import StudyError, from_spec, policy_kinds, to_spec


@pytest.mark.parametrize("kind", [k for k in policy_kinds() if k != "Single"])
def test_every_public_policy_survives_the_round_trip(kind):
    required = {
        f.name
        for f in dataclasses.fields(policy_kinds()[kind])
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if required:
        pytest.skip(f"{kind} has no default for {required}")
    policy = policy_kinds()[kind]()
    assert from_spec(to_spec(policy)) == policy


def test_nested_policies_survive_the_round_trip():
    team = Team((adadim.LinUCB(dim=2, radius=0.5), Team((adadim.Greedy(),))), rate=0.75)
    table = to_spec(team)
    assert table["bases"][1]["bases"][0] == {"kind": "Greedy", "ridge": 0.1, "dim": None, "ties": "random"}
    assert from_spec(table, plugins={"Team": Team}) == team


def test_what_is_no_policy_has_no_table():
    for value in (3, {"kind": "LinUCB"}, adadim.LinUCB):
        with pytest.raises(StudyError, match="expected a policy such as LinUCB"):
            to_spec(value)


def test_an_instance_parameter_needs_an_instance():
    with pytest.raises(StudyError, match=r"policy\.dim: '@dim' stands for a parameter .*there is none here"):
        from_spec({"kind": "LinUCB", "dim": "@dim"})


def test_a_parameter_that_came_later_is_written_where_it_is_used():
    plain, forgets = adadim.Greedy(), adadim.Greedy(memory=100)
    assert repr(plain) == "Greedy(ridge=0.1, dim=None, ties='random')"
    assert repr(forgets) == "Greedy(ridge=0.1, dim=None, ties='random', memory=100)"
    assert "memory" not in to_spec(plain)
    assert to_spec(forgets)["memory"] == 100
