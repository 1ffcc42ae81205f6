"""Processes that ask and tell one agent's file are killed (SIGKILL) at random moments; then everything is counted.

Each process notes what the agent has acknowledged in a file of its own, right after the call returned. At the end
every noted decision and every noted reward must be in the log exactly once, as it was acknowledged, and the model must
be what a fresh sum over the log gives. A process that starts again first tells what it had not noted as told, as a
client would: telling twice is harmless. Processes close the file and open it again now and then, so that kills fall
into those moments too. Half of the decisions are over the catalogue, the others among arms that come with the call; and
now and then three decisions and some rewards are asked and told in one transaction, as a service does.

The agent forgets nothing, so that one which learns its export must have the same model. With --clicks rewards are 0 or
1, and the agent is one for clicks (``rewards="bernoulli"``), with a prior for each level of the features that it makes
and a half-life that it finds (``memory="auto"``). Its model depends on the order of the rewards between two fits, and
an export is in the order of the decisions: how far an agent that learned it differs is reported, and need not be
nothing.

With --postgres the agent is in a PostgreSQL of its own, which crashes under load too (`pg_ctl restart -m immediate`): a
process that gets an error tries again, as a client would.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import adadim
from _report import ROOT, arguments, describe, load, machine, write_json

sys.path.append(str(ROOT / "tests"))
from adadim.agent import AskCall, TellCall
from postgres_server import Database

CONTEXT, ARM, ARMS = 2, 3, 5
BEGINNING = 0.6  # seconds within which a process is killed, once it has acknowledged something


def reward_of(number: int, clicks: bool) -> float:
    """What a decision earns: any process can compute it from the number."""
    return float(np.sin(number) > 0.8) if clicks else float(np.sin(number))


def answered(agent: adadim.Agent, calls: list[AskCall | TellCall]) -> list[Any]:
    """What an agent answers to several calls at once; the first error is raised, as a client sees it."""
    results = agent.ask_and_tell(calls)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def settings(clicks: bool) -> dict[str, Any]:
    """Of the agent."""
    given: dict[str, Any] = {"context": CONTEXT, "arm": ARM, "memory": "auto" if clicks else None}
    return given | {"rewards": "bernoulli"} if clicks else given


def drawn_arms(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {f"arm {k}": row for k, row in enumerate(rng.normal(size=(ARMS, ARM)))}


def persistently(call):
    """What a call gives, which is made again as long as the database is away."""
    while True:
        try:
            return call()
        except adadim.errors.FileError:
            time.sleep(0.02)


def work(path: str, notes: Path, seed: int, clicks: bool) -> None:
    """Ask and tell until killed, noting what was acknowledged."""
    rng = np.random.default_rng(seed)
    asked, told = read(notes)
    waiting = sorted(asked.keys() - told.keys())
    agent = persistently(lambda: adadim.Agent.open(path))
    with open(notes, "ab", buffering=0) as file:
        if notes.stat().st_size and not notes.read_bytes().endswith(b"\n"):
            file.write(b"\n")
        while True:
            if rng.random() < 0.2:
                contexts, told_now = rng.normal(size=(3, CONTEXT)), waiting[:2]
                calls = [AskCall(contexts[:2]), AskCall(contexts[2:], drawn_arms(rng))]
                tells = [TellCall([(number, reward_of(number, clicks))]) for number in told_now]
                first, second, *_ = persistently(lambda: answered(agent, [*calls, *tells]))  # noqa: B023
                lines = [f"asked {decision.id} {decision.arm}\n" for decision in first + second]
                lines += [f"told {number} {reward_of(number, clicks)!r}\n" for number in told_now]
                file.write("".join(lines).encode())
                waiting = waiting[2:] + [decision.id for decision in first + second]
            elif len(waiting) < 6:
                arms, context = drawn_arms(rng) if rng.random() < 0.5 else None, rng.normal(size=CONTEXT)
                decision = persistently(lambda: agent.ask(arms, context=context))  # noqa: B023
                file.write(f"asked {decision.id} {decision.arm}\n".encode())
                waiting.append(decision.id)
            else:
                number = waiting.pop(int(rng.integers(len(waiting))))
                persistently(lambda: agent.tell(number, reward=reward_of(number, clicks)))  # noqa: B023
                file.write(f"told {number} {reward_of(number, clicks)!r}\n".encode())
            if rng.random() < 0.02:
                agent.close()
                agent = persistently(lambda: adadim.Agent.open(path))


def read(notes: Path) -> tuple[dict[int, str], dict[int, float]]:
    """What was acknowledged: arms of decisions and rewards. A last line cut short was not."""
    asked: dict[int, str] = {}
    told: dict[int, float] = {}
    for line in notes.read_text().splitlines() if notes.exists() else ():
        kind, _, fields = line.partition(" ")
        number, _, value = fields.partition(" ")
        if kind == "asked" and value.startswith("arm "):
            asked[int(number)] = value
        elif kind == "told" and value:
            told[int(number)] = float(value)
    return asked, told


def start(path: str, notes: Path, seed: int, clicks: bool) -> subprocess.Popen[bytes]:
    what = "clicks" if clicks else "amounts"
    return subprocess.Popen([sys.executable, __file__, "--work", path, str(notes), str(seed), what])


def kill_at_random(
    kills: int,
    processes: int,
    folder: Path,
    seed: int = 0,
    server: Database | None = None,
    crashes: int = 0,
    clicks: bool = False,
) -> dict[str, float]:
    """Play with `processes` at once until so many were killed, and the server too; gives the counts of `count`."""
    path, rng = str(folder / "agent.db") if server is None else f"{server.url}#kills", np.random.default_rng(seed)
    with adadim.Agent.create(path, **settings(clicks)) as agent:
        agent.set_arms(drawn_arms(rng))
    notes = [folder / f"notes-{i}.txt" for i in range(processes)]
    running = [start(path, note, seed + i, clicks) for i, note in enumerate(notes)]
    crashing = {round((i + 1) * kills / (crashes + 1)) for i in range(crashes)}
    try:
        for kill in range(kills):
            which = int(rng.integers(processes))
            before = notes[which].stat().st_size if notes[which].exists() else 0
            deadline = time.monotonic() + 60
            while not notes[which].exists() or notes[which].stat().st_size == before:
                if running[which].poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"process {which} does not get on")
                time.sleep(0.005)
            time.sleep(float(rng.uniform(0, BEGINNING)))
            if server is not None and kill in crashing:
                server.control("restart", "immediate")
            running[which].send_signal(signal.SIGKILL)
            running[which].wait()
            running[which] = start(path, notes[which], 1000 + kill, clicks)
    finally:
        for process in running:
            process.kill()
            process.wait()
    return count(path, notes, folder, clicks)


def tables(path: str) -> tuple[dict[int, str], list[tuple[int, float]], bool]:
    """Arms of decisions, rewards of decisions, and whether the store finds nothing wrong with itself."""
    decided, rewarded = "SELECT number, arm FROM {}decisions", "SELECT decision, reward FROM {}rewards"
    if not path.startswith("postgresql:"):
        with sqlite3.connect(path) as file:
            decisions, rewards = dict(file.execute(decided.format(""))), list(file.execute(rewarded.format("")))
            intact = file.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        file.close()
        return decisions, rewards, intact
    import psycopg

    with psycopg.connect(path.partition("#")[0]) as database:
        decisions, rewards = (database.execute(query.format("adadim.")).fetchall() for query in (decided, rewarded))
        streams = database.execute("SELECT count(DISTINCT coalesce(draw, number)) FROM adadim.decisions").fetchone()
    return dict(decisions), rewards, streams == (len(decisions),)  # and no two decisions drew the same random numbers


def refitted(agent: adadim.Agent, folder: Path, clicks: bool) -> float:
    """Largest difference of an estimate from that of an agent which learned the export, relative to the largest."""
    log = agent.export(folder / "log.parquet")
    rng = np.random.default_rng(0)
    grid, context = drawn_arms(rng), rng.normal(size=CONTEXT)
    with adadim.Agent.create(folder / "refitted.db", **settings(clicks)) as other:
        other.learn(log)
        mine, theirs = (np.array(list(one.estimate(grid, context).values())) for one in (agent, other))
    return float(np.abs(mine - theirs).max() / np.abs(theirs).max())


def count(path: str, notes: list[Path], folder: Path, clicks: bool) -> dict[str, float]:
    """Compare what was acknowledged with the log."""
    asked, told = {}, {}
    for note in notes:
        mine_asked, mine_told = read(note)
        if asked.keys() & mine_asked.keys():
            raise AssertionError(f"a decision was acknowledged to two processes: {asked.keys() & mine_asked.keys()}")
        asked |= mine_asked
        told |= mine_told
    decisions, rewards, intact = tables(path)
    answered = dict(rewards)
    with adadim.Agent.open(path) as agent:
        status = agent.status()
        drift = agent.rebuild()
        agreed = {**status, "bytes": 0} == {**agent.status(), "bytes": 0}  # a database tidies up when it likes
        refit = refitted(agent, folder, clicks)
    return {
        "acknowledged_decisions": len(asked),
        "acknowledged_rewards": len(told),
        "decisions_in_the_log": len(decisions),
        "rewards_in_the_log": len(rewards),
        "decisions_lost": sum(decisions.get(number) != arm for number, arm in asked.items()),
        "rewards_lost": sum(answered.get(number) != reward for number, reward in told.items()),
        "rewards_twice": len(rewards) - len(answered),
        "rewards_of_no_decision": len(answered.keys() - decisions.keys()),
        "gaps_in_the_numbers": max(decisions, default=0) - len(decisions),
        "file_intact": intact,
        "counts_agree": agreed and status["rewards"] == len(answered) and status["decisions"] == len(decisions),
        "difference_from_a_rebuild": drift,
        "difference_from_a_refit": refit,
    }


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "clicks")
        return
    parser = arguments("agent_kills", __doc__, "5 kills")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", action="store_true", help="an agent in PostgreSQL, which crashes too")
    parser.add_argument("--crashes", type=int, default=10, help="of the server, with --postgres")
    parser.add_argument("--clicks", action="store_true", help="an agent for clicks that finds its half-life")
    options = parser.parse_args()
    kills = 5 if options.quick else options.kills
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    server = Database() if options.postgres else None
    crashes = (2 if options.quick else options.crashes) if options.postgres else 0
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        try:
            counts = kill_at_random(
                kills, options.processes, Path(folder), options.seed, server, crashes, options.clicks
            )
        finally:
            if server is not None:
                server.delete()
    setting = {"kills": kills, "processes": options.processes, "seed": options.seed}
    if options.clicks:
        setting |= {"rewards": "bernoulli", "levels": "each", "memory": "auto"}
    if options.postgres:
        setting |= {"store": "PostgreSQL", "crashes": crashes}
    report = {
        "benchmark": "agent_kills",
        "setting": setting,
        "found": counts,
        "seconds": round(time.monotonic() - begun, 1),
        "machine": machine() | {"load": load()},
    }
    print(describe(report["machine"]))
    of_server = f" and {crashes} crashes of PostgreSQL" if options.postgres else ""
    print(f"{kills} kills of {options.processes} processes{of_server} in {report['seconds']} s:")
    for name, value in counts.items():
        print(f"  {name.replace('_', ' '):28} {value}")
    write_json(options.out, report)
    lost = [counts[name] for name in counts if name.endswith(("lost", "twice", "decision", "numbers"))]
    largest = max(counts["difference_from_a_rebuild"], 0.0 if options.clicks else counts["difference_from_a_refit"])
    if any(lost) or not counts["file_intact"] or not counts["counts_agree"] or largest > 1e-9:
        sys.exit("something acknowledged was not kept")


if __name__ == "__main__":
    main()
