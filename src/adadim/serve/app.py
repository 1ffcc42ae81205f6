"""The service as an ASGI application: what each path does, how bodies are read, and the answers to errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from adadim.agent import Agent, AskCall, TellCall
from adadim.agent.stores import display_name
from adadim.core.codec import finite_or_none
from adadim.errors import AdadimError, DecisionError, FileError, UnknownDecisionError
from adadim.serve import messages
from adadim.serve.events import logger
from adadim.serve.examples import examples_of, with_examples
from adadim.serve.gate import Gate, Metrics, carries_token
from adadim.serve.messages import Refusal, field_name, named_field
from adadim.serve.page import Watch, live_page, model_overview, reference_page
from adadim.serve.settings import Settings

T = TypeVar("T")

LARGEST_GROUP = 256  # calls that are written together; more have to wait for the next group
READY_SECONDS = 5.0  # after which a service that waits for its log is not ready
OVERVIEW_SECONDS = 1.0  # for which one overview answers all requests
OVERVIEW_SHARE = 0.1  # largest share of the time that making overviews may take; those of a large log are rarer

REFUSED_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.RefusedRequest, "description": text}
    for status, text in {
        400: "The body is not JSON.",
        401: "The token is missing or wrong.",
        404: "There is no such path, decision or arm.",
        408: "The request did not arrive in time.",
        409: "A different reward was reported for this decision before.",
        413: "The request is too large.",
        415: "The content type is not application/json.",
        421: "Without a token the service answers to names of its own machine only.",
        422: "A field is wrong; the answer names it.",
        429: "Too many requests; Retry-After says how many seconds to wait.",
        503: "The file or database of the agent cannot be read or written now; try again later.",
    }.items()
}


class AgentThread:
    """The agent in a thread of its own, which does one thing after the other, and a reader of its log in another.

    So the event loop never waits for a disk. Calls that come while the thread is busy form a group, which is decided
    and written in one transaction; callers get their answers after that.
    """

    def __init__(self, path: str | Path) -> None:
        self._name = display_name(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agent")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="watch")
        self._waiting: list[tuple[AskCall | TellCall, asyncio.Future[Any]]] = []  # used by the event loop only
        self._busy = False  # whether the thread has a group
        self._refresh_scheduled = False  # whether the thread will refresh the learner again
        self._ready_lock, self._ready_until = asyncio.Lock(), 0.0
        self._overview: dict[str, Any] = {}
        self._overview_lock, self._overview_expires = asyncio.Lock(), 0.0
        try:
            self._agent = self._thread.submit(Agent.open, path).result()
            self._agent.enable_background_refresh()
            self._watch = self._reader.submit(Watch, path).result()
        except BaseException:
            self._thread.shutdown()
            self._reader.shutdown()
            raise

    async def do(self, work: Callable[[Agent], T]) -> T:
        """The result of `work(agent)`, which runs to its end even if the client leaves."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._agent)

    async def change_arm(self, name: str, change: Callable[[Agent, str], None]) -> None:
        """Mask, unmask or retire an arm of the catalogue."""

        def work(agent: Agent) -> None:
            if name not in agent.arms:
                raise Refusal(404, f"there is no arm {name!r} in the catalogue", "name")
            change(agent, name)

        await self.do(work)

    async def ask(self, contexts: Sequence[Any], body: messages.ArmsWanted, single: bool = False) -> list[Any]:
        """The decisions or slates of `Agent.ask_many`, which are on disk."""
        decisions: list[Any] = await self._grouped(AskCall(contexts, body.offered(), body.costs, single, body.slots))
        return decisions

    async def tell(self, answers: Sequence[tuple[int, Any]]) -> int:
        """How many rewards were new; they are on disk."""
        new: int = await self._grouped(TellCall(answers))
        return new

    def _grouped(self, call: AskCall | TellCall) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((call, answer))
        if not self._busy:
            self._start_group(loop)
        return answer

    def _start_group(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the waiting calls to the thread."""
        group, self._waiting = self._waiting[:LARGEST_GROUP], self._waiting[LARGEST_GROUP:]
        self._busy = bool(group)
        if group:
            self._thread.submit(self._do_group, loop, group)

    def _do_group(self, loop: asyncio.AbstractEventLoop, group: list[tuple[AskCall | TellCall, Any]]) -> None:
        """In the thread: decide, write and answer; then refresh the learner, before the next call comes."""
        calls = [call for call, _ in group]
        try:
            results = self._agent.ask_and_tell(calls)
        except Exception as error:  # a defect, which is the answer to all calls of the group
            results = [error] * len(calls)
        with contextlib.suppress(RuntimeError):  # the service has stopped, and its clients are gone
            loop.call_soon_threadsafe(self._answer, loop, list(zip(group, results, strict=True)))
        told = any(isinstance(call, TellCall) for call in calls)
        if (told or self._agent.is_behind) and not self._refresh_scheduled:
            self._refresh_learner(loop)

    def _refresh_learner(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread: refresh the learner, and again later until it has all rewards."""
        try:
            pause = self._agent.refresh()
        except Exception:  # the next call meets it again, and reports it
            logger.exception("taking in rewards")
            pause = 0.0
        self._refresh_scheduled = pause > 0
        if pause:
            with contextlib.suppress(RuntimeError):  # the service has stopped
                loop.call_soon_threadsafe(
                    loop.call_later, pause, lambda: self._thread.submit(self._refresh_learner, loop)
                )

    def _answer(self, loop: asyncio.AbstractEventLoop, answers: list[Any]) -> None:
        for (_, answer), result in answers:
            if answer.done():  # the client left
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)
        self._start_group(loop)

    async def overview(self) -> dict[str, Any]:
        """What the live page shows of log and model; it is made at most once a second, for all requests."""
        async with self._overview_lock:
            begun = time.monotonic()
            if begun > self._overview_expires:
                loop = asyncio.get_running_loop()
                log = await loop.run_in_executor(self._reader, self._watch.overview)
                offer, contexts = log.pop("offer"), log.pop("contexts")
                model = await self.do(lambda agent: model_overview(agent, offer, contexts))
                self._overview = {"name": self._name, **log, **model}
                end = time.monotonic()
                self._overview_expires = end + max(OVERVIEW_SECONDS, (end - begun) / OVERVIEW_SHARE)
            return self._overview

    async def check_ready(self) -> None:
        """Refuse unless the log could be written within the last second, or can be now."""
        async with self._ready_lock:
            if time.monotonic() < self._ready_until:
                return
            try:
                async with asyncio.timeout(READY_SECONDS):
                    await self.do(Agent.check_log)
            except TimeoutError:
                logger.error("GET /ready: the log could not be written within %g seconds", READY_SECONDS)
                raise Refusal(503, "the agent is busy, or its log is locked", headers={"Retry-After": "1"}) from None
            self._ready_until = time.monotonic() + 1.0

    def close(self) -> None:
        """Finish the work that was begun, and close the agent."""
        for thread, opened in ((self._thread, self._agent), (self._reader, self._watch)):
            thread.submit(opened.close).result()
            thread.shutdown()


