"""The guards of the library: each returns the value in its plain type, or says what is wrong with it.

Messages follow one pattern: the name, what it must be, and what it was. `check_fields` finds the guards of a
dataclass in the annotations of its fields.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import reprlib
import sys
import types
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from adadim.errors import AdadimError, InvalidTypeError, InvalidValueError

T = TypeVar("T")

Guard = Callable[[Any, str], object]
"""Raises unless a value is allowed; takes the value and its name."""

SHOWN_CHARACTERS = 200
LARGEST_INTEGER = 2**63 - 1
FIELDS = "__dataclass_fields__"  # where `dataclasses` has the fields of a class
GUARDS = "__adadim_guards__"  # the attribute in which a class keeps the guards of its fields
MAX_NAME_BYTES = 200  # a file name may have 255, some of which are for suffixes
# Made once: a union in a call of `isinstance` takes longer than the call.
INTEGERS, FLOATING = (int, np.integer), (float, np.integer, np.floating)

_short_repr = reprlib.Repr()
_short_repr.maxstring = _short_repr.maxother = _short_repr.maxlong = SHOWN_CHARACTERS


def shown(value: object) -> str:
    """`repr` of a value, cut where it is long; a number of NumPy as the number that it is."""
    if isinstance(value, np.number | np.bool):
        return str(value)
    if isinstance(value, int) and abs(value) >= 10**1000:
        return "an int of more than 1000 digits"
    if isinstance(value, int) and abs(value) >= 10**60:
        digits = str(abs(value))
        return f"{'-' * (value < 0)}{digits[:20]}... (an int of {len(digits)} digits)"
    kind = type(value)
    if kind.__module__.partition(".")[0] in ("pandas", "polars") and hasattr(value, "shape"):
        return f"a {kind.__name__} of shape {value.shape}"
    try:
        if isinstance(value, str | bytes | list | tuple | dict | set):
            return _short_repr.repr(value)
        text = str(value) if isinstance(value, np.ndarray) else repr(value)
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 2 * SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def is_integer(value: object) -> bool:
    """Whether `value` is a whole number, Python's or NumPy's, and no truth value."""
    return isinstance(value, INTEGERS) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether `value` is a real number, Python's or NumPy's, and no truth value."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**1023  # a float can hold it
    return isinstance(value, FLOATING)


def number(value: float, name: str) -> float:
    """A real number as it is, NaN and infinity included."""
    require(is_number(value), name, "be a number", value, InvalidTypeError)
    return value


def require(
    ok: bool | np.bool, name: str, wanted: str, value: object, error: type[AdadimError] = InvalidValueError
) -> None:
    """Raise an error that names the value unless `ok`."""
    if not ok:
        raise error(f"{name} must {wanted}, got {shown(value)}")


def integer(value: Any, name: str, least: int = 1, most: int | None = None, meaning: str = "") -> int:
    """A whole number of at least `least`, and at most `most` if that is given."""
    if not is_integer(value) or value < least or value > (LARGEST_INTEGER if most is None else most):
        allowed = f"in {least}..{most}" if most is not None else f"of at least {least}"
        if most is None and is_integer(value) and value > LARGEST_INTEGER:
            allowed = "below 2^63"
        raise InvalidValueError(
            f"{name} must be an integer {allowed}{f' ({meaning})' if meaning else ''}, got {shown(value)}"
        )
    return int(value)


def rounds(value: Any, name: str = "horizon", most: int | None = None, meaning: str = "the number of rounds") -> int:
    """A number of rounds; 1e3, which is how some write 1000, is taken for it."""
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    return integer(value, name, most=most, meaning=meaning)


def positive(value: Any, name: str, meaning: str) -> float:
    """A positive finite number."""
    require(is_number(value) and 0 < value < np.inf, name, f"be a positive finite number ({meaning})", value)
    return float(value)


def numbers(values: Any, name: str) -> tuple[float, ...]:
    """A sequence of finite numbers."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    fits = isinstance(listed, Sequence) and not isinstance(listed, str | bytes)
    if not fits or not all(is_number(value) and -np.inf < value < np.inf for value in listed):
        raise InvalidTypeError(f"{name} must be a sequence of finite numbers, got {shown(values)}")
    return tuple(listed)


def finite(value: Any, name: str, wanted: str = "be finite") -> float:
    """A finite number."""
    require(is_number(value) and -np.inf < value < np.inf, name, wanted, value)
    return float(value)


def not_negative(value: Any, name: str) -> float:
    """A finite number of at least 0."""
    require(is_number(value) and 0 <= value < np.inf, name, "be a finite number of at least 0", value)
    return float(value)


def between(value: Any, name: str, low: float, high: float, ends: str = "[]") -> float:
    """A number between `low` and `high`; `ends` says which of the two may be reached, e.g. "[)"."""
    inside = is_number(value) and (
        (low <= value if ends[0] == "[" else low < value) and (value <= high if ends[1] == "]" else value < high)
    )
    require(inside, name, f"be a number in {ends[0]}{low:g}, {high:g}{ends[1]}", value)
    return float(value)


def one_of(value: T, name: str, options: Sequence[T]) -> T:
    """One of several options."""
    if not any(type(value) is type(option) and value == option for option in options):
        *first, last = [repr(option) for option in options]
        allowed = f"{', '.join(first)} or {last}" if first else last
        raise InvalidValueError(f"{name} must be {allowed}, got {shown(value)}")
    return value


