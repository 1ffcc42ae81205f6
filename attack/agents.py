"""Agents: bad calls, damaged files, and processes that are killed while they ask and tell."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import adadim
from adadim.agent import AgentDecision, Slate, sqlite
from attack import damage
from attack.calls import BAD_VALUES
from attack.damage import changed, damaged, generator
from attack.tally import Tally

DIM = 3
ROUND = 40  # bad calls of one agent before it is looked through
ARMS = {"a": [1.0, 0.2, 0.0], "b": [0.5, 0.7, 0.1], "c": [0.0, -1.0, 0.3]}
NAMES = (
    "'); DROP TABLE decisions; --", "[red]x[/]", "<script>alert(1)</script>", "x" * 201, "x" * 10**6, "\x1b[2J",
    "a\x00", "\ud800", "\u202e", "", " ", "../../x", "%s", "NULL",
)  # fmt: skip
VALUES = (
    *BAD_VALUES,
    *NAMES,
    2**62,
    1e200,
    -1e200,
    5e-324,
    [1.0, 2.0],
    [np.nan] * DIM,
    {"a": "1"},
    {"a": [1e300] * DIM},
)
LOG = [{"features": [1.0, 0.0, 0.5], "reward": 0.5, "arm": "a", "probability": 0.5, "time": 5.0}]
METHODS: dict[str, dict[str, Any]] = {
    "ask": {"arms": ARMS, "costs": {"a": 0.1}},
    "ask with a context": {"arms": {"a": [1.0, 0.2], "b": [0.5, 0.7]}, "context": [1.0]},
    "ask of the catalogue": {"arms": ["x", "y"], "costs": {"x": 0.1}},
    "ask of a slate": {"arms": ARMS, "slots": 2},
    "ask_many": {"contexts": [[1.0], [0.5]], "arms": {"a": [1.0, 0.2], "b": [0.5, 0.7]}, "costs": {"a": 0.1}},
    "ask_many of the catalogue": {"contexts": [None, None], "arms": ["x", "y"]},
    "tell": {"id": 1, "reward": 0.5},
    "tell_many": {"answers": {1: 0.5, 2: 0.25}},
    "tell_many by pairs": {"answers": [[1, 0.5], [2, 0.25]]},
    "correct": {"id": 1, "reward": 0.75},
    "learn": {"log": LOG},
    "learn arrays": {"log": ([[1.0, 0.0, 0.5]], [0.5])},
    "set_arm": {"name": "x", "features": [1.0, 0.5, 0.25], "cost": 0.1},
    "set_arms": {"arms": {"x": [1.0, 0.5, 0.25], "y": [0.0, 1.0, 0.0]}, "costs": {"x": 0.1}},
    "mask_arm": {"name": "x"},
    "unmask_arm": {"name": "x"},
    "retire_arm": {"name": "y"},
    "estimate": {"arms": ARMS},
    "estimate with a context": {"arms": {"a": [1.0, 0.2]}, "context": [1.0]},
    "dimension": {"levels": {"few": 1, "all": 3}, "prior": "uniform"},
    "export": {"path": "log.parquet"},
    "replace_policy": {"policy": adadim.LinUCB(), "levels": {"few": 2}, "noise": 0.5},
    "compact": {"before": 0.0},
}
CREATE: dict[str, Any] = {
    "path": "new.db", "dim": DIM, "policy": adadim.LinUCB(), "levels": {"few": 1}, "memory": 50.0, "seed": 1,
    "noise": 0.5, "arms": 10, "expire_after": 60.0, "expired_reward": 0.0, "plugins": {},
    "clock": time.time,
}  # fmt: skip


def agents(count: int, folder: Path) -> Tally:
    """Half of the cases are bad calls, half damaged files; a tenth of as many damaged offers, and some kills."""
    tally = Tally()
    _calls(tally, count // 2, folder)
    _files(tally, count - count // 2, folder)
    _offers(tally, max(5, count // 10), folder)
    _kills(tally, max(2, count // 100), folder)
    _leftovers(tally, max(1, count // 200), folder)
    return tally


class Ledger:
    """What an agent has acknowledged, to compare with its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arms: dict[int, str] = {}
        self.rewards: dict[int, float] = {}

    def note(self, method: str, options: dict[str, Any], result: Any) -> None:
        """Note what a call acknowledged by its result."""
        if isinstance(result, AgentDecision):
            self.arms[result.id] = result.arm
        elif isinstance(result, Slate):
            self.arms |= {decision.id: decision.arm for decision in result.decisions}
        elif method == "ask_many" and result:
            self.arms |= {decision.id: decision.arm for decision in result}
        elif method in ("tell", "correct") and result is True:
            self.rewards[int(options["id"])] = float(options["reward"])
        elif method.startswith("tell_many") and result:
            answers = options["answers"]
            self.rewards |= {int(n): float(r) for n, r in (answers.items() if isinstance(answers, dict) else answers)}

    def wrong(self) -> str:
        """What of it the file does not have, or has twice; empty if nothing."""
        tables = rows(self.path)
        decisions = {row[0]: row[2] for row in tables["decisions"]}
        upto = tables["folded"][0][2]
        rewards: dict[int, list[tuple[float, float | None]]] = {}
        for row in tables["rewards"]:
            rewards.setdefault(row[1], []).append((row[3], row[4]))
        for number, arm in self.arms.items():
            if number > upto and decisions.get(number) != arm:
                return f"decision {number} for {arm!r} is {decisions.get(number)!r}"
        for number, reward in self.rewards.items():
            if number > upto and rewards.get(number, [(None, None)])[-1][0] != reward:
                return f"reward {reward} of decision {number} is {rewards.get(number)}"
        twice = [n for n, entries in rewards.items() if sum(replaced is None for _, replaced in entries) != 1]
        return f"decisions {twice} have more than one first reward" if twice else ""


