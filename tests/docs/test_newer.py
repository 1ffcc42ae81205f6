"""The table of the systems of 2021 to 2025: everyone has a budget, and the rule does what it says."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

newer = pytest.importorskip("newer")

GROUPS = (newer.CHOOSING, *newer.REPORTED)
TABLE = {"kind": "sphere", "dim": 8, "intrinsic_dim": 2, "arms": 20, "horizon": 40, "noise": 0.1}


@pytest.fixture
def tables(monkeypatch):
    """One small family in each group, and two systems."""
    monkeypatch.setattr(newer, "TRIALS", 3)
    few = {name: newer.SYSTEMS[name] for name in ("RadiusMixture", "recommended")}
    monkeypatch.setattr(newer, "SYSTEMS", few)
    return {group: {f"one/{group}": TABLE} for group in GROUPS}


def never():
    return False


def test_every_system_has_a_title_and_at_most_twelve_different_settings():
    assert set(newer.TITLES) == set(newer.SYSTEMS)
    for settings in newer.SYSTEMS.values():
        assert 1 <= len(set(settings)) == len(settings) <= 12


def test_chunks_and_calls_that_go_on_give_what_one_call_gives(tmp_path, tables):
    whole, parts = newer.Store(tmp_path / "whole"), newer.Store(tmp_path / "parts")
    assert newer.run_all(whole, tables, list(newer.SYSTEMS), newer.REPORTED, jobs=1, chunk=3, late=never)
    calls = iter([False] * 3 + [True] * 99)
    assert not newer.run_all(
        parts, tables, list(newer.SYSTEMS), newer.REPORTED, jobs=1, chunk=2, late=lambda: next(calls)
    )
    assert newer.run_all(parts, tables, list(newer.SYSTEMS), newer.REPORTED, jobs=1, chunk=2, late=never)
    for group in GROUPS:
        assert whole.read(group, f"one/{group}") == parts.read(group, f"one/{group}")


def test_the_tuned_setting_has_the_smallest_share_on_development_families(tmp_path, tables):
    store, settings = newer.Store(tmp_path), newer.SYSTEMS["RadiusMixture"]
    assert newer.chosen(store, tables, "RadiusMixture") is None  # nothing is played yet
    family = f"one/{newer.CHOOSING}"
    store.add(newer.CHOOSING, family, newer.UNIFORM, {str(r): 100.0 for r in range(3)})
    for i, policy in enumerate(settings):
        store.add(newer.CHOOSING, family, repr(policy), {str(r): 50.0 - 10 * (i == 2) for r in range(3)})
    assert newer.chosen(store, tables, "RadiusMixture") == settings[2]
    store.add(newer.CHOOSING, family, repr(settings[1]), {str(r): 0.2 for r in range(3)})
    store.add(newer.CHOOSING, family, repr(settings[2]), {str(r): 0.1 for r in range(3)})
    assert newer.chosen(store, tables, "RadiusMixture") == settings[1]  # both count as 1%
    assert newer.chosen(store, tables, "recommended") == newer.RECOMMENDED


def test_a_setting_is_chosen_by_the_first_trials_that_all_settings_have_on_every_family(tmp_path, tables):
    store, settings = newer.Store(tmp_path), newer.SYSTEMS["RadiusMixture"]
    tables[newer.CHOOSING]["two/development"] = TABLE
    for family in tables[newer.CHOOSING]:
        store.add(newer.CHOOSING, family, newer.UNIFORM, {"0": 100.0, "1": 1000.0, "2": 1.0})
        for i, policy in enumerate(settings):
            store.add(newer.CHOOSING, family, repr(policy), {"0": 50.0 - 10 * (i == 3), "1": 50.0 - 40 * (i == 1)})
    assert newer.chosen(store, tables, "RadiusMixture") == settings[1]  # two trials: 50 + 10, and 40 + 50
    for family in tables[newer.CHOOSING]:
        path = store.path(newer.CHOOSING, family)
        played = json.loads(path.read_text())
        if family == "two/development":
            del played["regrets"][repr(settings[0])]["1"]
        path.write_text(json.dumps(played))
    assert store.common(newer.CHOOSING, list(tables[newer.CHOOSING]), [newer.UNIFORM, *map(repr, settings)]) == 1
    assert newer.chosen(store, tables, "RadiusMixture") == settings[3]  # of the first alone, on both families


def test_at_most_the_first_trials_are_played_and_both_settings_are_compared_on_the_same(tmp_path, tables, capsys):
    store, group, once = newer.Store(tmp_path), "late", {"jobs": 1, "chunk": 2, "late": never}
    assert newer.run_all(store, tables, ["RadiusMixture"], [group], **once, most=1)
    published, tuned = newer.SYSTEMS["RadiusMixture"][0], newer.chosen(store, tables, "RadiusMixture")
    assert tuned != published
    counts = {len(played) for each in (newer.CHOOSING, group) for played in store.read(each, f"one/{each}").values()}
    assert counts == {1}
    more = newer.tasks_of(store, tables, [group], [*newer.ORACLES, newer.UNIFORM, repr(published)], 2, 2)
    assert {task[-1] for task in more} == {range(1, 2)}  # the first is not played again
    assert newer.run(store, more, 1, never)
    newer.print_table(store, tables, ["RadiusMixture"], [group])
    cells = capsys.readouterr().out.splitlines()[2].split(" | ")
    assert store.played(group, f"one/{group}", repr(published)) == 2
    assert "" not in cells[1:3]
    assert cells[3] == "1"


def test_tables_and_the_excess_over_the_limits(tmp_path, tables, capsys):
    store, (published, *others) = newer.Store(tmp_path), newer.SYSTEMS["RadiusMixture"]
    played = {newer.UNIFORM: 100, newer.LINEAR: 10, "oracle": 20, "narrow-oracle": 5, repr(published): 30}
    played |= {repr(policy): 40 for policy in others}
    for group in GROUPS:
        for name, regret in played.items():
            finals = {"0": regret - 9.0, "1": float(regret), "2": regret + 9.0}
            store.add(group, f"one/{group}", name, finals)
    newer.print_table(store, tables, list(newer.SYSTEMS), newer.REPORTED)
    first = capsys.readouterr().out.splitlines()[2]
    assert first.count("1.50 / 6.00") == 2 * len(newer.REPORTED)
    assert first.endswith("as published |")
    newer.print_rule(store, tables)
    row = capsys.readouterr().out.splitlines()[2]
    assert row.startswith("| `RadiusMixture()` | 3.00 | 3.00 | 3.00 | 3.00 | 2.50 |")  # 30 / 12, beside 39 / 20
    assert "| 4 of 4 | 6.00 | 0 |" in row


def test_what_another_source_has_played_does_not_count(tmp_path, tables):
    store = newer.Store(tmp_path)
    store.add("held-out", "a/b", "uniform", {"0": 1.0})
    path = store.path("held-out", "a/b")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"source": "another"}))
    assert store.read("held-out", "a/b") == {}


def test_published_settings_alone_and_one_trial_at_a_time_where_a_system_is_slow(tmp_path, tables, monkeypatch):
    monkeypatch.setattr(newer, "SLOW", ("recommended",))
    store, group, systems = newer.Store(tmp_path), "held-out", list(newer.SYSTEMS)
    parts = {"jobs": 1, "chunk": 3, "late": never}
    family, published = f"one/{group}", [repr(newer.SYSTEMS[system][0]) for system in systems]
    tasks = [(task[3], task[-1]) for task in newer.tasks_of(store, tables, [group], published, 3)]
    assert tasks == [(published[0], range(3)), *((published[1], range(r, r + 1)) for r in range(3))]
    assert newer.run_published(store, tables, systems, [group], **parts)
    played = store.read(group, family)
    assert sorted(played) == sorted([*newer.ORACLES, newer.UNIFORM, *published])
    assert [len(played[name]) for name in published] == [3, 3]
    assert store.read(newer.CHOOSING, f"one/{newer.CHOOSING}") == {}
    mine, uniform = (np.mean([played[name][r] for r in "01"]) for name in (published[1], newer.UNIFORM))
    assert store.shares(group, [family], published[1], 2) == pytest.approx([mine / uniform])
    assert store.shares(group, [family], published[1], 4) is None
    assert newer.tasks_of(store, tables, [group], published, 3) == []


def test_the_first_trial_of_every_family_before_the_second_and_the_table_has_what_all_have(
    tmp_path, tables, monkeypatch, capsys
):
    monkeypatch.setattr(newer, "SLOW", ("recommended",))
    store, slow = newer.Store(tmp_path), repr(newer.RECOMMENDED)
    tables["held-out"]["two/held-out"] = TABLE | {"horizon": 20}
    calls = iter([False] * (2 * 3 + 3) + [True] * 99)  # three policies on two families, then three trials
    more = {"jobs": 1, "chunk": 3, "late": lambda: next(calls)}
    assert not newer.run_published(store, tables, ["recommended"], ["held-out"], **more)
    assert [store.played("held-out", family, slow) for family in tables["held-out"]] == [2, 1]
    newer.print_table(store, tables, list(newer.SYSTEMS), newer.REPORTED)
    row = capsys.readouterr().out.splitlines()[3].split(" | ")
    names = list(tables["held-out"])
    mine, oracle = (store.shares("held-out", names, name, 1) for name in (slow, "oracle"))
    assert row[1].startswith(f"{newer.middle(mine / oracle):.2f} / ")
    assert row[3] == "1"


def test_families_are_those_of_the_comparison():
    found = newer.families()
    assert [len(found[group]) for group in GROUPS] == [22, 22, 9, 9, 15, 8]
    regrets = newer.play("g", "f", TABLE, "narrow-oracle", range(2))[-1]
    assert list(regrets) == ["0", "1"]
    assert np.isfinite(list(regrets.values())).all()


def test_a_file_of_what_was_played_gives_the_same_table(tmp_path, tables, capsys):
    store, systems, path = newer.Store(tmp_path), list(newer.SYSTEMS), tmp_path / "kept.json"
    assert newer.run_published(store, tables, systems, ["held-out"], jobs=1, chunk=1, late=never, most=2)
    store.add("held-out", "one/held-out", "oracle", {"7": 1.0})  # not among the first trials
    store.keep(path, tables)
    kept = newer.Store(path)
    assert kept.played("held-out", "one/held-out", repr(newer.RECOMMENDED)) == 2
    assert "7" not in kept.read("held-out", "one/held-out")["oracle"]
    for one in (store, kept):
        newer.print_table(one, tables, systems, ["held-out"], published=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == lines[4:]
    assert lines[0] == "| system | held-out, published | held-out, trials |"
    assert lines[3].endswith(" | 2 |")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"source": "another"}))
    assert newer.Store(path).played("held-out", "one/held-out", "oracle") == 2  # whatever the source is now
