"""Logs of choices: the arms that were offered, the one chosen, its probability and its reward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adadim.core.arrays import BoolArray, FloatArray, IntArray
from adadim.core.checks import between, flag, is_number, shown
from adadim.core.design import Design, in_like_units, interactions
from adadim.core.frames import DataTable, Frame, checked_names, distinct, is_missing
from adadim.errors import InvalidTypeError, InvalidValueError

PROPENSITY_COLUMNS = ("propensity", "probability")  # those to look for, if none is named
OFFERED_COLUMN, OFFERED_FEATURES = "offered", "offered_features"  # columns of a log in which each row has its own arms
CONTEXT = "context"  # column of the numbers that go before the features of each arm
DESIGN = "design"  # column that says, as JSON, how context and arms make features
ROWS_PER_BLOCK = 256  # rows whose features are made together
NO_COVARIATES = {"id", "decision", "time", "policy", "slate"}  # columns that are no covariates unless named


@dataclass(frozen=True, eq=False, repr=False)
class LoggedChoices:
    """Logged choices, in their order."""

    chosen: IntArray  # position of the chosen arm among those of its row, (n,)
    rewards: FloatArray
    propensities: FloatArray
    sizes: IntArray  # number of arms in each row, (n,)
    dim: int
    offers: Callable[[int, int], Sequence[FloatArray]]  # features (K_i, d) of the arms of the rows from one to another
    names: tuple[Any, ...] | None = None  # of the arms, where they are the same in all rows

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        return f"LoggedChoices({len(self)} rows, up to {self.arms} arms, dim={self.dim})"

    def rows(self) -> Iterator[tuple[FloatArray, IntArray, FloatArray]]:
        """Features (1, K_i, d), the position of the arm chosen (1,) and its reward (1,), row by row."""
        for start in range(0, len(self), ROWS_PER_BLOCK):
            offers = self.offers(start, min(start + ROWS_PER_BLOCK, len(self)))
            for row, offer in enumerate(offers, start):
                yield offer[None], self.chosen[row : row + 1], self.rewards[row : row + 1]

    @property
    def arms(self) -> int:
        """The largest number of arms in a row."""
        return int(self.sizes.max())

    @property
    def uniform(self) -> bool:
        """Whether every arm of every row had the same probability."""
        return bool(np.allclose(self.propensities * self.sizes, 1.0, atol=1e-6, rtol=0.0))


def read_log(
    source: Frame | str | Path,
    *,
    arm: str = "arm",
    reward: str = "reward",
    propensity: str | float | None = None,
    features: Sequence[str] | None = None,
    standardise: bool = True,
) -> LoggedChoices:
    """A log, from a file or a table; the parameters are those of `evaluate`."""
    if isinstance(source, LoggedChoices):
        return source
    table = DataTable(source, "the log")
    rows = table.filled(reward)
    if not rows.any():
        raise InvalidValueError(f"{table} has no row with a reward in column {reward!r}")
    by_row = OFFERED_COLUMN in table.names and OFFERED_FEATURES in table.names
    if by_row:
        rows &= table.filled(OFFERED_COLUMN)
    propensity, has_propensity = _propensity_column(table, propensity, rows)
    rows &= has_propensity
    if not rows.any():
        raise InvalidValueError(f"{table} has no row with a reward, a probability and the arms that were offered")
    rewards = table.numbers(reward, rows)
    if by_row:
        chosen, offers = _row_offers(table, arm, rows)
        sizes = np.array([len(offer.arms) for offer in offers])
    else:
        names, chosen = distinct(table.column(arm)[rows], arm)
        sizes = np.full(len(rewards), len(names))
    choices = (chosen, rewards, _propensities(table, propensity, rows, sizes), sizes)
    if by_row:
        return LoggedChoices(
            *choices, offers[0].dim, lambda start, stop: [offer.features for offer in offers[start:stop]]
        )
    if features is None:
        not_features = {arm, reward, propensity, "", *NO_COVARIATES, *PROPENSITY_COLUMNS}
        features = [name for name in table.names if name not in not_features]
    else:
        features = checked_names(features, "features")
    covariates = table.matrix(features, rows)
    if features and flag(standardise, "standardise"):
        covariates = in_like_units(covariates)
    # A model for each arm on the covariates: 1, then (1, covariates) of each.
    dim = 1 + len(names) * (1 + covariates.shape[1])
    return LoggedChoices(
        *choices, dim, lambda start, stop: interactions(covariates[start:stop], len(names)), tuple(names)
    )


def _propensity_column(table: DataTable, propensity: Any, rows: BoolArray) -> tuple[str | float | None, BoolArray]:
    """Where the probabilities come from (None: equal ones), and which rows have one."""
    if propensity is None:
        propensity = next((name for name in PROPENSITY_COLUMNS if name in table.names), None)
        if propensity is None:
            raise InvalidValueError(
                f"{table} does not say with which probability each arm was chosen: name the column with propensity=, "
                "or say propensity='uniform' if all arms were equally likely; choices that were not random say nothing "
                "about others"
            )
    if is_number(propensity):
        return between(propensity, "propensity", 0.0, 1.0, "(]"), np.ones_like(rows)
    if not isinstance(propensity, str):
        raise InvalidTypeError(f"propensity must be a column, a probability or 'uniform', got {shown(propensity)}")
    if propensity == "uniform" and "uniform" not in table.names:
        return None, np.ones_like(rows)
    has_propensity = table.filled(propensity)
    if not (has_propensity & rows).any():
        raise InvalidValueError(
            f"column {propensity!r} of {table} is empty: the arms were not chosen at random, and such a log says "
            "nothing about other choices"
        )
    return propensity, has_propensity


def _propensities(table: DataTable, propensity: str | float | None, rows: BoolArray, sizes: IntArray) -> FloatArray:
    """Probability of each choice."""
    if not isinstance(propensity, str):
        return 1.0 / sizes if propensity is None else np.full(len(sizes), propensity)
    given = table.numbers(propensity, rows)
    for row in np.flatnonzero((given <= 0) | (given > 1))[:1].tolist():
        raise InvalidValueError(
            f"column {propensity!r} of {table} must hold probabilities in (0, 1], got {given[row]:g} in row {row + 1}"
        )
    return given


class _Offer(NamedTuple):
    """Arms (K, m) of a row with their names, the context, and the design of features; None: the arms are features."""

    arms: FloatArray
    context: FloatArray
    names: list[str]
    design: Design | None

    @property
    def dim(self) -> int:
        return self.arms.shape[1] if self.design is None else self.design.dim

    @property
    def features(self) -> FloatArray:
        return self.arms if self.design is None else self.design.build(self.arms, self.context, self.names)


def _row_offers(table: DataTable, arm: str, rows: BoolArray) -> tuple[IntArray, list[_Offer]]:
    """Position of the arm chosen among those offered, (n,), and the offer of each row."""
    picked, names, features = (table.column(name)[rows].tolist() for name in (arm, OFFERED_COLUMN, OFFERED_FEATURES))
    contexts, designs = (
        table.column(name)[rows].tolist() if name in table.names else [None] * len(picked) for name in (CONTEXT, DESIGN)
    )
    chosen = np.empty(len(picked), dtype=np.int64)
    offers: list[_Offer] = []
    catalogues: dict[Any, tuple[list[str], FloatArray]] = {}  # equal ones are kept once
    columns = zip(picked, names, features, contexts, designs, strict=True)
    for row, (name, offered, values, context, design) in enumerate(columns):
        where, offered = f"row {row + 1} of {table}", np.ravel(offered)
        at = np.flatnonzero(offered == name)
        if len(at) != 1:
            raise InvalidValueError(
                f"{where}: column {arm!r} must be one of the arms offered, {shown(offered.tolist())}, got {shown(name)}"
            )
        flat, size = _numbers_of_lists(values), len(offered)
        if flat is None or not flat.size or flat.size % size:
            raise InvalidValueError(
                f"{where}: {OFFERED_FEATURES} must hold finite features for each of the {size} arms"
            )
        context = [] if is_missing(context) else context
        covariates = _numbers_of_lists(context)
        if covariates is None or any(map(np.ndim, context)):
            raise InvalidValueError(f"{where}: {CONTEXT} must be a list of finite numbers")
        arms = flat.reshape(size, -1)
        if is_missing(design):
            arms = np.column_stack([np.broadcast_to(covariates, (size, covariates.size)), arms])
            offers.append(_Offer(arms, covariates, [], None))
        else:
            arm_names = [str(option) for option in offered.tolist()]
            arm_names, arms = catalogues.setdefault((*arm_names, arms.tobytes()), (arm_names, arms))
            offers.append(_Offer(arms, covariates, arm_names, _checked_design(design, arms, covariates, where)))
        if offers[row].dim != offers[0].dim:
            context_too = " with its context" if CONTEXT in table.names else ""
            raise InvalidValueError(
                f"{where} has {offers[row].dim} features per arm{context_too}, the first has {offers[0].dim}"
            )
        chosen[row] = at[0]
    return chosen, offers


def _checked_design(text: Any, arms: FloatArray, context: FloatArray, where: str) -> Design:
    """The design of features of arms (K, m) and a context, from its JSON."""
    try:
        design = Design.from_json(str(text))
    except (InvalidTypeError, InvalidValueError) as error:
        raise InvalidValueError(f"{where}: {DESIGN} says nothing about features: {error}") from error
    if arms.shape[1] > len(design.arm) or len(context) > len(design.context):
        raise InvalidValueError(
            f"{where}: {DESIGN} is of {len(design.arm)} numbers of an arm and {len(design.context)} of a context, got "
            f"{arms.shape[1]} and {len(context)}"
        )
    return design


def _numbers_of_lists(values: Any) -> FloatArray | None:
    """The numbers of a list, or of a list of lists, as one array; None unless all are finite numbers."""
    try:
        flat = np.concatenate([np.ravel(part) for part in values]).astype(np.float64) if len(values) else np.empty(0)
    except (TypeError, ValueError):
        return None
    return flat if np.isfinite(flat).all() else None
