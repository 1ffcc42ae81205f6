"""What makes two results the same."""

from __future__ import annotations

from dataclasses import dataclass

from small_studies import SPHERE, two_instances

import adadim


def test_id_depends_on_what_decides_the_result_and_on_nothing_else():
    def ids(**changes):
        return [c.id for c in two_instances(**changes).cells]

    first = ids()
    assert len(set(first)) == 4
    assert ids(trials=50, name="other") == first
    assert ids(policies={"a": adadim.LinUCB(ridge=0.1), "b": {"kind": "LinUCB", "dim": "@intrinsic_dim"}}) == first
    assert ids(instances={"x": {**SPHERE, "noise": 0.1}})[0] == first[0]
    assert ids(policies={"a": {"kind": "LinUCB", "ridge": 1}}) == ids(policies={"a": adadim.LinUCB(ridge=1.0)})
    for change in (
        {"seed": 1},
        {"record": 50},
        {"policies": {"LinUCB": adadim.LinUCB(ridge=0.2), "oracle": adadim.Greedy()}},
        {"instances": {"easy": {**SPHERE, "noise": 0.2}, "hard": {**SPHERE, "kind": "ball"}}},
    ):
        assert not set(ids(**change)) & set(first)


def test_the_source_of_a_policy_object_counts():
    def make(step):
        @dataclass(frozen=True)
        class Own(adadim.Policy):
            def learner(self, problem, streams):
                return adadim.LinUCB(dim=step).learner(problem, streams)

        return Own()

    def identifier(step):
        return two_instances(policies={"own": make(step)}).cells[0].id

    assert identifier(1) == identifier(1)
    assert identifier(1) != identifier(2)
