"""A home page with late clicks: share of the best that an agent earns which makes its own features.

The page, with its kinds of drift, is that of examples/clicks.py: 40 articles at a time with 24 ordered features, and
visitors with 8. Seeds 0 to 3 are for development; 100 and above are held out.

    python benchmarks/homepage.py --seeds 0 1
    python benchmarks/homepage.py --seeds 0 --drift abrupt --set "rewards='bernoulli'"

What the default agent of clicks has to earn, written down before any of its runs, in 30,000 decisions asked 50 at a
time (no click is told sooner than 200 decisions later):

- at least .89 of the best without drift, on average over the seeds;
- with abrupt and with slow drift at least 1.3 times the clicks of the agent of version 0.3 (`context=8, arm=24` and no
  other setting, which is all that it had), in the ratio of the sums over the seeds and both kinds of drift.

Seeds 0 to 3 decide what is mended; 200 and 201 are played once, at the end. Version 0.3 is played by its own code:

    for drift in none abrupt slow; do
        python benchmarks/homepage.py --seeds 0 1 2 3 --batch 50 --drift $drift --set "rewards='bernoulli'"
        PYTHONPATH=$ADADIM_0_3/src python benchmarks/homepage.py --seeds 0 1 2 3 --batch 50 --drift $drift
    done

Two things were tried when the bar with drift was missed, by these rules, written down before the pages that decide:

1. After a change of the half-life in use fits are due by the rewards that count (`adadim.agent.fits.Recount`). Until
   then a model of clicks was fitted to no reward since the change before there were half as many again as ever. It is
   a mistake mended, and stays if its tests hold and without drift it earns at least 99%.
2. All half-lives begin again where rewards fall (`adadim.models.memory.FALL`). It stays if all of these hold; without
   it means `FALL = inf`, with the first in force:

   - abrupt drift, seeds 6 to 9, which nothing was played on: more clicks in their sum than without it;
   - abrupt and slow drift, seeds 0 to 3: more clicks in their sum than without it (abrupt 0 to 5 were played with a
     prototype whose threshold was 10);
   - no drift, seeds 0 to 3: at least 99% of the clicks without it;
   - `python benchmarks/memory.py families`: at most 1% added on average;
   - the tests of examples/embeddings.py hold.

   As it was first, it was played on seeds 0 to 3 without drift (no fall was found, .909) and with slow drift, and on 6
   to 9 (.793; without it .753). Then it was seen to forget again and again where bad rewards
   are told sooner than good ones, which no page of these has, and was mended (`MemoryBank.usual`, `dropped`). What
   decides is what it earns as it is now, by the same rule.

Both stay. Clicks per decision in sums over the seeds, with and without the second: 1.254 and 1.206 (abrupt, 6 to 9);
2.752 and 2.741 (abrupt and slow, 0 to 3); without drift no fall was found, so all is the same. The families add .034%.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adadim.report import markdown_table

sys.path.append(str(Path(__file__).parents[1] / "examples"))

from clicks import (
    ABOUT_ARTICLE,
    ABOUT_VISITOR,
    ARTICLES,
    REPLACED_EVERY,
    Drift,
    HomePage,
    play,
)

__all__ = ["ABOUT_ARTICLE", "ABOUT_VISITOR", "ARTICLES", "REPLACED_EVERY", "Drift", "HomePage", "play"]

WINDOWS = 10  # of the curve of clicks over time


def report(seeds: Sequence[int], rounds: int, drift: Drift, batch: int, settings: dict[str, Any]) -> None:
    """Print clicks per decision, the share of the best, and the curve over time, for each seed."""
    lines, shares = [], []
    for seed in seeds:
        page = HomePage(seed, rounds, drift)
        earned, seconds = play(page, batch, **settings)
        best = page.best
        shares.append(earned.mean() / best)
        curve = " ".join(f"{part.mean():.3f}" for part in np.array_split(earned, WINDOWS))
        lines.append(
            [str(seed), f"{best:.4f}", f"{earned.mean():.4f}", f"{shares[-1]:.3f}", f"{seconds * 1e3:.2f}", curve]
        )
        print(" ".join(lines[-1]), file=sys.stderr, flush=True)
    print(markdown_table(["seed", "best", "earned", "share", "ms of CPU a decision", "in each tenth"], lines))
    print(f"drift {drift}, {settings}: share of the best {np.mean(shares):.3f} on average")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rounds", type=int, default=30_000)
    parser.add_argument("--drift", choices=["none", "once", "abrupt", "slow"], default="none")
    parser.add_argument("--batch", type=int, default=1, help="visitors that the agent is asked for at a time")
    parser.add_argument("--set", action="append", default=[], help="an argument of Agent.create, e.g. 'memory=2500'")
    options = parser.parse_args()
    settings = dict(one.split("=", 1) for one in options.set)
    given = {name: ast.literal_eval(value) for name, value in settings.items()}
    report(options.seeds, options.rounds, options.drift, options.batch, given)


if __name__ == "__main__":
    main()
