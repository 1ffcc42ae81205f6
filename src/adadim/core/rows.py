"""Which replications a call concerns, and the arms they are offered.

Every array has one entry per replication on its first axis. A call concerns all replications, or some: those still
playing, or those that a master sends to one base. `Replications` says which, and does the indexing, so that a policy is
written once: `of` reads the entries concerned, `put` and `add` write them. On a device some replications are also given
as all of them and a `mask`: then all are computed, and only those where it holds are written. Where arms come with each
round, or some are not allowed, `features` and `allowed` are the offer; where an arm costs something, `costs`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, indices, is_numpy, like, namespace
from adadim.core.state import stateless

EVERY = slice(None)


@stateless
class Replications:
    """Some replications, by position: `index` is a slice, or an array of positions without repeats. A frozen value."""

    features: Array | None = None  # (n, K, d), of this round's arms, where they come with the round
    allowed: Array | None = None  # (n, K), which arms may be chosen; None for all
    costs: Array | None = None  # (K,), what choosing each arm costs in units of the reward, in all replications alike
    mask: Array | None = None  # (n,), to which of these a call writes; None for all
    index: Any
    positions: Array
    """The positions, in the library and on the device of the data."""
    everyone: bool
    """Whether these are all replications, without a mask."""
    whole: bool
    """Whether these are all replications, perhaps with a mask."""
    on_host: bool
    """Whether the data are NumPy's."""
    _always: Array  # a mask that holds everywhere, where these are all replications on torch
    _numbers: Array
    _last_split: tuple[list[Any], list[tuple[int, Replications, Any]]] = [], []

    def __init__(self, index: Any, numbers: Array, mask: Array | None = None) -> None:
        fields = self.__dict__  # `__setattr__` refuses
        fields["index"], fields["_numbers"] = index, numbers  # numbers: 0, 1, ..., R - 1 where the data are
        fields["everyone"] = index is EVERY or (isinstance(index, slice) and index == EVERY)
        fields["whole"] = self.everyone
        fields["positions"] = numbers if self.everyone else numbers[index] if isinstance(index, slice) else index
        fields["on_host"] = is_numpy(numbers)
        if self.on_host:
            fields["ids"] = self.positions
        elif self.everyone:
            fields["_always"] = numbers >= 0
        if mask is not None:
            fields["mask"], fields["everyone"] = mask, False

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: replications cannot be changed; make others, e.g. by with_offer or pick")

    @classmethod
    def where(cls, mask: Array) -> Replications:
        """Every replication, of which calls write to those where `mask` holds."""
        return cls(EVERY, indices(mask), mask)

    @classmethod
    def all(cls, reference: Array) -> Replications:
        """Every replication of `reference`."""
        return cls(EVERY, indices(reference))

    @classmethod
    def some(cls, positions: np.ndarray[Any, Any], reference: Array) -> Replications:
        """The replications of `reference` at some positions."""
        return cls(like(positions, reference), indices(reference))

    def with_offer(self, features: Array | None, allowed: Array | None, costs: Array | None = None) -> Replications:
        """The same rows with the offer of this round, an entry for each of them."""
        if features is None and allowed is None:
            return self
        offered = object.__new__(Replications)  # not `Replications(...)`, which would work out the positions again
        fields = offered.__dict__
        fields.update(self.__dict__)
        fields["features"], fields["allowed"], fields["costs"] = features, allowed, costs
        if "_last_split" in fields:  # its parts have the former fields
            del fields["_last_split"]
        return offered

    def apply_costs_and_mask(self, scores: Array) -> Array:
        """The scores by which to choose: less the costs of the arms, and -inf for arms that are not allowed."""
        if self.costs is not None:
            scores = scores - self.costs
        if self.allowed is not None:
            xp = namespace(scores)
            scores = xp.where(self.allowed, scores, xp.full_like(scores, -math.inf))
        return scores

    def _part(self, index: Any, at: Any) -> Replications:
        """Those of these rows at the positions `at`; `index` are these replications."""
        part = Replications(index, self._numbers, None if self.mask is None else self.mask[at])
        if self.features is None and self.allowed is None:
            return part
        features = None if self.features is None else self.features[at]
        return part.with_offer(features, None if self.allowed is None else self.allowed[at], self.costs)

    @cached_property
    def ids(self) -> np.ndarray[Any, Any]:
        """The positions, as integers of NumPy's."""
        return as_numpy(self.positions)

    def __len__(self) -> int:
        return len(self.positions)

    def __bool__(self) -> bool:
        return True

    def of(self, array: Array) -> Array:
        """Entries of `array` that belong to these replications, wherever `mask` holds or not."""
        return array[self.index]

    def at(self, array: Array, columns: Array) -> Array:
        """The entry of `array` in one column for each of these replications."""
        if self.whole and not self.on_host and array.ndim == 2:
            return array.gather(1, columns[:, None])[:, 0]
        return array[self.positions, columns]

    def put(self, array: Array, values: Array) -> None:
        """Write one entry for each of these replications."""
        if self.mask is None:
            array[self.index] = values
        else:
            mask = self.mask.reshape((-1,) + (1,) * (array.ndim - 1))
            array.copy_(namespace(array).where(mask, values, array))

    def add(self, array: Array, columns: Array, values: Array | float) -> None:
        """Add to one column of `array` in each of these replications."""
        if isinstance(array, np.ndarray) and array.ndim == 2 and array.flags.c_contiguous:
            array.reshape(-1)[self.positions * array.shape[1] + columns] += values  # a third of the time of the other
            return
        if self.whole and not self.on_host and array.ndim == 2:
            values = namespace(array).zeros_like(array[:, 0]) + values
            values = values if self.mask is None else values * self.mask
            array.scatter_add_(1, columns[:, None], values[:, None])
        else:
            array[self.positions, columns] += values if self.mask is None else values * self.mask

    def pick(self, positions: Array) -> Replications:
        """Those of these rows at some positions among them."""
        return self._part(self.positions[positions], positions)

    def split(self, labels: np.ndarray[Any, Any]) -> Iterator[tuple[int, Replications, Any]]:
        """(label, the rows that have it, where they are among these) for each of the labels, one per row."""
        values = labels.tolist()  # lists of so few are compared faster than arrays
        if values.count(values[0]) == len(values):
            yield int(values[0]), self, EVERY
            return
        # A round splits the same rows in the same way twice: to choose, and to absorb.
        last_values, parts = self._last_split
        if last_values != values:
            parts = list(self._parts(values))
            vars(self)["_last_split"] = values, parts  # remembered: it follows from these replications and the labels
        yield from parts

    def _parts(self, labels: list[Any]) -> Iterator[tuple[int, Replications, Any]]:
        """As `split`, of labels that are not all the same."""
        positions: dict[int, list[int]] = {}
        for position, label in enumerate(labels):
            positions.setdefault(int(label), []).append(position)  # True and 1 are equal, but their names are not
        for label, at in sorted(positions.items()):
            if len(at) == 1:  # a slice makes views where an index makes copies
                r = int(self.ids[at[0]])
                one = slice(at[0], at[0] + 1)
                yield label, self._part(slice(r, r + 1), one), one
            else:
                many = like(at, self._numbers)
                yield label, self._part(like(self.ids[at], self._numbers), many), many

    def to_numpy(self) -> Replications:
        """The same rows and their offer in NumPy, for statistics that are kept on the host."""
        if self.on_host:
            return self
        index = self.index if isinstance(self.index, slice) else as_numpy(self.index)
        offered = (None if part is None else as_numpy(part) for part in (self.features, self.allowed, self.costs))
        return Replications(index, as_numpy(self._numbers)).with_offer(*offered)

    def masked(self, *values: Array) -> tuple[Any, ...]:
        """These rows as all of them and a mask, and `values` with an entry for every replication (torch only)."""
        if self.mask is not None:
            return self, *values
        numbers, index, features, allowed = self._numbers, self.positions, self.features, self.allowed
        if self.everyone:
            return self._with_mask(self._always), *values
        some = Replications(EVERY, numbers, (numbers < 0).index_fill_(0, index, True))
        if allowed is not None:
            all_allowed = namespace(numbers).ones_like(allowed[:1]).repeat(len(numbers), 1)
            allowed = all_allowed.index_copy_(0, index, allowed)
        offer = None if features is None else self._widened(features)
        return some.with_offer(offer, allowed, self.costs), *map(self._widened, values)

    def only(self, mask: Array) -> Replications:
        """Of replications with a mask: the same with a mask that holds where `mask` does too."""
        assert self.mask is not None
        return self._with_mask(self.mask & mask)

    def _with_mask(self, mask: Array) -> Replications:
        masked = object.__new__(Replications)
        masked.__dict__.update(self.__dict__, mask=mask, everyone=False)
        masked.__dict__.pop("_last_split", None)
        return masked

    def _widened(self, values: Array) -> Array:
        """`values`, one entry for each of these rows, with zeros for all other replications (torch only)."""
        return values.new_zeros((len(self._numbers), *values.shape[1:])).index_copy_(0, self.positions, values)
