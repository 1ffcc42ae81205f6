"""The service as an ASGI application: its paths, how bodies are read, how errors are answered, and the gate before."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Coroutine
from importlib import metadata
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from adadim.errors import AdadimError, DecisionError, FileError, UnknownDecisionError
from adadim.serve import messages, routes
from adadim.serve.desk import Desk
from adadim.serve.gate import Gate
from adadim.serve.metrics import Metrics
from adadim.serve.refusals import Refusal, field_name
from adadim.serve.settings import Settings

__all__ = ["create_app"]

logger = logging.getLogger("adadim.serve")

FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.Failure, "description": text}
    for status, text in {
        400: "The body is not JSON.",
        401: "The token is missing or wrong.",
        404: "There is no such path, decision or arm.",
        408: "The request did not come in time.",
        409: "Another reward was told for this decision.",
        413: "The request is too large.",
        415: "The content type is not application/json.",
        422: "A field is wrong; the answer names it.",
        429: "Too many requests; Retry-After says how many seconds to wait.",
    }.items()
}


def create_app(desk: Desk, settings: Settings) -> Gate:
    """The application that serves the agent of `desk`."""
    app = FastAPI(
        title="adadim",
        version=metadata.version("adadim"),
        summary="Decisions of a bandit with ordered features.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=FAILURES,
    )
    app.router.route_class = JsonRoute
    app.state.most_arms = settings.most_arms
    metrics = Metrics()
    routes.add_decisions(app, desk)
    routes.add_catalogue(app, desk)
    routes.add_numbers(app, desk, metrics)
    routes.add_pages(app, token_needed=settings.token is not None)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(AdadimError, _refused)
    app.add_exception_handler(HTTPException, _failed)
    app.add_exception_handler(Exception, _broken)
    paths = {route.path for route in app.routes if isinstance(route, APIRoute)} | {"/openapi.json"}
    return Gate(app, settings, metrics, paths)


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
