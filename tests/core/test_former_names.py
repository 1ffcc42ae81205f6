"""Public names that were replaced: they work for one version, and say by what."""

from dataclasses import dataclass

import numpy as np
import pytest

import adadim


def test_a_learner_that_counts_pending_pulls_under_the_former_names():
    counted = []
    with pytest.warns(DeprecationWarning, match="is now") as warned:

        class Learner(adadim.Learner):
            def choose(self, rows):
                return rows.positions * 0, {}

            def absorb(self, arms, rewards, rows, memo):
                counted.append("absorb")

            def expect(self, arms, rows, memo):
                counted.append("expect")

            def answer(self, arms, rewards, rows, memo):
                counted.append("answer")

    assert [str(one.message).split(";")[0] for one in warned] == [
        "Learner.expect is now add_pending",
        "Learner.answer is now resolve",
    ]

    @dataclass(frozen=True)
    class Counting(adadim.Policy):
        def learner(self, problem, streams):
            return Learner(problem, streams)

    learner = Counting().start(adadim.Problem(np.eye(2), horizon=9, noise=0.1))
    first = learner.ask()
    learner.ask()
    learner.tell(first, 1.0)
    assert counted == ["expect", "answer"]


def test_problems_under_the_former_name():
    problem = adadim.Problem(np.eye(2), horizon=9, noise=0.1)
    with pytest.warns(DeprecationWarning, match="Problem.to_grow is now with_writable_arms"):
        assert problem.to_grow() is problem
