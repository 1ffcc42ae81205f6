"""The live page with the data that it shows, and the page that says how to call the service.

Both pages are complete in themselves: a browser that shows them loads nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
from fastapi.responses import HTMLResponse

from adadim.agent import Agent
from adadim.agent.history import History
from adadim.agent.log import Round
from adadim.agent.reading import TimedReward
from adadim.core.arrays import FloatArray
from adadim.dimension import Dimension
from adadim.errors import InvalidValueError
from adadim.serve import messages

LAST_DECISIONS = 1000  # in the shares of arms
LAST_REWARDS = 1000  # in the waits, and in the means over hours and decisions
LAST_DAYS = 60
MIN_POINTS = 3  # of days or of hours, with fewer of which rewards are shown by shorter units
SINGLE_REWARDS = 30  # up to so many are drawn one by one
MAX_GROUPS, SMALLEST_GROUP = 20, 5  # of decisions, where there are more rewards
HOUR_SECONDS, DAY_SECONDS = 3600, 86400
ARMS_SHOWN = 10
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_CERTIFIED_DECISIONS = 2000  # replayed whenever the page is made, at some 0.2 ms each
CERTIFICATE_ASSUMES = (
    "This assumes means linear in the features, a parameter of norm at most 1, and delays that do not depend on the "
    "rewards."
)
NORMAL_QUANTILE = 1.96  # for an interval of 95%
REFERENCE_STYLE = """
.wide { max-width: 780px; }
article { margin-bottom: 12px; }
article h2 { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.card p { margin: 4px 0 6px; font-size: 14px; min-height: 0; }
pre { background: var(--track); padding: 8px 12px; border-radius: 7px; margin: 6px 0; font-size: 13px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
"""
LIVE_PAGE = resources.files("adadim.serve").joinpath("page.html").read_text(encoding="utf-8")


class DayRewards(NamedTuple):
    """Rewards of the decisions of one day since 1970: how many, their sum, that of their squares, the last decision."""

    day: int
    rewards: int = 0
    total: float = 0.0
    squares: float = 0.0
    last: int = 0

    def with_reward(self, one: TimedReward) -> DayRewards:
        """With one reward more, or one in the place of another."""
        before, last = one.replaces, max(self.last, one.number)
        if before is None:
            return DayRewards(self.day, self.rewards + 1, self.total + one.reward, self.squares + one.reward**2, last)
        total, squares = self.total + (one.reward - before), self.squares + (one.reward**2 - before**2)
        return DayRewards(self.day, self.rewards, total, squares, last)


class Watch:
    """A reader of an agent's history, which reads each reward once."""

    def __init__(self, path: str | Path) -> None:
        self._history, self._last_row = History(path), 0  # the last row of rewards that was read
        self._days: dict[int, DayRewards] = {}
        self._rewards: dict[int, TimedReward] = {}  # by decision
        self.close = self._history.close

    def overview(self) -> dict[str, Any]:
        """What the live page shows of the log.

        `offer` is the last one, or None, and `contexts` (n, c) are the last ones that are of the same length as its.
        """
        with self._history.transaction():
            days, rewards = self._read_rewards()
            choices, offer = self._history.choices(LAST_DECISIONS), self._history.last_round()
        size = 0 if offer is None or offer.context is None else len(offer.context)
        contexts = [one.context for one in choices if size and one.context is not None]
        arms = Counter(one.arm for one in choices)
        counts = dict(sorted(arms.items(), key=lambda item: (-item[1], item[0])))
        total = sum(counts.values())
        shares: list[dict[str, Any]] = [
            {"arm": arm, "arms": 1, "decisions": n, "share": n / total} for arm, n in list(counts.items())[:ARMS_SHOWN]
        ]
        others = list(counts.values())[ARMS_SHOWN:]
        if others:
            shares.append({"arm": None, "arms": len(others), "decisions": sum(others), "share": sum(others) / total})
        return {
            "offer": offer,
            "contexts": np.array([one for one in contexts if len(one) == size]),
            "days": days,
            "mean_text": _mean_text(days, datetime.now(UTC).date()),
            "trend": _trend(days, rewards),
            "waits": _waits(rewards),
            "shares": shares,
            "shares_text": f"Of the last {total:,} decisions" if total > 1 else "",
        }

    def _read_rewards(self) -> tuple[list[dict[str, Any]], list[TimedReward]]:
        """The last days whose decisions have rewards, and the last rewards, in the order of their decisions.

        What was compacted before this object was made is not counted.
        """
        days, rewards = dict(self._days), dict(self._rewards)  # in case of an error below
        for batch in self._history.rewards(self._last_row):
            for reward in batch:
                day = int(reward.decision_time // DAY_SECONDS)
                days[day] = days.get(day, DayRewards(day)).with_reward(reward)
                if reward.replaces is None:
                    rewards[reward.number] = reward
                elif reward.number in rewards:
                    rewards[reward.number] = rewards[reward.number]._replace(reward=reward.reward)
            rewards = dict(list(rewards.items())[-LAST_REWARDS:])
        self._days, self._rewards, self._last_row = days, rewards, self._history.last_reward
        shown = [_day_shown(days[day]) for day in sorted(days)[-LAST_DAYS:]]
        return shown, sorted(rewards.values(), key=lambda one: one.number)


def _day_shown(rewards: DayRewards) -> dict[str, Any]:
    """The rewards of the decisions of one day: how many came, their mean, and a 95% interval of it."""
    name = (EPOCH + timedelta(days=rewards.day)).date().isoformat()
    return {"day": name, "last": rewards.last, **_mean(rewards.rewards, rewards.total, rewards.squares)}


def _mean_text(days: Sequence[Mapping[str, Any]], today: date) -> str:
    """What the mean reward of the last day is called."""
    if not days:
        return "mean reward"
    day = date.fromisoformat(days[-1]["day"])
    return "mean reward today (UTC)" if day == today else f"mean reward on {day:%B} {day.day} (UTC)"


def _mean(count: int, total: float, squares: float) -> dict[str, Any]:
    """How many rewards there are, their mean and a 95% interval of it."""
    mean = total / count
    spread = max(squares / count - mean**2, 0.0) * count / max(count - 1, 1)
    half = NORMAL_QUANTILE * math.sqrt(spread / count)
    return {"rewards": count, "mean": mean, "low": mean - half, "high": mean + half}


def _trend(days: Sequence[Mapping[str, Any]], rewards: Sequence[TimedReward]) -> dict[str, Any]:
    """The reward over time: by days, by hours if there are too few days, by decisions if there are too few hours.

    Each point has its place on the axis (`at`), its last decision, a short name for the axis and a long one for the
    tooltip.
    """
    hours: dict[int, list[TimedReward]] = {}
    for one in rewards:
        hours.setdefault(int(one.decision_time // HOUR_SECONDS), []).append(one)
    counted = f" of the last {len(rewards):,} decisions with a reward"
    if len(days) >= MIN_POINTS or len(rewards) < 2:
        text = "Mean reward of the decisions of each day (UTC), with a 95% interval"
        points = [
            {
                **day,
                "at": date.fromisoformat(day["day"]).toordinal(),
                "short": _short_day(day["day"]),
                "long": day["day"],
            }
            for day in days
        ]
        return {"by": "day", "text": text, "points": points}
    if len(hours) >= MIN_POINTS:
        text, points = f"Mean reward{counted if len(rewards) == LAST_REWARDS else ''} by hour (UTC), 95% interval", []
        for hour, in_hour in sorted(hours.items()):
            start = EPOCH + timedelta(hours=hour)
            names = {"short": f"{start:%H:%M}", "long": f"{start:%Y-%m-%d %H:%M}"}
            last = max(one.number for one in in_hour)
            points.append({"at": hour, "last": last, **names, **_mean_of([one.reward for one in in_hour])})
        return {"by": "hour", "text": text, "points": points}
    single = len(rewards) <= SINGLE_REWARDS
    groups = len(rewards) if single else min(MAX_GROUPS, len(rewards) // SMALLEST_GROUP)
    points = []
    for part in np.array_split(np.arange(len(rewards)), groups):
        first, last = rewards[part[0]].number, rewards[part[-1]].number
        named = f"decision {last}" if single else f"decisions {first} to {last}"
        names = {"short": str(last), "long": named}
        points.append({"at": last, "last": last, **names, **_mean_of([rewards[i].reward for i in part])})
    text = f"Reward{counted}" if single else f"Mean reward{counted}, in {groups} groups, 95% interval"
    return {"by": "decision", "text": text, "points": points}


def _short_day(day: str) -> str:
    """A day as on an axis; 11-17 would read like a range."""
    return f"{date.fromisoformat(day):%b} {int(day[-2:])}"


def _mean_of(rewards: Sequence[float]) -> dict[str, Any]:
    return _mean(len(rewards), sum(rewards), sum(reward**2 for reward in rewards))


def _waits(rewards: Sequence[TimedReward]) -> dict[str, Any]:
    """How long the last rewards took to come, in seconds: of how many, their median and their 90% quantile."""
    waits = [max(one.reward_time - one.decision_time, 0.0) for one in rewards if one.reward_time is not None]
    median, late = np.percentile(waits, [50, 90]).tolist() if waits else (None, None)
    return {"rewards": len(waits), "median": median, "p90": late}


def model_overview(agent: Agent, offer: Round | None, contexts: FloatArray) -> dict[str, Any]:
    """What the live page shows of the model, with the best arms of an offer on average over contexts (n, c)."""
    posterior = agent.dimension()
    top: list[dict[str, Any]] = []
    top_text = ""
    if offer is not None:
        estimates = agent.estimate_on_average(offer, contexts)
        ranked = sorted(estimates.items(), key=lambda item: -item[1][0])[:ARMS_SHOWN]
        if all(math.isfinite(width) for _, (_, width) in ranked):
            top = [{"arm": arm, "mean": m, "low": m - 2 * w, "high": m + 2 * w} for arm, (m, w) in ranked]
            top_text = _top_text(len(estimates), offer.catalogue is not None, len(contexts))
    names = None if posterior.levels is None else list(posterior.levels)
    hint = agent.hint
    return {
        "status": messages.Status.of(agent).model_dump(),
        "about": f"policy {type(agent.policy).__name__}, {agent.dim} features{_memory_text(agent.status())}"
        + (f"; {hint}" if hint else ""),
        "dimension": {**messages.Dimension.of(posterior).model_dump(), "names": names},
        "dimension_text": _dimension_text(posterior),
        "certificate_text": _certificate_text(agent),
        "levels_text": _levels_summary(posterior),
        "top": top,
        "top_text": top_text,
    }


def _memory_text(status: Mapping[str, Any]) -> str:
    """Which half-life is in use, and since when the agent has found it."""
    half_life, since = status["half_life"], status["half_life_since"]
    if half_life is None and status["memory"] is None:
        return ""
    text = ", forgets nothing" if half_life is None else f", half-life {half_life:,.5g} decisions"
    return f"{text} since decision {since:,}" if since else text


def _top_text(arms: int, in_catalogue: bool, visitors: int) -> str:
    """What the estimates of the best arms are of."""
    which = f"{arms:,} {'arm' if arms == 1 else 'arms'} {'of the catalogue' if in_catalogue else 'offered last'}"
    over = f", on average over the last {visitors:,} visitors" if visitors > 1 else ", for the only visitor so far"
    over = over if visitors else ""
    return f"Estimated mean reward ± 2 standard deviations{over}; {which}"


def _certificate_text(agent: Agent) -> str:
    """What is certain of the regret, in a few sentences, or why nothing is said."""
    decisions = agent.status()["decisions"]
    if decisions > MAX_CERTIFIED_DECISIONS:
        return f"The log has {decisions:,} decisions, which agent.certificate() replays; this page does not."
    try:
        certificate = agent.certificate()
    except InvalidValueError as error:
        return f"No bound on the regret: {error}."
    return f"{certificate} {CERTIFICATE_ASSUMES}"


def _dimension_text(posterior: Dimension) -> str:
    """The posterior of the number of features that matter, in a sentence."""
    if posterior.choices == 0:
        return "No reward yet: these are the prior probabilities"
    best = int(posterior.probabilities.argmax())
    count, dim, probability = posterior.mode, posterior.dim, f"{posterior.probabilities[best]:.0%}"
    features = f"all {dim} features matter" if count == dim else f"the first {count} of {dim} features matter"
    if count == 0:
        features = f"none of the {dim} features matters"
    named = "" if posterior.levels is None else f"{list(posterior.levels)[best]!r}, "
    low, high = posterior.interval(0.9)
    interval = f"; 90% interval {low} to {high}" if low < high else ""
    return f"Most likely: {features} ({named}{probability}){interval}"


def _levels_summary(posterior: Dimension) -> str:
    """What each level contributes, in a sentence; empty where there are not several."""
    if posterior.levels is None or len(posterior.levels) < 2 or posterior.choices == 0:
        return ""
    text = posterior.levels_that_matter or ""
    return f"{text[:1].upper()}{text[1:]}"


def live_page(token_needed: bool) -> HTMLResponse:
    """The page that shows what the agent does; it asks for the token if one is needed."""
    return _page(LIVE_PAGE.replace('data-token="no"', 'data-token="needed"') if token_needed else LIVE_PAGE)


def reference_page(document: Mapping[str, Any], url: str) -> HTMLResponse:
    """The paths of an OpenAPI document, with an example of each, to be called with curl at this URL."""
    style = re.findall(r"<style>.*?</style>", LIVE_PAGE, re.DOTALL)[0]
    style = style.replace("</style>", f"{REFERENCE_STYLE}</style>")
    schemas = document["components"]["schemas"]
    parts = [
        f"<article class='card'><h2>{method.upper()} {escape(path)}</h2>"
        f"{_operation(operation, schemas, method, url + path)}</article>"
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
        "<header><h1>How to call this service</h1><span class='about'>Also available as "
        "<a href='/openapi.json'>OpenAPI</a>; <a href='/'>back to the live page</a>.</span></header>"
        "<article class='card'><h2>Token and errors</h2><p>Requests and answers are JSON. If the service was started "
        "with a token, every call must carry it: <code>Authorization: Bearer TOKEN</code>. A call that is refused "
        'changes nothing, and the answer says why: <code>{"error": "...", "field": "arms.sku-1.3"}</code></p>'
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


def _operation(operation: Mapping[str, Any], schemas: Mapping[str, Any], method: str, url: str) -> str:
    query = {one["name"]: _example(one["schema"], schemas) for one in operation.get("parameters", ())}
    address = shlex.quote(f"{url}?{urlencode(query)}" if query else url)
    command = f"curl -X DELETE {address}" if method == "delete" else f"curl {address}"
    if "requestBody" in operation:
        body = _example(operation["requestBody"]["content"]["application/json"]["schema"], schemas)
        command += f" --json {shlex.quote(json.dumps(body, ensure_ascii=False))}"
    text = f"<p>{escape(operation['description'])}</p><pre>{escape(command)}</pre>"
    answer = operation["responses"]["200"]["content"].get("application/json", {}).get("schema", {})
    for one in answer.get("anyOf", [answer]):
        if "$ref" in one:
            text += f"<p>Answer: {escape(_schema_of(one, schemas)['description'])}</p>{_example_of(one, schemas)}"
    return text


def _example_of(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(_example(schema, schemas)))}</pre>"


def _example(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """A value that fits a schema."""
    schema = _schema_of(schema, schemas)
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


def _schema_of(schema: Any, schemas: Mapping[str, Any]) -> Any:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
