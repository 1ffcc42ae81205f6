"""What the live page shows, as one JSON document."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import asdict
from typing import Any

from adadim.agent import Agent
from adadim.agent.watch import Offer, Watch
from adadim.dimension import Dimension
from adadim.serve.desk import Desk
from adadim.serve.metrics import Metrics

__all__ = ["Overview", "dimension_entry", "public_status"]

FRESH = 1.0  # seconds for which one answer serves all who watch
LAST = 1000  # decisions that the shares are taken of
SHOWN = 10  # arms
BUSY = 0.1  # largest share of the time that making these answers may take; a large log is looked at less often


class Overview:
    """Makes what the page shows, at most once a second, however many watch."""

    def __init__(self, desk: Desk, metrics: Metrics) -> None:
        self.desk, self.metrics = desk, metrics
        self._lock = asyncio.Lock()
        self._made, self._keep = -1e9, FRESH
        self._data: dict[str, Any] = {}

    async def data(self) -> dict[str, Any]:
        """The document."""
        async with self._lock:
            begun = time.monotonic()
            if begun - self._made > self._keep:
                watched = await self.desk.watch(_watched)
                offer = watched.pop("offer")
                believed = await self.desk.do(lambda agent: _believed(agent, offer))
                self._data = {"name": self.desk.name, **watched, **believed}
                self._made = time.monotonic()
                self._keep = max(FRESH, (self._made - begun) / BUSY)
        latency = {path: self.metrics.latency(path) for path in ("/ask", "/tell", "/tell/batch")}
        return {**self._data, "latency": latency, "uptime": time.time() - self.metrics.started}


def dimension_entry(found: Dimension) -> dict[str, Any]:
    """What is known about d*, as plain numbers."""
    return {
        "support": found.support.tolist(),
        "probabilities": found.probabilities.tolist(),
        "levels": found.levels,
        "mode": found.mode,
        "median": found.median,
        "interval90": list(found.interval(0.9)),
        "noise": found.noise,
        "choices": found.choices,
        "text": str(found),
    }


def public_status(agent: Agent) -> dict[str, Any]:
    """The status without the place of the file on this machine."""
    return {key: value for key, value in agent.status().items() if key != "path"}


def _watched(watch: Watch) -> dict[str, Any]:
    days, chosen = watch.days(), watch.choices(LAST)
    total = sum(chosen.values())
    shares: list[dict[str, Any]] = [
        {"arm": arm, "arms": 1, "decisions": n, "share": n / total} for arm, n in list(chosen.items())[:SHOWN]
    ]
    rest = list(chosen.values())[SHOWN:]
    if rest:
        shares.append({"arm": None, "arms": len(rest), "decisions": sum(rest), "share": sum(rest) / total})
    return {
        "offer": watch.last_offer(),
        "days": [asdict(day) for day in days],
        "days_text": "Mean reward of the decisions of each day (UTC), with a 95% interval",
        "shares": shares,
        "shares_text": f"Of the last {total:,} decisions" if total > 1 else "",
    }


def _sentence(found: Dimension) -> str:
    if found.choices == 0:
        return "No reward yet: this is what was assumed beforehand"
    low, high = found.interval(0.9)
    at = int(found.probabilities.argmax())
    named = "" if found.levels is None else f", up to {list(found.levels)[at]!r}"
    likely = f"Likeliest: the first {found.mode} of {found.dim}{named} ({found.probabilities[at]:.0%})"
    return f"{likely}; 90% interval {low} to {high}"


def _believed(agent: Agent, offer: Offer | None) -> dict[str, Any]:
    found = agent.dimension()
    entry = dimension_entry(found)
    entry["names"] = None if found.levels is None else list(found.levels)
    top: list[dict[str, Any]] = []
    if offer is not None:
        estimates = agent.estimate(offer.arms, offer.context)
        ranked = sorted(estimates.items(), key=lambda item: -item[1][0])[:SHOWN]
        if all(math.isfinite(width) for _, (_, width) in ranked):
            top = [{"arm": arm, "mean": m, "low": m - 2 * w, "high": m + 2 * w} for arm, (m, w) in ranked]
    status = public_status(agent)
    return {
        "status": status,
        "about": f"{type(agent.policy).__name__}, {agent.dim} features",
        "dimension": entry,
        "dimension_text": _sentence(found),
        "top": top,
        "top_text": f"Mean ± 2 standard deviations, of the {len(offer.arms)} arms offered last" if offer else "",
    }
