"""The bodies of requests, answers and refusals, as types, from which OpenAPI and the answers are made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    StringConstraints,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from adadim.agent import Agent, AgentDecision, Slate
from adadim.core.checks import shown
from adadim.core.codec import finite_or_none
from adadim.core.columns import MAX_NAME_LENGTH
from adadim.dimension import Dimension as Posterior

LONGEST_TEXT = 500  # characters of a reason or of the name of a field

Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_LENGTH)]
Identity = Annotated[int, Field(ge=1, lt=2**63, examples=[17])]
VALUE_TYPES = (float, int, str, bool, type(None))  # what JSON has, but for lists and objects
LIST, OBJECT = "[list]", "[object]"  # the two forms of a context or an arm, where pydantic says which part is wrong


def _checked_values(values: dict[str, Any]) -> dict[str, Any]:
    """Values by column, which the agent checks against its columns."""
    for column, value in values.items():
        if type(value) not in VALUE_TYPES or (type(value) is float and not math.isfinite(value)):
            reason = "column {column} must be a finite number, a text, true, false or null, got {value}"
            raise PydanticCustomError("column", reason, {"column": repr(column), "value": shown(value)})
    return values


Value = Annotated[Any, WithJsonSchema({"anyOf": [{"type": kind} for kind in ("number", "string", "boolean", "null")]})]
NumberList = Annotated[list[FiniteFloat], Field(min_length=1, fail_fast=True)]
Values = Annotated[dict[Name, Value], Field(min_length=1), AfterValidator(_checked_values)]
FeatureValues = Annotated[
    Annotated[NumberList, Tag(LIST)] | Annotated[Values, Tag(OBJECT)],
    Discriminator(lambda value: OBJECT if isinstance(value, dict) else LIST),
]
"""A context or an arm: a list of numbers in the order of the columns, or an object of values by column."""

Reward = Annotated[
    FiniteFloat,
    BeforeValidator(lambda value: float(value) if isinstance(value, bool) else value),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "boolean"}]}),
]
"""A number; true is 1 and false is 0."""


class _Message(BaseModel):
    # A number is a number: no text that looks like one. A misspelt field is refused.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ArmsOffered(_Message):
    """Arms with their features, or names of arms of the catalogue; by default all of the catalogue."""

    arms: Annotated[dict[Name, FeatureValues], Field(min_length=1)] | None = Field(
        default=None, examples=[{"sku-1": [1.0, 0.3], "sku-2": [1.0, 0.8]}]
    )
    names: Annotated[list[Name], Field(min_length=1)] | None = Field(default=None, examples=[None])

    def offered(self) -> dict[str, Any] | list[str] | None:
        """The arms as `Agent.ask` takes them."""
        if self.arms is not None and self.names is not None:
            raise Refusal(422, "give either arms with their features or names of the catalogue", "names")
        return self.arms if self.names is None else self.names


class ArmsWanted(ArmsOffered):
    """What is offered in a request, and how many arms of it are wanted: one, or so many slots."""

    costs: dict[Name, FiniteFloat] | None = Field(default=None, examples=[None])
    slots: Annotated[int, Field(ge=1)] | None = Field(default=None, examples=[None])


class Ask(ArmsWanted):
    """Arms to choose from: with this round's features, or by their names in the catalogue, or all of the catalogue."""

    context: FeatureValues | None = Field(default=None, examples=[None])


class AskBatch(ArmsWanted):
    """A context for each of many decisions, all among the same arms, which are given as in `Ask`.

    A context is null where the arms have all features themselves.
    """

    contexts: list[FeatureValues | None] = Field(examples=[[None, None]])


class Decided(_Message):
    """The decision, which is on disk: its id, the arm to play, and its propensity (probability of being chosen)."""

    id: Identity
    arm: str = Field(examples=["sku-2"])
    probability: float = Field(examples=[1.0])

    @classmethod
    def of(cls, decision: AgentDecision) -> Decided:
        """The message of a decision."""
        return cls(id=decision.id, arm=decision.arm, probability=decision.probability)


class DecidedBatch(_Message):
    """The decisions, in the order of their contexts."""

    decisions: list[Decided]


class DecidedSlate(_Message):
    """The answer to a request with slots: the id of the slate, for reporting rewards, and a decision for each slot."""

    id: Identity
    decisions: list[Decided]

    @classmethod
    def of(cls, slate: Slate) -> DecidedSlate:
        """The message of a slate."""
        return cls(id=slate.id, decisions=[Decided.of(decision) for decision in slate.decisions])


class SlateBatch(_Message):
    """The slates, in the order of their contexts."""

    slates: list[DecidedSlate]


