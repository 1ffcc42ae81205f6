"""The shop and the benchmark of the agent run and say what they should; how fast is not a matter for tests."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(script, *arguments, cwd):
    call = [sys.executable, str(ROOT / script), *map(str, arguments)]
    done = subprocess.run(call, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_shop_learns_while_its_catalogue_changes(tmp_path):
    printed = run(Path("examples", "changing_shop.py"), "--days", 14, "--visitors", 25, cwd=tmp_path)
    rows = re.findall(r"│ +(\d+-\d+) │ +(\S+) │ +(\S+) │ +(\S+) │", printed)
    assert [row[0] for row in rows] == ["1-7", "8-14"]
    chance, agent, best = map(float, rows[1][1:])
    assert agent > chance + 0.5 * (best - chance)
    counts = {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", printed.splitlines()[-1])}
    assert counts["decisions"] == 350
    assert counts["rewards"] + counts["expired"] == 350
    assert counts["arms"] == 20
    assert counts["retired"] == 26


def test_the_shop_from_frames(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["shop.py"])
    played = runpy.run_path(str(ROOT / "examples" / "shop.py"), run_name="__main__")
    log, chances, articles = (played[name] for name in ("log", "chances", "articles"))
    assert log["device"].to_list() == played["visitors"]["device"].to_list()  # tablets too, which no level lists
    assert set(log["device"]) == {"phone", "desktop", "tablet"}
    for device, kind in (("phone", "hat"), ("desktop", "shoe")):
        bought = log.filter(log["device"] == device)["kind"]
        assert (bought == kind).mean() > 0.7
    words = r"(.+): (\S+) clicks per visitor, (\S+) to (\S+)"
    printed = capsys.readouterr().out
    found = {name: tuple(map(float, numbers)) for name, *numbers in re.findall(words, printed)}
    rows = [(device, *article) for device in log["device"] for article in articles["kind", "price"].rows()]
    by_chance = sum(chances.get((device, kind), 0.35) - price / 3 for device, kind, price in rows) / len(rows)
    assert found["at random"][1] < by_chance < found["at random"][2]
    assert found["recommended"][1] > found["at random"][2]
    earned = float(printed.splitlines()[-1].split()[-1])
    assert abs(earned - found["recommended"][0]) < 0.05


def test_the_benchmark_of_the_agent(tmp_path):
    printed = run(Path("benchmarks", "agent.py"), "--quick", "--out", tmp_path / "agent.json", cwd=tmp_path)
    report = json.loads((tmp_path / "agent.json").read_text())
    assert report["machine"]["cpu"] in printed
    assert {row["clients"] for row in report["rows"]} == {1}
    for row in (*report["rows"], *(log[when] for log in report["logs"] for when in ("at_the_start", "at_the_end"))):
        assert 0 < row["ask_p50_ms"] <= row["ask_p99_ms"]
        assert 0 < row["tell_p50_ms"] <= row["tell_p99_ms"]
    assert [row["dim"] for row in report["processor_time"]] == [20, 67, 200]
    assert [(row["dim"], row["decisions"]) for row in report["homepage"]] == [(65, 200), (225, 200)]
    for log in report["logs"]:
        assert log["difference_of_a_rebuild"] < 1e-9
        assert log["bytes"] > 100 * log["decisions"]
