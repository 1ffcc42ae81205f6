"""Which replications a call concerns.

Every array has one entry per replication on its first axis. A call concerns all replications, or some: those that are
still playing, or those that a master sends to one base. A `Rows` says which, and does the indexing, so that a policy is
written once: `of` reads the entries concerned, `put` and `add` write them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from adadim.backend.arrays import Array, as_numpy, indices, like, namespace
from adadim.backend.state import unchanging

__all__ = ["MaskedRows", "Rows"]

EVERY = slice(None)


@unchanging
class Rows:
    """Some replications, by position.

    Parameters
    ----------
    index : slice or integer array without repeats
        The positions.
    numbers : array
        0, 1, ..., R - 1 in the library and on the device of the data.

    Attributes
    ----------
    everyone : bool
        Whether these are all replications, in their order.

    Examples
    --------
    >>> rows = Rows.some(np.array([2, 0]), np.zeros((3, 4)))
    >>> rows.of(np.array([10, 11, 12]))
    array([12, 10])
    >>> counts = np.zeros((3, 2))
    >>> rows.add(counts, np.array([1, 0]), 5.0)
    >>> counts
    array([[5., 0.], [0., 0.], [0., 5.]])
    """

    def __init__(self, index: Any, numbers: Array) -> None:
        self.index, self._numbers = index, numbers
        self.everyone = isinstance(index, slice) and index == EVERY

    @classmethod
    def all(cls, reference: Array) -> Rows:
        """Every replication of `reference`."""
        return cls(EVERY, indices(reference))

    @classmethod
    def some(cls, positions: np.ndarray[Any, Any], reference: Array) -> Rows:
        """The replications of `reference` at some positions."""
        return cls(like(positions, reference), indices(reference))

    @cached_property
    def ids(self) -> np.ndarray[Any, Any]:
        """The positions, as integers of NumPy's."""
        return as_numpy(self._numbers[self.index])

    @cached_property
    def positions(self) -> Array:
        """The positions, in the library and on the device of the data."""
        return self._numbers[self.index]

    def __len__(self) -> int:
        return len(self.positions)

    def __bool__(self) -> bool:
        return True

    def of(self, array: Array) -> Array:
        """Entries of `array` that belong to these replications."""
        return array[self.index]

    def at(self, array: Array, columns: Array) -> Array:
        """The entry of `array` in one column for each of these replications."""
        return array[self.positions, columns]

    def put(self, array: Array, values: Array) -> None:
        """Write one entry for each of these replications."""
        array[self.index] = values

    def add(self, array: Array, columns: Array, values: Array | float) -> None:
        """Add to one column of `array` in each of these replications."""
        array[self.positions, columns] += values

    def pick(self, positions: Array) -> Rows:
        """Those of these rows that stand at some positions among them."""
        return Rows(self.positions[positions], self._numbers)

    def split(self, labels: np.ndarray[Any, Any]) -> Iterator[tuple[int, Rows, Any]]:
        """(label, the rows that have it, where they are among these) for each of the labels, one per row."""
        if (labels == labels[0]).all():
            yield int(labels[0]), self, EVERY
            return
        found: dict[int, list[int]] = {}
        for position, label in enumerate(labels.tolist()):
            found.setdefault(label, []).append(position)
        for label in sorted(found):
            at = found[label]
            if len(at) == 1:  # a slice makes views where an index makes copies
                r = int(self.ids[at[0]])
                yield label, Rows(slice(r, r + 1), self._numbers), slice(at[0], at[0] + 1)
            else:
                yield label, Rows(like(self.ids[at], self._numbers), self._numbers), like(at, self._numbers)

    def masked(self, *values: Array) -> tuple[Any, ...]:
        """These rows as a mask, and `values`, one entry each, with an entry for every replication (torch only)."""
        numbers = self._numbers
        if self.everyone:
            return MaskedRows(numbers >= 0, numbers), *values
        index = self.positions
        wide = [(numbers * 0).to(v.dtype).index_copy_(0, index, v) for v in values]
        return MaskedRows((numbers < 0).index_fill_(0, index, True), numbers), *wide


class MaskedRows(Rows):
    """Some replications, by a mask that only the device knows (torch only).

    Arrays that come with it have an entry for every replication, and those outside the mask are ignored: shapes then
    do not depend on the data, and nothing has to be read back from the device.
    """

    def __init__(self, mask: Array, numbers: Array) -> None:
        super().__init__(EVERY, numbers)
        self.mask, self.everyone = mask, False

    def put(self, array: Array, values: Array) -> None:
        mask = self.mask.reshape((-1,) + (1,) * (array.ndim - 1))
        array.copy_(namespace(array).where(mask, values, array))

    def add(self, array: Array, columns: Array, values: Array | float) -> None:
        array[self.positions, columns] += values * self.mask

    def masked(self, *values: Array) -> tuple[Any, ...]:
        return self, *values

    def only(self, mask: Array) -> MaskedRows:
        """Those of these rows for which `mask` holds too."""
        return MaskedRows(self.mask & mask, self._numbers)
