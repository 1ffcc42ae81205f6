"""The guards of the library: each returns the value in its plain type, or says what is wrong with it.

Messages follow one pattern: the name, what it must be, and what it was.
"""

from __future__ import annotations

import difflib
import os
import reprlib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from adadim.errors import InvalidTypeError, InvalidValueError

__all__ = [
    "between",
    "file_name",
    "flag",
    "integer",
    "is_integer",
    "is_number",
    "not_negative",
    "numbers",
    "one_of",
    "positive",
    "printable",
    "require",
    "shown",
    "suggestion",
]

T = TypeVar("T")

MOST_SHOWN = 200
LARGEST_INTEGER = 2**63 - 1
LARGEST_FLOAT = 2**1023
LONG_INTEGER = 10**60
NAME_BYTES = 200  # a file name may have 255, some of which are for suffixes

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = MOST_SHOWN


def shown(value: object) -> str:
    """`repr` of a value, cut where it is long.

    Examples
    --------
    >>> len(shown("x" * 10_000)) <= 200, shown(10**400), shown(10**6000)
    (True, '10000000000000000000... (an int of 401 digits)', 'an int of more than 1000 digits')
    """
    if isinstance(value, int) and abs(value) >= 10**1000:
        return "an int of more than 1000 digits"
    if isinstance(value, int) and abs(value) >= LONG_INTEGER:
        digits = str(abs(value))
        return f"{'-' * (value < 0)}{digits[:20]}... (an int of {len(digits)} digits)"
    try:
        if isinstance(value, str | bytes | list | tuple | dict | set):
            return _short.repr(value)
        text = str(value) if isinstance(value, np.ndarray) else repr(value)
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 2 * MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def is_integer(value: object) -> bool:
    """Whether `value` is a whole number, Python's or NumPy's, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether `value` is a real number, Python's or NumPy's, and no truth value."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < LARGEST_FLOAT
    return isinstance(value, float | np.integer | np.floating)


def number(value: float, name: str) -> float:
    """A real number as it is, NaN and infinity included."""
    if not is_number(value):
        raise InvalidTypeError(f"{name} must be a number, got {shown(value)}")
    return value


def require(ok: bool | np.bool, name: str, wanted: str, value: object) -> None:
    """Raise an error that names the value unless `ok`."""
    if not ok:
        raise InvalidValueError(f"{name} must {wanted}, got {shown(value)}")


def integer(value: Any, name: str, least: int = 1, most: int | None = None, meaning: str = "") -> int:
    """A whole number of at least `least`, and at most `most` if that is given.

    Examples
    --------
    >>> integer(3, "dim", most=2, meaning="the number of features")
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: dim must be an integer in 1..2 (the number of features), got 3
    """
    if not is_integer(value) or value < least or value > (LARGEST_INTEGER if most is None else most):
        allowed = f"in {least}..{most}" if most is not None else f"of at least {least}"
        if most is None and is_integer(value) and value > LARGEST_INTEGER:
            allowed = "below 2^63"
        raise InvalidValueError(
            f"{name} must be an integer {allowed}{f' ({meaning})' if meaning else ''}, got {shown(value)}"
        )
    return int(value)


def positive(value: Any, name: str, meaning: str) -> float:
    """A positive finite number.

    Examples
    --------
    >>> positive(0, "ridge", "the regularisation lambda, e.g. 0.1")
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: ridge must be a positive finite number (the regularisation lambda, ...), got 0
    """
    if not is_number(value) or not 0 < value < np.inf:
        raise InvalidValueError(f"{name} must be a positive finite number ({meaning}), got {shown(value)}")
    return float(value)


def numbers(values: Any, name: str) -> tuple[float, ...]:
    """A sequence of finite numbers.

    Examples
    --------
    >>> numbers([1, float("nan")], "scalings")
    Traceback (most recent call last):
    adadim.errors.InvalidTypeError: scalings must be a sequence of finite numbers, got [1, nan]
    """
    given = values.tolist() if isinstance(values, np.ndarray) else values
    fits = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if not fits or not all(is_number(value) and -np.inf < value < np.inf for value in given):
        raise InvalidTypeError(f"{name} must be a sequence of finite numbers, got {shown(values)}")
    return tuple(given)


def not_negative(value: Any, name: str) -> float:
    """A finite number of at least 0."""
    require(is_number(value) and 0 <= value < np.inf, name, "be a finite number of at least 0", value)
    return float(value)


def between(value: Any, name: str, low: float, high: float, ends: str = "[]") -> float:
    """A number between `low` and `high`; `ends` says which of the two may be reached, e.g. "[)".

    Examples
    --------
    >>> between(1, "beta", 0.5, 1, "[)")
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: beta must be a number in [0.5, 1), got 1
    """
    inside = is_number(value) and (
        (low <= value if ends[0] == "[" else low < value) and (value <= high if ends[1] == "]" else value < high)
    )
    require(inside, name, f"be a number in {ends[0]}{low:g}, {high:g}{ends[1]}", value)
    return float(value)


def one_of(value: T, name: str, options: Sequence[T]) -> T:
    """One of several options.

    Examples
    --------
    >>> one_of("newest", "ties", ("random", "lowest"))
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: ties must be 'random' or 'lowest', got 'newest'
    """
    if not any(type(value) is type(option) and value == option for option in options):
        *first, last = [repr(option) for option in options]
        allowed = f"{', '.join(first)} or {last}" if first else last
        raise InvalidValueError(f"{name} must be {allowed}, got {shown(value)}")
    return value


def flag(value: Any, name: str) -> bool:
    """True or False, and nothing that merely counts as such.

    Examples
    --------
    >>> flag("false", "expressive")
    Traceback (most recent call last):
    adadim.errors.InvalidTypeError: expressive must be True or False, got 'false'
    """
    if not isinstance(value, bool | np.bool):
        raise InvalidTypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def file_name(value: Any, name: str) -> str:
    """A text that can be the name of a file in a folder, and of none anywhere else.

    Examples
    --------
    >>> file_name("../../important", "name")
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: name must be the name of a file, without folders, got '../../important'
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidValueError(f"{name} must be a non-empty string, got {shown(value)}")
    if {"/", os.sep, os.altsep} & set(value) or value in (".", ".."):
        raise InvalidValueError(f"{name} must be the name of a file, without folders, got {shown(value)}")
    printable(value, name)
    if len(value.encode()) > NAME_BYTES:
        raise InvalidValueError(f"{name} must have at most {NAME_BYTES} bytes, got {shown(value)}")
    return value


def printable(value: str, name: str) -> str:
    r"""A text without control characters and halves of characters, which terminals and files choke on.

    Examples
    --------
    >>> printable("a\x1b[2J", "policy")
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: policy must have no control characters, got 'a\x1b[2J'
    """
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in value):
        raise InvalidValueError(f"{name} must have no control characters, got {shown(value)}")
    return value


def suggestion(word: str, known: Iterable[str]) -> str:
    """What the writer of an unknown word may have meant.

    Examples
    --------
    >>> suggestion("linucb", ["LinUCB", "UCB"])
    "did you mean 'LinUCB'?"
    >>> suggestion("zzz", ["LinUCB", "UCB"])
    'choose from LinUCB, UCB'
    """
    names = list(known)
    if not isinstance(word, str):
        return f"choose from {', '.join(names)}"
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), lower, 1)
    if close:
        return f"did you mean {lower[close[0]]!r}?"
    return f"choose from {', '.join(names)}" if names else "there are none to choose from"
