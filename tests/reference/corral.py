"""Corral (section 6) and Smooth Corral (section 7), by log-barrier mirror descent with plain bisection."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, log, log2
from typing import Any, Literal

import numpy as np

from .common import Base, Floats, Ties, loss_of
from .ridge import Bonus, LinUCB

Feedback = Literal["step2", "mean", "sum"]
Mode = Literal["stochastic", "importance"]
MIN_HORIZON = 3  # beta_c = e^(1/ln T) needs ln T > 0 (6.7)


def log_barrier_omd(p: Any, losses: Any, eta: Any) -> tuple[Floats, float]:
    """The new distribution and its lambda (6.3); eta is one rate, or one per base."""
    p, losses = np.asarray(p, dtype=float), np.asarray(losses, dtype=float)
    eta = np.broadcast_to(np.asarray(eta, dtype=float), p.shape)
    low = float(losses.min())
    pole = float((losses + 1 / (eta * p)).min())
    high = min(float(losses.max()), pole)
    if high <= low:
        return p.copy(), low
    inverses, rates, charged = (1 / p).tolist(), eta.tolist(), losses.tolist()  # on a few numbers floats are fast
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        terms = [inverse + rate * (loss - middle) for inverse, rate, loss in zip(inverses, rates, charged, strict=True)]
        if 0.0 not in terms and sum(1 / term for term in terms) < 1:
            low = middle
        else:
            high = middle
    new = 1 / (1 / p + eta * (losses - low))
    return new / new.sum(), low


def nested_dims(d: int) -> list[int]:
    """2^0, ..., 2^(M-1) with M = ceil(log2 d)."""
    return [2**i for i in range(max(ceil(log2(d)), 1))]


class CorralMaster:
    """Corral's distribution over M bases; `horizon` is the number of master rounds."""

    def __init__(self, M: int, eta: float, horizon: float) -> None:
        assert horizon >= MIN_HORIZON
        self.M = M
        self.gamma = 1 / horizon
        self.beta = exp(1 / log(horizon))
        self.eta = np.full(M, float(eta))
        self.rho = np.full(M, 2.0 * M)
        self.p = np.full(M, 1 / M)
        self.pbar = self.p.copy()

    def update(self, i: int, loss: float) -> None:
        """Steps 3-5 of 6.2 after base i was played with this loss."""
        losses = np.zeros(self.M)
        losses[i] = loss / self.pbar[i]
        self.p, _ = log_barrier_omd(self.p, losses, self.eta)
        self.pbar = (1 - self.gamma) * self.p + self.gamma / self.M
        for j in range(self.M):
            if 1 / self.pbar[j] > self.rho[j]:
                self.rho[j] = 2 / self.pbar[j]
                self.eta[j] *= self.beta


class SmoothMaster:
    """Smooth Corral over given bases: a round is one fresh step and one replay of the chosen base (7.1, 7.3).

    `next` gives (base, the base's action); `feed` takes its reward. Without `replay` a round is the fresh
    step alone (Stochastic Corral). `draw_base` and `draw_replay` hold all of the master's randomness.
    """

    def __init__(
        self,
        bases: Sequence[Base],
        eta: float,
        horizon: float,
        rng: np.random.Generator,
        loss_range: tuple[float, float] = (-1.0, 1.0),
        feedback: Feedback = "step2",
        replay: bool = True,
    ) -> None:
        self.bases, self.rng, self.loss_range = bases, rng, loss_range
        self.feedback, self.replay = feedback, replay
        self.master = CorralMaster(len(bases), eta, horizon)
        self.stored: list[list[int]] = [[] for _ in bases]
        self.rounds = 0
        self.base = -1
        self.action = -1
        self.first_loss: float | None = None  # set between the two steps of a round

    def draw_base(self) -> int:
        return int(self.rng.choice(self.master.M, p=self.master.pbar))

    def draw_replay(self, size: int) -> int:
        """Position in 0..size-1 of the stored policy to replay."""
        return int(self.rng.integers(size))

    def next(self) -> tuple[int, int]:
        if self.first_loss is None:
            self.base = self.draw_base()
            self.action = self.bases[self.base].select()
            self.stored[self.base].append(self.action)
        else:
            stored = self.stored[self.base]
            self.action = stored[self.draw_replay(len(stored))]
        return self.base, self.action

    def feed(self, reward: float) -> None:
        loss = loss_of(reward, self.loss_range)
        if self.first_loss is None:
            self.bases[self.base].update(self.action, reward)
            if self.replay:
                self.first_loss = loss
                return
            total = loss
        elif self.feedback == "step2":
            total = loss
        else:
            total = (self.first_loss + loss) / (2 if self.feedback == "mean" else 1)
        self.master.update(self.base, total)
        self.first_loss = None
        self.rounds += 1