def create_app(agent: AgentThread, settings: Settings) -> Gate:
    """The application that serves an agent, behind its gate."""
    app = FastAPI(
        title="adadim",
        version=metadata.version("adadim"),
        summary="Decisions of a bandit with ordered features.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=REFUSED_RESPONSES,
    )
    metrics = Metrics()
    _add_calls(app, agent)
    _add_numbers(app, agent, metrics)
    _add_pages(app, agent, settings.token)
    for error in (RequestValidationError, AdadimError, HTTPException, Exception):
        app.add_exception_handler(error, _answer_error)
    posts = [route for route in app.routes if isinstance(route, APIRoute) and "POST" in (route.methods or ())]
    return Gate(app, settings, metrics, {route.path: Call(route, settings.most_arms) for route in posts})


def _add_calls(app: FastAPI, agent: AgentThread) -> None:
    """Add the paths that ask, tell, and change or list the catalogue."""

    @app.post("/ask")
    async def ask(body: messages.Ask) -> messages.Decided | messages.DecidedSlate:
        """Choose an arm. The decision is on disk before it is returned.

        The arms to choose from are `arms` with their features, or `names`, arms of the catalogue; without either, the
        whole catalogue. `context` describes the situation, `costs` (by arm) are subtracted from the scores, and `slots`
        is the number of arms to choose if several are shown together. A context, and each arm, is an object of values
        by column, or a list in the order of the columns, which GET /columns returns. An agent made with `dim` has no
        named columns: each arm is a list of numbers, and those of the context are put before them.
        """
        (decision,) = await agent.ask([body.context], body, single=True)
        return messages.Decided.of(decision) if body.slots is None else messages.DecidedSlate.of(decision)

    @app.post("/ask/batch")
    async def ask_batch(body: messages.AskBatch) -> messages.DecidedBatch | messages.SlateBatch:
        """Choose an arm, or several slots, for each of many contexts, all or none; faster than one request each."""
        decisions = await agent.ask(body.contexts, body)
        if body.slots is not None:
            return messages.SlateBatch(slates=[messages.DecidedSlate.of(slate) for slate in decisions])
        return messages.DecidedBatch(decisions=[messages.Decided.of(decision) for decision in decisions])

    @app.post("/tell")
    async def tell(body: messages.Tell) -> messages.RewardsTold:
        """Report the reward of a decision. Repeating the same reward is harmless; a different one is refused.

        For a slate send `rewards` (by arm) instead of `reward`; either all of them are accepted or none. Missing
        arms can be reported later.
        """
        return messages.RewardsTold(told=await agent.tell([body.answer()]))

    @app.post("/tell/batch")
    async def tell_batch(body: messages.Batch) -> messages.RewardsTold:
        """Report the rewards of many decisions, all or none."""
        return messages.RewardsTold(
            told=await agent.tell([item.answer(f"rewards.{at}.reward") for at, item in enumerate(body.rewards)])
        )

    @app.post("/correct")
    async def correct(body: messages.Correct) -> messages.Corrected:
        """Change the reward of a decision, or report one after its decision expired. The log keeps both."""
        return messages.Corrected(changed=await agent.do(lambda agent: agent.correct(body.id, body.reward)))

    @app.post("/estimate")
    async def estimate(body: messages.Estimate) -> messages.Estimates:
        """Estimate the mean reward of arms, given as in /ask, with standard deviations. Nothing is decided."""
        arms = body.offered()
        return messages.Estimates.of(await agent.do(lambda agent: agent.estimate(arms, body.context)))

    @app.get("/columns")
    async def columns() -> messages.Columns:
        """Names, order and kinds of the columns of contexts and arms."""
        return await agent.do(messages.Columns.of)

    @app.get("/arms")
    async def arms() -> messages.Catalogue:
        """The catalogue: arms with their features, costs and states."""
        return await agent.do(messages.Catalogue.of)

    @app.post("/arms")
    async def set_arms(body: messages.Arms) -> messages.Catalogue:
        """Add arms to the catalogue, or give them new features; all or none."""
        await agent.do(lambda agent: agent.set_arms(body.arms, costs=body.costs))
        catalogue = (await agent.do(messages.Catalogue.of)).arms
        return messages.Catalogue(arms={name: arm for name, arm in catalogue.items() if name in body.arms})

    @app.delete("/arms")
    async def retire_arm(name: Annotated[messages.Name, Query(examples=["sku-1"])]) -> messages.Retired:
        """Remove an arm from the catalogue: DELETE /arms?name=sku-1. What was learned from it is kept."""
        await agent.change_arm(name, Agent.retire_arm)
        return messages.Retired(retired=name)

    @app.post("/mask")
    async def mask_arm(body: messages.ArmName) -> messages.Masked:
        """Exclude an arm of the catalogue until it is unmasked, for instance while it is out of stock."""
        await agent.change_arm(body.name, Agent.mask_arm)
        return messages.Masked(masked=body.name)

    @app.post("/unmask")
    async def unmask_arm(body: messages.ArmName) -> messages.Unmasked:
        """Let an arm be chosen again."""
        await agent.change_arm(body.name, Agent.unmask_arm)
        return messages.Unmasked(unmasked=body.name)

    @app.post("/explore")
    async def set_explore(body: messages.Explore) -> messages.Explores:
        """Change the share of decisions drawn uniformly at random, so that policies can be evaluated on the log."""
        version = await agent.do(lambda agent: agent.set_explore(body.explore))
        return messages.Explores(explore=body.explore, policy_version=version)


