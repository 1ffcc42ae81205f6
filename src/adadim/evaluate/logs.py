"""Logs of choices: who was offered what, what was chosen with which probability, and what it brought."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adadim.checks import between, flag, is_number, shown
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.frames import Frame, checked_names, column, column_names, distinct, number_columns, read_frame
from adadim.instances.interactions import interactions
from adadim.instances.tables import in_like_units

__all__ = ["Log", "read_log"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntArray = np.ndarray[Any, np.dtype[np.int64]]

PROBABILITIES = ("propensity", "probability")  # what the column may be called, if nobody says
OFFERED, OFFERED_FEATURES = "offered", "offered_features"  # columns of a log in which each row brings its own arms
CONTEXT = "context"  # and what comes before the features of each
NO_COVARIATES = {"id", "decision", "time", "policy"}


class Log(ABC):
    """Logged choices, in their order.

    Attributes
    ----------
    chosen : int array (n,)
        Position of what was chosen among the arms of its row.
    rewards, propensities : array (n,)
        What it brought, and the probability with which it was chosen.
    sizes : int array (n,)
        Number of arms in each row.
    dim : int
        Number of features of an arm.
    names : tuple or None
        Names of the arms, where they are the same in all rows.
    """

    def __init__(self, chosen: IntArray, rewards: FloatArray, propensities: FloatArray, sizes: IntArray) -> None:
        self.chosen, self.rewards, self.propensities, self.sizes = chosen, rewards, propensities, sizes
        self.names: tuple[Any, ...] | None = None
        self.dim = 0

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows, up to {self.arms} arms, dim={self.dim})"

    @property
    def arms(self) -> int:
        """The largest number of arms in a row."""
        return int(self.sizes.max())

    @property
    def uniform(self) -> bool:
        """Whether every arm of every row had the same probability."""
        return bool(np.allclose(self.propensities * self.sizes, 1.0, atol=1e-6, rtol=0.0))

    @abstractmethod
    def offers(self, start: int, stop: int) -> Sequence[FloatArray]:
        """Features (K_i, d) of the arms of some rows."""


class TableLog(Log):
    """A plain table: the same arms in every row, with a model each on the covariates (`adadim.interactions`)."""

    def __init__(
        self, names: Sequence[Any], covariates: FloatArray, chosen: IntArray, rewards: FloatArray, given: FloatArray
    ) -> None:
        super().__init__(chosen, rewards, given, np.full(len(rewards), len(names)))
        self.names, self.covariates = tuple(names), covariates
        self.dim = 1 + len(names) * (1 + covariates.shape[1])

    def offers(self, start: int, stop: int) -> Sequence[FloatArray]:
        made: Sequence[FloatArray] = interactions(self.covariates[start:stop], len(self.names or ()))
        return made


class OfferLog(Log):
    """A log in which each row brings its own arms and their features."""

    def __init__(
        self, features: Sequence[FloatArray], chosen: IntArray, rewards: FloatArray, given: FloatArray
    ) -> None:
        super().__init__(chosen, rewards, given, np.array([len(offer) for offer in features]))
        self.features, self.dim = features, features[0].shape[1]

    def offers(self, start: int, stop: int) -> Sequence[FloatArray]:
        return self.features[start:stop]


def read_log(
    source: Frame | str | Path,
    *,
    arm: str = "arm",
    reward: str = "reward",
    propensity: str | float | None = None,
    features: Sequence[str] | None = None,
    standardise: bool = True,
) -> Log:
    """A log, from a file or a table.

    Parameters
    ----------
    source : path, polars or pandas DataFrame, or dict of columns
        A Parquet or CSV file, or a table. Either a plain one, a row for each decision with the arm, the reward, the
        probability of the arm and covariates; or one with the columns "offered" (a list with the names of the arms),
        "offered_features" (a list for each of them, or all of them one after the other) and, if there is one, "context"
        (a list that goes before the features of each arm), as `Agent.export` writes. Rows without a reward, a
        probability or arms offered are left out.
    arm, reward : str
        Columns with the name of what was chosen and with what it brought.
    propensity : str or float, optional
        Column with the probability with which the arm was chosen; or this probability, if it was always the same; or
        "uniform". By default the column "propensity" or "probability".
    features : sequence of str, optional
        Of a plain table: columns with the covariates, most basic first; by default all others.
    standardise : bool
        Of a plain table: centre the covariates and divide them by their standard deviation.

    Examples
    --------
    >>> log = read_log({"arm": ["a", "b", "a"], "reward": [1, 0, 0], "age": [30, 50, 41]}, propensity="uniform")
    >>> log, log.propensities
    (TableLog(3 rows, up to 2 arms, dim=5), array([0.5, 0.5, 0.5]))
    """
    if isinstance(source, Log):
        return source
    frame, what = (read_frame(source), str(source)) if isinstance(source, str | Path) else (source, "the log")
    known = column_names(frame, what)
    told = _filled(frame, reward, what)
    if not told.any():
        raise InvalidValueError(f"{what} has no row with a reward in column {reward!r}")
    by_row = OFFERED in known and OFFERED_FEATURES in known
    if by_row:
        told &= _filled(frame, OFFERED, what)
    propensity, random = _propensity_column(frame, known, propensity, told, what)
    told &= random
    if not told.any():
        raise InvalidValueError(f"{what} has no row with a reward, a probability and the arms that were offered")
    rewards = _some_numbers(frame, reward, told, what)
    picked = column(frame, arm, what)[told]
    if by_row:
        offers = [np.asarray(list(names)) for names in column(frame, OFFERED, what)[told]]
        sizes = np.array([len(names) for names in offers])
        chosen = _positions(picked, offers, arm, what)
        tables = _offered_features(column(frame, OFFERED_FEATURES, what)[told], sizes, what)
        if CONTEXT in known:
            tables = _after_context(column(frame, CONTEXT, what)[told], tables, what)
        return OfferLog(tables, chosen, rewards, _probabilities(frame, propensity, told, sizes, what))
    names, chosen = distinct(picked, arm)
    given = _probabilities(frame, propensity, told, np.full(len(rewards), len(names)), what)
    if features is None:
        taken = {arm, reward, *NO_COVARIATES, *PROBABILITIES, *([propensity] if isinstance(propensity, str) else [])}
        features = [name for name in known if name not in taken and name != ""]
    else:
        features = checked_names(features, "features")
    covariates = np.empty((len(rewards), 0))
    if len(features):
        covariates = np.stack([_some_numbers(frame, name, told, what) for name in features], axis=1)
        if flag(standardise, "standardise"):
            covariates = in_like_units(covariates)
    return TableLog(names, covariates, chosen, rewards, given)


def _filled(frame: Frame, name: str, what: str) -> np.ndarray[Any, np.dtype[np.bool]]:
    """Which rows have something in a column: neither null nor NaN."""
    values = column(frame, name, what)
    if values.dtype.kind == "O":
        missing = [value is None or (isinstance(value, float) and value != value) for value in values]
        return ~np.array(missing, dtype=bool)
    return ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), dtype=bool)


def _some_numbers(frame: Frame, name: str, which: np.ndarray[Any, Any], what: str) -> FloatArray:
    """Numbers of a column in some rows, all of them finite."""
    values: FloatArray = number_columns({name: column(frame, name, what)[which]}, [name], what)[:, 0]
    return values


def _propensity_column(
    frame: Frame, known: list[str], propensity: Any, told: np.ndarray[Any, Any], what: str
) -> tuple[str | float | None, np.ndarray[Any, np.dtype[np.bool]]]:
    """Where the probabilities come from (None: equal ones), and which rows have one."""
    everywhere = np.ones(len(told), dtype=bool)
    if propensity is None:
        propensity = next((name for name in PROBABILITIES if name in known), None)
        if propensity is None:
            raise InvalidValueError(
                f"{what} does not say with which probability each arm was chosen: name the column with propensity=, or "
                "say propensity='uniform' if all arms were equally likely; choices that were not random say nothing "
                "about others"
            )
    if is_number(propensity):
        return between(propensity, "propensity", 0.0, 1.0, "(]"), everywhere
    if not isinstance(propensity, str):
        raise InvalidTypeError(f"propensity must be a column, a probability or 'uniform', got {shown(propensity)}")
    if propensity == "uniform" and "uniform" not in known:
        return None, everywhere
    random = _filled(frame, propensity, what)
    if not (random & told).any():
        raise InvalidValueError(
            f"column {propensity!r} of {what} is empty: the arms were not chosen at random, and such a log says "
            "nothing about other choices"
        )
    return propensity, random


def _probabilities(
    frame: Frame, propensity: str | float | None, told: np.ndarray[Any, Any], sizes: IntArray, what: str
) -> FloatArray:
    """Probability of each choice."""
    if isinstance(propensity, str):
        given = _some_numbers(frame, propensity, told, what)
    else:
        given = 1.0 / sizes if propensity is None else np.full(len(sizes), propensity)
    for row in np.flatnonzero((given <= 0) | (given > 1))[:1].tolist():
        raise InvalidValueError(
            f"column {propensity!r} of {what} must hold probabilities in (0, 1], got {given[row]:g} in row {row + 1}"
        )
    return given


def _positions(picked: np.ndarray[Any, Any], offers: list[np.ndarray[Any, Any]], arm: str, what: str) -> IntArray:
    """Position of what was chosen among what was offered."""
    found = np.empty(len(picked), dtype=np.int64)
    for row, (name, names) in enumerate(zip(picked.tolist(), offers, strict=True)):
        at = np.flatnonzero(names == name)
        if len(at) != 1:
            raise InvalidValueError(
                f"row {row + 1} of {what}: column {arm!r} must be one of the arms offered, {shown(names.tolist())}, "
                f"got {shown(name)}"
            )
        found[row] = at[0]
    return found


def _offered_features(values: np.ndarray[Any, Any], sizes: IntArray, what: str) -> list[FloatArray]:
    """Features (K_i, d) of each row."""
    tables: list[FloatArray] = []
    for row, (value, size) in enumerate(zip(values, sizes.tolist(), strict=True)):
        flat = np.concatenate([np.ravel(part) for part in value]).astype(np.float64) if len(value) else np.empty(0)
        if not size or not len(flat) or len(flat) % size or not np.isfinite(flat).all():
            raise InvalidValueError(
                f"row {row + 1} of {what}: {OFFERED_FEATURES} must hold finite features for each of the {size} arms"
            )
        tables.append(flat.reshape(size, -1))
        if tables[-1].shape[1] != tables[0].shape[1]:
            raise InvalidValueError(
                f"row {row + 1} of {what} has {tables[-1].shape[1]} features per arm, the first has "
                f"{tables[0].shape[1]}"
            )
    return tables


def _after_context(contexts: np.ndarray[Any, Any], tables: list[FloatArray], what: str) -> list[FloatArray]:
    """Features of the arms with the context of their row before each."""
    joined: list[FloatArray] = []
    for row, (context, features) in enumerate(zip(contexts, tables, strict=True)):
        before = np.asarray([] if context is None else list(context), dtype=np.float64)
        if before.ndim != 1 or not np.isfinite(before).all():
            raise InvalidValueError(f"row {row + 1} of {what}: {CONTEXT} must be a list of finite numbers")
        joined.append(np.column_stack([np.broadcast_to(before, (len(features), len(before))), features]))
        if joined[-1].shape[1] != joined[0].shape[1]:
            raise InvalidValueError(
                f"row {row + 1} of {what} has {joined[-1].shape[1]} features per arm with its context, the first has "
                f"{joined[0].shape[1]}"
            )
    return joined