class Tell(_Message):
    """The reward of a decision; for a slate, `rewards` by arm instead, of some or all of its arms."""

    id: Identity
    reward: Reward | None = Field(default=None, examples=[1.0])
    rewards: dict[Name, Reward] | None = Field(default=None, examples=[None])

    def answer(self, field: str = "reward") -> tuple[int, float | dict[str, float]]:
        """Id and reward as `Agent.tell` takes them."""
        reward = self.reward if self.rewards is None else self.rewards
        if reward is None or (self.reward is not None and self.rewards is not None):
            raise Refusal(422, "give either reward, a number, or rewards of a slate by arm", field)
        return self.id, reward


class Batch(_Message):
    """Rewards of many decisions; if one of them is refused, none is written."""

    rewards: list[Tell]


class RewardsTold(_Message):
    """How many rewards were new; the others had been reported before."""

    told: int = Field(examples=[1])


class Correct(_Message):
    """A corrected reward, which replaces the one reported before or that of an expired decision."""

    id: Identity
    reward: Reward = Field(examples=[0.0])


class Corrected(_Message):
    """Whether the reward differs from the one before."""

    changed: bool = Field(examples=[True])


class Arms(_Message):
    """Arms for the catalogue; an arm that exists already gets these features and costs."""

    arms: Annotated[dict[Name, FeatureValues], Field(min_length=1)] = Field(examples=[{"sku-1": [1.0, 0.3]}])
    costs: dict[Name, FiniteFloat] | None = Field(default=None, examples=[None])


class Arm(_Message):
    """An arm of the catalogue: its features, values by column or null, cost, and state, "active" or "masked"."""

    features: list[float]
    values: dict[str, Value] | None = None
    cost: float
    state: str = Field(examples=["active"])


class Catalogue(_Message):
    """The arms of the catalogue by name."""

    arms: dict[str, Arm]

    @classmethod
    def of(cls, agent: Agent) -> Catalogue:
        """The catalogue of an agent."""
        arms = agent.arms.items()
        return cls(
            arms={
                name: Arm(features=arm.features.tolist(), values=arm.values, cost=arm.cost, state=arm.state)
                for name, arm in arms
            }
        )


class Retired(_Message):
    """The arm that was removed from the catalogue."""

    retired: str = Field(examples=["sku-1"])


class ArmName(_Message):
    """An arm of the catalogue."""

    name: Name = Field(examples=["sku-1"])


class Masked(_Message):
    """The arm that is excluded from now on."""

    masked: str = Field(examples=["sku-1"])


class Unmasked(_Message):
    """The arm that may be chosen again."""

    unmasked: str = Field(examples=["sku-1"])


class Estimate(ArmsOffered):
    """Arms to estimate the reward of, given as in `Ask`."""

    context: FeatureValues | None = Field(default=None, examples=[None])


class Estimated(_Message):
    """Mean reward of an arm and the standard deviation of this estimate, null before there is any reward."""

    mean: float = Field(examples=[0.31])
    deviation: float | None = Field(examples=[0.02])


class Estimates(_Message):
    """Estimates by arm."""

    estimates: dict[str, Estimated] = Field(examples=[{"sku-1": {"mean": 0.31, "deviation": 0.02}}])

    @classmethod
    def of(cls, estimates: Mapping[str, tuple[float, float]]) -> Estimates:
        """The message of what `Agent.estimate` gives."""
        return cls(estimates={n: Estimated(mean=m, deviation=finite_or_none(d)) for n, (m, d) in estimates.items()})


class Column(_Message):
    """A column of contexts or arms: its name, and its kind, "number" or "category"; of a category its values."""

    name: str = Field(examples=["hour"])
    kind: str = Field(examples=["number"])
    values: list[str | int | bool] | None = Field(default=None, examples=[None])

    @classmethod
    def of(cls, name: str, kind: Any) -> Column:
        """The message of a column, of which an agent says that it is `float` or a category."""
        return (
            cls(name=name, kind="number")
            if kind is float
            else cls(name=name, kind="category", values=list(kind.values))
        )


class Columns(_Message):
    """The columns of contexts and of arms in the order in which a list has their values, and the features made of them.

    They are null where features come ready-made, `dim` numbers for each arm, those of a context included.
    """

    dim: int = Field(examples=[9])
    context: list[Column] | None
    arm: list[Column] | None
    features: list[str] | None = Field(examples=[["constant", "price", "hour", "price x hour"]])

    @classmethod
    def of(cls, agent: Agent) -> Columns:
        """The columns of an agent."""
        dim = agent.status()["dim"]  # after a refresh: there may be more by now
        context, arm = (
            None if columns is None else [Column.of(name, kind) for name, kind in columns.items()]
            for columns in (agent.context_columns, agent.arm_columns)
        )
        return cls(dim=dim, context=context, arm=arm, features=agent.columns)


