"""The service as an ASGI application: what each path does."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Coroutine
from importlib import metadata
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from adadim.agent import Agent
from adadim.errors import AdadimError, DecisionError, FileError, UnknownDecisionError
from adadim.serve import messages
from adadim.serve.desk import Desk
from adadim.serve.gate import Gate
from adadim.serve.metrics import Metrics
from adadim.serve.overview import Overview, dimension_entry, public_status
from adadim.serve.page import live_page, reference_page
from adadim.serve.refusals import Refusal, field_name
from adadim.serve.settings import Settings

__all__ = ["create_app"]

logger = logging.getLogger("adadim.serve")


def create_app(desk: Desk, settings: Settings) -> Gate:
    """The application that serves the agent of `desk`."""
    version = metadata.version("adadim")
    failures: dict[int | str, dict[str, Any]] = {
        status: {"model": messages.Failure, "description": text} for status, text in FAILURES.items()
    }
    app = FastAPI(
        title="adadim",
        version=version,
        summary="Decisions of a bandit with ordered features.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=failures,
    )
    app.router.route_class = JsonRoute
    app.state.most_arms = settings.most_arms
    metrics = Metrics()
    overview = Overview(desk, metrics)

    @app.post("/ask", response_model=messages.Decided)
    async def ask(body: messages.Ask) -> Response:
        """Choose an arm. The decision is on disk before it is returned.

        Instead of arms with their features, names: a list of arms of the catalogue; without either, all of it. Also
        context: features of the situation, put before those of each arm; costs: by name, subtracted from the scores.
        """
        if body.arms is not None and body.names is not None:
            raise Refusal(422, "give either arms with their features or names of the catalogue", "names")
        chosen = body.arms if body.names is None else body.names
        decision = await desk.do(lambda agent: agent.ask(chosen, body.context, costs=body.costs))
        return JSONResponse({"id": decision.id, "arm": decision.arm, "probability": decision.probability})

    @app.post("/tell", response_model=messages.Told)
    async def tell(body: messages.Tell) -> Response:
        """Report the reward of a decision. Telling it twice is harmless, telling something else is refused."""
        return JSONResponse({"told": int(await desk.do(lambda agent: agent.tell(body.id, body.reward)))})

    @app.post("/tell/batch", response_model=messages.Told)
    async def tell_batch(body: messages.Batch) -> Response:
        """Report the rewards of many decisions, all or none."""
        pairs = [(item.id, item.reward) for item in body.rewards]
        return JSONResponse({"told": await desk.do(lambda agent: agent.tell_many(pairs))})

    @app.get("/arms", response_model=messages.Catalogue)
    async def arms() -> Response:
        """The catalogue: arms with their features, costs and states."""
        return JSONResponse({"arms": await desk.do(_catalogue)})

    @app.post("/arms", response_model=messages.Catalogue)
    async def set_arms(body: messages.Arms) -> Response:
        """Add arms to the catalogue, or give them new features; all or none."""
        await desk.do(lambda agent: agent.set_arms(body.arms, costs=body.costs))
        return JSONResponse(
            {"arms": {name: arm for name, arm in (await desk.do(_catalogue)).items() if name in body.arms}}
        )

    @app.delete("/arms", response_model=messages.Retired)
    async def retire_arm(name: Annotated[str, Query(min_length=1, max_length=200)]) -> Response:
        """Take an arm out of the catalogue: DELETE /arms?name=sku-1. What was learned from it stays."""
        await desk.do(lambda agent: _retire(agent, name))
        return JSONResponse({"retired": name})

    @app.get("/status", response_model=messages.Status)
    async def status() -> Response:
        """Numbers of decisions, rewards and decisions that wait for one."""
        return _json(await desk.do(public_status))

    @app.get("/dimension", response_model=messages.Dimension)
    async def dimension() -> Response:
        """What the model believes about the number of features that matter."""
        return _json(dimension_entry(await desk.do(lambda agent: agent.dimension())))

    @app.get("/overview")
    async def live_data() -> Response:
        """All that the live page shows."""
        return _json(await overview.data())

    @app.get("/health", response_model=messages.Health)
    async def health() -> Response:
        """Whether the service answers; needs no token."""
        return JSONResponse({"status": "ok", "version": version})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def prometheus() -> Response:
        """Counts and latencies in Prometheus's text format."""
        numbers = await desk.do(public_status)
        return Response(metrics.text(numbers), media_type="text/plain; version=0.0.4; charset=utf-8")

    reference = reference_page(app.openapi())
    page = live_page(token_needed=settings.token is not None)

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return HTMLResponse(page.text, headers=page.headers)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(reference.text, headers=reference.headers)

    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(AdadimError, _refused)
    app.add_exception_handler(HTTPException, _failed)
    app.add_exception_handler(Exception, _broken)
    paths = {route.path for route in app.routes if isinstance(route, APIRoute)} | {"/openapi.json"}
    return Gate(app, settings, metrics, paths)


