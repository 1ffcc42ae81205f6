"""Reading logs of other systems, to learn from, and writing the log of an agent to a file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adadim.agent.log import AgentSettings, Arm, LoggedDecision, as_bytes
from adadim.agent.requests import MAX_MAGNITUDE, as_list, checked_name
from adadim.core.arrays import FloatArray
from adadim.core.checks import is_number, shown, suggestion
from adadim.core.columns import Coding, Unlisted
from adadim.core.design import Design
from adadim.core.files import as_path, explained, explained_writer, temporary_folder
from adadim.core.frames import LIST_COLUMNS, DataTable, is_missing
from adadim.errors import InvalidTypeError, InvalidValueError

EXPORT_KINDS = (".parquet", ".csv")
LOG_COLUMNS = (
    "decision",
    "time",
    "arm",
    "features",
    "reward",
    "probability",
    "policy",
    "slate",
    "context",
    "offered",
    "offered_features",
    "design",
)
"""Columns of an exported log, beside those of context and arm."""


class LoggedRows(NamedTuple):
    """Decisions of another system: features (n, d), rewards (n,), and other columns, None where they are unknown."""

    features: FloatArray
    rewards: list[float]
    arms: list[str | None]
    probabilities: list[float | None]
    times: list[float | None]
    unlisted: list[Unlisted | None]

    def digest(self) -> bytes:
        """Digest of the log, by which it is recognised when it is learned again."""
        digest = hashlib.blake2b(as_bytes(self.features) + as_bytes(self.rewards), digest_size=16)
        digest.update(repr((self.arms, self.times)).encode())
        return digest.digest()


def read_logged_rows(log: Any, settings: AgentSettings, arms: Mapping[str, Arm]) -> LoggedRows:
    """Rows of a log in any of the forms that `Agent.learn` takes; `arms` are those of the catalogue."""
    dim, design = settings.dim, settings.design
    if isinstance(log, tuple) and len(log) == 2:
        return _checked_rows(*log, dim, {})
    table = _log_as_table(log, design)
    columns = {str(name): table.frame[name] for name in table.names}
    if "reward" not in columns:
        raise InvalidValueError(f"a log needs the column 'reward'; this one has {', '.join(sorted(columns))}")
    rewards = _number_column(_values(columns["reward"]), "reward", optional=True)
    with_reward = np.flatnonzero(~np.isnan(rewards))
    optional: dict[str, list[Any]] = {}
    for name in ("features", "arm", "probability", "time"):
        if name in columns:
            values = _values(columns[name])
            optional[name] = [values[i] for i in with_reward.tolist()]
    wanted = [f"x{j}" for j in range(1, dim + 1)]
    missing = [name for name in wanted if name not in columns]
    if design is not None and _has_own_columns(columns, design, with_reward, bool(missing)):
        made, unlisted = _rows_by_column(columns, with_reward.tolist(), optional.get("arm"), design, arms)
        return _checked_rows(made, rewards[with_reward], dim, optional)._replace(unlisted=unlisted)
    if "features" in optional:
        rows = optional["features"]
    else:
        if missing:
            raise InvalidValueError(
                f"a log needs the column 'features', lists of {dim} numbers, or x1 to x{dim}; {missing[0]} is missing"
            )
        rows = list(np.stack([_number_column(_values(columns[name]), name)[with_reward] for name in wanted], axis=1))
    checked = _checked_rows(rows, rewards[with_reward], dim, optional)
    if design is None:
        return checked
    return checked._replace(unlisted=_unlisted_values(columns, with_reward.tolist(), checked.features, design))


def own_names(design: Design) -> dict[str, str]:
    """What the columns of context and arm are called in a log: by their names, unless the log has those itself."""
    taken, names = set(LOG_COLUMNS), {}
    for part, columns in (("context", design.context_columns), ("arm", design.arm_columns)):
        for column in columns:
            name = column.name
            while name in taken:
                name = f"{part} {name}"
            taken.add(name)
            names[column.name] = name
    return names


def _has_own_columns(columns: Mapping[str, Any], design: Design, rows: Any, without_features: bool) -> bool:
    """Whether features are to be made of the columns of context and arm, and not to be read ready-made.

    What an agent of the same design exported has both; its features are what it learned from, in every case.
    """
    if "features" not in columns:
        return without_features
    designs = _values(columns["design"]) if "design" in columns else []
    exported = {designs[i] for i in rows.tolist() if designs[i] is not None} if designs else set()
    return all(name in columns for name in own_names(design).values()) and exported != {design.to_json()}


def _unlisted_values(
    columns: Mapping[str, Any], rows: list[int], features: FloatArray, design: Design
) -> list[Unlisted | None]:
    """Values that no level lists, from the columns of context and arm, where features say that there were any."""
    unlisted: list[Unlisted] = [{} for _ in rows]
    names, positions = own_names(design), {name: at for at, name in enumerate(design.columns)}
    for column in (*design.context_columns, *design.arm_columns):
        if column.other in positions and names[column.name] in columns:
            values = _values(columns[names[column.name]])
            for at in np.flatnonzero(features[:, positions[column.other]] == 1.0).tolist():
                if not is_missing(values[rows[at]]):
                    unlisted[at][column.name] = values[rows[at]]
    return [one or None for one in unlisted]


def _rows_by_column(
    columns: Mapping[str, Any],
    rows: list[int],
    arm_names: Sequence[Any] | None,
    design: Design,
    arms: Mapping[str, Arm],
) -> tuple[FloatArray, list[Unlisted | None]]:
    """Features (n, d) made of the columns of context and arm, or of arms of the catalogue by their names."""
    names = own_names(design)

    def where(at: int) -> str:
        return f"row {rows[at] + 1} of the log"

    def coded(coding: Coding) -> tuple[FloatArray, list[Unlisted]]:
        for column in coding.given:
            if names[column] not in columns:
                near = suggestion(names[column], columns)
                needed = f"it needs {', '.join(names.values())}, or 'features' with lists of {design.dim} numbers"
                raise InvalidValueError(f"the log has no column {names[column]!r}; {near}; {needed}")
        values = {column: _values(columns[names[column]]) for column in coding.given}
        return coding.code({column: [every[i] for i in rows] for column, every in values.items()}, len(rows), where)

    contexts, unlisted = coded(design.context_coding)
    called = [None if is_missing(name) else str(name) for name in arm_names or [None] * len(rows)]
    if arm_names is not None and not any(names[column] in columns for column in design.arm_coding.given):
        chosen = []
        for at, name in enumerate(called):
            if name is None or name not in arms:
                near = suggestion(str(name), list(arms)[:50])
                raise InvalidValueError(f"arm {shown(name)} in {where(at)} is not in the catalogue; {near}")
            chosen.append(arms[name])
        numbers = np.array([arm.features for arm in chosen])
        of_arms: list[Unlisted] = [arm.unlisted or {} for arm in chosen]
    else:
        numbers, of_arms = coded(design.arm_coding)
    if design.features.own and None in called:
        raise InvalidValueError(f"{where(called.index(None))} must have the name of its arm in the column 'arm'")
    features = design.build(numbers, contexts, [str(name) for name in called])
    return features, [{**one, **other} or None for one, other in zip(unlisted, of_arms, strict=True)]


def write_log(path: Path, batches: Iterable[Sequence[LoggedDecision]], design: Design | None) -> Path:
    """Write what `Log.decisions` gives to a Parquet or CSV file, completely or not at all, with one batch in memory."""
    import polars as pl

    if path.suffix not in EXPORT_KINDS:
        raise InvalidValueError(f"path must end in {' or '.join(EXPORT_KINDS)}, got {shown(str(path))}")
    try:
        with temporary_folder(path) as folder:
            joined = folder / "joined"
            if path.suffix == ".csv":
                with open(joined, "wb") as file:
                    _as_text(_exported_frame([], design)).write_csv(file)
                    for decisions in batches:
                        _as_text(_exported_frame(decisions, design)).write_csv(file, include_header=False)
            else:
                parts: list[Path] = []
                for decisions in batches:
                    parts.append(folder / f"{len(parts):06d}.parquet")
                    _exported_frame(decisions, design).write_parquet(parts[-1])
                if not parts:
                    parts.append(folder / "none.parquet")
                    _exported_frame([], design).write_parquet(parts[-1])
                pl.scan_parquet(parts, glob=False).sink_parquet(joined)
            with open(joined, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(joined, path)
    except OSError as failure:
        raise explained(failure, path) from failure
    except pl.exceptions.PolarsError as failure:
        raise explained_writer(failure, path) from failure
    return path


def _exported_frame(decisions: Sequence[LoggedDecision], design: Design | None) -> Any:
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
    if design is not None:
        columns |= _own_columns(decisions, design)
    return pl.DataFrame([pl.Series(name, values, kind) for name, (values, kind) in columns.items()])


def _as_text(frame: Any) -> Any:
    """The frame with JSON in the place of lists, which CSV does not have."""
    import polars as pl

    texts = {name: [None if one is None else json.dumps(one) for one in frame[name].to_list()] for name in LIST_COLUMNS}
    return frame.with_columns(pl.Series(name, values, pl.String) for name, values in texts.items())


def _own_columns(decisions: Sequence[LoggedDecision], design: Design) -> dict[str, tuple[list[Any], Any]]:
    """The columns of context and arm, with the values that were given; null where they are missing or not known."""
    import polars as pl

    kinds = {float: pl.Float64, str: pl.String, int: pl.Int64, bool: pl.Boolean}
    names, unlisted, own = own_names(design), [one.unlisted for one in decisions], {}
    for part, coding in (("context", design.context_coding), ("arm", design.arm_coding)):
        positions, size = design.positions_of(part), len(coding.names)
        if positions is not None:
            rows = [one.features[positions] for one in decisions]
        else:
            rows = [_numbers_of(one, part, size) for one in decisions]
        values = coding.decode(np.reshape(rows, (len(decisions), size)), unlisted)
        for column in coding.columns:
            kind = float if column.category is None else column.category.kind
            filled = [None if is_missing(value) else value for value in values[column.name]]
            own[names[column.name]] = filled, kinds[kind]
    return own


def _numbers_of(decision: LoggedDecision, part: str, size: int) -> FloatArray:
    """The numbers of the context or of the arm chosen, by what was offered; NaN where that is not known."""
    asked = decision.asked
    numbers = None if asked is None else asked.context if part == "context" else asked.arms.get(str(decision.arm))
    return np.full(size, np.nan) if numbers is None else numbers


def _log_as_table(log: Any, design: Design | None) -> DataTable:
    """A log as a table, from any of the forms but a pair of arrays."""
    own = {} if design is None else own_names(design)
    columns = () if design is None else (*design.context_columns, *design.arm_columns)
    texts = [own[one.name] for one in columns if one.category is not None and one.category.kind is str]
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
    return DataTable(log, "the log", (".parquet", ".csv", ".ndjson"), texts)


def _values(column: Any) -> Sequence[Any]:
    values: Sequence[Any] = column.to_list() if hasattr(column, "to_list") else list(column)
    return values


def _number_column(values: Sequence[Any], name: str, optional: bool = False) -> FloatArray:
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


def _checked_rows(features: Any, rewards: Any, dim: int, optional: Mapping[str, list[Any]]) -> LoggedRows:
    y = _number_column(np.asarray(rewards).tolist() if hasattr(rewards, "tolist") else list(rewards), "reward")
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
    good = (np.abs(y) <= MAX_MAGNITUDE) & (np.abs(x) <= MAX_MAGNITUDE).all(axis=1)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise InvalidValueError(
            f"rewards and features of the log must be finite and at most {MAX_MAGNITUDE:g} in size, but row "
            f"{bad + 1} is not"
        )
    unknown: list[Any] = [None] * len(y)
    probabilities = [_optional(p, "probability") for p in optional.get("probability", unknown)]
    for p in probabilities:
        if p is not None and not 0 < p <= 1:
            raise InvalidValueError(f"probability must be in (0, 1], got {p}")
    times = [_optional(t, "time") for t in optional.get("time", unknown)]
    arms = [None if is_missing(name) else checked_name(str(name)) for name in optional.get("arm", unknown)]
    return LoggedRows(x, y.tolist(), arms, probabilities, times, unknown)


def _optional(value: Any, name: str) -> float | None:
    number = float(_number_column([value], name, optional=True)[0])
    return None if np.isnan(number) else number
