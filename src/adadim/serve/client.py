"""A client of the service, for Python programs; it needs nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, overload
from urllib.parse import urlencode, urlsplit

import numpy as np

from adadim.core.checks import integer, not_negative, positive, shown
from adadim.core.frames import Costs, Offered, frame_columns, is_frame, is_missing, is_series
from adadim.errors import InvalidTypeError, InvalidValueError, ServiceError

RETRIED_STATUSES = (429, 502, 503, 504)  # nothing was done, and a later attempt may succeed
LONGEST_PAUSE_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    """A decision of the service: its id, the arm to play, and the probability with which it was chosen."""

    id: int
    arm: str
    probability: float


@dataclass(frozen=True)
class AnswerSlate:
    """A slate of the service: its id, for reporting its rewards by arm, its arms, and a decision for each."""

    id: int
    arms: tuple[str, ...]
    decisions: tuple[Answer, ...]


class Client:
    """Calls a service that ``adadim serve`` runs.

    A call that fails in transit is retried. This is safe: a reward that is reported twice counts once, and a decision
    whose answer was lost stays pending, from which the model learns nothing. Several threads may share a client; each
    has a connection of its own.

    Parameters
    ----------
    url : str
        Address of the service.
    token : str, optional
        Its token.
    timeout : float
        Seconds to wait for an answer.
    attempts : int
        How often a call is tried before `ServiceError` is raised.
    pause : float
        Seconds before the second attempt, at random between this and its half; each further pause is twice as long.
        If the service says how long to wait, that counts.
    sleep : callable
        How to wait.

    Examples
    --------
    >>> from adadim.serve import Client
    >>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
    ...     answer = client.ask({"sku-1": [1.0, 0.2], "sku-2": [1.0, 0.7]})
    ...     client.tell(answer.id, 1.0)
    True
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        token: str | None = None,
        timeout: float = 10.0,
        attempts: int = 6,
        pause: float = 0.1,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidValueError(f"url must look like http://127.0.0.1:8000, got {shown(url)}")
        self.url = url.rstrip("/")
        self.timeout = positive(timeout, "timeout", "seconds to wait for an answer")
        self.attempts = integer(attempts, "attempts", meaning="how often a call is tried")
        self.pause = not_negative(pause, "pause")
        self.sleep = sleep
        self._connection_class = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._root = parts.hostname, parts.port, parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._local = threading.local()

    @overload
    def ask(self, arms: Offered = None, context: Any = None, *, costs: Costs = None, slots: None = None) -> Answer: ...

    @overload
    def ask(self, arms: Offered = None, context: Any = None, *, costs: Costs = None, slots: int) -> AnswerSlate: ...

    def ask(
        self, arms: Offered = None, context: Any = None, *, costs: Costs = None, slots: int | None = None
    ) -> Answer | AnswerSlate:
        """Which arm to play: of those given with their features, of names in the catalogue, or of all in it.

        A context, and each arm, is a sequence of numbers; where the agent makes its features, also values by column, as
        a dict or a Series that is labelled with their names (see `columns`). Gives an `Answer`, or with `slots` an
        `AnswerSlate`. See `adadim.Agent.ask`.
        """
        content: dict[str, Any] = {} if context is None else {"context": _jsonable(context, "context")}
        return _as_answer(self._call("POST", "/ask", content | _offer(arms, costs, slots)))

    @overload
    def ask_many(
        self, contexts: Iterable[Any], arms: Offered = None, *, costs: Costs = None, slots: None = None
    ) -> list[Answer]: ...

    @overload
    def ask_many(
        self, contexts: Iterable[Any], arms: Offered = None, *, costs: Costs = None, slots: int
    ) -> list[AnswerSlate]: ...

    def ask_many(
        self, contexts: Iterable[Any], arms: Offered = None, *, costs: Costs = None, slots: int | None = None
    ) -> list[Any]:
        """Which arm to play in each of many contexts, all or none; see `ask`, and `adadim.Agent.ask_many`.

        Contexts may be the rows of a pandas or polars DataFrame that has their columns.
        """
        if is_frame(contexts):
            columns = frame_columns(contexts, "contexts")
            rows = zip(*(column.to_list() for column in columns.values()), strict=True)
            contexts = [dict(zip(columns, row, strict=True)) for row in rows]
        batch = [None if context is None else _jsonable(context, "contexts") for context in contexts]
        answer = self._call("POST", "/ask/batch", {"contexts": batch} | _offer(arms, costs, slots))
        return [_as_answer(one) for one in answer["decisions" if slots is None else "slates"]]

    def tell(self, id: int | Answer | AnswerSlate, reward: float | Mapping[str, float]) -> bool:
        """Report the reward of a decision, by its id or itself; of a slate by arm. Gives whether that was new.

        Reporting it twice is harmless.
        """
        return bool(self._call("POST", "/tell", _reward_report(id, reward))["told"])

    def tell_many(self, rewards: Mapping[int, Any] | Iterable[tuple[int, Any]]) -> int:
        """Report what many decisions or slates earned, all or none; gives how many were new."""
        pairs = rewards.items() if isinstance(rewards, Mapping) else rewards
        batch = [_reward_report(id, reward) for id, reward in pairs]
        return int(self._call("POST", "/tell/batch", {"rewards": batch})["told"])

    def correct(self, id: int | Answer, reward: float) -> bool:
        """Change the reward of a decision, or tell one that came after it expired; gives whether that changed it."""
        return bool(self._call("POST", "/correct", _reward_report(id, reward))["changed"])

    def estimate(self, arms: Offered = None, context: Any = None) -> dict[str, tuple[float, float]]:
        """Mean reward of arms, given as in `ask`, and the standard deviation of the estimate; see `Agent.estimate`."""
        content: dict[str, Any] = {} if context is None else {"context": _jsonable(context, "context")}
        found = self._call("POST", "/estimate", content | _offer(arms, None, None))["estimates"]
        unknown = float("inf")
        return {n: (one["mean"], unknown if one["deviation"] is None else one["deviation"]) for n, one in found.items()}

    def columns(self) -> dict[str, Any]:
        """Names and kinds of the columns of contexts and arms, in their order; see the path /columns."""
        return dict(self._call("GET", "/columns"))

    def arms(self) -> dict[str, dict[str, Any]]:
        """The catalogue by name: features, cost and state of each arm."""
        return dict(self._call("GET", "/arms")["arms"])

    def set_arms(self, arms: Mapping[str, Any], *, costs: Costs = None) -> None:
        """Add arms to the catalogue, or give them new features and costs."""
        self._call("POST", "/arms", {"arms": _features(arms), "costs": None if costs is None else _json_costs(costs)})

    def mask_arm(self, name: str) -> None:
        """Leave an arm of the catalogue out until `unmask_arm`."""
        self._call("POST", "/mask", {"name": name})

    def unmask_arm(self, name: str) -> None:
        """Let an arm be chosen again."""
        self._call("POST", "/unmask", {"name": name})

    def retire_arm(self, name: str) -> None:
        """Take an arm out of the catalogue; what was learned from it stays."""
        self._call("DELETE", "/arms?" + urlencode({"name": name}))

    def status(self) -> dict[str, Any]:
        """Numbers of decisions and rewards, as `Agent.status` gives them."""
        return dict(self._call("GET", "/status"))

    def set_explore(self, explore: float) -> int:
        """Draw another share of decisions uniformly from now on; gives the new version of the policy."""
        return int(self._call("POST", "/explore", {"explore": _jsonable(explore, "explore")})["policy_version"])

    def describe(self) -> dict[str, Any]:
        """The agent and what it has learned, as `Agent.describe` gives it."""
        return dict(self._call("GET", "/describe"))

    def dimension(self) -> dict[str, Any]:
        """What the model believes about d*."""
        return dict(self._call("GET", "/dimension"))

    def health(self) -> dict[str, Any]:
        """Whether the service answers, and its version."""
        return dict(self._call("GET", "/health"))

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = self._local.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        """The answer of the service, after several attempts if they are needed."""
        body = None if content is None else json.dumps(content, allow_nan=False).encode()
        headers = {**self._headers, **({"Content-Type": "application/json"} if body is not None else {})}
        problem = ""
        for attempt in range(self.attempts):
            wait = self.pause * 2.0 ** min(attempt, 30) * (0.5 + secrets.randbelow(500) / 1000)
            reused = "connection" in self._local.__dict__
            if not reused:
                self._local.connection = self._connection_class(self._host, self._port, timeout=self.timeout)
            try:
                self._local.connection.request(method, self._root + path, body, headers)
                response = self._local.connection.getresponse()
                status, answer = response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                if reused:
                    wait = 0.0  # the service had closed an idle connection
            else:
                if status < 400:
                    return json.loads(answer)
                if method == "DELETE" and status == 404 and attempt > 0:
                    return None  # the first attempt did it, and its answer was lost
                problem = _reason(status, answer)
                if status not in RETRIED_STATUSES:
                    raise ServiceError(f"{method} {path.partition('?')[0]}: {problem}", status=status)
                retry_after = response.getheader("Retry-After", "")
                if retry_after.isdigit():
                    wait = max(wait, float(retry_after))
            if attempt + 1 < self.attempts:
                self.sleep(min(wait, LONGEST_PAUSE_SECONDS))
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        raise ServiceError(f"{self.url} was called {times} without success: {problem}")


