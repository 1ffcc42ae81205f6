"""The state of an object as arrays and plain data, and back: what saving, copying and pickling a learner rest on.

Whatever can change while a learner plays is its state: the arrays, numbers, texts and generators among its attributes,
those of the objects that it holds, and so on. What cannot change is not: frozen dataclasses (policies, schedules),
functions, and classes marked `@unchanging` (problems, action sets). State is restored into an object made by the same
call as the one it was taken from, array by array in place, so that arrays which share memory go on sharing it. An
object that makes some of its parts only when they are needed has a method `prepare_restore`, which makes them.
"""

from __future__ import annotations

import dataclasses
import types
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from adadim.core.arrays import as_numpy, is_array, is_numpy, like
from adadim.errors import InvalidTypeError

T = TypeVar("T")

State = tuple[Any, dict[str, np.ndarray[Any, Any]]]
"""A tree of plain data, and the arrays that it names."""

_UNCHANGING: set[type] = set()

PLAIN = (str, int, float, bool, type(None))


def unchanging(kind: type[T]) -> type[T]:
    """Mark a class whose objects never change, and are made again with a learner."""
    _UNCHANGING.add(kind)
    return kind


def take_state(root: object) -> State:
    """State of an object."""
    taker = _Taker()
    return taker.take(root, type(root).__name__), taker.arrays


def restore_state(root: object, state: State) -> None:
    """Put `root` into a state; it must have been made by the same call as the object that the state was taken from."""
    tree, arrays = state
    _Restorer({name: array.copy() for name, array in arrays.items()}).restore(root, tree)


def _has_no_state(value: object) -> bool:
    if dataclasses.is_dataclass(value) and getattr(value, "__dataclass_params__").frozen:  # noqa: B009 (mypy)
        return True
    callables = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
    return isinstance(value, (*callables, Enum)) or any(kind in _UNCHANGING for kind in type(value).__mro__)


def _listed(state: Any) -> Any:
    """State of a bit generator with its arrays as dicts of their type and values, which JSON can hold."""
    if isinstance(state, dict):
        return {key: _listed(value) for key, value in state.items()}
    if is_numpy(state):
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
            if is_numpy(value) and value.dtype.hasobject:
                raise InvalidTypeError(f"{path} is an array of Python objects, which cannot be saved")
            name = str(len(self.arrays))
            self.arrays[name] = as_numpy(value).copy()
            return {"array": name}
        if _has_no_state(value):
            return {"unchanging": type(value).__name__}
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

    def restore(self, target: Any, tree: Any) -> Any:
        """Put `target` into the state and return it, or return a new value in its place."""
        if not isinstance(tree, dict):
            return tree
        ((kind, content),) = tree.items()
        if kind in ("unchanging", "again"):
            return target
        return getattr(self, f"restore_{kind}")(target, content)

    def restore_array(self, target: Any, name: str) -> Any:
        saved = self.arrays[name]
        if not is_array(target):
            return saved
        if tuple(target.shape) != saved.shape:
            return like(saved, target)
        if is_numpy(target) and not target.flags.writeable:  # a part of the problem, unless something took its place
            return target if np.array_equal(saved, target) else saved
        target[...] = like(saved, target)
        return target

    def restore_list(self, target: Any, content: list[Any]) -> Any:
        if not isinstance(target, list):
            return [self.restore(None, item) for item in content]
        pattern = target[0] if target else None  # an array says which library new ones belong to
        target[:] = [
            self.restore(target[i] if i < len(target) else pattern if is_array(pattern) else None, item)
            for i, item in enumerate(content)
        ]
        return target

    def restore_tuple(self, target: Any, content: list[Any]) -> Any:
        parts = target if isinstance(target, tuple) and len(target) == len(content) else [None] * len(content)
        return tuple(self.restore(part, item) for part, item in zip(parts, content, strict=True))

    def restore_set(self, target: Any, content: list[Any]) -> Any:
        return {self.restore(None, item) for item in content}

    def restore_dict(self, target: Any, content: list[Any]) -> Any:
        target = target if isinstance(target, dict) else {}
        pairs = [(self.restore(None, key), item) for key, item in content]
        restored = {key: self.restore(target.get(key), item) for key, item in pairs}
        target.clear()
        target.update(restored)
        return target

    def restore_generator(self, target: Any, content: Any) -> Any:
        target.bit_generator.state = _unlisted(content)
        return target

    def restore_object(self, target: Any, content: dict[str, Any]) -> Any:
        if hasattr(target, "prepare_restore"):
            target.prepare_restore(content)
        for name, item in content.items():
            if name not in vars(target) and not hasattr(type(target), name):  # by another version: it would be lost
                raise InvalidTypeError(f"a {type(target).__name__} has no attribute {name!r}")
            setattr(target, name, self.restore(getattr(target, name, None), item))
        return target