class SmoothCorral:
    """Smooth Corral over LinUCB in nested dimensions.

    `master_horizon` is the number of master rounds in gamma and beta_c: ceil(T/2) unless given (T without
    replay). `base_horizon` is the T of every base's radius: T unless given. eta defaults to T^-0.5.
    """

    def __init__(
        self,
        X: Floats,
        T: int,
        sigma: float,
        ridge: float,
        rng: np.random.Generator,
        dims: Sequence[int] | None = None,
        eta: float | None = None,
        loss_range: tuple[float, float] = (-1.0, 1.0),
        feedback: Feedback = "step2",
        replay: bool = True,
        master_horizon: float | None = None,
        base_horizon: int | None = None,
        bonus: Bonus = "norm",
        ties: Ties = "random",
    ) -> None:
        X = np.asarray(X, dtype=float)
        self.dims = list(nested_dims(X.shape[1]) if dims is None else dims)
        self.bases = [LinUCB(X[:, :dim], base_horizon or T, sigma, ridge, rng, bonus, ties=ties) for dim in self.dims]
        rounds = default_rounds(T, replay) if master_horizon is None else master_horizon
        self.engine = SmoothMaster(
            self.bases, T**-0.5 if eta is None else eta, rounds, rng, loss_range, feedback, replay
        )

    def select(self) -> int:
        return self.engine.next()[1]

    def update(self, arm: int, reward: float) -> None:
        assert arm == self.engine.action
        self.engine.feed(reward)


def default_rounds(T: int, replay: bool) -> int:
    """Master rounds in T environment steps, at least 3."""
    return max(ceil(T / 2) if replay else T, MIN_HORIZON)


class Corral:
    """Corral over LinUCB in nested dimensions, without smoothing (6.4).

    "stochastic": only the selected base learns, from the raw reward. "importance": every base learns about
    its own proposal, from the importance-weighted loss turned back into a reward (loss 0 if not selected).
    """

    def __init__(
        self,
        X: Floats,
        T: int,
        sigma: float,
        ridge: float,
        rng: np.random.Generator,
        dims: Sequence[int] | None = None,
        eta: float | None = None,
        loss_range: tuple[float, float] = (-1.0, 1.0),
        mode: Mode = "stochastic",
        master_horizon: float | None = None,
        bonus: Bonus = "norm",
        ties: Ties = "random",
    ) -> None:
        X = np.asarray(X, dtype=float)
        self.dims = list(nested_dims(X.shape[1]) if dims is None else dims)
        self.bases = [LinUCB(X[:, :dim], T, sigma, ridge, rng, bonus, ties=ties) for dim in self.dims]
        self.master = CorralMaster(
            len(self.dims),
            T**-0.5 if eta is None else eta,
            default_rounds(T, replay=False) if master_horizon is None else master_horizon,
        )
        self.rng, self.loss_range, self.mode = rng, loss_range, mode
        self.base = -1
        self.proposals: dict[int, int] = {}

    def select(self) -> int:
        self.base = int(self.rng.choice(self.master.M, p=self.master.pbar))
        proposing = [self.base] if self.mode == "stochastic" else range(self.master.M)
        self.proposals = {i: self.bases[i].select() for i in proposing}
        return self.proposals[self.base]

    def update(self, arm: int, reward: float) -> None:
        assert arm == self.proposals[self.base]
        loss = loss_of(reward, self.loss_range)
        if self.mode == "stochastic":
            self.bases[self.base].update(arm, reward)
        else:
            lo, hi = self.loss_range
            for i, proposal in self.proposals.items():
                weighted = loss / self.master.pbar[i] if i == self.base else 0.0
                self.bases[i].update(proposal, float(hi - (hi - lo) * weighted))
        self.master.update(self.base, loss)
