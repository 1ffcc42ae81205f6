"""Sums over the log of an agent: all that its model is made of.

Means, noise and ridge are learned from the decisions that have a reward; widths shrink with every decision, from the
moment it is made. So there are two second moments: over the answered decisions, and over the answered and the open
ones, those that still wait for their reward.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from adadim.agent.fits import NOTHING_SCHEDULED, FitSchedule
from adadim.agent.reading import Entries
from adadim.core.arrays import FloatArray
from adadim.models.likelihoods import MIN_OF_EACH_KIND, ExpandedLikelihood, likelihood_of
from adadim.models.memory import AGE_STEP, HALF_LIVES, MemoryBank
from adadim.models.parts import Likelihood
from adadim.models.statistics import FORGOTTEN, Moments

MOMENT_FIELDS = ("second", "moment", "squares", "weight", "longest", "extent", "first", "total")
MIN_REWARDS_OF_HINT = 20  # that are all 0 or 1, before an agent says how to tell it so
FAR_FACTOR = 10.0  # an open feature so many times larger than all with a reward enters the scales
CANCELLATION_FACTOR = 1e3  # a sum that a subtraction would make so many times smaller is added up anew instead

GAUSSIAN_LIKELIHOOD = likelihood_of("gaussian")

FitKey = tuple[int, int, int, int]
"""What a fit depends on: `Told.due`, the half-life that the data find, with when it was chosen, and the prior."""


class Fading(NamedTuple):
    """How much decisions count by their age."""

    half_life: float | None = None
    step: int = 1  # in which they age
    start: int = 0  # the first that counts

    @classmethod
    def of(cls, bank: MemoryBank, at: int) -> Fading:
        """How much they count by the half-life at a position of `HALF_LIVES`."""
        half_life, start = HALF_LIVES[at], int(bank.starts[at])
        return cls(None, 1, start) if math.isinf(half_life) else cls(half_life, AGE_STEP, start)

    def weights(self, numbers: Any, epoch: int) -> FloatArray | None:
        """Weights of decisions where decision `epoch` counts 1; None where nothing is forgotten."""
        if self == NOTHING_FADES:
            return None
        ages = 0.0 if self.half_life is None else (numbers // self.step * self.step - epoch) / self.half_life
        return np.where(numbers >= self.start, np.exp2(ages), 0.0)


NOTHING_FADES = Fading()


@dataclass
class Sums:
    """Sums over the log: the moments of the regression and a few counts.

    With a half-life H, the pull of decision n counts 2^(-(epoch - n) / H) in the moments; without one, 1. Decisions age
    `step` at a time: both numbers are rounded down to a multiple of it. Those before decision `start` count 0. All of
    this is said by `fading`.
    """

    moments: Moments  # over the decisions that have a reward
    fading: Fading = NOTHING_FADES
    epoch: int = 0  # the decision that counts 1 where older ones count less
    answered: int = 0  # decisions of the agent that have a reward
    learned: int = 0  # decisions of other systems
    open: int = 0  # decisions that wait for their reward
    pending: Moments | None = None  # over answered and open decisions, as if all earned 0; None while none is open
    likelihood: Likelihood = GAUSSIAN_LIKELIHOOD
    point: FloatArray | None = None  # about which the likelihood is expanded, if it is (`likelihoods`)
    fitted: FitKey = (0, 0, 0, 0)  # what it was found for
    schedule: FitSchedule = NOTHING_SCHEDULED
    peak: FloatArray | float = 0.0  # the largest diagonal that `pending.second` has had since it was last added up anew

    @classmethod
    def empty(cls, dim: int, fading: Fading = NOTHING_FADES, rewards: str = "gaussian") -> Sums:
        """The sums of an empty log."""
        likelihood = likelihood_of(rewards)
        point = np.zeros(1 + dim) if likelihood.expands else None
        return cls(Moments.zeros(dim), fading, likelihood=likelihood, point=point)

    @property
    def expanded(self) -> ExpandedLikelihood:
        """The likelihood, of which there is a point."""
        assert isinstance(self.likelihood, ExpandedLikelihood)
        return self.likelihood

    @property
    def count(self) -> int:
        """Decisions that have a reward."""
        return self.answered + self.learned

    @property
    def counted(self) -> Moments:
        """The moments over all decisions that count in the widths."""
        return self.moments if self.pending is None else self.pending

    @property
    def scales(self) -> tuple[float, FloatArray]:
        """The largest squared norm and values by which learners choose ridges and units.

        They are those of the decisions that have a reward, unless an open one is far larger. Before the first reward,
        for example, only open decisions show the units of the features.
        """
        chosen = self.counted if self._far else self.moments
        return chosen.longest, chosen.extent

    @property
    def bounds(self) -> tuple[float, FloatArray]:
        """The largest squared norm and values that an open decision may have without changing `scales`."""
        if self._far:
            return self.counted.longest, self.counted.extent
        return FAR_FACTOR**2 * self.moments.longest, FAR_FACTOR * self.moments.extent

    @property
    def _far(self) -> bool:
        answered, counted = self.moments, self.counted
        too_long = counted.longest > FAR_FACTOR**2 * answered.longest
        return bool(too_long or (counted.extent > FAR_FACTOR * answered.extent).any())

    def add_pending(self, numbers: Any, features: FloatArray) -> None:
        """Count decisions that wait for their reward."""
        self.forget(int(numbers.max(initial=0)))
        if self.pending is None:
            self.pending = self.moments.without_rewards().copy()
        self._count(numbers, features)
        self.open += len(numbers)

    def withdraw(self, numbers: Any, features: FloatArray) -> bool:
        """Subtract decisions that waited for their reward; False if the difference is not exact enough.

        The open decisions then have to be counted anew: `clear_pending` and `add_pending`.
        """
        self.open -= len(numbers)
        if self._clear_unless_pending() or self.pending is None:
            return True
        pending, weights = self.pending, self._weights(numbers, features)
        pending.second -= (features if weights is None else features * weights[:, None]).T @ features
        pending.first -= features.sum(axis=0) if weights is None else weights @ features
        pending.weight -= float(len(numbers) if weights is None else weights.sum())
        # The largest values are not sums: without the decision that had one, they are unknown.
        largest = np.vecdot(features, features).max() * (1 + 1e-9) >= pending.longest > self.moments.longest
        widest = (np.abs(features).max(axis=0) >= pending.extent) & (pending.extent > self.moments.extent)
        return not (largest or widest.any() or (self.peak > CANCELLATION_FACTOR * np.diag(pending.second)).any())

    def clear_pending(self) -> None:
        """Drop all open decisions from the sums; `add_pending` can count them again."""
        self.open, self.pending, self.peak = 0, None, 0.0

    def add(self, numbers: Any, features: FloatArray, rewards: FloatArray, by_agent: int, waited: Any = None) -> None:
        """Add the rewards of decisions that had none, `by_agent` of them the agent's.

        `waited` says of each whether `add_pending` has counted it, by default none.
        """
        self.forget(int(numbers.max(initial=0)))
        self.moments.add(features, self._working(features, rewards), self._weights(numbers, features))
        self.answered += by_agent
        self.learned += len(rewards) - by_agent
        if waited is not None:
            self.open -= int(waited.sum())
        if not self._clear_unless_pending():
            fresh = np.ones(len(rewards), dtype=bool) if waited is None else ~waited
            if fresh.any():
                self._count(numbers[fresh], features[fresh])

    def replace(self, numbers: Any, features: FloatArray, old: FloatArray, new: FloatArray) -> None:
        """Replace rewards that were added before by corrected ones."""
        working = self._working(features, old), self._working(features, new)
        self.moments.replace(features, *working, self._weights(numbers, features))

    def add_entries(self, entries: Entries, waited: Any = None) -> FloatArray:
        """Add rewards and corrections of the log, `waited` as in `add`; gives the rewards that were replaced."""
        _, numbers, features, rewards, replaced, by_agent, *_ = entries
        if replaced is None:
            self.add(numbers, features, rewards, int(by_agent.sum()), waited)
            return np.zeros(0)
        first = np.isnan(replaced)
        if first.any():
            counted = None if waited is None else waited[first]
            self.add(numbers[first], features[first], rewards[first], int(by_agent[first].sum()), counted)
        old = replaced[~first]
        self.replace(numbers[~first], features[~first], old, rewards[~first])
        return np.asarray(old)

    @property
    def look_like_clicks(self) -> bool:
        """Whether an agent that was not told of clicks has had 0 and 1 alone as rewards, and enough of them."""
        moments = self.moments
        only_0_and_1 = abs(moments.squares - moments.total) <= 1e-9 * moments.weight  # false for NaN
        some_of_each = 0 < moments.total < moments.weight
        return self.point is None and self.count >= MIN_REWARDS_OF_HINT and only_0_and_1 and some_of_each

    def at(self, number: int) -> Moments:
        """The moments by which decision `number` is made."""
        moments, pending = self.moments, self.pending
        if self.fading != NOTHING_FADES:
            pending = None if pending is None else pending.copy()
            faded = replace(self, moments=moments.copy(), pending=pending, peak=0.0)
            faded.forget(number)
            moments = Moments.zeros(len(moments.moment)) if faded.moments.weight < FORGOTTEN else faded.moments
        if self.point is not None:
            if self.fitted[1] < MIN_OF_EACH_KIND:  # no arm differs in mean
                moments = moments.alike(float(self.point[0]))
            moments = replace(moments, count=float(self.count), point=self.point)
        if pending is None:
            return moments
        longest, extent = self.scales
        return replace(moments, longest=longest, extent=extent, pending=pending)

    def forget(self, number: int) -> None:
        """Multiply the weights of all decisions by what they lose until decision `number`."""
        half_life, step, _ = self.fading
        number = number // step * step
        if number > self.epoch:
            if half_life is not None:
                factor = 2.0 ** (-(number - self.epoch) / half_life)
                self.moments.fade(factor)
                if self.pending is not None:
                    self.pending.fade(factor)
                    self.peak *= factor
            self.epoch = number

    def move(self, positions: list[int], dim: int) -> None:
        """Move the features to these positions among `dim`; the others are 0 in all decisions."""
        self.moments = self.moments.moved(positions, dim)
        if self.point is not None:
            point, self.point = self.point, np.zeros(1 + dim)
            self.point[0], self.point[1 + np.array(positions, dtype=np.int64)] = point[0], point[1:]
        if self.pending is not None:
            self.pending, peak = self.pending.moved(positions, dim), np.zeros(dim)
            peak[positions] = self.peak
            self.peak = peak

    def _count(self, numbers: Any, features: FloatArray) -> None:
        assert self.pending is not None
        self.pending.add(features, np.zeros(len(numbers)), self._weights(numbers, features))
        self.peak = np.maximum(self.peak, np.diag(self.pending.second))

    def _clear_unless_pending(self) -> bool:
        """Whether no decision is open; then rounding is cleared too."""
        if self.open == 0:
            self.clear_pending()
        return self.open == 0

    def faded(self, numbers: Any) -> FloatArray | None:
        """Weights of decisions by their age; None where nothing is forgotten."""
        return self.fading.weights(numbers, self.epoch)

    def _weights(self, numbers: Any, features: FloatArray) -> FloatArray | None:
        faded, weights = self.faded(numbers), self.likelihood.weights(self.point, features)
        if weights is None or faded is None:
            return faded if weights is None else weights
        return weights * faded

    def _working(self, features: FloatArray, rewards: FloatArray) -> FloatArray:
        """What the moments are made of: the rewards, or those of the linear model in their place."""
        return self.likelihood.working(self.point, features, rewards)


def difference(one: Sums, other: Sums) -> float:
    """Largest difference of any two entries, relative to the largest entry of its kind; infinite if counts differ."""
    if any(getattr(one, name) != getattr(other, name) for name in ("epoch", "answered", "learned", "open", "fitted")):
        return math.inf
    largest = 0.0
    for part, name in itertools.product(("moments", "counted"), MOMENT_FIELDS):
        a, b = (np.nan_to_num(np.atleast_1d(getattr(getattr(sums, part), name))) for sums in (one, other))
        size = max(float(np.abs(a).max()), float(np.abs(b).max()))
        largest = max(largest, float(np.abs(a - b).max()) / size if size else 0.0)
    return largest
