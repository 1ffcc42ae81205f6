"""Memories whose pulls fade: with a half-life that is given, or with one for each replication that the data find."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, as_numpy, like
from adadim.core.checks import check_fits, positive
from adadim.core.rows import Replications
from adadim.models.memory import HALF_LIVES, RECENT_REWARDS, MemoryBank, age_of
from adadim.models.offers import ArrivingRows, Memo
from adadim.models.parts import Due, Memory, Numbers, Remade

MemoryName = float | str | None
"""A half-life in decisions, the name of a memory ("auto": the data find the half-life), or None to forget nothing."""


class HalfLife(Memory):
    """A pull counts half after so many further decisions.

    The belief of a learned prior is found for every decision, as in an agent of the same memory.
    """

    forgets = each_decision = True
    offer: ArrivingRows
    decisions: Array

    def __init__(self, half_life: float) -> None:
        self.half_life = half_life

    def begin(self, offer: Any, decisions: Array) -> None:
        self.offer, self.decisions = offer, decisions

    def age(self, number: Any) -> Any:
        """The number of the decision as which these are weighted."""
        return number

    def prepare(self, rows: Replications) -> Due:
        offer, number = self.offer, self.age(rows.of(self.decisions) + 1.0)
        if offer.blocks > 1:
            number = like(np.repeat(as_numpy(number), offer.blocks), number)
        offer.regression.fade(number, offer.regressions(rows))
        return Due(beliefs=rows.ids.tolist() if offer.prior.learns and self.each_decision else ())

    def dated(self, inputs: Any, memo: Memo) -> Any:
        return inputs, self.age(memo["decision"])

    def loaded(self, r: int, number: int) -> None:
        state = self.offer.regression
        for block in self.offer.blocks_of(r):
            for regression in (state, state.pending):
                if regression is not None:
                    regression.epoch[block] = self.age(number)

    def weights(self, r: int, numbers: Numbers, number: int) -> FloatArray | None:
        return np.asarray(np.exp2((self.age(numbers) - self.age(number)) / self.half_life))

    def describe(self, r: int) -> dict[str, Any]:
        weights = self.offer.regression.weight.reshape(len(self.offer.problem), -1)
        return {"effective_pulls": float(weights[r].sum())}


class FoundHalfLife(HalfLife):
    """The half-life by which the rewards of a replication were predicted best so far (`MemoryBank`)."""

    on_host, each_decision = True, False
    banks: list[MemoryBank]

    def __init__(self) -> None:
        super().__init__(math.inf)  # as long as nothing says otherwise

    def begin(self, offer: Any, decisions: Array) -> None:
        super().begin(offer, decisions)
        count, blocks, dim = len(offer.problem), offer.blocks, offer.dim
        size = len(HALF_LIVES) * blocks * dim**2 + RECENT_REWARDS * dim
        check_fits(8.0 * count * size, dim=dim, replications=count * blocks)
        self.banks = [MemoryBank(dim, blocks) for _ in range(count)]

    def age(self, number: Any) -> Any:
        return age_of(number)

    def add_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        for bank, pull in self._pulls(arms, rows, memo):
            bank.add_pending(*pull)

    def count_beside_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        for bank, pull in self._pulls(arms, rows, memo):
            bank.count_beside_pending(*pull)

    def clear_pending(self) -> None:
        for bank in self.banks:
            bank.clear_pending()

    def _pulls(
        self, arms: Array, rows: Replications, memo: Memo
    ) -> list[tuple[MemoryBank, tuple[int, FloatArray, int]]]:
        """The bank of each replication, with number, features and parameter of the decision pulled."""
        features = self.offer.pulled_features(arms, rows, memo)
        blocks = arms.tolist() if self.offer.blocks > 1 else [0] * len(rows)
        pulls = zip(memo["decision"].astype(np.int64).tolist(), features, blocks, strict=True)
        return [(self.banks[r], pull) for r, pull in zip(rows.ids.tolist(), pulls, strict=True)]

    def learn(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> Due:
        beliefs, sums, state = [], [], self.offer.regression
        pulls = self._pulls(arms, rows, memo)
        for at, (r, (bank, (number, features, block))) in enumerate(zip(rows.ids.tolist(), pulls, strict=True)):
            before = bank.since
            bank.learn(np.array([number]), features[None], rewards[at : at + 1], np.array([block]))
            if bank.since != before:  # another half-life is in use, or one that began again
                sums.append(r)
                for each in self.offer.blocks_of(r):
                    state.memory[each] = bank.half_life
            elif number < bank.start:  # the regression has learned it, though it counts no more
                sums.append(r)
            elif not bank.filled and (bank.in_use or bank.start):  # a block is complete
                beliefs.append(r)
        return Due(beliefs, sums)

    def sums(self, r: int, number: int) -> Remade:
        return Remade(self.banks[r].moments(), self.banks[r].epoch)

    def weights(self, r: int, numbers: Numbers, number: int) -> FloatArray | None:
        half_life, start = self.banks[r].half_life, self.banks[r].start
        if math.isinf(half_life) and not start:
            return None
        return np.where(numbers >= start, np.exp2((self.age(numbers) - self.age(number)) / half_life), 0.0)

    def describe(self, r: int) -> dict[str, Any]:
        bank = self.banks[r]
        return {
            **super().describe(r),
            "half_life": None if math.isinf(bank.half_life) else bank.half_life,
            "half_life_since": bank.since,
            "world_changed": bank.world_changed,
        }


MEMORIES: dict[str, Callable[[], Memory]] = {"auto": FoundHalfLife}
"""What the parameter `memory` of a policy names, besides half-lives."""


def memory_of(named: MemoryName | Memory) -> Memory:
    """A memory for one model, by a half-life in decisions, by its name, as it is, or one that forgets nothing."""
    if named is None:
        return Memory()
    if isinstance(named, str):
        return MEMORIES[named]()
    return named if isinstance(named, Memory) else HalfLife(named)


def checked_memory(value: Any, name: str = "memory") -> MemoryName:
    """Raise unless `value` is a half-life, the name of a memory, or None."""
    if value is None or (isinstance(value, str) and value in MEMORIES):
        return value
    return float(positive(value, name, "a half-life in decisions, 'auto' to find it, or None to forget nothing"))
