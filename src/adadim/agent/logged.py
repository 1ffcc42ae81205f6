"""Reading logs of other systems, to learn from, and writing the log of an agent to a file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adadim.agent.log import Decision, as_bytes
from adadim.agent.requests import LARGEST, as_list, checked_name
from adadim.core.arrays import FloatArray
from adadim.core.checks import is_number, shown
from adadim.core.files import as_path, explained, explained_writer, temporary_folder
from adadim.core.frames import LIST_COLUMNS, Table, is_missing
from adadim.errors import InvalidTypeError, InvalidValueError

EXPORT_KINDS = (".parquet", ".csv")


class LoggedRows(NamedTuple):
    """Decisions of another system: features (n, d), rewards (n,), and other columns, None where they are unknown."""

    features: FloatArray
    rewards: list[float]
    arms: list[str | None]
    probabilities: list[float | None]
    times: list[float | None]

    def digest(self) -> bytes:
        """Digest of the log, by which it is recognised when it is learned again."""
        digest = hashlib.blake2b(as_bytes(self.features) + as_bytes(self.rewards), digest_size=16)
        digest.update(repr((self.arms, self.times)).encode())
        return digest.digest()


def read_log(log: Any, dim: int) -> LoggedRows:
    """Rows of a log in any of the forms that `Agent.learn` takes."""
    if isinstance(log, tuple) and len(log) == 2:
        return _checked(*log, dim, {})
    table = _table(log)
    columns = {str(name): table.frame[name] for name in table.names}
    if "reward" not in columns:
        raise InvalidValueError(f"a log needs the column 'reward'; this one has {', '.join(sorted(columns))}")
    rewards = _numbers(_values(columns["reward"]), "reward", optional=True)
    with_reward = np.flatnonzero(~np.isnan(rewards))
    optional: dict[str, list[Any]] = {}
    for name in ("features", "arm", "probability", "time"):
        if name in columns:
            values = _values(columns[name])
            optional[name] = [values[i] for i in with_reward.tolist()]
    if "features" in optional:
        rows = optional["features"]
    else:
        wanted = [f"x{j}" for j in range(1, dim + 1)]
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise InvalidValueError(
                f"a log needs the column 'features', lists of {dim} numbers, or x1 to x{dim}; {missing[0]} is missing"
            )
        rows = list(np.stack([_numbers(_values(columns[name]), name)[with_reward] for name in wanted], axis=1))
    return _checked(rows, rewards[with_reward], dim, optional)


def write_log(path: Path, batches: Iterable[Sequence[Decision]]) -> Path:
    """Write what `Log.decisions` gives to a Parquet or CSV file, completely or not at all, with one batch in memory."""
    import polars as pl

    if path.suffix not in EXPORT_KINDS:
        raise InvalidValueError(f"path must end in {' or '.join(EXPORT_KINDS)}, got {shown(str(path))}")
    try:
        with temporary_folder(path) as folder:
            joined = folder / "joined"
            if path.suffix == ".csv":
                with open(joined, "wb") as file:
                    _as_text(_frame([])).write_csv(file)
                    for decisions in batches:
                        _as_text(_frame(decisions)).write_csv(file, include_header=False)
            else:
                parts: list[Path] = []
                for decisions in batches:
                    parts.append(folder / f"{len(parts):06d}.parquet")
                    _frame(decisions).write_parquet(parts[-1])
                if not parts:
                    parts.append(folder / "none.parquet")
                    _frame([]).write_parquet(parts[-1])
                pl.scan_parquet(parts, glob=False).sink_parquet(joined)
            with open(joined, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(joined, path)
    except OSError as failure:
        raise explained(failure, path) from failure
    except pl.exceptions.PolarsError as failure:
        raise explained_writer(failure, path) from failure
    return path


def _frame(decisions: Sequence[Decision]) -> Any:
    import polars as pl

    rounds = [one.asked for one in decisions]
    contexts = [None if asked is None else asked.context for asked in rounds]
    designs = [None if asked is None else asked.design for asked in rounds]
    offered = [None if asked is None else asked.arm_features.ravel().tolist() for asked in rounds]
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
        "offered_features": (offered, numbers),
        "design": ([None if design is None else design.to_json() for design in designs], pl.String),
    }
    return pl.DataFrame([pl.Series(name, values, kind) for name, (values, kind) in columns.items()])


def _as_text(frame: Any) -> Any:
    """The frame with JSON in the place of lists, which CSV does not have."""
    import polars as pl

    texts = {name: [None if one is None else json.dumps(one) for one in frame[name].to_list()] for name in LIST_COLUMNS}
    return frame.with_columns(pl.Series(name, values, pl.String) for name, values in texts.items())


def _table(log: Any) -> Table:
    """A log as a table, from any of the forms but a pair of arrays."""
    if isinstance(log, str | Path):
        log = as_path(log, "log")
    elif isinstance(log, Mapping):
        log = {name: list(values) for name, values in log.items()}
    elif not hasattr(log, "columns"):
        records = as_list(log)
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


def _values(column: Any) -> Sequence[Any]:
    values: Sequence[Any] = column.to_list() if hasattr(column, "to_list") else list(column)
    return values


def _numbers(values: Sequence[Any], name: str, optional: bool = False) -> FloatArray:
    """A column of numbers; None is NaN where values are optional."""
    numbers = []
    for row, value in enumerate(values):
        missing = is_missing(value)
        if (missing and not optional) or not (missing or is_number(value) or isinstance(value, bool)):
            raise InvalidValueError(
                f"column {name!r} of the log must hold numbers, but row {row + 1} has {shown(value)}"
            )
        numbers.append(np.nan if missing else float(value))
    return np.array(numbers, dtype=np.float64)


def _checked(features: Any, rewards: Any, dim: int, optional: Mapping[str, list[Any]]) -> LoggedRows:
    y = _numbers(np.asarray(rewards).tolist() if hasattr(rewards, "tolist") else list(rewards), "reward")
    try:
        rows = np.asarray([np.asarray(row) for row in features])
    except ValueError:
        rows = np.empty(0, dtype=object)
    if not len(y):
        raise InvalidValueError("the log has no row with a reward")
    if rows.shape != (len(y), dim) or rows.dtype.kind not in "iuf":
        raise InvalidValueError(
            f"the log's features must be {dim} numbers in each of {len(y)} rows, got "
            f"{shown(features[0]) if len(features) else 'none'} in the first"
        )
    x = rows.astype(np.float64)
    good = (np.abs(y) <= LARGEST) & (np.abs(x) <= LARGEST).all(axis=1)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise InvalidValueError(
            f"rewards and features of the log must be finite and at most {LARGEST:g} in size, but row {bad + 1} is not"
        )
    unknown: list[Any] = [None] * len(y)
    probabilities = [_optional(p, "probability") for p in optional.get("probability", unknown)]
    for p in probabilities:
        if p is not None and not 0 < p <= 1:
            raise InvalidValueError(f"probability must be in (0, 1], got {p}")
    times = [_optional(t, "time") for t in optional.get("time", unknown)]
    arms = [None if name is None else checked_name(str(name)) for name in optional.get("arm", unknown)]
    return LoggedRows(x, y.tolist(), arms, probabilities, times)


def _optional(value: Any, name: str) -> float | None:
    number = float(_numbers([value], name, optional=True)[0])
    return None if np.isnan(number) else number
