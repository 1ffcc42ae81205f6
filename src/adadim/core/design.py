"""Features made of covariates: every covariate times every arm, and the description of an agent's columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any
from zlib import crc32

import numpy as np

from adadim.core.arrays import Array, FloatArray, device_of, namespace, real_array
from adadim.core.checks import check_fits, flag, integer, is_integer, require, shown, suggestion
from adadim.core.columns import Coding, Column, coded_names, declared_columns
from adadim.core.levels import ColumnLevels
from adadim.errors import InvalidTypeError, InvalidValueError


@dataclass(frozen=True)
class Features:
    """How an agent builds its features from a context and the features of an arm, most basic first.

    The columns are, in this order: a constant; the features of the arm; the context; products of both, the first number
    of the context times each of the arm's features, then the second, as in `adadim.interactions`; and columns that
    belong to arms by their names, for what no feature explains.

    Parameters
    ----------
    constant : bool
        A column of ones.
    arm, context : bool
        The numbers of the arm, and those of the context.
    products : int, optional
        How many of the arm's features, the first ones, are multiplied with the context; by default all, 0 for none.
    own : int
        Number of columns for intercepts of the arms. An arm has 1 in the column that a checksum of its name says;
        arms whose names fall into one column share it.

    Examples
    --------
    >>> import adadim
    >>> adadim.Features(products=2, own=16)
    Features(constant=True, arm=True, context=True, products=2, own=16)
    >>> adadim.Features.from_json(adadim.Features(own=16).to_json()) == adadim.Features(own=16)
    True
    """

    constant: bool = True
    arm: bool = True
    context: bool = True
    products: int | None = None
    own: int = 0

    def __post_init__(self) -> None:
        for name in ("constant", "arm", "context"):
            object.__setattr__(self, name, flag(getattr(self, name), name))
        if self.products is not None:
            meaning = "how many features of an arm are multiplied with the context"
            object.__setattr__(self, "products", integer(self.products, "products", 0, meaning=meaning))
        object.__setattr__(self, "own", integer(self.own, "own", 0, meaning="the number of columns for arms"))

    def to_json(self) -> str:
        """The description as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Features:
        """The description that `to_json` wrote."""
        try:
            table = json.loads(text)
        except (TypeError, ValueError):
            table = None
        return cls.from_table(table)

    @classmethod
    def from_table(cls, table: Any) -> Features:
        """The description from a mapping of its parameters."""
        wanted = "be described by a mapping, e.g. {'own': 16}"
        require(isinstance(table, Mapping), "features", wanted, table, InvalidTypeError)
        parameters = list(cls.__dataclass_fields__)
        for name in table:
            if name not in parameters:
                raise InvalidValueError(f"features have no part {shown(name)}; {suggestion(str(name), parameters)}")
        return cls(**table)


