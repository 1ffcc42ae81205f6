"""What is known about d*, the number of leading features that matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from adadim.backend.arrays import FloatArray
from adadim.checks import between
from adadim.frames import to_pandas, to_polars
from adadim.notebook import card

if TYPE_CHECKING:
    import pandas
    import polars
    from matplotlib.axes import Axes

__all__ = ["Dimension"]

LITTLE = 0.1  # total variation between prior and posterior below which the data have said little


@dataclass(frozen=True, eq=False, repr=False)
class Dimension:
    """What is known about d*, the number of leading features that matter.

    Arrays have a first axis of R replications if they come from a learner of R replications.

    Attributes
    ----------
    probabilities : array (d,), or (L,) for L levels
        P(d* = m) for m = 1, ..., d, or for the end m of each level.
    noise : float or array (R,)
        Estimated standard deviation of the rewards' noise; not a number without choices.
    choices : int or array (R,)
        Number of past choices n.
    prior : array (d,) or (L,)
        P(d* = m) before the data.
    support : array (d,) or (L,)
        The possible values m of d*.
    dim : int
        Number of features d.
    levels : dict or None
        Name of each level and the number of leading features up to its end.
    names : tuple of str or None
        Names of the features, where they came as a table of pandas or polars.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> features = rng.standard_normal((300, 8))
    >>> found = adadim.dimension(features, features[:, :3].sum(axis=1) + rng.standard_normal(300))
    >>> found.mode, found.interval(0.9)
    (3, (3, 3))
    >>> print(found)
    3 of 8 features matter (probability 0.93, 90% interval 3 to 3); noise 0.961; 300 choices
    """

    probabilities: FloatArray
    noise: Any
    choices: Any
    prior: FloatArray
    support: np.ndarray[Any, np.dtype[np.int64]]
    dim: int
    levels: dict[str, int] | None = None
    names: tuple[str, ...] | None = None

    @property
    def tail(self) -> FloatArray:
        """P(d* >= j) of every feature j = 1, ..., d: the probability that it, or a later one, matters; (d,)."""
        ahead = np.cumsum(self.probabilities[..., ::-1], axis=-1)[..., ::-1]
        padded = np.concatenate([np.minimum(ahead, 1.0), np.zeros_like(ahead[..., :1])], axis=-1)
        tail: FloatArray = padded[..., np.searchsorted(self.support, np.arange(1, self.dim + 1))]
        return tail

    @property
    def mode(self) -> Any:
        """The likeliest d*."""
        return self._number(np.argmax(self.probabilities, axis=-1))

    @property
    def median(self) -> Any:
        """The smallest m with P(d* <= m) >= 1/2."""
        reached = np.cumsum(self.probabilities, axis=-1) >= 0.5 * (1 - 1e-12)
        return self._number(np.argmax(reached, axis=-1))

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Smallest and largest d* of the shortest interval that has a probability of at least `level`.

        Of several that are equally short, the likeliest. With levels, short means few of them.
        """
        between(level, "level", 0.0, 1.0, "()")
        ends = np.array([_shortest(row, level) for row in np.atleast_2d(self.probabilities)])
        ends = ends.reshape(*self.probabilities.shape[:-1], 2)
        return self._number(ends[..., 0]), self._number(ends[..., 1])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw P(d* = m) as bars and P(d* >= j) over the features as a line; gives the axes.

        Of several replications it draws the mean of both, and each tail as a thin line.
        """
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(layout="constrained")
        rows = np.atleast_2d(self.probabilities)
        tails = np.atleast_2d(self.tail)
        features = np.arange(1, tails.shape[-1] + 1)
        ax.bar(self.support, rows.mean(axis=0), width=0.8, color="#0072B2", label="P(d* = m)")
        if len(tails) > 1:
            ax.step(features, tails.T, where="mid", color="#D55E00", linewidth=0.5, alpha=0.3)
        ax.step(features, tails.mean(axis=0), where="mid", color="#D55E00", label="P(d* ≥ j)")
        for name, end in (self.levels or {}).items():
            ax.annotate(
                name, (end, 1.0), rotation=90, ha="right", va="top", fontsize="small", parse_math=False, color="0.3"
            )
        ax.set(xlim=(0.4, self.dim + 0.6), ylim=(0, 1.02), xlabel="leading features", ylabel="probability")
        ax.legend(frameon=False)
        return ax

    def __str__(self) -> str:
        if self.probabilities.ndim > 1:
            modes, low, high = self.mode, *self.interval(0.9)
            return (
                f"{len(modes)} replications: {np.median(modes):g} of {self.dim} features matter (median of the modes, "
                f"which go from {modes.min()} to {modes.max()}; the widest 90% interval has "
                f"{(high - low).max() + 1} values)"
            )
        at = int(np.argmax(self.probabilities))
        last = list(self.levels)[at] if self.levels is not None else self.names and self.names[self.support[at] - 1]
        named = f", up to {last!r}," if last else ""
        low, high = self.interval(0.9)
        moved = 0.5 * float(np.abs(self.probabilities - self.prior).sum())
        little = "; the data say little yet, this is close to the prior" if moved < LITTLE else ""
        return (
            f"{self.mode} of {self.dim} features matter{named} (probability {self.probabilities[at]:.2g}, "
            f"90% interval {low} to {high}); noise {self.noise:.3g}; {self.choices} choices{little}"
        )

    def __repr__(self) -> str:
        return f"<Dimension: {self}>"

    def _repr_html_(self) -> str:
        several = self.probabilities.ndim > 1
        low, high = self.interval(0.9)
        rows = {"answer": str(self), "most likely d*": self.mode, "90% interval": f"{low} to {high}"}
        return card("Dimension", {"answer": str(self)} if several else rows)

    def to_polars(self) -> polars.DataFrame:
        """A row for each possible d*: its value and name if it has one, probability, prior, and the tail P(d* >= m)."""
        return to_polars(self._columns())

    def to_pandas(self) -> pandas.DataFrame:
        """The same for pandas."""
        return to_pandas(self._columns())

    def _columns(self) -> dict[str, Any]:
        rows = np.atleast_2d(self.probabilities)
        called = list(self.levels or [])
        if self.levels is None and self.names is not None:
            called = [self.names[m - 1] for m in self.support]
        columns: dict[str, Any] = {"replication": np.repeat(np.arange(len(rows)), len(self.support))}
        columns["features"] = np.tile(self.support, len(rows))
        if called:
            columns["name"] = called * len(rows)
        tails = np.minimum(np.cumsum(rows[:, ::-1], axis=1)[:, ::-1], 1.0)
        columns |= {"probability": rows.ravel(), "prior": np.tile(self.prior, len(rows)), "tail": tails.ravel()}
        if self.probabilities.ndim == 1:
            del columns["replication"]
        return columns

    def _number(self, positions: Any) -> Any:
        values = self.support[positions]
        return int(values) if values.ndim == 0 else values


def _shortest(probabilities: FloatArray, level: float) -> tuple[int, int]:
    """First and last position of the shortest run with a probability of at least `level`."""
    reached = np.append(0.0, np.cumsum(probabilities))
    wanted = min(level, reached[-1]) * (1 - 1e-12)
    starts = np.arange(len(probabilities))
    ends = np.searchsorted(reached, reached[:-1] + wanted)  # reached[end] - reached[start] >= level
    possible = ends <= len(probabilities)
    lengths = np.where(possible, ends - starts, len(probabilities) + 1)
    masses = np.where(possible, reached[np.minimum(ends, len(probabilities))] - reached[:-1], 0.0)
    first = int(np.lexsort((-masses, lengths))[0])
    return first, int(ends[first]) - 1
