"""A shop from frames: articles and visitors with categories, clicks, and what other policies would have earned.

Phones buy hats and desktops buy shoes, dear articles sell less, and the agent is told neither. A tenth of its decisions
explores, so that the log that it exports can say what a policy would earn.

    python examples/shop.py --visitors 3000
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import adadim

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--visitors", type=int, default=3000)
count, rng = parser.parse_args().visitors, np.random.default_rng(0)

articles = pl.DataFrame({"sku": [f"s-{k}" for k in range(10)], "kind": ["hat", "shoe"] * 5, "price": rng.random(10)})
visitors = pl.DataFrame({"device": rng.choice(["phone", "desktop", "tablet"], count), "hour": rng.random(count)})
chances = {("phone", "hat"): 0.6, ("desktop", "shoe"): 0.6}  # of a click, less a third of the price; otherwise 0.35

with tempfile.TemporaryDirectory() as folder:
    device = adadim.Category(["phone", "desktop"])  # a tablet counts as "device other"
    columns = {"context": {"device": device, "hour": float}, "arm": articles.drop("sku")}
    with adadim.Agent.create(Path(folder, "shop.db"), **columns, explore=0.1) as agent:
        agent.set_arms(articles, name="sku")
        for batch in visitors.iter_slices(50):  # clicks come in after every fifty visitors
            for decision, kind in zip(agent.ask_many(batch), batch["device"], strict=True):
                article = agent.arms[decision.arm].values
                chance = chances.get((kind, article["kind"]), 0.35) - article["price"] / 3
                agent.tell(decision.id, bool(rng.random() < chance))
        print(agent.dimension())
        log = pl.read_parquet(agent.export(Path(folder, "log.parquet")))
    shown = log.group_by("device", "kind").agg(pl.len(), pl.col("reward").mean().round(3).alias("clicks"))
    print(shown.sort("device", "kind"))
    for name, policy in {"recommended": adadim.recommended, "at random": adadim.Random()}.items():
        found = adadim.evaluate(policy, log)
        print(f"{name}: {found.dr.value:.3f} clicks per visitor, {found.dr.low:.3f} to {found.dr.high:.3f}")
    print(f"the shop earned {log['reward'].mean():.3f}")
