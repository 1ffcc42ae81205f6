"""Sizes are looked at before anything is allocated: what cannot fit is refused with its key, at once."""

from __future__ import annotations

import time

import numpy as np
import pytest
from small_studies import SPHERE, two_instances

import adadim
from adadim import instances
from adadim.core import checks
from adadim.study import StudyError, run

RANDOM = {"random": adadim.Random()}

HUGE = {
    "trials": ({"trials": 10**9}, "trials: trials = 1000000000 is too much.*GiB are needed, and this machine has"),
    "more trials": ({"trials": 10**12}, "trials: must be at most 2147483647"),
    "dim": ({"dim": 10**9}, r"instances\.i: dim = 1000000000 is too much"),
    "more dim": ({"dim": 10**15}, r"instances\.i: dim = 1000000000000000 is too much"),
    "arms": ({"arms": 10**9}, r"instances\.i: arms = 1000000000 is too much"),
    "horizon": ({"horizon": 10**12}, r"instances\.i\.horizon: must be at most 2147483647, got 1000000000000"),
    "record": ({"record": 10**12}, r"record: must be at most 1000000 rounds"),
    "variables": (
        {"kind": "polynomials", "variables": 10**10},
        r"instances\.i: variables = 10000000000 is too much",
    ),
    "alpha": (
        {"kind": "lower_bound", "alpha": 1.0, "horizon": 10**8},
        r"instances\.i: horizon = 100000000 is too much",
    ),
}


@pytest.mark.parametrize("key", HUGE)
def test_what_cannot_fit_is_refused_at_once(key, tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "machine_bytes", lambda: 8e9)
    changes, message = HUGE[key]
    of_study = {k: v for k, v in changes.items() if k in ("trials", "record")}
    table = {**SPHERE, **{k: v for k, v in changes.items() if k not in of_study}}
    if changes.get("kind") == "lower_bound":
        table = {k: table[k] for k in ("kind", "alpha", "horizon")}
    began = time.process_time()
    study = two_instances(instances={"i": table}, policies=RANDOM, **of_study)
    for refuse in (study.check, lambda: run(study, tmp_path / "results", jobs=1)):
        with pytest.raises(StudyError, match=message):
            refuse()
    assert time.process_time() - began < 2
    assert not (tmp_path / "results").exists()


def test_generators_refuse_what_cannot_fit():
    for sizes in ({"arms": 10**12, "dim": 3}, {"arms": 3, "dim": 10**12}, {"arms": 10**9, "dim": 10**9}):
        with pytest.raises(adadim.InvalidValueError, match="is too much"):
            instances.sphere(**{**sizes, "intrinsic_dim": 2, "horizon": 10})
    with pytest.raises(adadim.InvalidValueError, match="dim = 1000000000000 is too much"):
        instances.parameter("uniform", 3, 10**12)


def test_five_hundred_instances_are_checked_in_seconds():
    tables = {f"i{i}": {**SPHERE, "dim": 300, "intrinsic_dim": 1 + i % 300, "arms": 1000} for i in range(500)}
    study = two_instances(instances=tables)
    began = time.process_time()
    study.check()
    assert time.process_time() - began < 20


@pytest.mark.parametrize("value", ["false", "true", 0, 1, "", None, [True], np.int64(1)])
def test_flags_are_true_or_false(value):
    policies = {
        "LinUCB": ("only_supported",),
        "LinUCBPlusPlus": ("reuse",),
        "SmoothCorral": ("ambient", "replay"),
        "Corral": ("ambient",),
        "DynamicBalancing": ("ambient",),
        "LinUCBPlusPlusCorral": ("replay",),
    }
    for kind, keys in policies.items():
        for key in keys:
            with pytest.raises(adadim.InvalidTypeError, match=f"{key} must be True or False"):
                getattr(adadim, kind)(**{key: value})
    with pytest.raises(adadim.InvalidTypeError, match="expressive must be True or False"):
        instances.sphere(arms=5, dim=3, intrinsic_dim=2, horizon=10, expressive=value)
    with pytest.raises(adadim.InvalidTypeError, match="zero_arm must be True or False"):
        adadim.theory.lower_bound_family(2500, 0.5, zero_arm=value)


def test_flags_in_a_study_are_true_or_false():
    for kind, key in (("LinUCBPlusPlus", "expressive"), ("LinUCB", "only_supported"), ("SmoothCorral", "ambient")):
        with pytest.raises(StudyError, match=rf"policies\.p.*{key} must be True or False, got 'false'"):
            two_instances(policies={"p": {"kind": kind, key: "false"}}).check()
    table = {**SPHERE, "expressive": "false"}
    with pytest.raises(StudyError, match=r"instances\.i: expressive must be True or False, got 'false'"):
        two_instances(instances={"i": table}).check()