def rows(path: Path) -> dict[str, list[Any]]:
    """Every table of a file but the snapshot, which is a shortcut."""
    file = sqlite3.connect(path)
    try:
        names = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: file.execute(f"SELECT * FROM {name}").fetchall() for name in names if name != "snapshot"}
    finally:
        file.close()


def _calls(tally: Tally, count: int, folder: Path) -> None:
    """Calls with one bad value: refused with nothing written, or done as asked; then the agent goes on."""
    draw = generator(20)
    for first in range(0, count, ROUND):
        path = folder / f"called{first}.db"
        options = {"memory": 20.0} if first // ROUND % 3 == 2 else {}
        agent, ledger = adadim.Agent.create(path, dim=DIM, arms=10, **options), Ledger(path)
        agent.set_arms({"x": ARMS["a"], "y": ARMS["b"]})
        for number in range(1, 6):
            ledger.note("ask", {}, agent.ask(ARMS))
            if number > 2:
                ledger.note("tell", {"id": number, "reward": 0.1 * number}, agent.tell(number, 0.1 * number))
        for _ in range(min(ROUND, count - first)):
            _call(tally, agent, ledger, folder, draw)
        what = f"agent {first // ROUND}"
        wrong = ledger.wrong()
        tally.expect(not wrong, f"{what}: {wrong}")
        _goes_on(tally, what, agent, ledger)
        agent.close()
        reopened: Any = tally.attempt(f"{what} opened again", lambda path=path: adadim.Agent.open(path), ("nothing",))
        if reopened is not None:
            _goes_on(tally, f"{what} opened again", reopened, ledger)
            reopened.close()


def _call(tally: Tally, agent: adadim.Agent, ledger: Ledger, folder: Path, draw: np.random.Generator) -> None:
    if draw.random() < 0.15:
        return _create(tally, folder, draw)
    name = list(METHODS)[int(draw.integers(len(METHODS)))]
    method, key, options = name.split(" ")[0], *_worse(METHODS[name], draw)
    before = rows(ledger.path)
    what = f"{method}({key}={str(options[key])[:60]!r})"
    result = tally.attempt(what, lambda: getattr(agent, method)(**options), _expected_words(key, options[key]))
    if result is None and method not in ("set_arm", "set_arms", "mask_arm", "unmask_arm", "retire_arm"):
        tally.expect(rows(ledger.path) == before, f"{what}: was refused and yet wrote")
    ledger.note(method, options, result)
    if method == "estimate" and result:
        tally.expect(not np.isnan(list(result.values())).any(), f"{what}: gives NaN")
    return None


