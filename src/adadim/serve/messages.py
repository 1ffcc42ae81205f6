"""What requests and answers look like; OpenAPI is made from these."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

from adadim.agent.inputs import LONGEST_NAME

__all__ = [
    "Arms",
    "Ask",
    "Batch",
    "Catalogue",
    "Decided",
    "Dimension",
    "Failure",
    "Health",
    "Retired",
    "Status",
    "Tell",
    "Told",
]

Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME)]
Identity = Annotated[int, Field(ge=1, lt=2**63, examples=[17])]
Features = Annotated[list[FiniteFloat], Field(min_length=1, fail_fast=True)]


class _Message(BaseModel):
    # A number is a number: no text that looks like one, no truth values. A misspelt field is refused.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Ask(_Message):
    """Arms to choose from: with this round's features, or by their names in the catalogue, or all of the catalogue."""

    arms: Annotated[dict[Name, Features], Field(min_length=1)] | None = Field(
        default=None, examples=[{"sku-1": [1.0, 0.3], "sku-2": [1.0, 0.8]}]
    )
    names: Annotated[list[Name], Field(min_length=1)] | None = Field(default=None, examples=[None])
    context: Features | None = Field(default=None, examples=[None])
    costs: dict[Name, FiniteFloat] | None = Field(default=None, examples=[None])


class Decided(_Message):
    """The decision, which is on disk: its id, the arm to play, and the probability with which it was chosen."""

    id: Identity
    arm: str = Field(examples=["sku-2"])
    probability: float = Field(examples=[1.0])


class Tell(_Message):
    """The reward of a decision."""

    id: Identity
    reward: FiniteFloat = Field(examples=[1.0])


class Batch(_Message):
    """Rewards of many decisions; if one of them is refused, none is written."""

    rewards: list[Tell]


class Told(_Message):
    """How many rewards were new; the others had been told before."""

    told: int = Field(examples=[1])


class Arms(_Message):
    """Arms for the catalogue; one that is there already gets these features and costs."""

    arms: Annotated[dict[Name, Features], Field(min_length=1)] = Field(examples=[{"sku-1": [1.0, 0.3]}])
    costs: dict[Name, FiniteFloat] | None = Field(default=None, examples=[None])


class Arm(_Message):
    """An arm of the catalogue; its state is "active" or "masked"."""

    features: list[float]
    cost: float
    state: str = Field(examples=["active"])


class Catalogue(_Message):
    """The arms of the catalogue by name."""

    arms: dict[str, Arm]


class Retired(_Message):
    """The arm that is gone."""

    retired: str = Field(examples=["sku-1"])


class Status(_Message):
    """How things stand, in numbers."""

    decisions: int
    rewards: int
    outstanding: int
    expired: int
    arms: int
    policy: str = Field(examples=["EvidenceLinUCB()"])


class Dimension(_Message):
    """What the model believes about d*, the number of leading features that matter."""

    support: list[int]
    probabilities: list[float]
    levels: dict[str, int] | None
    mode: int
    median: int
    interval90: list[int]
    noise: float | None
    choices: int
    text: str


class Health(_Message):
    """That the service answers."""

    status: str
    version: str


class Failure(_Message):
    """Why a request was refused, and which field of it is wrong."""

    error: str
    field: str | None
