"""Public names that were replaced: they work for one version, and say by what."""

from dataclasses import dataclass

import numpy as np
import pytest

import adadim
from command_line import adadim_


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


def test_names_of_agents_and_instances(tmp_path):
    with adadim.Agent.create(tmp_path / "shop.db", dim=2) as agent:
        with pytest.warns(DeprecationWarning, match="Agent.work_behind is now enable_background_refresh"):
            agent.work_behind()
        with pytest.warns(DeprecationWarning, match="Agent.catch_up is now refresh"):
            assert agent.catch_up() == agent.refresh() == 0
    instance = adadim.instances.growing(arms=6, dim=4, intrinsic_dim=2, horizon=100, best=50)
    with pytest.warns(DeprecationWarning, match="Instance.late is now arrival_gain"):
        assert instance.late is instance.arrival_gain


@pytest.mark.parametrize(
    ("kind", "new", "others"),
    [
        ("growing", "initial_arms", {}),
        ("everyday", "first_relevant", {"distribution": "gaussian"}),
    ],
)
def test_parameters_called_first(kind, new, others):
    """Also in the tables of studies, whose results are found."""
    sizes = {"arms": 6, "dim": 4, "intrinsic_dim": 3, "horizon": 100, **others}
    present = getattr(adadim.instances, kind)(**sizes, **{new: 2})
    with pytest.warns(DeprecationWarning, match=f"first of {kind} is now {new}"):
        former = getattr(adadim.instances, kind)(**sizes, first=2)
    np.testing.assert_array_equal(former.means, present.means)
    here, policies = {"kind": kind, **sizes}, {"a": adadim.LinUCB()}
    with pytest.warns(DeprecationWarning, match=f"the key first is now {new}"):
        old = adadim.study.Study("s", {"here": {**here, "first": 2}}, policies, 1)
    (cell,) = adadim.study.Study("s", {"here": {**here, new: 2}}, policies, 1).cells
    assert [one.id for one in old.cells] == [cell.id]
    assert cell.identity["instance"]["params"]["first"] == 2


def test_names_of_the_experiments():
    from adadim.experiments import field, tradeoff
    from adadim.experiments.paper.analysis import Verdict
    from adadim.report import page

    with pytest.warns(DeprecationWarning, match="tradeoff.Problem is now RateCase"):
        assert tradeoff.Problem is tradeoff.RateCase
    assert "Problem" not in dir(tradeoff)
    with pytest.warns(DeprecationWarning, match="field.Table is now PublishedTable"):
        assert field.Table is field.PublishedTable
    with pytest.warns(DeprecationWarning, match="page.Column is now Heading"):
        assert page.Column is page.Heading
    with pytest.warns(DeprecationWarning, match="Verdict.survives is now holds_after_holm"):
        assert Verdict.survives.fget(Verdict.__new__(Verdict)) is False


def test_options_of_the_command(tmp_path, monkeypatch):
    served = []

    class Service:
        url = "http://somewhere"

        def __init__(self, address, settings):
            served.append(settings.request_timeout)

        def run(self):
            pass

    monkeypatch.setattr("adadim.serve.Service", Service, raising=False)
    adadim.Agent.create(tmp_path / "shop.db", dim=2).close()
    _, silent = adadim_("serve", tmp_path / "shop.db", "--request-timeout", "3")
    _, warned = adadim_("serve", tmp_path / "shop.db", "--patience", "4")
    assert served == [3.0, 4.0]
    assert "warning" not in silent
    assert "--patience is now --request-timeout" in warned
    assert "--patience" not in adadim_("serve", "--help")[0]
