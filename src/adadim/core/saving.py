"""Learners in files: an npz archive of arrays and one JSON text, the header; reading it runs no code from the file.

The header names the arrays, and has a digest over itself and them. What it does not name is not read, nor is what would
take more memory than the file has bytes. Shapes, dtypes and values are compared with those of a learner just started
when the state is restored (see `state`): a digest finds damage, but whoever forges a file can compute a new one.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from adadim.core.arrays import as_numpy
from adadim.core.checks import shown
from adadim.core.codec import Kinds, from_table, is_deeper, parts_of, to_table
from adadim.core.files import explained, open_regular, write_atomic
from adadim.core.problem import NEVER_ARRIVES, Problem
from adadim.core.state import TakenState
from adadim.errors import AdadimError, FileError, InvalidValueError

LEARNER_FORMAT = 3
"""Version of the files: raise it when a release changes what a learner keeps or what it means."""

HEADER = "json"
MAX_HEADER_BYTES = 2**28  # of 1000 replications, LinUCB needs half a megabyte and UCBCorral ten
MAX_NPY_HEADER = 10_000  # bytes of what npy says about an array
MAX_HEADER_DEPTH = 200  # tables and lists in each other; LinUCB needs 11, and 6 more for each policy around it


def write_learner(path: Path, policy: Any, problem: Problem, state: TakenState) -> None:
    """Write the state of a learner of `policy` on `problem`, completely or not at all."""
    if policy is None:
        raise InvalidValueError("only a learner made by policy.start(problem) can be saved")
    tree, arrays = state
    header = {
        "made_by": "adadim",
        "holds": "learner",
        "format": LEARNER_FORMAT,
        "adadim": version("adadim"),
        "policy": _policy_table(policy),
        "policy_text": repr(policy),
        "problem": fingerprint(problem),
        "state": tree,
        "arrays": _array_kinds(arrays),
    }
    if is_deeper(header, MAX_HEADER_DEPTH):
        raise InvalidValueError(f"{path}: a learner whose objects hold each other to such a depth cannot be saved")
    header["digest"] = learner_digest(header, arrays)
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    if text.size > MAX_HEADER_BYTES:
        raise InvalidValueError(
            f"{path}: a learner whose state besides its arrays has {text.size} bytes cannot be saved"
        )
    np.savez(buffer, allow_pickle=False, **{HEADER: text}, **{f"a{name}": array for name, array in arrays.items()})
    write_atomic(path, buffer.getvalue())


def read_learner(path: Path, problem: Problem, policy: Any, kinds: Kinds) -> tuple[Any, TakenState]:
    """Policy and state in a file that `write_learner` wrote for this very problem; `policy` if the file has none."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            header = _header(path, _member(archive, HEADER, MAX_HEADER_BYTES))
            arrays = _arrays(archive, _array_names(header["state"]), os.fstat(file.fileno()).st_size)
    except FileError:
        raise
    except OSError as error:
        raise explained(error, path) from error
    except Exception as error:  # damaged bytes end in whatever the readers of zip, npy and deflate raise
        raise FileError(f"{path}: damaged, or not a file that a learner was saved to ({error})") from error
    if header.get("digest") != learner_digest(header, arrays):
        raise FileError(f"{path}: damaged: its content does not agree with its digest")
    if header["arrays"] != _array_kinds(arrays):
        raise FileError(f"{path}: damaged: its arrays have other shapes or types than it says")
    for key, value in fingerprint(problem).items():
        if header["problem"].get(key) != value:
            raise FileError(
                f"{path}: was saved on another problem: {key} was {header['problem'].get(key)}, and is {value} here"
            )
    return _policy_of_file(path, header, policy, kinds), (header["state"], arrays)


