"""Learners in files: an npz archive of arrays and one JSON text; reading it runs no code from the file."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from adadim.core.arrays import as_numpy, is_numpy
from adadim.core.codec import Kinds, from_table, to_table
from adadim.core.files import explained, write_atomic
from adadim.core.problem import NEVER_ARRIVES, Problem
from adadim.core.state import State
from adadim.errors import AdadimError, FileError, InvalidValueError

FORMAT = 2
"""Version of the files: raise it when a release changes what a learner keeps or what it means."""

HEADER = "json"


def write_learner(path: Path, policy: Any, problem: Problem, state: State) -> None:
    """Write the state of a learner of `policy` on `problem`, completely or not at all."""
    if policy is None:
        raise InvalidValueError("only a learner made by policy.start(problem) can be saved")
    tree, arrays = state
    header = {
        "made_by": "adadim",
        "holds": "learner",
        "format": FORMAT,
        "adadim": version("adadim"),
        "policy": _table(policy),
        "policy_text": repr(policy),
        "problem": fingerprint(problem),
        "state": tree,
    }
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(buffer, allow_pickle=False, **{HEADER: text}, **{f"a{name}": array for name, array in arrays.items()})
    write_atomic(path, buffer.getvalue())


def read_learner(path: Path, problem: Problem, policy: Any, kinds: Kinds) -> tuple[Any, State]:
    """Policy and state in a file that `write_learner` wrote for this very problem; `policy` if the file has none."""
    try:
        if path.is_file() and not zipfile.is_zipfile(path):
            raise FileError(f"{path}: damaged, or not a file that a learner was saved to")
        with np.load(path, allow_pickle=False) as archive:
            contents = {name: archive[name] for name in archive.files}
    except OSError as error:
        if error.errno is not None:
            raise explained(error, path) from error
        raise FileError(f"{path}: not a file that a learner was saved to") from error
    except FileError:
        raise
    except Exception as error:  # damaged bytes end in whatever the readers of zip, npy and deflate raise
        raise FileError(f"{path}: damaged, or not a file that a learner was saved to ({error})") from error
    header = _header(path, contents.pop(HEADER, None))
    for key, value in fingerprint(problem).items():
        if header["problem"].get(key) != value:
            raise FileError(
                f"{path}: was saved on another problem: {key} was {header['problem'].get(key)}, and is {value} here"
            )
    arrays = {name.removeprefix("a"): array for name, array in contents.items()}
    missing = sorted(_array_names(header["state"]) - arrays.keys())
    if missing:
        raise FileError(f"{path}: damaged: {len(missing)} of its arrays are missing")
    return _policy(path, header, policy, kinds), (header["state"], arrays)


def _policy(path: Path, header: dict[str, Any], policy: Any, kinds: Kinds) -> Any:
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
        "library": "NumPy" if is_numpy(problem.reference) else "torch",
        "arms": problem.arms,
        "dim": problem.dim,
        "horizon": None if problem.endless else problem.horizon,
        "noise": problem.noise if problem.noise_known else None,
        "reward_range": None if ranges is None else np.asarray(ranges).tolist(),
        "replications": list(problem.replications),
    }
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


def _table(policy: Any) -> dict[str, Any] | None:
    """The policy as plain data, or None if it holds a function: loading then needs the policy as an argument."""
    try:
        table: dict[str, Any] = to_table(policy)
        json.dumps(table)
    except (AdadimError, TypeError):
        return None
    return table


def _header(path: Path, text: np.ndarray[Any, Any] | None) -> dict[str, Any]:
    try:
        header = json.loads(text.tobytes()) if text is not None else None
    except ValueError as error:
        raise FileError(f"{path}: damaged ({error})") from error
    if not isinstance(header, dict) or header.get("made_by") != "adadim" or header.get("holds") != "learner":
        raise FileError(f"{path}: not a file that a learner was saved to")
    if header.get("format") != FORMAT:
        raise FileError(
            f"{path}: a learner in format {header.get('format')!r}, saved by adadim {header.get('adadim')}, but adadim "
            f"{version('adadim')} reads format {FORMAT}"
        )
    tables = [header.get(key) for key in ("problem", "state")]
    if not {"policy", "policy_text"} <= header.keys() or not all(isinstance(table, dict) for table in tables):
        raise FileError(f"{path}: damaged: its description is incomplete")
    return header


def _array_names(tree: Any) -> set[str]:
    """Names of the arrays in a tree."""
    if isinstance(tree, dict) and tree.keys() == {"array"}:
        return {tree["array"]}
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return set().union(*map(_array_names, parts))
