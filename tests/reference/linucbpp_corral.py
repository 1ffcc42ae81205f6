"""LinUCB++ with Corral (Algorithm 2, section 5)."""

from __future__ import annotations

from math import sqrt

import numpy as np

from .common import Floats, Ints, Ties
from .corral import Feedback, SmoothMaster, default_rounds
from .linucbpp import Iterated
from .ridge import Bonus, LinUCB, virtual_sigma
from .ucb import UCB, Index


class LinUCBPPCorral(Iterated):
    """In iteration i >= 2: LinUCB on d_i and UCB over the mixtures, both smoothed, under Smooth Corral.

    Iteration 1 is LinUCB alone. `master_horizon` (rounds in gamma and beta_c) is ceil(DeltaT_i/2) in every
    iteration unless given; eta is 1/sqrt(d_i DeltaT_i) unless given.
    """

    def __init__(
        self,
        X: Floats,
        T: int,
        sigma: float,
        ridge: float,
        rng: np.random.Generator,
        beta: float = 0.5,
        bonus: Bonus = "norm",
        mean_range: float = 2.0,
        index: Index = "self_normalised",
        eta: float | None = None,
        loss_range: tuple[float, float] = (-1.0, 1.0),
        feedback: Feedback = "step2",
        replay: bool = True,
        master_horizon: float | None = None,
        levels: Ints | None = None,
        ties: Ties = "random",
    ) -> None:
        super().__init__(X, T, beta, rng, levels)
        self.sigma, self.ridge, self.bonus, self.mean_range = sigma, ridge, bonus, mean_range
        self.index, self.eta, self.loss_range = index, eta, loss_range
        self.feedback, self.replay, self.master_horizon = feedback, replay, master_horizon
        self.ties = ties
        self.linucb: LinUCB
        self.ucb: UCB | None = None
        self.engine: SmoothMaster | None = None

    def begin(self, dim: int, length: int) -> None:
        features = self.X[self.rows, :dim]
        self.linucb = LinUCB(features, length, self.sigma, self.ridge, self.rng, self.bonus, ties=self.ties)
        if len(self.mixtures) == 0:
            return
        scale = virtual_sigma(self.sigma, self.mean_range)
        self.ucb = UCB(len(self.mixtures), length, scale, self.rng, self.index, ties=self.ties)
        self.engine = SmoothMaster(
            [self.linucb, self.ucb],
            1 / sqrt(dim * length) if self.eta is None else self.eta,
            default_rounds(length, self.replay) if self.master_horizon is None else self.master_horizon,
            self.rng,
            self.loss_range,
            self.feedback,
            self.replay,
        )

    def choose(self) -> int:
        if self.engine is None:
            return int(self.rows[self.linucb.select()])
        base, action = self.engine.next()
        return int(self.rows[action]) if base == 0 else self.K + action

    def learn(self, column: int, reward: float) -> None:
        if self.engine is None:
            self.linucb.update(int(np.searchsorted(self.rows, column)), reward)
        else:
            self.engine.feed(reward)
