"""The seven masters of Pacchiano, Dann and Gentile 2024, table 1, as its authors ran them.

D3RB and ED2RB are the library's; the other five are for that table alone. What their code does where the papers of
these masters say something else is read off it: github.com/pacchiano/modelselection (algorithmsmodsel.py,
experiments_synthetic.py) and, for EXP3 with its discount, the older github.com/pacchiano/PLOT.
Of the settings there, the rate of Corral and the discount of EXP3 are those whose regret is the published one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from adadim.core.arrays import Array, clamp, indices, like, namespace
from adadim.core.checks import not_negative
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import argmax
from adadim.policies import D3RB, ED2RB, Corral
from adadim.policies.base import Memo, Policy
from adadim.policies.masters.balancing import DataDriven, DataDrivenLearner
from adadim.policies.masters.base import CountingMasterLearner, Master
from adadim.policies.masters.corral import CorralLearner, LogBarrier

INDEX_DELTA = 0.1
LARGEST_INDEX = 1.0
DISCOUNT = 0.9
LARGEST_EXPONENT = 100.0


def masters(bases: tuple[Policy, ...], variant: str) -> dict[str, Policy]:
    """The masters over some bases: all seven as "released", D3RB and ED2RB as "printed"."""
    balanced = {"bases": bases, "reward_scale": 1.0, "delta": 0.01, "variant": variant}
    printed: dict[str, Policy] = {"d3rb": D3RB(**balanced), "ed2rb": ED2RB(**balanced)}  # type: ignore[arg-type]
    if variant == "printed":
        return printed
    return {
        **printed,
        "corral": ReleasedCorral(bases=bases),
        "rb-grid": BalancingGrid(**balanced),  # type: ignore[arg-type]
        "ucb": CappedUCB(bases=bases, radius=2.0),
        "greedy": CappedUCB(bases=bases, radius=0.0),
        "exp3": DiscountedEXP3(bases=bases),
    }


@dataclass(frozen=True)
class ReleasedCorral(Corral):
    """Corral with losses 1 - reward of any size and a tenth of the learning rate, its smoothing fed back."""

    def distribution(self, policies: Sequence[Policy], problem: Problem) -> LogBarrier:
        eta = self.eta or 0.1 / math.sqrt(problem.horizon)
        return FedBackBarrier(problem.reference, len(policies), eta, problem.horizon)


class RawRewardLearner(CorralLearner, of=ReleasedCorral):
    """A master that draws its bases, and whose losses 1 - reward are not brought into [0, 1]."""

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        chosen = memo["base"]
        rows.add(self.counts, chosen, 1)
        self.bases.absorb(chosen, arms, rewards, rows, memo)
        self.master.update(chosen, 1.0 - rewards, rows)


class FedBackBarrier(LogBarrier):
    """The next step of mirror descent starts at the smoothed probabilities; thresholds rho_i are whole numbers."""

    def update(self, chosen: Array, losses: Array, rows: Rows) -> None:
        super().update(chosen, losses, rows)
        rows.put(self.p, rows.of(self.pbar))
        rows.put(self.rho, namespace(self.rho).floor(rows.of(self.rho)))


@dataclass(frozen=True)
class DiscountedEXP3(ReleasedCorral):
    """EXP3 over bases: weights exp(eta S_i), eta = sqrt(ln M / (M T)), and S_i is 0.9 S_i + reward / p_i at a play."""

    def distribution(self, policies: Sequence[Policy], problem: Problem) -> ExponentialWeights:  # type: ignore[override]
        bases = len(policies)
        eta = self.eta or math.sqrt(math.log(bases) / (bases * problem.horizon))
        return ExponentialWeights(len(problem), bases, eta, problem.reference)


class ExponentialWeights:
    """Probabilities in proportion to exp(eta S_i), in the interface of `LogBarrier`."""

    def __init__(self, replications: int, bases: int, eta: float, reference: Array) -> None:
        self.p = like(np.full((replications, bases), 1.0 / bases), reference)
        self.sums = self.p * 0.0
        self.eta = self.p * 0.0 + eta

    def probabilities(self, rows: Rows) -> Array:
        return rows.of(self.p)

    def update(self, chosen: Array, losses: Array, rows: Rows) -> None:
        p, sums = rows.of(self.p), rows.of(self.sums)
        xp, own = namespace(p), chosen[:, None] == indices(p[0])
        sums = xp.where(own, DISCOUNT * sums + (1.0 - losses)[:, None] / p, sums)
        weights = xp.exp(clamp(rows.of(self.eta) * sums, None, LARGEST_EXPONENT))
        rows.put(self.sums, sums)
        rows.put(self.p, weights / xp.sum(weights, axis=-1, keepdims=True))


@dataclass(frozen=True)
class BalancingGrid(DataDriven):
    """Regret balancing with elimination ("RB grid"): each base floor(ln T) times, with coefficients 1, 2, 4, ..."""

    @staticmethod
    def copies(horizon: int) -> int:
        """Copies of each base."""
        return max(1, int(math.log(horizon)))

    def policies(self, problem: Problem) -> tuple[Policy, ...]:
        copies = self.copies(problem.horizon)
        return tuple(base for base in super().policies(problem) for _ in range(copies))


class BalancingGridLearner(DataDrivenLearner, of=BalancingGrid):
    """Potentials d_i sqrt(n_i ln(n_i / delta)), infinite for ever once the data refute them; the lowest of equals."""

    policy: BalancingGrid

    def __init__(self, policy: BalancingGrid, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        copies = policy.copies(problem.horizon)
        grid = np.tile(2.0 ** np.arange(copies), len(self.bases) // copies)
        self.coefficients = self.zeros(len(self.bases)) + like(grid, problem.reference)
        self.potential = self.coefficients + 0.0

    def next_base(self, rows: Rows) -> Array:
        return argmax(self.scores(rows), None)

    def updated(self, rows: Rows) -> tuple[Array, Array]:
        coefficients, (n, estimate) = rows.of(self.coefficients), self.released_estimate(rows)
        bound = coefficients * self.xp.sqrt(n * self.xp.log(n / self.delta))
        # Differences of sums over sqrt(n) are compared with a bound for sums.
        return coefficients, self.xp.where(estimate > n * bound, math.inf, bound)


@dataclass(frozen=True)
class CappedUCB(Master):
    """UCB over bases with indices of at most 1, greedy if the radius is 0; the first two bases are drawn."""

    radius: Annotated[float, not_negative] = 2.0


class CappedUCBLearner(CountingMasterLearner, of=CappedUCB):
    """State of `CappedUCB`."""

    policy: CappedUCB

    def scores(self, rows: Rows) -> Array:
        xp, plays = self.xp, rows.of(self.plays)
        t = xp.sum(plays, axis=-1, keepdims=True)
        width = self.policy.radius * xp.sqrt(xp.log((t + 1.0) / INDEX_DELTA) / (plays + 1e-10))
        index = clamp(self.means(rows) + width, None, LARGEST_INDEX)
        return xp.where(t > 1.0, index, xp.zeros_like(index))
