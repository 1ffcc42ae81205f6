"""Examples of calls of the agent that is served, by its own columns and arms, for its description."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from itertools import islice
from typing import Any

from adadim.agent import Agent
from adadim.serve import messages

EXAMPLE_ARMS = 2
NUMBER = 0.5  # where nothing is known of a number


def examples_of(agent: Agent) -> dict[str, Any]:
    """A body of a request or an answer for each schema whose example depends on the agent."""
    columns, catalogue = messages.Columns.of(agent), agent.arms
    arms = {
        name: arm.features.tolist() if arm.values is None else arm.values
        for name, arm in islice(catalogue.items(), EXAMPLE_ARMS)
    }
    if columns.arm is None:
        size = next((len(arm) for arm in arms.values()), columns.dim)
        context: Any = [NUMBER] * (columns.dim - size) or None
        arm: Any = [NUMBER] * size
    else:
        context = None if not columns.context else {one.name: _value(one) for one in columns.context}
        arm = {one.name: _value(one) for one in columns.arm}
    shown = arms or {f"sku-{k}": arm for k in range(1, EXAMPLE_ARMS + 1)}
    # With a catalogue nothing but the context is needed.
    ask = ({} if catalogue else {"arms": shown}) | ({} if context is None else {"context": context})
    first = next(iter(catalogue or shown))
    return {
        "Ask": ask,
        "AskBatch": {key: value for key, value in ask.items() if key != "context"} | {"contexts": [context] * 2},
        "Estimate": ask,
        "Arms": {"arms": shown},
        "ArmName": {"name": first},
        **{kind.title(): {kind: first} for kind in ("masked", "unmasked", "retired")},
        "Decided": {"id": 17, "arm": first, "probability": 1.0},
        "Estimates": {"estimates": {name: {"mean": 0.31, "deviation": 0.02} for name in shown}},
        "Columns": columns.model_dump(),
    }


def _value(column: messages.Column) -> Any:
    return column.values[0] if column.values else NUMBER


def with_examples(document: Mapping[str, Any], examples: Mapping[str, Any]) -> dict[str, Any]:
    """An OpenAPI document with these examples of its schemas."""
    described = deepcopy(dict(document))
    for name, example in examples.items():
        schema = described["components"]["schemas"][name]
        schema["examples"] = [example]
        for field, part in schema["properties"].items():
            if "examples" in part:
                part["examples"] = [example.get(field)]
    for parameter in described["paths"]["/arms"]["delete"]["parameters"]:
        parameter["schema"]["examples"] = [examples["ArmName"]["name"]]
    return described
