"""The table of systems as published and tuned: everyone has the same budget, and the rule does what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim.experiments.comparison.plan import policies as compared

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
tuned = pytest.importorskip("tuned")


@pytest.mark.parametrize("system", tuned.SYSTEMS)
def test_at_most_twelve_settings_that_differ_and_the_published_one_first(system: str) -> None:
    settings = tuned.SYSTEMS[system]
    instance = adadim.instances.sphere(arms=30, dim=20, intrinsic_dim=3, horizon=10_000, noise=0.1)
    made = [tuned.policy_of(system, setting, instance.problem, 3) for setting in settings]
    assert len(settings) <= tuned.BUDGET
    assert len({repr(policy) for policy in made}) == len(settings)
    if system == "oracle":
        assert made[0] == adadim.LinUCB(dim=3)
    elif system in ("corral", "smooth-corral"):  # the published rate, T^-1/2, is given as a number here
        assert made[0] == type(made[0])(base=compared()[system].base, eta=0.01)
    elif system == "moss":
        assert made[0] == adadim.MOSS(scale=0.2)  # 2 sigma, its default
    else:
        assert made[0] == compared()[system]


def test_the_rule_counts_less_than_one_percent_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    families = {"development": {"a": {}, "b": {}}}
    monkeypatch.setattr(tuned, "groups", lambda: families)
    monkeypatch.setattr(tuned, "SYSTEMS", {"x": [{"c": 1}, {"c": 2}, {"c": 3}]})
    store = tuned.Store(tmp_path)
    for family in families["development"]:
        store.add("development", family, tuned.UNIFORM, {"{}": [1000.0, 3000.0]})
    # Shares .2 and .2 for c=1, .01 (for 0) and .5 for c=2, .01 (for .005) and .4 for c=3: means .2, .071, .063.
    for family, means in {"a": (400.0, 0.0, 10.0), "b": (400.0, 1000.0, 800.0)}.items():
        store.add("development", family, "x", {str({"c": c}): [mean] * 2 for c, mean in enumerate(means, 1)})
    assert store.chosen("x") == {"c": 3}
    shares = store.shares("development", "x", {"c": 2})
    np.testing.assert_allclose(shares, [0.01, 0.5])


def test_results_of_another_source_are_not_read(tmp_path: Path) -> None:
    store = tuned.Store(tmp_path)
    store.add("development", "a/1", "linucb", {"{}": [1.0]})
    path = store.path("development", "a/1", "linucb")
    path.write_text(path.read_text().replace(tuned.present().source, "another"))
    assert store.read("development", "a/1", "linucb") == {}
