"""What every reference algorithm shares: the interface, tie-breaking, the loss map and the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ties = Literal["random", "lowest"]

TIE_TOLERANCE = 1e-10


class Base(Protocol):
    """A learner over actions 0..n-1 (real arms, or virtual arms for UCB)."""

    def select(self) -> int: ...

    def update(self, arm: int, reward: float) -> None: ...


Algorithm = Base  # an algorithm is a Base whose actions are the real arms


@dataclass(frozen=True)
class Run:
    """One replication: real arms pulled, rewards seen, cumulative pseudo-regret after each step."""

    arms: Ints
    rewards: Floats
    regret: Floats


def argmax_ties(scores: Any, rng: np.random.Generator, ties: Ties = "random") -> int:
    """Index of the largest score; scores within 1e-10 (relative) of the maximum tie."""
    scores = np.asarray(scores, dtype=float)
    best = scores.max()
    slack = TIE_TOLERANCE * abs(best) if np.isfinite(best) else 0.0
    tied = np.flatnonzero(scores >= best - slack)
    if ties == "lowest" or len(tied) == 1:
        return int(tied[0])
    return int(rng.choice(tied))


def loss_of(reward: float, loss_range: tuple[float, float]) -> float:
    """Reward to loss in [0, 1] (section 0): clip((hi - r) / (hi - lo), 0, 1)."""
    lo, hi = loss_range
    return float(np.clip((hi - reward) / (hi - lo), 0.0, 1.0))


def run(algorithm: Algorithm, means: Floats, T: int, sigma: float, rng: np.random.Generator) -> Run:
    """Play T steps against Gaussian rewards; regret is counted on the real arms pulled."""
    arms = np.zeros(T, dtype=np.int64)
    rewards = np.zeros(T)
    for t in range(T):
        arm = algorithm.select()
        reward = float(means[arm] + sigma * rng.standard_normal())
        algorithm.update(arm, reward)
        arms[t], rewards[t] = arm, reward
    return Run(arms, rewards, np.cumsum(means.max() - means[arms]))
