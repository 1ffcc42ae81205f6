"""The state of an object as arrays and plain data, and back: what saving, copying and pickling a learner rest on.

Whatever can change while a learner plays is its state: the arrays, numbers, texts and generators among its attributes,
those of the objects that it holds, and so on. What cannot change is not: frozen dataclasses (policies, schedules),
functions, and classes marked `@stateless` (problems, action sets). State is restored into an object made by the same
call as the one it was taken from, array by array in place, so that arrays which share memory go on sharing it.

State that does not fit the object is refused with the name of the attribute: every attribute must be there after
`__init__`, an array must have the shape and dtype that it has there, and NaN and infinity are allowed where they are in
it there. A class says what is otherwise:

- ``prepare_restore(self, saved)`` makes the parts that an object makes only when they are needed;
- ``changes_shape`` names attributes whose arrays change their shape while a learner plays, not the number of axes;
- ``may_be_nan`` names attributes with arrays in which NaN comes up later;
- ``check_restored(self)`` raises an error of adadim for values, restored by then, that do not fit each other.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from adadim.core.arrays import as_numpy, is_array, is_read_only, like
from adadim.errors import InvalidTypeError, InvalidValueError

T = TypeVar("T")

TakenState = tuple[Any, dict[str, np.ndarray[Any, Any]]]
"""A tree of plain data, and the arrays that it names."""

_STATELESS: set[type] = set()

PLAIN = (str, int, float, bool, type(None))
NUMBERS = (int, float, np.number, np.bool)
LARGEST_POSITION = {"buffer_pos": 4, "pos": 624, "has_uint32": 1}  # of NumPy's bit generators, which do not check it


def stateless(kind: type[T]) -> type[T]:
    """Mark a class whose objects never change, and are made again with a learner."""
    _STATELESS.add(kind)
    return kind


def take_state(root: object) -> TakenState:
    """State of an object."""
    taker = _Taker()
    return taker.take(root, type(root).__name__), taker.arrays


def restore_state(root: object, state: TakenState) -> None:
    """Put `root` into a state; it must have been made by the same call as the object that the state was taken from."""
    tree, arrays = state
    _Restorer({name: array.copy() for name, array in arrays.items()}).restore(root, tree, type(root).__name__)


def check_positions(owner: object, **counts: int) -> None:
    """Refuse integer arrays, by their names, that have anything outside 0..count-1: for `check_restored` methods."""
    for name, count in counts.items():
        values = as_numpy(getattr(owner, name))
        if values.size and not (values.min() >= 0 and values.max() < count):
            wrong = values[(values < 0) | (values >= count)][0]
            raise InvalidValueError(f"{type(owner).__name__}.{name} must be in 0..{count - 1}, got {wrong}")


def _has_no_state(value: object) -> bool:
    if dataclasses.is_dataclass(value) and getattr(value, "__dataclass_params__").frozen:  # noqa: B009 (mypy)
        return True
    callables = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
    return isinstance(value, (*callables, Enum)) or any(kind in _STATELESS for kind in type(value).__mro__)


def _listed(state: Any) -> Any:
    """State of a bit generator with its arrays as dicts of their type and values, which JSON can hold."""
    if isinstance(state, dict):
        return {key: _listed(value) for key, value in state.items()}
    if isinstance(state, np.ndarray):
        return {"dtype": str(state.dtype), "values": state.tolist()}
    return state


def _unlisted(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    if state.keys() == {"dtype", "values"}:
        return np.array(state["values"], dtype=state["dtype"])
    return {key: _unlisted(value) for key, value in state.items()}


def saved_keys(tree: Any) -> list[Any]:
    """Keys of a dict, or positions in a list that are not None, in a saved state: for `prepare_restore` methods."""
    ((kind, content),) = tree.items()
    if kind == "dict":
        return [key for key, _ in content]
    return [i for i, item in enumerate(content) if item is not None]


class _Taker:
    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.seen: dict[int, object] = {}  # objects met so far, by id; kept so that no other gets their id

    def take(self, value: Any, path: str) -> Any:
        """`value` as JSON can hold it; dicts of one key stand for what is not plain."""
        if isinstance(value, PLAIN) and not isinstance(value, Enum):
            return value
        if isinstance(value, np.generic):
            return self.take(value.item(), path)
        if is_array(value):
            if getattr(value.dtype, "hasobject", False):
                raise InvalidTypeError(f"{path} is an array of Python objects, which cannot be saved")
            name = str(len(self.arrays))
            self.arrays[name] = as_numpy(value).copy()
            return {"array": name}
        if _has_no_state(value):
            return {"stateless": type(value).__name__}
        if id(value) in self.seen:
            return {"again": type(value).__name__}
        self.seen[id(value)] = value
        if isinstance(value, list | tuple | set | frozenset):
            kind = "list" if isinstance(value, list) else "tuple" if isinstance(value, tuple) else "set"
            return {kind: [self.take(item, f"{path}[{i}]") for i, item in enumerate(value)]}
        if isinstance(value, dict):
            pairs = value.items()
            return {"dict": [[self.take(k, path), self.take(v, f"{path}[{k!r}]")] for k, v in pairs]}
        if isinstance(value, np.random.Generator):
            return {"generator": _listed(value.bit_generator.state)}
        if not hasattr(value, "__dict__"):
            raise InvalidTypeError(f"{path} is a {type(value).__name__}, which cannot be saved")
        parts = vars(value).items()
        return {"object": {name: self.take(part, f"{path}.{name}") for name, part in parts}}


class _Restorer:
    def __init__(self, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.arrays = arrays

    def restore(self, target: Any, tree: Any, where: str, may: frozenset[str] = frozenset()) -> Any:
        """Put `target` into the state and return it, or return a new value in its place.

        A target of None stands for whatever comes: nothing is known of it before. `may` has "change shape" and "be nan"
        where the class says so of this attribute.
        """
        if not isinstance(tree, dict):
            return self.restore_plain(target, tree, where)
        ((kind, content),) = tree.items()
        if kind in ("stateless", "again"):
            if type(target).__name__ != content:
                raise InvalidTypeError(f"{where} must be a {type(target).__name__}, got a {content}")
            return target
        if kind == "array":
            return self.restore_array(target, content, where, may)
        return RESTORERS[kind](self, target, content, where, may)

    def restore_plain(self, target: Any, value: Any, where: str) -> Any:
        fits = isinstance(value, PLAIN) and (
            target is None
            or (isinstance(target, NUMBERS) and (value is None or isinstance(value, NUMBERS)))
            or (isinstance(target, str) and (value is None or isinstance(value, str)))
        )
        if not fits:
            raise InvalidTypeError(f"{where} must be {_kind_of_value(target)}, got {_kind_of_value(value)}")
        if isinstance(value, float) and target is not None and (odd := _not_finite(value) - _not_finite(target)):
            raise InvalidValueError(f"{where} must be finite, as it is at the start, and is {min(odd)}")
        return value

    def restore_array(self, target: Any, name: str, where: str, may: frozenset[str]) -> Any:
        saved = self.arrays[name]
        if saved.dtype.kind not in "biuf":
            raise InvalidTypeError(f"{where} must be an array of numbers, got one of {saved.dtype}")
        odd = _not_finite(saved) - ({"NaN"} if "be nan" in may else set())
        if target is None:
            if odd:
                raise InvalidValueError(f"{where} must be finite, and has {min(odd)}")
            return saved
        if not is_array(target):
            raise InvalidTypeError(f"{where} must be {_kind_of_value(target)}, got an array")
        if str(target.dtype).removeprefix("torch.") != str(saved.dtype):
            raise InvalidTypeError(f"{where} must be an array of {target.dtype}, as at the start, got {saved.dtype}")
        same_shape = tuple(target.shape) == saved.shape
        if not same_shape and (target.ndim != saved.ndim or "change shape" not in may):
            raise InvalidValueError(
                f"{where} must have the shape {tuple(target.shape)}, as at the start, got {saved.shape}; an array that "
                "grows is named in changes_shape of its class, or is a list"
            )
        if odd and (odd := odd - _not_finite(as_numpy(target))):
            raise InvalidValueError(f"{where} must be finite, as it is at the start, and has {min(odd)}")
        if not same_shape:
            return like(saved, target)
        if is_read_only(target):  # a part of the problem, unless something took its place
            return target if np.array_equal(saved, target) else saved
        target[...] = like(saved, target)
        return target

    def restore_list(self, target: Any, content: list[Any], where: str, may: frozenset[str]) -> Any:
        _expect(list, target, where)
        if target is None:
            return [self.restore(None, item, f"{where}[{i}]", may) for i, item in enumerate(content)]
        pattern = target[0] if target and is_array(target[0]) else None  # it says which library new arrays belong to
        for i, item in enumerate(content):
            restored = self.restore(target[i] if i < len(target) else None, item, f"{where}[{i}]", may)
            if i < len(target):
                target[i] = restored
            else:
                target.append(restored if pattern is None or not is_array(restored) else like(restored, pattern))
        del target[len(content) :]
        return target

    def restore_tuple(self, target: Any, content: list[Any], where: str, may: frozenset[str]) -> Any:
        _expect(tuple, target, where)
        parts = target if target is not None and len(target) == len(content) else [None] * len(content)
        pairs = enumerate(zip(parts, content, strict=True))
        return tuple(self.restore(part, item, f"{where}[{i}]", may) for i, (part, item) in pairs)

    def restore_set(self, target: Any, content: list[Any], where: str, may: frozenset[str]) -> Any:
        _expect((set, frozenset), target, where)
        return {self.restore(None, item, where) for item in content}

    def restore_dict(self, target: Any, content: list[Any], where: str, may: frozenset[str]) -> Any:
        _expect(dict, target, where)
        target = {} if target is None else target
        pairs = [(self.restore(None, key, where), item) for key, item in content]
        restored = {key: self.restore(target.get(key), item, f"{where}[{key!r}]", may) for key, item in pairs}
        target.clear()
        target.update(restored)
        return target

    def restore_generator(self, target: Any, content: Any, where: str, may: frozenset[str]) -> Any:
        if not isinstance(target, np.random.Generator):
            raise InvalidTypeError(f"{where} must be {_kind_of_value(target)}, got a random number generator")
        if not _is_state_like(content, _listed(target.bit_generator.state)):
            raise InvalidValueError(f"{where} must be the state of a {type(target.bit_generator).__name__}")
        target.bit_generator.state = _unlisted(content)
        return target

    def restore_object(self, target: Any, content: dict[str, Any], where: str, may: frozenset[str]) -> Any:
        kind = type(target)
        leeway = {"change shape": getattr(kind, "changes_shape", ()), "be nan": getattr(kind, "may_be_nan", ())}
        if target is None or is_array(target) or not hasattr(target, "__dict__"):
            raise InvalidTypeError(f"{where} must be {_kind_of_value(target)}, got an object")
        if hasattr(target, "prepare_restore"):
            target.prepare_restore(content)
        for name in content:
            if name not in vars(target) and not _is_set_later(kind, name):  # it would be lost, or never looked at
                raise InvalidTypeError(
                    f"a {kind.__name__} has no attribute {name!r} when it is made: set it in __init__"
                )
        if lacking := vars(target).keys() - content.keys():
            raise InvalidTypeError(f"{where} lacks the attribute {min(lacking)!r}")
        for name, item in content.items():
            may = frozenset(what for what, names in leeway.items() if name in names)
            setattr(target, name, self.restore(getattr(target, name, None), item, f"{where}.{name}", may))
        if hasattr(target, "check_restored"):
            target.check_restored()
        return target


RESTORERS: dict[str, Any] = {
    "list": _Restorer.restore_list,
    "tuple": _Restorer.restore_tuple,
    "set": _Restorer.restore_set,
    "dict": _Restorer.restore_dict,
    "generator": _Restorer.restore_generator,
    "object": _Restorer.restore_object,
}


def _expect(kind: type | tuple[type, ...], target: Any, where: str) -> None:
    if target is not None and not isinstance(target, kind):
        noun = kind.__name__ if isinstance(kind, type) else kind[0].__name__
        raise InvalidTypeError(f"{where} must be {_kind_of_value(target)}, got a {noun}")


def _not_finite(values: Any) -> set[str]:
    """Which of NaN and infinity are in an array, or a number is."""
    if np.isfinite(values).all():
        return set()
    found = {"NaN": np.isnan(values), "infinity": np.isinf(values)}
    return {name for name, where in found.items() if where.any()}


def _kind_of_value(value: Any) -> str:
    return "an array" if is_array(value) else "None" if value is None else f"a {type(value).__name__}"


def _is_set_later(kind: type, name: str) -> bool:
    """Whether a class has a place for an attribute that its objects need not have: a default, or a cached value."""
    attribute = inspect.getattr_static(kind, name, kind)
    return isinstance(attribute, cached_property) or (isinstance(attribute, PLAIN) and not name.startswith("__"))


def _is_state_like(saved: Any, fresh: Any, name: str = "") -> bool:
    """Whether the state of a bit generator has the parts of another, with numbers that NumPy can take."""
    if isinstance(fresh, dict):
        same_keys = isinstance(saved, dict) and saved.keys() == fresh.keys()
        return same_keys and all(_is_state_like(saved[key], fresh[key], key) for key in fresh)
    if isinstance(fresh, list):
        return isinstance(saved, list) and len(saved) == len(fresh) and all(map(_is_state_like, saved, fresh))
    if isinstance(fresh, int):
        most = LARGEST_POSITION.get(name, 2**128 - 1)
        return isinstance(saved, int) and not isinstance(saved, bool) and 0 <= saved <= most
    return bool(saved == fresh)