def _add_numbers(app: FastAPI, agent: AgentThread, metrics: Metrics) -> None:
    """Add the paths that report on the agent and on the service."""

    @app.get("/status")
    async def status() -> messages.Status:
        """Numbers of decisions, rewards and pending decisions, and the state of the agent."""
        return await agent.do(messages.Status.of)

    @app.get("/dimension")
    async def dimension() -> messages.Dimension:
        """Posterior distribution of the number of features that matter."""
        return messages.Dimension.of(await agent.do(lambda agent: agent.dimension()))

    @app.get("/describe")
    async def describe() -> dict[str, Any]:
        """A short summary of the agent and of what it has learned."""
        return dict(finite_or_none(await agent.do(Agent.describe)))

    @app.get("/overview")
    async def live_data() -> dict[str, Any]:
        """The data of the live page."""
        latency = {path: metrics.latency(path) for path in ("/ask", "/ask/batch", "/tell", "/tell/batch")}
        shown = {**await agent.overview(), "latency": latency, "uptime": time.time() - metrics.started}
        return dict(finite_or_none(shown))

    @app.get("/health")
    async def health() -> messages.Health:
        """Liveness: the service answers, whatever the state of its log (see /ready). Needs no token."""
        return messages.Health(status="ok", version=app.version)

    @app.get("/ready")
    async def ready() -> messages.Health:
        """Readiness: the log of the agent can be read and written; otherwise 503. Needs no token."""
        await agent.check_ready()
        return messages.Health(status="ready", version=app.version)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def prometheus() -> Response:
        """Counts and latencies in Prometheus's text format."""
        numbers = await agent.do(messages.Status.of)
        return Response(metrics.text(numbers.gauges()), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: FastAPI, agent: AgentThread, token: str | None) -> None:
    """Add the live page, and the descriptions of the paths that were added before, for people and for programs."""
    live, general = live_page(token is not None), app.openapi()

    async def document(request: Request) -> dict[str, Any]:
        """OpenAPI with examples of the agent; where a token is needed, callers without it see general ones."""
        if token is None or carries_token(request.headers.get("authorization", ""), token):
            with contextlib.suppress(FileError):  # the description is there while the file is not
                return with_examples(general, await agent.do(examples_of))
        return general

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return live

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return reference_page(await document(request), str(request.base_url).rstrip("/"))

    @app.api_route("/openapi.json", methods=["GET", "HEAD"], include_in_schema=False)
    async def openapi(request: Request) -> Response:
        return JSONResponse(await document(request))


