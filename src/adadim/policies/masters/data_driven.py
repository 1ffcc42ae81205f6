"""What D3RB and ED2RB share (Pacchiano, Dann and Gentile 2024): balancing regret coefficients learned from the data."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

from adadim.backend.arrays import Array, clamp, like
from adadim.backend.rows import Rows
from adadim.checks import one_of, positive
from adadim.policies.masters.learner import Master
from adadim.policies.masters.statistics import CountingMasterLearner, check_counting, mean_width
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["DataDriven", "DataDrivenLearner"]

RELEASED_DELTA = 0.01


@dataclass(frozen=True)
class DataDriven(Master):
    """Hyper-parameters of either."""

    d_min: float = 1.0
    delta: float | None = None
    c: float = 1.0
    reward_scale: float | None = None
    variant: Literal["printed", "released"] = "printed"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counting(self.reward_scale, self.delta)
        positive(self.d_min, "d_min", "the least coefficient, e.g. 1")
        positive(self.c, "c", "a factor on the confidence width")
        one_of(self.variant, "variant", ("printed", "released"))


class DataDrivenLearner(CountingMasterLearner):
    """Coefficients dhat_i and potentials phi_i; the base with the least is played, and only its own change."""

    def __init__(self, policy: DataDriven, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.policies(problem), policy.reward_scale, problem, streams)
        self.settings = policy
        default = RELEASED_DELTA if policy.variant == "released" else 1 / math.sqrt(problem.horizon)
        self.delta = policy.delta or default
        self.least = policy.d_min * self.scale  # in units of regret / sqrt(n)
        self.coefficients = self.zeros(len(self.bases)) + self.least
        self.potential = self.coefficients + 0.0
        self.numbers = like(list(range(len(self.bases))), problem.reference)

    @abstractmethod
    def updated(self, rows: Rows) -> tuple[Array, Array]:
        """Coefficients and potentials as they are if every base has just been played."""

    def scores(self, rows: Rows) -> Array:
        return -rows.of(self.potential)

    def judge(self, chosen: Array, rewards: Array, rows: Rows) -> None:
        coefficients, potential = self.updated(rows)
        own = chosen[:, None] == self.numbers
        rows.put(self.coefficients, self.xp.where(own, coefficients, rows.of(self.coefficients)))
        rows.put(self.potential, self.xp.where(own, potential, rows.of(self.potential)))

    def known(self, rows: Rows) -> tuple[Array, Array, Array, Array]:
        """n_i (at least 1), mean_i, width g(n_i), and the largest mean_j - g(n_j) as a column."""
        n, mean = clamp(rows.of(self.plays), 1.0), self.means(rows)
        width = self.settings.c * rows.of(self.scale) * mean_width(n, len(self.bases), self.delta)
        return n, mean, width, self._largest_played(mean - width, rows)

    def released_estimate(self, rows: Rows) -> tuple[Array, Array]:
        """n_i (at least 1), and the regret estimate of the authors' code: sums are divided by sqrt(n), not n."""
        xp, n = self.xp, clamp(rows.of(self.plays), 1.0)
        # Their width has n + 1 in the logarithm, and no number of bases.
        slack = self.settings.c * rows.of(self.scale) * xp.sqrt(n * xp.log((n + 1) / self.delta))
        earned, root = rows.of(self.rewards), xp.sqrt(n)
        best = self._largest_played((earned - slack) / root, rows)
        return n, n * (best - (earned + slack) / root)

    def _largest_played(self, values: Array, rows: Rows) -> Array:
        played = self.xp.where(rows.of(self.plays) > 0, values, self.xp.full_like(values, -math.inf))
        return self.xp.max(played, axis=-1)[:, None]

    def descriptions(self) -> list[dict[str, Any]]:
        """Plays, mean reward and regret coefficient of each base, in each replication."""
        return self.describe_counts(regret_coefficient_of_each_base=self.coefficients)
