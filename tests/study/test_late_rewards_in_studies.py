"""Delays in studies: written in TOML, filed with the results, and refused where a policy cannot take them."""

import numpy as np
import pytest

import adadim
from adadim.errors import StudyError
from adadim.instances import Delay
from adadim.study import Study, run

SPHERE = {"kind": "sphere", "arms": 10, "dim": 4, "intrinsic_dim": 2, "horizon": 80}
DELAYS = {
    "number": (12, Delay(12)),
    "table": (
        {"distribution": "geometric", "mean": 9, "never": 0.1},
        Delay(distribution="geometric", mean=9, never=0.1),
    ),
    "object": (Delay(distribution="uniform", least=2, most=9), Delay(distribution="uniform", least=2, most=9)),
}


def plan(delay=None, policy=None):
    instance = SPHERE if delay is None else {**SPHERE, "delay": delay}
    return Study("late", {"here": instance}, {"it": policy or adadim.LinUCB()}, trials=3, record=4)


@pytest.mark.parametrize(("written", "meant"), DELAYS.values(), ids=DELAYS)
def test_a_delay_is_written_read_and_run(written, meant, tmp_path):
    study = plan(written)
    file = tmp_path / "late.toml"
    file.write_text(study.to_toml())
    again = Study.from_toml(file)
    assert [cell.id for cell in again.cells] == [cell.id for cell in study.cells]
    (cell,) = again.cells
    assert cell.make([0]).delay == meant
    assert cell.id != plan().cells[0].id
    parameters = {key: value for key, value in SPHERE.items() if key != "kind"}
    instance = adadim.instances.sphere(**parameters, replications=range(3))
    expected = adadim.simulate(adadim.LinUCB(), instance, record=4, delay=meant)
    results = run(again, tmp_path / "results", jobs=1)
    np.testing.assert_array_equal(results.final("here", "it"), expected.final)


def test_results_without_delay_are_filed_as_before():
    (cell,) = plan().cells
    assert set(cell.identity["instance"]["params"]) == {
        *(key for key in SPHERE if key != "kind"), "noise", "theta", "expressive", "levels"
    }  # fmt: skip
    contexts = {"kind": "contexts", "arms": 3, "dim": 4, "intrinsic_dim": 2, "horizon": 9}
    (cell,) = Study("x", {"here": contexts}, {"it": adadim.LinUCB()}, trials=1, record=2).cells
    assert not {"delay", "rewards"} & set(cell.identity["instance"]["params"])
    clicks = {**contexts, "rewards": "bernoulli"}
    (cell,) = Study("x", {"here": clicks}, {"it": adadim.LinUCB()}, trials=1, record=2).cells
    assert cell.identity["instance"]["params"]["rewards"] == "bernoulli"


def test_a_policy_that_needs_each_reward_is_refused_before_the_run():
    message = r"policies\.it: cannot run on instances\.here: LinUCBPlusPlus needs each reward .*adadim\.recommended"
    with pytest.raises(StudyError, match=message):
        plan(5, adadim.LinUCBPlusPlus()).check()
    plan(0, adadim.LinUCBPlusPlus()).check()


def test_a_delay_that_is_none_is_refused_before_the_run():
    with pytest.raises(StudyError, match=r"instances\.here: delay\.men: a delay has no parameter 'men'"):
        plan({"distribution": "geometric", "men": 4}).check()


def test_the_former_name_of_a_distribution_is_understood_and_its_results_are_found():
    contexts = {"kind": "contexts", "arms": 3, "dim": 4, "intrinsic_dim": 2, "horizon": 9}

    def cell_of(name):
        delay = {name: "geometric", "mean": 9}
        instance = {**contexts, name: "sphere", "delay": delay}
        (cell,) = Study("x", {"here": instance}, {"it": adadim.LinUCB()}, trials=1, record=2).cells
        return cell

    cell = cell_of("distribution")
    params = cell.identity["instance"]["params"]
    assert params["law"] == "sphere"  # as version 0.3 filed it
    assert params["delay"] == {"law": "geometric", "mean": 9}
    with pytest.warns(DeprecationWarning, match="law is now distribution"):
        former = cell_of("law")
    assert former.id == cell.id
    with pytest.warns(DeprecationWarning, match="the parameter law of contexts is now distribution"):
        made = adadim.instances.contexts(arms=3, dim=4, intrinsic_dim=2, horizon=9, law="sphere")
    with pytest.warns(DeprecationWarning, match="the parameter law of Delay is now distribution"):
        assert Delay(law="geometric", mean=9) == Delay(distribution="geometric", mean=9)
    with pytest.warns(DeprecationWarning, match=r"ContextInstance.law is now distribution"):
        assert made.law == "sphere"
