"""Logs of other systems, to learn from, and an agent's own, for others to read."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adadim.agent.log import Decision, as_bytes
from adadim.agent.requests import LARGEST, checked_name, listed
from adadim.core.arrays import FloatArray
from adadim.core.checks import is_number, shown
from adadim.core.files import as_path, explained
from adadim.core.frames import Table, is_missing
from adadim.errors import InvalidTypeError, InvalidValueError


class LoggedRows(NamedTuple):
    """What another system decided and earned: features (n, d), rewards (n,), and the rest where it is known."""

    features: FloatArray
    rewards: list[float]
    arms: list[str | None]
    probabilities: list[float | None]
    times: list[float | None]

    def digest(self) -> bytes:
        """What tells one log from another."""
        made = hashlib.blake2b(as_bytes(self.features) + as_bytes(self.rewards), digest_size=16)
        made.update(repr((self.arms, self.times)).encode())
        return made.digest()


def read_log(log: Any, dim: int) -> LoggedRows:
    """Rows of a log in any of the forms that `Agent.learn` takes."""
    if isinstance(log, tuple) and len(log) == 2:
        return _checked(*log, dim, {})
    table = _table(log)
    columns = {str(name): table.frame[name] for name in table.names}
    if "reward" not in columns:
        raise InvalidValueError(f"a log needs the column 'reward'; this one has {', '.join(sorted(columns))}")
    rewards = _numbers(_listed(columns["reward"]), "reward", optional=True)
    kept = np.flatnonzero(~np.isnan(rewards))
    rest: dict[str, list[Any]] = {}
    for name in ("features", "arm", "probability", "time"):
        if name in columns:
            values = _listed(columns[name])
            rest[name] = [values[i] for i in kept.tolist()]
    if "features" in rest:
        rows = rest["features"]
    else:
        wanted = [f"x{j}" for j in range(1, dim + 1)]
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise InvalidValueError(
                f"a log needs the column 'features', lists of {dim} numbers, or x1 to x{dim}; {missing[0]} is missing"
            )
        rows = list(np.stack([_numbers(_listed(columns[name]), name)[kept] for name in wanted], axis=1))
    return _checked(rows, rewards[kept], dim, rest)


def write_log(path: Path, batches: Iterable[Sequence[Decision]]) -> Path:
    """Write what `Log.decisions` gives to a Parquet file, whole or not at all, a batch in memory at a time."""
    import polars as pl

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{path.name}.", suffix=".tmp", dir=path.parent) as folder:
            parts: list[Path] = []
            for decisions in batches:
                parts.append(Path(folder, f"{len(parts):06d}.parquet"))
                _frame(decisions).write_parquet(parts[-1])
            if not parts:
                parts.append(Path(folder, "none.parquet"))
                _frame([]).write_parquet(parts[-1])
            whole = Path(folder, "whole.parquet")
            pl.scan_parquet(parts, glob=False).sink_parquet(whole)
            with open(whole, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(whole, path)
    except OSError as failure:
        raise explained(failure, path) from failure
    return path


def _frame(decisions: Sequence[Decision]) -> Any:
    import polars as pl

    rounds = [one.asked for one in decisions]
    contexts = [None if asked is None else asked.context for asked in rounds]
    numbers = pl.List(pl.Float64)
    columns: dict[str, tuple[list[Any], Any]] = {
        "decision": ([one.number for one in decisions], pl.Int64),
        "time": ([one.time for one in decisions], pl.Float64),
        "arm": ([one.arm for one in decisions], pl.String),
        "features": ([one.features.tolist() for one in decisions], numbers),
        "reward": ([one.reward for one in decisions], pl.Float64),
        "probability": ([one.probability for one in decisions], pl.Float64),
        "policy": ([one.policy for one in decisions], pl.Int64),
        "slate": ([one.slate for one in decisions], pl.Int64),
        "context": ([None if context is None else context.tolist() for context in contexts], numbers),
        "offered": ([None if asked is None else asked.names for asked in rounds], pl.List(pl.String)),
        "offered_features": ([None if asked is None else asked.own.ravel().tolist() for asked in rounds], numbers),
        "design": ([None if asked is None else asked.description for asked in rounds], pl.String),
    }
    return pl.DataFrame([pl.Series(name, values, kind) for name, (values, kind) in columns.items()])


def _table(log: Any) -> Table:
    """A log as a table, whatever it comes in."""
    if isinstance(log, str | Path):
        log = as_path(log, "log")
    elif isinstance(log, Mapping):
        log = {name: list(values) for name, values in log.items()}
    elif not hasattr(log, "columns"):
        records = listed(log)
        if records is None:
            raise InvalidTypeError(
                f"a log must be a DataFrame, a path, a sequence of dicts, or features and rewards, got {shown(log)}"
            )
        for record in records:
            if not isinstance(record, Mapping):
                raise InvalidTypeError(f"a record of a log must be a dict, got {shown(record)}")
        if not records:
            raise InvalidValueError("the log has no row with a reward")
        log = records
    return Table(log, "the log", (".parquet", ".csv", ".ndjson"))


def _listed(column: Any) -> Sequence[Any]:
    values: Sequence[Any] = column.to_list() if hasattr(column, "to_list") else list(column)
    return values


def _numbers(values: Sequence[Any], name: str, optional: bool = False) -> FloatArray:
    """A column of numbers; None is NaN where values are optional."""
    found = []
    for row, value in enumerate(values):
        missing = is_missing(value)
        if (missing and not optional) or not (missing or is_number(value) or isinstance(value, bool)):
            raise InvalidValueError(
                f"column {name!r} of the log must hold numbers, but row {row + 1} has {shown(value)}"
            )
        found.append(np.nan if missing else float(value))
    return np.array(found, dtype=np.float64)


def _checked(features: Any, rewards: Any, dim: int, rest: Mapping[str, list[Any]]) -> LoggedRows:
    gained = _numbers(np.asarray(rewards).tolist() if hasattr(rewards, "tolist") else list(rewards), "reward")
    try:
        rows = np.asarray([np.asarray(row) for row in features])
    except ValueError:
        rows = np.empty(0, dtype=object)
    if not len(gained):
        raise InvalidValueError("the log has no row with a reward")
    if rows.shape != (len(gained), dim) or rows.dtype.kind not in "iuf":
        raise InvalidValueError(
            f"the log's features must be {dim} numbers in each of {len(gained)} rows, got "
            f"{shown(features[0]) if len(features) else 'none'} in the first"
        )
    x = rows.astype(np.float64)
    good = (np.abs(gained) <= LARGEST) & (np.abs(x) <= LARGEST).all(axis=1)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise InvalidValueError(
            f"rewards and features of the log must be finite and at most {LARGEST:g} in size, but row {bad + 1} is not"
        )
    nothing: list[Any] = [None] * len(gained)
    probabilities = [_optional(p, "probability") for p in rest.get("probability", nothing)]
    for p in probabilities:
        if p is not None and not 0 < p <= 1:
            raise InvalidValueError(f"probability must be in (0, 1], got {p}")
    times = [_optional(t, "time") for t in rest.get("time", nothing)]
    arms = [None if name is None else checked_name(str(name)) for name in rest.get("arm", nothing)]
    return LoggedRows(x, gained.tolist(), arms, probabilities, times)


def _optional(value: Any, name: str) -> float | None:
    number = float(_numbers([value], name, optional=True)[0])
    return None if np.isnan(number) else number