def instance_of(value: Any, name: str, kind: type, wanted: str) -> None:
    """An object of a class, or of one derived from it."""
    if not isinstance(value, kind):
        raise InvalidTypeError(f"{name} must be {wanted}, got {value!r}")


def flag(value: Any, name: str) -> bool:
    """True or False, and nothing that merely counts as such."""
    require(isinstance(value, bool | np.bool), name, "be True or False", value, InvalidTypeError)
    return bool(value)


def file_name(value: Any, name: str) -> str:
    """A text that can be the name of a file, and does not lead out of its folder."""
    require(isinstance(value, str) and value.strip() != "", name, "be a non-empty string", value)
    inside = not {"/", os.sep, os.altsep} & set(value) and value not in (".", "..")
    require(inside, name, "be the name of a file, without folders", value)
    printable(value, name)
    require(len(value.encode()) <= MAX_NAME_BYTES, name, f"have at most {MAX_NAME_BYTES} bytes", value)
    return str(value)


def printable(value: str, name: str) -> str:
    """A text without control characters and lone surrogates, which terminals and files cannot hold."""
    fits = all(unicodedata.category(c) not in ("Cc", "Cs") for c in value)
    require(fits, name, "have no control characters", value)
    return value


def suggestion(word: str, names: Iterable[str]) -> str:
    """The name that is closest to an unknown word, or all of them, as the end of a message."""
    names = list(names)
    if not isinstance(word, str):
        return f"choose from {', '.join(names)}"
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), lower, 1)
    if close:
        return f"did you mean {lower[close[0]]!r}?"
    return f"choose from {', '.join(names)}" if names else "there are none to choose from"


def check_fields(value: object) -> None:
    """Raise unless each field fits its annotation: ``Annotated[type, guard]``, `Literal`, `bool`, or ``| None``."""
    for name, guard in field_guards(type(value)):
        guard(getattr(value, name), name)


def field_guards(kind: type) -> tuple[tuple[str, Guard], ...]:
    """The names of a dataclass's fields that have a guard, with it; raises if an annotation cannot be resolved.

    They are kept with the class, and so reach worker processes with one that travels by value, whose module is not
    there to resolve annotations in.
    """
    if GUARDS not in vars(kind):
        guards = ((name, _guard_of_hint(hint)) for name, hint in _field_hints(kind).items())
        setattr(kind, GUARDS, tuple((name, guard) for name, guard in guards if guard is not None))
    found: tuple[tuple[str, Guard], ...] = vars(kind)[GUARDS]
    return found


def _field_hints(kind: type) -> dict[str, Any]:
    """The resolved annotations of a dataclass's fields; those of class variables need not be resolvable."""
    hints: dict[str, Any] = {}
    for entry in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        # The class that declared the field is the last of those that have it, and the one whose module has the names.
        owner = [base for base in kind.__mro__ if vars(base).get(FIELDS, {}).get(entry.name) is entry][-1]
        annotated = type(owner.__name__, (), {"__annotations__": {entry.name: entry.type}})
        try:
            hints |= get_type_hints(annotated, dict(vars(owner)), _global_names(owner), include_extras=True)
        except Exception as error:
            annotation = entry.type if isinstance(entry.type, str) else shown(entry.type)
            raise InvalidTypeError(
                f"{kind.__name__}.{entry.name}: the annotation {annotation} must be made of names that the module of "
                f"{owner.__name__} defines when it runs, or the values of the field cannot be checked; got "
                f"{type(error).__name__}: {error}"
            ) from error
    return hints


def _global_names(kind: type) -> dict[str, Any]:
    """The global names of the module that defines a class; through its functions where no such module is registered."""
    if kind.__module__ in sys.modules:
        return vars(sys.modules[kind.__module__])
    functions = (value for value in vars(kind).values() if isinstance(value, types.FunctionType))
    return next((f.__globals__ for f in functions if f.__globals__.get("__name__") == kind.__module__), {})


def _guard_of_hint(hint: Any) -> Guard | None:
    kind, parts = get_origin(hint), get_args(hint)
    if hint is bool:
        return flag
    if kind is Annotated:
        return next(filter(callable, parts[1:]), None)
    if kind is Literal:
        return lambda value, name: one_of(value, name, parts)
    if kind in (Union, types.UnionType) and len(parts) == 2 and types.NoneType in parts:
        guard = _guard_of_hint(parts[0] if parts[1] is types.NoneType else parts[1])
        return guard and (lambda value, name: value is None or guard(value, name))
    return None


GIB = 2**30


def machine_bytes() -> float:
    """Bytes of memory of this machine, free or not: no decision should depend on how many are free."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 4e9


def check_fits(needed: float, **sizes: int) -> None:
    """Raise an error that names the largest of the sizes if `needed` bytes do not fit into memory."""
    available = machine_bytes()
    if needed > available:
        needed = min(needed, 10**300)  # beyond, a float cannot hold it
        name = max(sizes, key=lambda key: sizes[key])
        others = ", ".join(f"{key} = {shown(value)}" for key, value in sizes.items() if key != name)
        with_others = f" (with {others})" if others else ""
        raise InvalidValueError(
            f"{name} = {shown(sizes[name])} is too much{with_others}: {needed / GIB:.3g} GiB are needed, "
            f"and this machine has {available / GIB:.3g}; make it smaller"
        )
