"""The guards: what they refuse and how they say it, and the fields of a dataclass that they are declared at."""

from __future__ import annotations

import dataclasses
import typing
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
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


@pytest.mark.parametrize(("value", "text"), [(np.float64(2.5), "2.5"), (np.int8(-3), "-3"), (np.True_, "True")])
def test_numbers_of_numpy_are_shown_as_numbers(value, text):
    assert checks.shown(value) == text


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
    """One of its annotations cannot be resolved when it runs."""

    width: Annotated[float, partial(checks.positive, meaning="e.g. 1")] = 1.0
    extra: Unknown | None = None


@dataclasses.dataclass(frozen=True)
class Shortened(Own):
    """It inherits its fields; what is no field need not be resolvable."""

    known: ClassVar[Unknown | None] = None


def test_checks_never_vanish_silently():
    for _ in range(2):  # nothing is remembered of the first failure
        with pytest.raises(InvalidTypeError) as caught:
            ForTypeCheckers(width=-1.0)
        for words in ("ForTypeCheckers.extra", "Unknown | None", "name 'Unknown' is not defined"):
            assert words in str(caught.value)
    with pytest.raises(InvalidTypeError, match=r"ForTypeCheckers\.extra"):
        ForTypeCheckers()
    with pytest.raises(InvalidValueError, match="weight must be a positive"):
        Shortened(weight=-1.0)


def test_a_class_that_is_no_dataclass_of_its_own_is_checked_as_its_parent():
    class Plain(Own):
        weight: Unknown  # no field: `dataclass` has not seen it

    assert Plain(weight=2.0).weight == 2.0
    with pytest.raises(InvalidValueError, match="weight must be a positive"):
        Plain(weight=-1.0)


def test_annotations_are_resolved_where_they_were_written():
    local = Annotated[float, partial(checks.positive, meaning="e.g. 1")]

    @dataclasses.dataclass(frozen=True)
    class Local(adadim.Random):
        width: local = 1.0

    with pytest.raises(InvalidTypeError, match=r"Local\.width: the annotation local must .* got NameError"):
        Local()


@pytest.mark.parametrize("kind", [*policies.kinds().values(), *policies.parts().values()])
def test_annotations_of_the_library_can_be_read(kind):
    assert set(typing.get_type_hints(kind, include_extras=True)) >= {field.name for field in dataclasses.fields(kind)}