class Call:
    """The endpoint of a POST: it checks the body, calls the function of the route, and encodes its answer.

    The gate calls it. FastAPI, which describes it in /openapi.json, could call the function too, but what FastAPI does
    besides takes longer than a decision.
    """

    def __init__(self, route: APIRoute, most: int) -> None:
        self.path, self._function, self._most = route.path, route.endpoint, most
        self._validate = get_type_hints(route.endpoint)["body"].model_validate

    async def __call__(self, body: bytes) -> Response:
        """The answer to the client, also if there is an error."""
        content = None
        try:
            content = self._content(body)
            answer = await self._function(self._validate(content))
            return Response(answer.model_dump_json(), media_type="application/json")
        except Exception as error:
            refusal = _as_refusal("POST", self.path, error)
            if refusal.field is None and refusal.status_code == 422 and isinstance(content, dict):
                refusal.field = named_field(refusal.detail, content)
            if refusal.status_code == 500:
                logger.exception("POST %s", self.path)
            return refusal.response()

    def _content(self, body: bytes) -> Any:
        """The body as Python values. NaN and infinity are accepted here; validation refuses them with their field."""
        try:
            content = json.loads(body, object_pairs_hook=_without_repeats) if body else None
        except RecursionError:
            raise Refusal(400, "the body is nested too deeply") from None
        except ValueError as error:  # also of wrong UTF-8, and of integers with thousands of digits
            raise Refusal(400, f"the body is not JSON: {error}") from None
        if content is None:
            raise Refusal(422, "Field required")
        # Before each item is checked: checking half a million wrong items would keep other requests waiting.
        for field, part in content.items() if isinstance(content, dict) else ():
            if isinstance(part, dict | list) and len(part) > self._most:
                raise Refusal(422, f"at most {self._most} in one request, got {len(part)}", field)
        if isinstance(content, dict) and isinstance(content.get("contexts"), list):
            slots, contexts = content.get("slots"), len(content["contexts"])
            if isinstance(slots, int) and slots * contexts > self._most:
                raise Refusal(422, f"at most {self._most} decisions in one request, got {slots} x {contexts}", "slots")
        return content


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise Refusal(400, "the name appears twice in one object", field_name((name,)))
            names.add(name)
    return content


async def _answer_error(request: Request, error: Exception) -> Response:
    refusal = _as_refusal(request.method, request.url.path, error)
    if refusal.status_code == 405:  # Starlette names the methods of one route, and a path may have several
        routes = [route for route in request.app.routes if getattr(route, "path", None) == request.url.path]
        methods = sorted(set().union(*(getattr(route, "methods", None) or () for route in routes)))
        refusal.headers = {**(refusal.headers or {}), "Allow": ", ".join(methods)}
    return refusal.response()


def _as_refusal(method: str, path: str, error: Exception) -> Refusal:
    match error:
        case Refusal():
            return error
        case RequestValidationError() | ValidationError():
            first, *others = error.errors()
            more = f" (and {len(others)} more)" if others else ""
            place = first["loc"] if isinstance(error, RequestValidationError) else ("body", *first["loc"])
            return Refusal(422, f"{first['msg']}{more}", field_name(place))
        case FileError():  # its text has the path of the file, which clients must not see
            logger.error("%s %s: %s", method, path, error)
            reason = (
                "the file or database of the agent cannot be read or written just now; the log of the service says why"
            )
            return Refusal(503, reason, headers={"Retry-After": "1"})
        case UnknownDecisionError():
            return Refusal(404, str(error), "id")
        case DecisionError():
            return Refusal(409, str(error), "reward")
        case AdadimError():
            return Refusal(422, str(error))
        case HTTPException():
            reasons = {404: f"there is no path {path}", 405: f"{method} is not for {path}"}
            reason = reasons.get(error.status_code, str(error.detail))
            return Refusal(error.status_code, reason, headers=error.headers)
        case _:
            return Refusal(500, "internal error; see the log of the service")