def _create(tally: Tally, folder: Path, draw: np.random.Generator) -> None:
    path = folder / "new.db"
    key, options = _worse(CREATE, draw)
    if key == "clock" and callable(options[key]):
        return  # what a caller's own function raises is not adadim's error
    what = f"create({key}={str(options[key])[:60]!r})"
    agent = tally.attempt(what, lambda: adadim.Agent.create(**options), _expected_words(key, options[key]))
    if agent is None:
        tally.expect(not list(folder.glob("new.db*")), f"{what}: was refused and yet left a file")
    else:
        tally.attempt(f"{what}: asking", lambda: agent.ask({"a": [1.0] * agent.dim}), ("nothing",))
        agent.close()
        agent.path.unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _worse(good: dict[str, Any], draw: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """The name of an argument, and the arguments with that one, or something in it, replaced by a bad value."""
    key = list(good)[int(draw.integers(len(good)))]
    value = good[key]
    if isinstance(value, dict | list) and value and draw.random() < 0.6:
        return key, {**good, key: changed(value, draw, VALUES)}
    return key, {**good, key: VALUES[int(draw.integers(len(VALUES)))]}


def _expected_words(key: str, value: Any) -> tuple[str, ...]:
    """Texts of which a refusal must contain one."""
    texts = str(value)[:15] or "''", repr(value)[:15], type(value).__name__
    return (
        key,
        key.rstrip("s"),
        *texts,
        "features",
        "probability",
        "reward",
        "decision",
        "of an arm",
        "tell_many takes",
        "arm '",
        "GiB",
    )


def _goes_on(tally: Tally, what: str, agent: adadim.Agent, ledger: Ledger) -> None:
    """Check that an agent can still ask, be told and estimate, and is what its log says."""

    def go_on() -> float:
        decision = agent.ask(ARMS)
        ledger.note("ask", {}, decision)
        ledger.note("tell", {"id": decision.id, "reward": 0.3}, agent.tell(decision.id, 0.3))
        if np.isnan(list(agent.estimate(ARMS).values())).any():
            raise ValueError("an estimate is NaN")
        agent.status(), agent.describe()
        return agent.rebuild()

    drift = tally.attempt(f"{what} goes on", go_on, ("nothing is wrong",))
    tally.expect(drift is not None and drift < 1e-9, f"{what}: a rebuild changes the sums by {drift}")
    wrong = ledger.wrong()
    tally.expect(not wrong, f"{what} afterwards: {wrong}")


def _used_file(path: Path, decisions: int = 120) -> Ledger:
    """An agent's file with something in every table, and what was acknowledged."""
    ledger, draw = Ledger(path), generator(22)
    clock = iter(range(10**6))
    with adadim.Agent.create(path, dim=DIM, clock=lambda: float(next(clock)), expire_after=100.0) as agent:
        agent.set_arms(ARMS)
        agent.learn(LOG)
        for i in range(decisions):
            arms = {f"arm {k}": x for k, x in enumerate(draw.normal(size=(3, DIM)).tolist())} if i % 2 else None
            decision = agent.ask(arms)
            ledger.note("ask", {}, decision)
            if i % 3:
                reward = float(draw.normal())
                ledger.note("tell", {"id": decision.id, "reward": reward}, agent.tell(decision.id, reward))
        agent.correct(decision.id, 0.125)
        ledger.rewards[decision.id] = 0.125
        agent.compact(60.0)
    return ledger


def _files(tally: Tally, count: int, folder: Path) -> None:
    """Damaged files: refused by name, or everything acknowledged is there and the model is right."""
    draw = generator(21)
    good, path = folder / "good.db", folder / "damaged.db"
    _used_file(good)
    data, wal = good.read_bytes(), _wal_bytes(good, folder)
    undamaged = _copied(path, data)
    valid = [undamaged, _copied(path, data, wal)]  # the write-ahead log may be cut off, but not changed
    for i in range(count):
        what = f"file {i}"
        if i % 8 == 7:
            what = _other_file(_clear(path), data, draw)
        elif i % 8 == 6:
            what = f"the write-ahead log of file {i}"
            _clear(path).write_bytes(data)
            Path(f"{path}-wal").write_bytes(damaged(wal, draw))
        elif i % 8 in (4, 5):
            _clear(path).write_bytes(data)
            what = _damaged_value(path, draw)
        else:
            _clear(path).write_bytes(damaged(data, draw))
        facts = tally.attempt(what, lambda: _facts(path), (path.name,))
        if facts is not None:
            right = facts in valid[: 1 + (i % 8 == 6)]
            tally.expect(right, f"{what}: went unseen: {_differences(facts, undamaged)}")


def _clear(path: Path) -> Path:
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    return path


def _copied(path: Path, data: bytes, wal: bytes = b"") -> dict[str, Any]:
    _clear(path).write_bytes(data)
    if wal:
        Path(f"{path}-wal").write_bytes(wal)
    return _facts(path)


def _wal_bytes(good: Path, folder: Path) -> bytes:
    """The write-ahead log of the file while an agent uses it."""
    copy = folder / "used.db"
    shutil.copy(good, copy)
    with adadim.Agent.open(copy, clock=lambda: 200.0) as agent:
        agent.ask(ARMS)
        return Path(f"{copy}-wal").read_bytes()


def _other_file(path: Path, data: bytes, draw: np.random.Generator) -> str:
    kind = int(draw.integers(len(OTHER_FILES)))
    if kind == 0:
        path.write_bytes(b"")
        return "an empty file"
    if kind == 1:
        with sqlite3.connect(path) as file:
            file.execute("CREATE TABLE decisions (id)")
        file.close()
        return "another SQLite file"
    path.write_bytes(data)
    with sqlite3.connect(path) as file:
        if kind == 2:
            file.execute(f"PRAGMA user_version = {sqlite.VERSION + int(draw.integers(1, 10**6))}")
        elif kind == 3:
            file.execute(f"PRAGMA user_version = -{int(draw.integers(1, 10**6))}")
        elif kind == 4:
            file.execute("UPDATE snapshot SET body = ?", (draw.bytes(400),))
        elif kind == 5:
            table = ("decisions", "rewards", "outstanding", "arms")[int(draw.integers(4))]
            when = ("AFTER INSERT", "AFTER UPDATE", "BEFORE DELETE")[int(draw.integers(3))]
            file.execute(f"CREATE TRIGGER t {when} ON {table} BEGIN DELETE FROM {table}; END")
        elif kind == 6:
            file.execute("CREATE VIEW v AS SELECT * FROM rewards")
        else:
            end = (2**63 - 1, 2**63 - 2, 2**62, -1)[int(draw.integers(4))]
            file.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (end, COUNTED[int(draw.integers(5))]))
    file.close()
    return OTHER_FILES[kind]