FAILURES = {
    400: "The body is not JSON.",
    401: "The token is missing or wrong.",
    404: "There is no such path, decision or arm.",
    408: "The request did not come in time.",
    409: "Another reward was told for this decision.",
    413: "The request is too large.",
    415: "The content type is not application/json.",
    422: "A field is wrong; the answer names it.",
    429: "Too many requests; Retry-After says how many seconds to wait.",
}


class JsonRequest(Request):
    """A request whose JSON says each thing once and does not go too deep."""

    async def json(self) -> Any:
        """The body as Python values. NaN and infinity are let through here, and refused where their field is known."""
        try:
            content = json.loads(await self.body(), object_pairs_hook=_once)
        except RecursionError:
            raise Refusal(400, "the body is nested too deeply") from None
        except ValueError as error:  # also of wrong UTF-8, and of integers with thousands of digits
            raise Refusal(400, f"the body is not JSON: {error}") from None
        # Before anything else looks at each: checking half a million wrong items would keep all others waiting.
        most = self.app.state.most_arms
        for field, part in content.items() if isinstance(content, dict) else ():
            if isinstance(part, dict | list) and len(part) > most:
                raise Refusal(422, f"at most {most} in one request, got {len(part)}", field)
        return content


class JsonRoute(APIRoute):
    """A route that reads its body as `JsonRequest` does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return strictly


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise Refusal(400, "the name is there twice in one object", field_name((name,)))
            names.add(name)
    return found


def _catalogue(agent: Agent) -> dict[str, dict[str, Any]]:
    return {
        name: {"features": arm.features.tolist(), "cost": arm.cost, "state": arm.state}
        for name, arm in agent.arms.items()
    }


def _retire(agent: Agent, name: str) -> None:
    if name not in agent.arms:
        raise Refusal(404, f"there is no arm {name!r} in the catalogue", "name")
    agent.retire_arm(name)


def _json(content: Any) -> Response:
    return JSONResponse(_finite(content))


def _finite(value: Any) -> Any:
    """The same with null for NaN and infinity, which JSON has not."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first, *others = error.errors()
    more = f" (and {len(others)} more)" if others else ""
    return Refusal(422, f"{first['msg']}{more}", field_name(first["loc"])).response()


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, FileError):  # its text has the path of the file, which is nobody's business outside
        logger.error("%s %s: %s", request.method, request.url.path, error)
        reason = "the file of the agent cannot be read or written just now; the log of the service says why"
        return Refusal(503, reason, headers={"Retry-After": "1"}).response()
    if isinstance(error, UnknownDecisionError):
        return Refusal(404, str(error), "id").response()
    if isinstance(error, DecisionError):
        return Refusal(409, str(error), "reward").response()
    return Refusal(422, str(error)).response()


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, Refusal):
        return error.response()
    reasons = {404: f"there is no path {request.url.path}", 405: f"{request.method} is not for {request.url.path}"}
    return Refusal(
        error.status_code, reasons.get(error.status_code, str(error.detail)), headers=error.headers
    ).response()


async def _broken(request: Request, error: Exception) -> Response:
    return Refusal(500, "the service failed; its log says why").response()