def _reason(status: int, answer: bytes) -> str:
    try:
        failure = json.loads(answer)
        field = f"{failure['field']}: " if failure.get("field") else ""
        return f"{status}, {field}{failure['error']}"
    except (ValueError, KeyError, AttributeError, TypeError):
        return f"{status}, {answer[:200].decode(errors='replace')}"


def _as_answer(message: Mapping[str, Any]) -> Answer | AnswerSlate:
    if "decisions" not in message:
        return Answer(message["id"], message["arm"], message["probability"])
    decisions = tuple(Answer(one["id"], one["arm"], one["probability"]) for one in message["decisions"])
    return AnswerSlate(message["id"], tuple(one.arm for one in decisions), decisions)


def _reward_report(asked: Any, reward: Any) -> dict[str, Any]:
    id = asked.id if isinstance(asked, Answer | AnswerSlate) else asked
    if isinstance(reward, Mapping):
        return {"id": int(id), "rewards": {arm: _jsonable(one, "reward") for arm, one in reward.items()}}
    if isinstance(asked, AnswerSlate):
        raise InvalidTypeError(f"the rewards of a slate are a dict by arm, got {shown(reward)} for slate {id}")
    return {"id": int(id), "reward": _jsonable(reward, "reward")}


def _offer(arms: Offered, costs: Costs, slots: int | None) -> dict[str, Any]:
    """The fields of a request that say what is offered."""
    content: dict[str, Any] = {} if slots is None else {"slots": _jsonable(slots, "slots")}
    if isinstance(arms, Mapping):
        content["arms"] = _features(arms)
    elif isinstance(arms, str):
        raise InvalidTypeError(f"arms must be a dict from names to features, or names, got {shown(arms)}")
    elif arms is not None:
        content["names"] = list(arms)
    if costs is not None:
        content["costs"] = _json_costs(costs)
    return content


def _features(arms: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(arms, Mapping):
        raise InvalidTypeError(f"arms must be a dict from names to features, got {shown(arms)}")
    return {name: _jsonable(features, f"features of {name!r}") for name, features in arms.items()}


def _json_costs(costs: Mapping[str, float]) -> dict[str, Any]:
    return {name: _jsonable(cost, "costs") for name, cost in costs.items()}


def _jsonable(value: Any, name: str) -> Any:
    """A value, an array, a Series or a dict as JSON has it; NaN and infinity are refused, since JSON has neither."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    elif is_series(value):  # names of columns are labels of one of pandas
        labels = list(getattr(value, "index", ()))
        named = bool(labels) and all(isinstance(label, str) for label in labels)
        value = dict(zip(labels, value.to_list(), strict=True)) if named else value.to_list()
    if isinstance(value, Mapping):
        return {
            column: None if is_missing(item) else _jsonable(item, f"{column!r} of {name}")
            for column, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_jsonable(item, name) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        raise InvalidValueError(f"{name} must be finite, got {shown(value)}")
    if not isinstance(value, str | int | float | None):
        raise InvalidTypeError(f"{name} must be numbers, or values by column, got {shown(value)}")
    return value
