"""What a study warns of where a guarantee needs other action sets: once, before it runs; its workers say nothing."""

import warnings

import joblib
import pytest
from small_studies import SPHERE, two_instances

import adadim
from adadim import SetsWarning
from adadim.study import run

LACKING = (
    "policies.mine: the guarantee of OSOM needs sets drawn anew in each round, of mean zero and independent over arms, "
    "but the sets of {} are fixed: it runs, and nothing is promised"
)


def a_study(**changes):
    return two_instances(**{"policies": {"mine": adadim.OSOM(), "LinUCB": adadim.LinUCB()}, "trials": 4, **changes})


def said(call):
    """Messages about sets, and the file that each points at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(str(w.message), w.filename) for w in caught if w.category is SetsWarning]


@pytest.mark.parametrize("backend", [None, "threading"])
def test_a_run_warns_its_caller_once(tmp_path, backend):
    def call():
        if backend is None:
            run(a_study(), tmp_path, jobs=1, batch=1)
        else:
            with joblib.parallel_config(backend=backend):
                run(a_study(), tmp_path, jobs=2, batch=1)

    assert said(call) == [(LACKING.format("instances.easy, instances.hard"), __file__)]


def test_a_run_on_a_device_warns_its_caller_once(tmp_path, card):
    found = said(lambda: run(a_study(), tmp_path, device="cpu:0", batch=2))
    assert found == [(LACKING.format("instances.easy, instances.hard"), __file__)]


def test_it_is_check_that_warns_and_a_run_does_not_repeat_it(tmp_path):
    study = a_study()
    assert len(said(study.check)) == 1
    assert said(study.check) == said(lambda: run(study, tmp_path, jobs=1)) == []


def test_many_instances_are_counted():
    study = a_study(instances={f"i{n}": SPHERE for n in range(5)})
    ((message, _),) = said(study.check)
    assert message == LACKING.format("instances.i0, instances.i1, instances.i2 and 2 more")


def test_sets_that_are_as_needed_are_not_mentioned():
    contexts = {"kind": "contexts", "arms": 4, "dim": 3, "intrinsic_dim": 1, "horizon": 20}
    assert said(a_study(instances={"fresh": contexts}).check) == []
    ((message, _),) = said(a_study(instances={"fresh": contexts, "same": SPHERE}).check)
    assert message == LACKING.format("instances.same")