def learner_digest(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """SHA-256 over a header, without its digest, and the arrays with their names, types and shapes."""
    content = {key: value for key, value in header.items() if key != "digest"}
    found = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        found.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _array_kinds(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, list[Any]]:
    """Type and shape of arrays: of some, those of open decisions among them, a learner does not know them before."""
    return {name: [array.dtype.str, *array.shape] for name, array in arrays.items()}


def _arrays(archive: zipfile.ZipFile, wanted: set[str], size: int) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of these names, together no larger than the file."""
    arrays = {}
    for name in sorted(wanted):
        arrays[name] = _member(archive, f"a{name}", size)
        size -= arrays[name].nbytes
    return arrays


def _member(archive: zipfile.ZipFile, name: str, most: int) -> np.ndarray[Any, Any]:
    """An array of the archive, of at most so many bytes, which are compared with its shape before they are read."""
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise ValueError(f"it has no array {name[:20]!r}") from None
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > most + MAX_NPY_HEADER:
        raise ValueError(f"its array {name[:20]!r} is compressed or too large")
    with archive.open(info) as member:
        data = io.BytesIO(member.read())
    if np.lib.format.read_magic(data) != (1, 0):
        raise ValueError("an array of another version of npy")
    shape, in_columns, dtype = np.lib.format.read_array_header_1_0(data, max_header_size=MAX_NPY_HEADER)
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(data.getbuffer()) - data.tell():
        raise ValueError(f"the bytes of its array {name[:20]!r} do not fit its shape and type")
    return np.ndarray(shape, dtype, data.getbuffer(), data.tell(), order="F" if in_columns else "C")


def _policy_of_file(path: Path, header: dict[str, Any], policy: Any, kinds: Kinds) -> Any:
    """The policy that a file names, of one of `kinds`, or the one of the caller, checked against the file."""
    written = header["policy_text"]
    if policy is not None:
        if repr(policy) != written and header["policy"] is not None:
            raise FileError(f"{path}: was saved by {written}, not by {policy!r}")
        return policy
    if header["policy"] is None:
        raise FileError(
            f"{path}: its policy holds a function, which no file can; give the policy itself: "
            f"load(path, problem, policy=...), which was {written}"
        )
    try:
        return from_table(header["policy"], kinds)
    except AdadimError as error:
        raise FileError(f"{path}: {error}") from error


def fingerprint(problem: Problem) -> dict[str, Any]:
    """The properties that tell one problem from another, as plain data."""
    ranges = problem.reward_range
    properties = {
        "library": "NumPy" if problem.on_host else "torch",
        "arms": problem.arms,
        "dim": problem.dim,
        "horizon": None if problem.endless else problem.horizon,
        "noise": problem.noise if problem.noise_known else None,
        "reward_range": None if ranges is None else np.asarray(ranges).tolist(),
        "replications": list(problem.replications),
    }
    if problem.column_levels is not None:
        properties["column_levels"] = [problem.levels, list(problem.column_levels.ranks)]
    if problem.contextual:
        return properties | {
            "features": "those of each round" if not problem.disjoint else "contexts, a model for each arm"
        }
    features = np.ascontiguousarray(as_numpy(problem.actions.base))
    if problem.growing:
        properties["arrives"] = problem.arrives.tolist()
        # Arms that a learner was given while it played are part of its state.
        features = np.where(problem.arrives[:, : problem.actions.base_arms, None] < NEVER_ARRIVES, features, 0.0)
    digest = hashlib.sha256(features.tobytes()).hexdigest()[:20]
    return properties | {"levels": list(problem.actions.levels), "features": digest}


def _policy_table(policy: Any) -> dict[str, Any] | None:
    """The policy as plain data, or None if it holds a function: loading then needs the policy as an argument."""
    try:
        table: dict[str, Any] = to_table(policy)
        json.dumps(table)
    except (AdadimError, TypeError):
        return None
    return table


def _header(path: Path, text: np.ndarray[Any, Any]) -> dict[str, Any]:
    try:
        header = json.loads(text.tobytes())
        too_deep = is_deeper(header, MAX_HEADER_DEPTH)
    except RecursionError:
        too_deep = True
    if too_deep:
        raise FileError(f"{path}: damaged: its description has more than {MAX_HEADER_DEPTH} nested tables")
    if not isinstance(header, dict) or header.get("made_by") != "adadim" or header.get("holds") != "learner":
        raise FileError(f"{path}: not a file that a learner was saved to")
    if header.get("format") != LEARNER_FORMAT:
        raise FileError(
            f"{path}: a learner in format {shown(header.get('format'))}, saved by adadim {header.get('adadim')!s:.20}, "
            f"but adadim {version('adadim')} reads format {LEARNER_FORMAT}; "
            "load it with that version, or play its pulls again"
        )
    tables = [header.get(key) for key in ("problem", "state", "arrays")]
    if not {"policy", "policy_text"} <= header.keys() or not all(isinstance(table, dict) for table in tables):
        raise FileError(f"{path}: damaged: its description is incomplete")
    return header


def _array_names(tree: Any) -> set[str]:
    """Names of the arrays in a tree."""
    if isinstance(tree, dict) and tree.keys() == {"array"}:
        return {str(tree["array"])}
    return set().union(*map(_array_names, parts_of(tree))) if isinstance(tree, dict | list) else set()
