"""The live page with the data that it shows, and the page that says how to call the service.

Both pages are complete in themselves: a browser that shows them loads nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse

from adadim.agent import Agent
from adadim.agent.log import DayRewards, Round
from adadim.agent.sqlite import SqliteLog
from adadim.dimension import Dimension
from adadim.serve import messages

LAST_DECISIONS = 1000  # that the shares are taken of
LAST_DAYS = 60
ARMS_SHOWN = 10
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUANTILE = 1.96  # of the normal distribution, for 95%
REFERENCE_STYLE = """
.wide { max-width: 780px; }
article { margin-bottom: 12px; }
article h2 { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.card p { margin: 4px 0 6px; font-size: 14px; min-height: 0; }
pre { background: var(--track); padding: 8px 12px; border-radius: 7px; margin: 6px 0; font-size: 13px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
"""
LIVE_PAGE = resources.files("adadim.serve").joinpath("page.html").read_text(encoding="utf-8")


class Watch:
    """A reader of an agent's log, which cannot write, and reads each reward once."""

    def __init__(self, path: Path) -> None:
        self._log, self._seen = SqliteLog(path, write=False), 0
        self._days: dict[int, DayRewards] = {}
        self.close = self._log.close

    def overview(self) -> dict[str, Any]:
        """What the live page shows of the log; `offer` is the last one, or None."""
        with self._log.transaction(write=False):
            days, chosen, offer = self._read_days(), self._log.choices(LAST_DECISIONS), self._log.last_asked()
        total = sum(chosen.values())
        shares: list[dict[str, Any]] = [
            {"arm": arm, "arms": 1, "decisions": n, "share": n / total} for arm, n in list(chosen.items())[:ARMS_SHOWN]
        ]
        rest = list(chosen.values())[ARMS_SHOWN:]
        if rest:
            shares.append({"arm": None, "arms": len(rest), "decisions": sum(rest), "share": sum(rest) / total})
        return {
            "offer": offer,
            "days": days,
            "days_text": "Mean reward of the decisions of each day (UTC), with a 95% interval",
            "shares": shares,
            "shares_text": f"Of the last {total:,} decisions" if total > 1 else "",
        }

    def _read_days(self) -> list[dict[str, Any]]:
        """The last days whose decisions have rewards; what was compacted before this object was made is not counted."""
        for day, rewards, total, squares in self._log.day_rewards(self._seen):
            before = self._days.get(day, DayRewards(day, 0, 0.0, 0.0))
            total, squares = before.total + total, before.squares + squares
            self._days[day] = DayRewards(day, before.rewards + rewards, total, squares)
        self._seen = self._log.place().reward
        return [_day_shown(self._days[day]) for day in sorted(self._days)[-LAST_DAYS:]]


def _day_shown(rewards: DayRewards) -> dict[str, Any]:
    """The rewards of the decisions of one day: how many came, their mean, and a 95% interval of it."""
    day, count, total, squares = rewards
    mean = total / count
    spread = max(squares / count - mean**2, 0.0) * count / max(count - 1, 1)
    half = QUANTILE * math.sqrt(spread / count)
    name = (EPOCH + timedelta(days=day)).date().isoformat()
    return {"day": name, "rewards": count, "mean": mean, "low": mean - half, "high": mean + half}


def model_overview(agent: Agent, offer: Round | None) -> dict[str, Any]:
    """What the live page shows of the model, with the best arms of an offer."""
    posterior = agent.dimension()
    top: list[dict[str, Any]] = []
    if offer is not None:
        estimates = agent.estimate(offer.arms, offer.context)
        ranked = sorted(estimates.items(), key=lambda item: -item[1][0])[:ARMS_SHOWN]
        if all(math.isfinite(width) for _, (_, width) in ranked):
            top = [{"arm": arm, "mean": m, "low": m - 2 * w, "high": m + 2 * w} for arm, (m, w) in ranked]
    names = None if posterior.levels is None else list(posterior.levels)
    return {
        "status": messages.Status.of(agent).model_dump(),
        "about": f"{type(agent.policy).__name__}, {agent.dim} features",
        "dimension": {**messages.Dimension.of(posterior).model_dump(), "names": names},
        "dimension_text": _summary(posterior),
        "top": top,
        "top_text": f"Mean ± 2 standard deviations, of the {len(offer.arms)} arms offered last" if offer else "",
    }


def _summary(posterior: Dimension) -> str:
    if posterior.choices == 0:
        return "No reward yet: this is what was assumed beforehand"
    low, high = posterior.interval(0.9)
    best = int(posterior.probabilities.argmax())
    named = "" if posterior.levels is None else f", up to {list(posterior.levels)[best]!r}"
    likely = f"Likeliest: the first {posterior.mode} of {posterior.dim}{named} ({posterior.probabilities[best]:.0%})"
    return f"{likely}; 90% interval {low} to {high}"


def live_page(token_needed: bool) -> HTMLResponse:
    """The page that shows what the agent does; it asks for the token if one is needed."""
    return _page(LIVE_PAGE.replace('data-token="no"', 'data-token="needed"') if token_needed else LIVE_PAGE)


def reference_page(document: Mapping[str, Any]) -> HTMLResponse:
    """The paths of an OpenAPI document, with an example of each."""
    style = re.findall(r"<style>.*?</style>", LIVE_PAGE, re.DOTALL)[0]
    style = style.replace("</style>", f"{REFERENCE_STYLE}</style>")
    schemas = document["components"]["schemas"]
    parts = [
        f"<article class='card'><h2>{method.upper()} {escape(path)}</h2>{_operation(operation, schemas)}</article>"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    answers = document["paths"]["/ask"]["post"]["responses"]
    statuses = {status: answer["description"] for status, answer in answers.items() if status != "200"}
    rows = "".join(f"<p><b>{status}</b> {escape(text)}</p>" for status, text in statuses.items())
    return _page(
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>adadim: how to call this service</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<link rel='icon' href='data:,'>{style}</head><body><main class='wide'>"
        "<header><h1>How to call this service</h1><span class='about'>JSON in, JSON out. The same as "
        "<a href='/openapi.json'>OpenAPI</a>; <a href='/'>back to the live page</a>.</span></header>"
        "<article class='card'><h2>Token and errors</h2><p>If the service was started with a token, every call "
        "carries it: <code>Authorization: Bearer TOKEN</code>. A call that is refused changes nothing, and the answer "
        'says why: <code>{"error": "...", "field": "arms.sku-1.3"}</code></p>'
        f"{rows}</article>{''.join(parts)}</main></body></html>"
    )


def _page(text: str) -> HTMLResponse:
    """A page under a policy by which a browser runs only the scripts and styles that are written in it."""

    def hashes(tag: str) -> str:
        parts = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts]
        return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"

    policy = (
        f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


def _operation(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    text = f"<p>{escape(operation['description'])}</p>"
    if "requestBody" in operation:
        text += _example_of(operation["requestBody"]["content"]["application/json"]["schema"], schemas)
    answer = operation["responses"]["200"]["content"].get("application/json", {}).get("schema", {})
    if "$ref" in answer:
        text += f"<p>Answer: {escape(_resolved(answer, schemas)['description'])}</p>{_example_of(answer, schemas)}"
    return text


def _example_of(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(_example(schema, schemas)))}</pre>"


def _example(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """A value that fits a schema."""
    schema = _resolved(schema, schemas)
    if "examples" in schema:
        return schema["examples"][0]
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], schemas)
    if "properties" in schema:
        parts = {name: _example(part, schemas) for name, part in schema["properties"].items()}
        return {name: part for name, part in parts.items() if part is not None}
    if schema["type"] == "object":
        return {"...": _example(schema["additionalProperties"], schemas)}
    if schema["type"] == "array":
        return [_example(schema["items"], schemas)]
    return {"number": 0.5, "integer": 3, "string": "..."}[schema["type"]]


def _resolved(schema: Any, schemas: Mapping[str, Any]) -> Any:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