class Explore(_Message):
    """The share of decisions that are drawn uniformly among the arms offered, from now on."""

    explore: Annotated[float, Field(ge=0, le=1)] = Field(examples=[0.02])


class Explores(_Message):
    """The share in force, and the version of the policy that has it."""

    explore: float = Field(examples=[0.02])
    policy_version: int = Field(examples=[2])


class Status(_Message):
    """The state of the agent in numbers, as `Agent.status` gives it, without the path of the file."""

    decisions: int
    rewards: int
    outstanding: int
    expired: int
    learned: int
    compacted: int
    arms: int
    masked: int
    retired: int
    policy: str = Field(examples=["EvidenceLinUCB()"])
    policy_version: int
    explore: float = Field(examples=[0.0])
    dim: int
    memory: float | Literal["auto"] | None
    half_life: float | None = Field(description="In use, in decisions; null where nothing is forgotten.")
    half_life_since: int
    world_changed: int | None = Field(
        description="Decision at which the rewards last changed; null if no change was detected."
    )
    bytes: int

    @classmethod
    def of(cls, agent: Agent) -> Status:
        """The status of an agent."""
        return cls(**{key: value for key, value in agent.status().items() if key != "path"})

    def gauges(self) -> dict[str, Any]:
        """The numbers of the agent for Prometheus, by the names of `AGENT_GAUGES`."""
        numbers = {
            "memory": "+Inf" if self.half_life is None else self.half_life,
            "memory_since": self.half_life_since,
            "world_changed": self.world_changed or 0,
        }
        return {**self.model_dump(), **numbers}


class Dimension(_Message):
    """Posterior distribution of d*, the number of leading features that matter."""

    support: list[int]
    probabilities: list[float]
    levels: dict[str, int] | None
    contributions: dict[str, float] | None
    mode: int
    median: int
    interval90: list[int]
    noise: float | None
    choices: int
    text: str

    @classmethod
    def of(cls, posterior: Posterior) -> Dimension:
        """The posterior of d* as plain numbers."""
        return cls(
            support=posterior.support.tolist(),
            probabilities=posterior.probabilities.tolist(),
            levels=posterior.levels,
            contributions=posterior.contributions,
            mode=posterior.mode,
            median=posterior.median,
            interval90=list(posterior.interval(0.9)),
            noise=finite_or_none(posterior.noise),
            choices=posterior.choices,
            text=str(posterior),
        )


class Health(_Message):
    """The state and the version of the service."""

    status: str
    version: str


class RefusedRequest(_Message):
    """Why a request was refused, and which field of it is wrong."""

    error: str
    field: str | None


class Refusal(HTTPException):
    """A request that is not served: a status of HTTP, the reason, and where in the request it lies (arms.sku-1.3)."""

    def __init__(
        self, status: int, reason: str, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, detail=_cut(reason), headers=dict(headers or {}))
        self.field = None if field is None else _cut(field)

    def response(self) -> JSONResponse:
        """The answer to the client."""
        failure = RefusedRequest(error=self.detail, field=self.field)
        return JSONResponse(failure.model_dump(), self.status_code, self.headers)


def field_name(location: Iterable[Any]) -> str | None:
    """Where in a request something is: ("body", "arms", "sku-1", 3) is arms.sku-1.3."""
    steps = list(location)
    if steps and steps[0] in ("body", "query", "path", "header"):
        steps = steps[1:]
    text = ".".join(str(step) for step in steps if step not in ("[key]", LIST, OBJECT))
    return text.encode("utf-8", "replace").decode() or None


def named_field(reason: str, content: Mapping[str, Any]) -> str | None:
    """Where in a body the value is that a reason of the agent begins with: "features of 'sku-1' must" is arms.sku-1."""
    starts = {"arms": ("features of {!r} ",), "costs": ("cost of {!r} ", "costs name {!r},")}
    for field, patterns in starts.items():
        part = content.get(field)
        for name in part if isinstance(part, dict) else ():
            if any(reason.startswith(pattern.format(name)) for pattern in patterns):
                return field_name((field, name))
    for at, name in enumerate(content.get("names") or ()):
        if reason.startswith(f"arm {name!r} "):
            return f"names.{at}"
    for at, answer in enumerate(content["rewards"] if isinstance(content.get("rewards"), list) else ()):
        if reason.startswith(f"reward of decision {answer.get('id')} "):
            return f"rewards.{at}.reward"
    if match := re.match(r"context (\d+) ", reason):
        return f"contexts.{int(match[1]) - 1}" if "contexts" in content else "context"
    if reason.startswith("features of "):  # of an arm of the catalogue: too many or too few in the context, then
        return next((field for field in ("context", "contexts", "names") if content.get(field) is not None), None)
    word = reason.partition(" ")[0]
    return word if content.get(word) is not None else None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} ..."
