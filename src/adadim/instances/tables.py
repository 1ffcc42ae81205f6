"""Rounds that come from a table: classification as a bandit problem, and logged data of a randomised trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypedDict, Unpack, overload

import numpy as np

from adadim.core.arrays import Array, FloatArray, IntArray
from adadim.core.checks import flag, require, rounds, shown
from adadim.core.design import in_like_units, interactions
from adadim.core.display import html_table
from adadim.core.frames import DataTable, Frame, checked_names, distinct
from adadim.core.problem import Problem
from adadim.core.randomness import Draws, Purpose, Streams, check_seed
from adadim.core.rows import Replications
from adadim.errors import DeviceError, InvalidValueError
from adadim.instances.contexts import ContextInstance
from adadim.instances.delay import Delay, DelayLike, as_delay
from adadim.instances.instance import CLICK_NOISE, check_sizes


class _OnHost:
    def to(self, device: str) -> NoReturn:
        """Refuse: tables are played with NumPy."""
        raise DeviceError(f"tables are played on the cpu, not on {device!r}")


@dataclass(eq=False, repr=False)
class _FromTable(_OnHost):
    """Base of both kinds of tables: the rows come in another order in each replication."""

    problem: Problem
    arms: tuple[Any, ...]
    covariates: FloatArray
    rewards: FloatArray
    shared: bool
    seed: int
    delay: Delay | None = None
    constants: bool = True

    def __post_init__(self) -> None:
        self.everyone = Replications.all(self.problem.reference)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.problem!r}, {len(self.rewards)} rows)"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, {**self.problem.html_rows(), "rows": len(self.rewards)})

    def order(self) -> IntArray:
        """Row of every round, (n, R)."""
        generators = Streams(self.seed, Purpose.CONTEXT, self.problem.replications).generators
        return np.stack([generator.permutation(len(self.rewards)) for generator in generators], axis=1)

    def features(self, rows: IntArray) -> FloatArray:
        """Features (n, K, d) of the arms in some rows of the table."""
        found = np.asarray(interactions(self.covariates[rows], self.problem.arms, shared=self.shared))
        if self.constants:
            return found
        own = 1 + self.shared * self.covariates.shape[1]  # where those of the arms begin
        return np.delete(found, [0, *range(own, own + self.problem.arms)], axis=2)


class RecordedInstance(_OnHost, ContextInstance):
    """Rounds from data in which the reward of every arm is known: a policy is given the reward that was recorded.

    Subclasses have `played`. The features of a round determine no mean reward, so `means` refuses.
    """

    def rounds(self) -> Iterator[FloatArray]:
        return (features for features, _ in self.played())

    def means(self, features: FloatArray) -> FloatArray:
        """Refuse: the rewards of a round belong to its row of the table, not to the features (see `played`)."""
        raise InvalidValueError("the rewards of a table are not a function of the features; use played()")

    def pull(self, means: FloatArray, arms: Array, draws: Draws) -> FloatArray:
        """Rewards of one round, one arm for each replication, as the table has them."""
        return np.asarray(means[np.arange(len(means)), arms])


class TableInstance(_FromTable, RecordedInstance):
    """A table in which the reward of every arm is known in every row; a round is a row.

    `arms` are their names, the labels or the columns of their rewards; `covariates` (n, p) what is known of each row,
    most basic first, and `rewards` (n, K) those of every arm in it. `problem` is what the policy may know.

    Examples
    --------
    >>> frame = {"x": [0.1, 0.9, 0.2, 0.8], "kind": ["low", "high", "low", "high"]}
    >>> instance = table(frame, classes="kind", features=["x"])
    >>> instance.arms, next(instance.rounds()).shape
    (('high', 'low'), (1, 2, 5))
    """

    def played(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        for rows in self.order():
            yield self.features(rows), self.rewards[rows]


@dataclass(eq=False, repr=False)
class LoggedInstance(_FromTable):
    """A table of choices that were made at random, with the reward of the arm chosen; played by replay.

    A policy is shown one row after the other. Where it chooses the arm that was chosen in the row, it gets the row's
    reward and learns; it does not learn from other rows. If the arms were drawn uniformly, whatever else is in the row,
    the rows that it learns from are distributed like those of a live run (Li et al. 2011).

    `arms` are their names, sorted, `covariates` (n, p) what is known of each row, most basic first, `chosen` (n,) the
    position in `arms` of the arm chosen, and `rewards` (n,) its reward. `problem` is what the policy may know; its
    horizon is the number of rows divided by that of arms, about as many as match.

    Examples
    --------
    >>> frame = {"x": [0.1, 0.9, 0.2, 0.8], "drug": ["a", "b", "b", "a"], "better": [1.0, 0.0, 1.0, 1.0]}
    >>> instance = table(frame, reward="better", arm="drug", features=["x"])
    >>> instance.arms, instance.chosen
    (('a', 'b'), array([0, 1, 1, 0]))
    """

    chosen: IntArray = field(kw_only=True)

    def logged(self) -> Iterator[tuple[FloatArray, IntArray, FloatArray]]:
        """Features (R, K, d), the position of the arm chosen (R,) and its reward (R,), row by row."""
        for rows in self.order():
            yield self.features(rows), self.chosen[rows], self.rewards[rows]


class _Options(TypedDict, total=False):
    """Parameters of both kinds of tables, see `table`."""

    horizon: int | None
    noise: float | None
    standardise: bool
    shared: bool
    constants: bool
    replications: Sequence[int]
    seed: int


@overload
def table(
    frame: Frame,
    *,
    features: Sequence[str],
    classes: str | Sequence[str],
    delay: DelayLike = None,
    **options: Unpack[_Options],
) -> TableInstance: ...


@overload
def table(
    frame: Frame, *, features: Sequence[str], reward: str, arm: str, **options: Unpack[_Options]
) -> LoggedInstance: ...


def table(
    frame: Frame,
    *,
    features: Sequence[str],
    reward: str | None = None,
    arm: str | None = None,
    classes: str | Sequence[str] | None = None,
    horizon: int | None = None,
    noise: float | None = None,
    standardise: bool = True,
    shared: bool = False,
    constants: bool = True,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> TableInstance | LoggedInstance:
    """Rounds from the rows of a table, in an order of its own for each replication.

    With `classes` it is classification as a bandit problem: the policy guesses the label of a row, learns only whether
    that was right, and its regret, which is exact, counts the wrong guesses. With `reward` and `arm` it is logged data,
    played by replay; see `LoggedInstance` and `adadim.Replay`.

    Parameters
    ----------
    frame : polars or pandas DataFrame, or dict of columns
        The table.
    features : sequence of str
        Columns with the covariates, most basic (or cheapest to obtain) first. Arms have a model each: see
        `adadim.interactions`.
    reward, arm : str, optional
        Of logged data: columns with the reward and with the arm chosen, at random with equal probabilities.
    classes : str or sequence of str, optional
        Column with the labels, which are the arms: the reward is 1 for the label of the row, else 0. Or a column for
        each arm with its reward in [0, 1], e.g. those of several labels that may hold together.
    horizon : int, optional
        Number of rounds, at most that of rows, which is the default; of logged data only what the policy is told, by
        default the number of rows that will match on average.
    noise : float, optional
        What the policy is told of the noise; by default 0.5 with `classes`, and nothing with `reward`.
    standardise : bool
        Centre each covariate and divide it by its standard deviation over the table.
    shared : bool
        As in `adadim.interactions`: put the covariates themselves before the arms.
    constants : bool
        False leaves out the constant and those of the arms: K p features, or p more with `shared`.
    replications, seed, delay
        As in `sphere`; replication r of a seed has its own order of rows, the same for all policies. Logged choices
        take no delay.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((400, 3))
    >>> frame = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "label": np.where(x[:, 0] > 0, "up", "down")}
    >>> instance = table(frame, classes="label", features=["a", "b", "c"], replications=range(4))
    >>> outcome = adadim.simulate(adadim.recommended(instance.problem), instance)
    >>> bool(outcome.final.mean() < 60)  # of 400 guesses; chance would be wrong in 200
    True
    """
    names = checked_names(features, "features")
    source = DataTable(frame, "the frame")
    covariates = source.matrix(names)
    if not len(covariates):
        raise InvalidValueError("the table has no rows")
    if flag(standardise, "standardise"):
        covariates = in_like_units(covariates)
    flag(shared, "shared")
    flag(constants, "constants")
    check_seed(seed)
    if (classes is None) == (reward is None and arm is None):
        raise InvalidValueError("give either classes (the labels), or reward and arm (logged choices)")
    if classes is not None:
        labels, rewards = _rewards_of_classes(source, classes)
        noise = CLICK_NOISE if noise is None else noise
        problem = _problem(covariates, len(labels), shared, constants, horizon, noise, replications)
        return TableInstance(problem, tuple(labels), covariates, rewards, shared, seed, as_delay(delay), constants)
    if delay is not None:
        raise InvalidValueError(f"logged choices are replayed row by row and take no delay, got {shown(delay)}")
    if reward is None or arm is None:
        raise InvalidValueError(
            "logged choices need both columns: reward (what was observed) and arm (what was chosen)"
        )
    rewards = source.numbers(reward)
    options, chosen = distinct(source.column(arm), arm)
    horizon = max(1, len(rewards) // len(options)) if horizon is None else horizon
    problem = _problem(covariates, len(options), shared, constants, horizon, noise, replications)
    return LoggedInstance(
        problem, tuple(options), covariates, rewards, shared, seed, constants=constants, chosen=chosen
    )


def _problem(
    covariates: FloatArray,
    arms: int,
    shared: bool,
    constants: bool,
    horizon: int | None,
    noise: float | None,
    replications: Sequence[int] | int,
) -> Problem:
    rows, count = covariates.shape
    dim = (1 + arms if constants else 0) + arms * count + (count if shared else 0)
    numbers = check_sizes(replications, arms=arms, dim=dim)
    horizon = rows if horizon is None else rounds(horizon, most=rows, meaning="the rows of the table")
    return Problem(arms=arms, dim=dim, horizon=horizon, noise=noise, replications=numbers, sets="iid")


def _rewards_of_classes(source: DataTable, classes: Any) -> tuple[list[Any], FloatArray]:
    """Names of the arms, and the reward of each in every row, (n, K)."""
    if isinstance(classes, str):
        labels, which = distinct(source.column(classes), classes)
        return labels, np.eye(len(labels))[which]
    names = checked_names(classes, "classes")
    require(len(names) > 1, "classes", "be a column of labels or the columns of two or more arms", names)
    rewards = source.matrix(names)
    if rewards.min() < 0 or rewards.max() > 1:
        raise InvalidValueError(
            f"rewards of arms must be in [0, 1], but the columns {shown(names)} range from {rewards.min():g} to "
            f"{rewards.max():g}"
        )
    return list(names), rewards