@dataclass(frozen=True)
class Design:
    """`Features` together with the names of the numbers of the context and of an arm.

    `context_columns` and `arm_columns` are the columns that callers give, which are coded as these numbers; by default
    the numbers themselves.
    """

    context: tuple[str, ...]
    arm: tuple[str, ...]
    features: Features
    context_columns: tuple[Column, ...] = ()
    arm_columns: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        for part in ("context", "arm"):
            if not getattr(self, f"{part}_columns"):
                object.__setattr__(self, f"{part}_columns", tuple(map(Column, getattr(self, part))))
        products = self.features.products
        if products is not None and products > len(self.arm):
            raise InvalidValueError(
                f"products = {products} are more than the {len(self.arm)} features of an arm (arm=)"
            )
        if not self.dim:
            raise InvalidValueError(f"{self.features} leaves no column")
        check_fits(32.0 * self.dim**2, dim=self.dim)  # what a regression on them takes
        columns = (*self.context_columns, *self.arm_columns)
        for names in ([column.name for column in columns], coded_names(columns), self.columns):
            repeated = [name for name, count in Counter(names).items() if count > 1]
            if repeated:
                raise InvalidValueError(f"columns must have different names, but {repeated[0]!r} appears twice")
        for part in ("context", "arm"):
            names = getattr(self, part)
            if set(coded_names(getattr(self, f"{part}_columns"))) != set(names):
                raise InvalidValueError(f"the columns of {part} are not coded as {shown(list(names))}")

    @classmethod
    def of(cls, context: Any, arm: Any, features: Any, missing: Any = "error") -> Design:
        """A design from the arguments of a caller: what contexts and arms have, as in `Agent.create`."""
        features = Features() if features is None else features
        require(isinstance(features, Features), "features", "be adadim.Features(...)", features, InvalidTypeError)
        contexts = declared_columns(context, "context", 0, missing=missing)
        arms = declared_columns(arm, "arm", 1, missing=missing)
        return cls(coded_names(contexts), coded_names(arms), features, contexts, arms)

    @classmethod
    def from_table(cls, table: Any) -> Design:
        """The design that `to_table` describes."""
        wanted = {"context", "arm", "features"}
        if not isinstance(table, Mapping) or set(table) - {"columns"} != wanted:
            raise InvalidTypeError(f"a design must be a mapping of context, arm and features, got {shown(table)}")
        design = cls.of(table["context"], table["arm"], Features.from_table(table["features"]))
        columns = table.get("columns")
        if columns is None:
            return design
        if not isinstance(columns, Mapping) or set(columns) != {"context", "arm"}:
            raise InvalidTypeError(f"columns of a design must be those of context and arm, got {shown(columns)}")
        context, arm = (tuple(map(Column.from_table, columns[part])) for part in ("context", "arm"))
        return cls(design.context, design.arm, design.features, context, arm)

    def to_table(self) -> dict[str, Any]:
        """The design as plain data."""
        table: dict[str, Any] = {
            "context": list(self.context),
            "arm": list(self.arm),
            "features": asdict(self.features),
        }
        if not (self.context_coding.is_plain and self.arm_coding.is_plain):
            parts = {"context": self.context_columns, "arm": self.arm_columns}
            table["columns"] = {part: [column.to_table() for column in columns] for part, columns in parts.items()}
        return table

    @classmethod
    @lru_cache(maxsize=16)
    def from_json(cls, text: str) -> Design:
        """The design that `to_json` wrote."""
        try:
            table = json.loads(text)
        except ValueError:
            raise InvalidValueError(f"a design must be JSON, got {shown(text)}") from None
        return cls.from_table(table)

    def to_json(self) -> str:
        """The design as JSON."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return json.dumps(self.to_table())

    @cached_property
    def context_coding(self) -> Coding:
        """How the columns of a context become its numbers."""
        return Coding(self.context_columns, self.context)

    @cached_property
    def arm_coding(self) -> Coding:
        """How the columns of an arm become its numbers."""
        return Coding(self.arm_columns, self.arm)

    @cached_property
    def multiplied(self) -> int:
        """How many features of an arm are multiplied with the context."""
        return len(self.arm) if self.features.products is None else self.features.products

    @cached_property
    def _widths(self) -> dict[str, int]:
        """Number of columns of each part, in their order."""
        features = self.features
        return {
            "constant": int(features.constant),
            "arm": len(self.arm) if features.arm else 0,
            "context": len(self.context) if features.context else 0,
            "products": self.multiplied * len(self.context),
            "own": features.own,
        }

    @cached_property
    def dim(self) -> int:
        """Number of columns."""
        return sum(self._widths.values())

    @cached_property
    def levels(self) -> dict[str, int]:
        """Number of leading columns up to the end of each part that has any; the constant belongs to the first part."""
        levels, end = {}, 0
        for part, width in self._widths.items():
            end += width
            if width and part != "constant":
                levels[part] = end
        return levels or {"constant": end}

    @cached_property
    def column_levels(self) -> ColumnLevels:
        """The levels with the rank of each column: a product has that of its arm feature, intercepts have no order."""
        widths, ranks = self._widths, range(1, self.multiplied + 1)
        return ColumnLevels(
            tuple(self.levels.items()),
            self.dim,
            (
                *([1] * widths["constant"]),
                *range(1, widths["arm"] + 1),
                *range(1, widths["context"] + 1),
                *(rank for _ in self.context for rank in ranks),
                *([1] * widths["own"]),
            ),
        )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        widths, multiplied = self._widths, self.arm[: self.multiplied]
        return (
            *(["constant"] * widths["constant"]),
            *self.arm[: widths["arm"]],
            *self.context[: widths["context"]],
            *(f"{arm} x {context}" for context in self.context for arm in multiplied),
            *(f"own {k}" for k in range(1, widths["own"] + 1)),
        )

    def build(self, arms: FloatArray, context: FloatArray, names: Sequence[str]) -> FloatArray:
        """Features (K, d) of arms (K, m) in a context (c,), or in one each (K, c); (n, K, d) in n contexts (n, 1, c).

        `arms` and `context` may lack the last columns of a design, which are then 0.
        """
        shape = (*context.shape[:-2], len(arms))
        built: FloatArray = np.zeros((*shape, self.dim))
        parts, start = {}, 0
        for part, width in self._widths.items():
            parts[part], start = built[..., start : start + width], start + width
        parts["constant"][:] = 1.0
        if self.features.arm:
            parts["arm"][..., : arms.shape[1]] = arms
        if self.features.context:
            parts["context"][..., : context.shape[-1]] = context
        if self.multiplied and context.size:
            factors = arms[:, : self.multiplied]
            products = parts["products"].reshape(*shape, len(self.context), self.multiplied)  # a view
            products = products[..., : context.shape[-1], : factors.shape[1]]
            np.multiply(context[..., :, None], factors[:, None, :], out=products)
        if self.features.own:
            parts["own"][..., np.arange(len(names)), [own_column(name, self.features.own) for name in names]] = 1.0
        return built

    def positions_of(self, part: str) -> slice | None:
        """Where the features have the numbers of a part ("context" or "arm"); None if they do not have them."""
        if not getattr(self.features, part):
            return None
        start = 0
        for name, width in self._widths.items():
            if name == part:
                return slice(start, start + width)
            start += width
        return None

    def positions_in(self, other: Design) -> list[int]:
        """Positions of the columns of this design among those of one to which features were appended."""
        positions = {name: at for at, name in enumerate(other.columns)}
        return [positions[name] for name in self.columns]

    def appended(self, context: Any, arm: Any, missing: Any = "error") -> Design:
        """The same with further columns or values of categories, given as in `of`; None for a part that stays."""

        def longer(part: str, columns: Any) -> tuple[tuple[str, ...], tuple[Column, ...]]:
            names, before = getattr(self, part), getattr(self, f"{part}_columns")
            new = before if columns is None else declared_columns(columns, part, len(before), before, missing)
            return coded_names(new, names), new

        (contexts, context_columns), (arms, arm_columns) = longer("context", context), longer("arm", arm)
        return Design(contexts, arms, self.features, context_columns, arm_columns)


@lru_cache(maxsize=100_000)
def own_column(name: str, columns: int) -> int:
    """Position of the intercept of an arm of this name among so many columns."""
    return crc32(name.encode()) % columns


def interactions(context: Array, arms: int, order: Sequence[int] | None = None, *, shared: bool = False) -> Array:
    """Features of every arm from the covariates of a decision: constant, arm, then arm x covariate.

    A model that is linear in these has coefficients of its own for each arm (a *disjoint* model). Their order is the
    natural one of a contextual problem: the constant says what rewards are like, the arms which is best for all, and
    each covariate in turn whether the best arm depends on it.

    Parameters
    ----------
    context : array (p,) or (n, p)
        Covariates of one decision, or of n of them; NumPy or torch. Bring them to like units, centred.
    arms : int
        Number of arms K.
    order : sequence of int, optional
        Columns of `context` to use, most basic first; by default all, as they come.
    shared : bool
        Put the covariates themselves after the constant, before the arms: they explain what all arms have in common.
        Then the arms say which is better, and their products with the covariates in which context.

    Returns
    -------
    array (K, d) or (n, K, d)
        With q covariates used, d = 1 + K + K q. Of arm a, column 0 is 1, column 1 + a is 1, and column 1 + K j + a is
        covariate number j (from 1) in the order; the rest is 0. With `shared` there are q columns more after the first.

    See Also
    --------
    interaction_levels : where each group of columns ends, for `adadim.dimension`.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> adadim.interactions(np.array([0.5, -2.0]), arms=2, order=[1, 0])
    array([[ 1. , 1. , 0. , -2. , 0. , 0.5, 0. ],
           [ 1. , 0. , 1. , 0. , -2. , 0. , 0.5]])
    """
    table = real_array(context, "context", copy=False)
    require(table.ndim in (1, 2), "context", "have shape (p,) or (n, p)", tuple(table.shape))
    xp, count = namespace(table), integer(arms, "arms", meaning="the number of arms")
    if not bool(xp.all(xp.isfinite(table))):
        raise InvalidValueError("context must be finite, but has a NaN or infinite entry")
    single = table.ndim == 1
    table = table[None] if single else table
    used = _checked_order(order, table.shape[1])
    rows = table.shape[0]
    check_fits(8 * 3 * rows * count * (1 + count) * (1 + len(used)), arms=count, rows=rows)
    ones = xp.ones((rows, 1), dtype=table.dtype, device=device_of(table))
    covariates = xp.concat([ones, *(table[:, j : j + 1] for j in used)], axis=1)
    one_hot = xp.eye(count, dtype=table.dtype, device=device_of(table))
    by_arm = covariates[:, None, :, None] * one_hot[None, :, None, :] + 0.0  # no -0.0
    by_arm = by_arm.reshape(rows, count, (1 + len(used)) * count)
    common = covariates if flag(shared, "shared") else ones
    common = xp.broadcast_to(common[:, None, :], (rows, count, common.shape[1]))
    features = xp.concat([common, by_arm], axis=2)
    return features[0] if single else features


def interaction_levels(arms: int, groups: Mapping[str, int], *, shared: bool = False) -> dict[str, int]:
    """Number of leading columns of `interactions` up to the end of each group of covariates.

    `groups` says how many covariates each group has, in the order in which `interactions` has them; `arms` and `shared`
    are as there. Gives what `adadim.dimension` takes as `levels`: "constant", with `shared` "covariates", "arm", and
    "arm x NAME" for each group.

    Examples
    --------
    >>> interaction_levels(4, {"demographics": 3, "lab": 2})
    {'constant': 1, 'arm': 5, 'arm x demographics': 17, 'arm x lab': 25}
    """
    count = integer(arms, "arms", meaning="the number of arms")
    if not isinstance(groups, Mapping):
        raise InvalidTypeError(f"groups must be a mapping from names to numbers of covariates, got {shown(groups)}")
    meaning = "the number of covariates"
    sizes = {name: integer(size, f"groups[{name!r}]", meaning=meaning) for name, size in groups.items()}
    levels, end = {"constant": 1}, 1
    if flag(shared, "shared") and sizes:
        levels["covariates"] = end = 1 + sum(sizes.values())
    levels["arm"] = end = end + count
    for name, size in sizes.items():
        levels[f"arm x {name}"] = end = end + count * size
    return levels


def in_like_units(covariates: FloatArray) -> FloatArray:
    """Columns centred and divided by their standard deviation; a constant column becomes 0."""
    centred = covariates - covariates.mean(axis=0)
    spread = centred.std(axis=0)
    rounding = 1e-12 * np.abs(covariates).max(axis=0, initial=0.0)
    return np.where(spread > rounding, centred / np.where(spread > rounding, spread, 1.0), 0.0)


def _checked_order(order: Any, columns: int) -> list[int]:
    if order is None:
        return list(range(columns))
    if isinstance(order, str | bytes) or getattr(order, "ndim", 1) != 1 or not hasattr(order, "__iter__"):
        raise InvalidTypeError(f"order must be a sequence of columns of context, got {shown(order)}")
    used = list(order)
    for j in used:
        require(is_integer(j) and 0 <= j < columns, "order", f"hold columns of context, in 0..{columns - 1}", j)
    require(len(set(used)) == len(used), "order", "name each column once", used)
    return [int(j) for j in used]
