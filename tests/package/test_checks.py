"""The guards: what they refuse and how they say it, and the fields of a dataclass that they are declared at."""

from __future__ import annotations

import dataclasses
import typing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import pytest

import adadim
from adadim import policies
from adadim.core import checks
from adadim.errors import InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from nowhere import Unknown


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: checks.integer(3, "dim", most=2, meaning="of features"),
            "dim must be an integer in 1..2 (of features), got 3",
        ),
        (lambda: checks.positive(0, "ridge", "e.g. 0.1"), "ridge must be a positive finite number (e.g. 0.1), got 0"),
        (lambda: checks.between(1, "beta", 0.5, 1, "[)"), "beta must be a number in [0.5, 1), got 1"),
        (
            lambda: checks.one_of("newest", "ties", ("random", "lowest")),
            "ties must be 'random' or 'lowest', got 'newest'",
        ),
        (
            lambda: checks.file_name("../../important", "name"),
            "name must be the name of a file, without folders, got '../../important'",
        ),
        (lambda: checks.printable("a\x1b[2J", "policy"), r"policy must have no control characters, got 'a\x1b[2J'"),
    ],
)
def test_values_that_are_refused(call, message):
    with pytest.raises(InvalidValueError) as error:
        call()
    assert str(error.value) == message


def test_types_that_are_refused():
    with pytest.raises(InvalidTypeError, match=r"^scalings must be a sequence of finite numbers, got \[1, nan\]$"):
        checks.numbers([1, float("nan")], "scalings")
    with pytest.raises(InvalidTypeError, match=r"^expressive must be True or False, got 'false'$"):
        checks.flag("false", "expressive")


def test_long_values_are_cut():
    assert len(checks.shown("x" * 10_000)) <= 200
    assert checks.shown(10**400) == "10000000000000000000... (an int of 401 digits)"
    assert checks.shown(10**6000) == "an int of more than 1000 digits"


def test_what_an_unknown_word_may_have_meant():
    assert checks.suggestion("linucb", ["LinUCB", "UCB"]) == "did you mean 'LinUCB'?"
    assert checks.suggestion("zzz", ["LinUCB", "UCB"]) == "choose from LinUCB, UCB"


@dataclasses.dataclass(frozen=True)
class Own(adadim.LinUCB):
    weight: Annotated[float, partial(checks.positive, meaning="e.g. 1")] | None = None
    solver: Literal["host", "device"] | None = None
    fast: bool = False
    anything: float = 0.0


def test_fields_are_checked_by_their_annotations():
    def check(**changes):
        checks.check_fields(dataclasses.replace(Own(), **changes))

    check(weight=2.0, solver="device", fast=True, anything="at all")
    for changes, kind, message in (
        ({"weight": -1.0}, InvalidValueError, r"weight must be a positive finite number \(e\.g\. 1\), got -1\.0"),
        ({"solver": "cloud"}, InvalidValueError, "solver must be 'host' or 'device', got 'cloud'"),
        ({"fast": 1}, InvalidTypeError, "fast must be True or False, got 1"),
    ):
        with pytest.raises(kind, match=message):
            check(**changes)


@dataclasses.dataclass(frozen=True)
class ForTypeCheckers(adadim.MOSS):
    """Its annotation cannot be read when it is made; it is checked as MOSS is."""

    extra: Unknown | None = None


def test_annotations_that_cannot_be_read_are_not_checked():
    assert ForTypeCheckers(extra=3).extra == 3
    with pytest.raises(InvalidValueError, match="sample must be an integer of at least 1"):
        ForTypeCheckers(sample=0)


@pytest.mark.parametrize("kind", [*policies.kinds().values(), *policies.parts().values()])
def test_annotations_of_the_library_can_be_read(kind):
    assert set(typing.get_type_hints(kind, include_extras=True)) >= {field.name for field in dataclasses.fields(kind)}
