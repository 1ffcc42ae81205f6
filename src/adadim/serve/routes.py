"""What each path of the service does, by subject."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse

from adadim.agent import Agent
from adadim.codec import finite
from adadim.serve import messages
from adadim.serve.desk import Desk
from adadim.serve.metrics import Metrics
from adadim.serve.overview import Overview, dimension_entry, public_status
from adadim.serve.page import live_page, reference_page
from adadim.serve.refusals import Refusal

__all__ = ["add_catalogue", "add_decisions", "add_numbers", "add_pages"]


def add_decisions(app: FastAPI, desk: Desk) -> None:
    """Asking and telling."""

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


def add_catalogue(app: FastAPI, desk: Desk) -> None:
    """The arms that the agent knows by name."""

    @app.get("/arms", response_model=messages.Catalogue)
    async def arms() -> Response:
        """The catalogue: arms with their features, costs and states."""
        return JSONResponse({"arms": await desk.do(_catalogue)})

    @app.post("/arms", response_model=messages.Catalogue)
    async def set_arms(body: messages.Arms) -> Response:
        """Add arms to the catalogue, or give them new features; all or none."""
        await desk.do(lambda agent: agent.set_arms(body.arms, costs=body.costs))
        found = await desk.do(_catalogue)
        return JSONResponse({"arms": {name: arm for name, arm in found.items() if name in body.arms}})

    @app.delete("/arms", response_model=messages.Retired)
    async def retire_arm(name: Annotated[messages.Name, Query()]) -> Response:
        """Take an arm out of the catalogue: DELETE /arms?name=sku-1. What was learned from it stays."""
        await desk.do(lambda agent: _retire(agent, name))
        return JSONResponse({"retired": name})


def add_numbers(app: FastAPI, desk: Desk, metrics: Metrics) -> None:
    """What the agent knows, and how the service does."""
    overview = Overview(desk, metrics)

    @app.get("/status", response_model=messages.Status)
    async def status() -> Response:
        """Numbers of decisions, rewards and decisions that wait for one."""
        return JSONResponse(finite(await desk.do(public_status)))

    @app.get("/dimension", response_model=messages.Dimension)
    async def dimension() -> Response:
        """What the model believes about the number of features that matter."""
        return JSONResponse(finite(dimension_entry(await desk.do(lambda agent: agent.dimension()))))

    @app.get("/overview")
    async def live_data() -> Response:
        """All that the live page shows."""
        return JSONResponse(finite(await overview.data()))

    @app.get("/health", response_model=messages.Health)
    async def health() -> Response:
        """Whether the service answers; needs no token."""
        return JSONResponse({"status": "ok", "version": app.version})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def prometheus() -> Response:
        """Counts and latencies in Prometheus's text format."""
        numbers = await desk.do(public_status)
        return Response(metrics.text(numbers), media_type="text/plain; version=0.0.4; charset=utf-8")


def add_pages(app: FastAPI, token_needed: bool) -> None:
    """Pages for people: the live one, and how to call the paths that were added before."""
    live, reference = live_page(token_needed), reference_page(app.openapi())

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return HTMLResponse(live.text, headers=live.headers)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(reference.text, headers=reference.headers)


def _catalogue(agent: Agent) -> dict[str, dict[str, Any]]:
    return {
        name: {"features": arm.features.tolist(), "cost": arm.cost, "state": arm.state}
        for name, arm in agent.arms.items()
    }


def _retire(agent: Agent, name: str) -> None:
    if name not in agent.arms:
        raise Refusal(404, f"there is no arm {name!r} in the catalogue", "name")
    agent.retire_arm(name)