OTHER_FILES = (
    "an empty file", "another SQLite file", "a newer version", "a version below 0", "a damaged snapshot", "a trigger",
    "a view", "a sequence at its end",
)  # fmt: skip
COUNTED = ("decisions", "rewards", "expired", "arms", "policies")
OTHER_TYPES = (7, 1.5, "x", b"\0", "", b"", None, 2**62, -1)


def _damaged_value(path: Path, draw: np.random.Generator, *tables: str) -> str:
    """Change one value of one table as a flipped bit would, or to one of another type."""
    file = sqlite3.connect(path)
    tables = tables or [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    tables = [table for table in tables if file.execute(f"SELECT 1 FROM {table}").fetchone()]
    table = tables[int(draw.integers(len(tables)))]
    columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
    column = columns[int(draw.integers(len(columns)))]
    values = [row[0] for row in file.execute(f"SELECT {column} FROM {table}")]
    old = values[int(draw.integers(len(values)))]
    new: Any = None
    if isinstance(old, bytes):
        new = damaged(old, draw)
    elif isinstance(old, str):
        new = damaged(old.encode(), draw).decode("utf-8", "replace")
    elif isinstance(old, float):
        new = float(np.frombuffer(damaged(np.float64(old).tobytes(), draw)[:8].ljust(8, b"\0"))[0])
    elif isinstance(old, int):
        new = int(old ^ (1 << int(draw.integers(62))))
    if draw.random() < 0.2:
        new = OTHER_TYPES[int(draw.integers(len(OTHER_TYPES)))]
    what = f"{table}.{column} {str(old)[:40]!r} is {str(new)[:40]!r}"
    try:
        with file:
            file.execute(f"UPDATE {table} SET {column} = ? WHERE {column} IS ?", (new, old))
    except sqlite3.IntegrityError:
        what += " (refused by SQLite)"
    file.close()
    return what


def _facts(path: Path) -> dict[str, Any]:
    """What an agent's file says, through everything that reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with adadim.Agent.open(path, clock=lambda: 200.0) as agent:
            agent.rebuild()
            status = {k: v for k, v in agent.status().items() if k not in ("path", "bytes")}
            estimates = agent.estimate(ARMS)
            out = agent.export(path.with_suffix(".parquet"))
            frame = json.loads(pl.read_parquet(out).write_json())
            out.unlink()
            arms = {name: (arm.features.tolist(), arm.cost, arm.state) for name, arm in agent.arms.items()}
            chosen = agent.ask(ARMS).arm
            facts = {"status": status, "estimates": estimates, "log": frame, "arms": arms, "chosen": chosen}
    return {**facts, "page": _page(path)}


def _page(path: Path) -> dict[str, Any]:
    """What the live page shows of a file, where its packages are installed."""
    if importlib.util.find_spec("fastapi") is None:
        return {}
    from adadim.serve.page import Watch

    watch = Watch(path)
    try:
        overview = watch.overview()
        return {key: overview[key] for key in ("days", "waits", "shares")}
    finally:
        watch.close()


def _offers(tally: Tally, count: int, folder: Path) -> None:
    """Damaged offers: what an export finds, a rebuild finds before."""
    draw = generator(22)
    good, path = folder / "offered.db", folder / "offers.db"
    _used_file(good)
    data = good.read_bytes()
    for i in range(count):
        _clear(path).write_bytes(data)
        what = f"offer {i}: {_damaged_value(path, draw, 'offers')}"
        agent = tally.attempt(what, lambda: adadim.Agent.open(path, clock=lambda: 200.0), (path.name,))
        if agent is None:
            continue
        rebuilt = tally.attempt(what, lambda agent=agent: agent.rebuild() >= 0, (path.name,))
        exported = tally.attempt(what, lambda agent=agent: agent.export(folder / "offers.parquet"), (path.name,))
        tally.expect(exported is not None or rebuilt is None, f"{what}: an export finds it, and a rebuild does not")
        agent.close()


def _differences(facts: dict[str, Any], undamaged: dict[str, Any]) -> str:
    return ", ".join(f"{k}: {_first_difference(facts[k], undamaged[k])}" for k in undamaged if facts[k] != undamaged[k])


def _first_difference(a: Any, b: Any) -> str:
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next(_first_difference(x, y) for x, y in zip(a, b, strict=True) if x != y)
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return next(f"{k} {_first_difference(a[k], b[k])}" for k in b if a[k] != b[k])
    return f"{str(a)[:40]} for {str(b)[:40]}"


def _kills(tally: Tally, kills: int, folder: Path) -> None:
    """Processes that ask and tell one file at once are killed: what was acknowledged is there, once."""
    script = Path(__file__).parents[1] / "benchmarks" / "agent_kills.py"
    out = folder / "kills.json"
    words = ["--kills", kills, "--processes", 3, "--seed", damage.seed, "--out", out]
    done = subprocess.run(
        [sys.executable, str(script), *map(str, words)], capture_output=True, text=True, check=False, cwd=folder
    )
    tally.expect(done.returncode == 0, f"{kills} kills: {done.stdout[-500:]} {done.stderr[-300:]}")
    if out.exists():
        tally.tried += int(json.loads(out.read_text())["found"]["acknowledged_rewards"])


WRITES_FOR_EVER = """
import sys
import adadim
from adadim.agent.sqlite import backup_file
from pathlib import Path
path, number = Path(sys.argv[1]), 0
with adadim.Agent.open(path, clock=lambda: 0.0) as agent:
    print("begins", flush=True)
    while True:
        agent.export(path.with_name("log.parquet"))
        copy = path.with_name(f"copy{number}.db")
        backup_file(path, copy)
        copy.unlink()
        number += 1
"""


def _leftovers(tally: Tally, kills: int, folder: Path) -> None:
    """Processes that export and copy are killed: what they leave, the next one removes."""
    draw, home = generator(23), folder / "leftovers"
    home.mkdir()
    path = home / "a.db"
    _used_file(path)
    for i in range(kills):
        words = [sys.executable, "-c", WRITES_FOR_EVER, str(path)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(draw.uniform(0, 0.3)))
        os.kill(process.pid, signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
        process.communicate()
        with adadim.Agent.open(path, clock=lambda: 0.0) as agent:
            agent.export(home / "log.parquet")
        left = [one.name for one in home.iterdir() if one.name.endswith(".tmp")]
        tally.expect(not left or sys.platform == "win32", f"kill {i} of an export or a copy: left {left}")
        for copy in home.glob("copy*"):  # one that was complete
            copy.unlink()
