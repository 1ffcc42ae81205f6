"""Tsallis-INF corral (Arora, Marinov and Mohri 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adadim.backend.arrays import Array, as_numpy, like
from adadim.backend.rows import Rows
from adadim.checks import integer, not_negative, positive
from adadim.errors import InvalidValueError
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.masters.bases import loss
from adadim.policies.masters.corral import CorralLearner, CorralMaster
from adadim.policies.masters.learner import dims_of
from adadim.policies.masters.tsallis import TsallisMaster
from adadim.policies.memos import part_of, unmarked
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["TsallisCorral"]


@dataclass(frozen=True)
class TsallisCorral(CorralMaster):
    """Let a master with the Tsallis-INF potential, which profits from gaps, find the best of several base learners.

    Like `Corral`, but the potential adapts to stochastic rewards: where one base owns the best arm, with a gap, the
    master's own regret is logarithmic. Without gaps, as with nested bases, it is of order sqrt(T) all the same. Bases
    such as `LinUCB` are not stable under importance weights: run them with ``feedback="stochastic"``.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions.
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a nested base in all d features.
    eta : float
        Initial learning rate; `theory_rate` gives the one of the theorem, with which weights hardly move.
    penalty : float, optional
        a in the penalty d_i^(2a) / sqrt(T) that base i pays in every round, for bases of regret d_i^a sqrt(T): 0.5 for
        LinUCB, 1 for OFUL, None for no penalty. Equal for bases without a dimension of their own.
    threshold : float, optional
        rho_1: learning rates are raised when a weight falls to 1/rho_1, 1/(2 rho_1), ...; 5 M by default.
    first_plays : int, optional
        First plays of every base; ln(T) + 1, rounded up, by default.
    feedback : {"stochastic", "importance"}
        "stochastic": only the chosen base learns, from the reward as it is. "importance": every base learns about its
        own proposal, the chosen one from the loss divided by its probability, the others from loss 0.
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0.

    Notes
    -----
    For bases that are 1/2-stable under importance weights: O(sum_i ln(T) / (eta_i^2 Delta_i) + R_best) with gaps,
    O(max(sqrt(TM), max_i Rbar_i(T)) + R_best) without; nested linear bases with the penalty O~(d*^(2a) sqrt(T) + M
    sqrt(T)) if d_M^(2a) <= T/4. T must be known. The source restarts a base when its learning rate is raised; here, as
    in its authors' code, bases go on, and nothing is proved for that nor for "stochastic". rho_1 is unverified.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=30, dim=8, intrinsic_dim=2, horizon=100)
    >>> outcome = adadim.simulate(adadim.TsallisCorral(bases=(adadim.LinUCB(dim=2), adadim.Random())), instance)
    >>> len(outcome.learner.describe()[0]["probabilities"])
    2
    """

    eta: float = 1.0
    penalty: float | None = 0.5
    threshold: float | None = None
    first_plays: int | None = None
    feedback: Literal["stochastic", "importance"] = "stochastic"
    loss_range: tuple[float, float] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.eta, "eta", "the learning rate, e.g. 1")
        if self.penalty is not None:
            not_negative(self.penalty, "penalty")
        if self.threshold is not None:
            positive(self.threshold, "threshold", "the first inverse weight, e.g. 5 times the number of bases")
        if self.first_plays is not None:
            integer(self.first_plays, "first_plays", meaning="or None for ln(T) + 1")

    def penalties(self, dims: Sequence[float], horizon: int) -> list[float]:
        """D_i = d_i^(2a) / sqrt(T).

        Examples
        --------
        >>> TsallisCorral(penalty=0.5).penalties([1, 4, 16], 2500)
        [0.02, 0.08, 0.32]
        """
        if self.penalty is None:
            return [0.0 for _ in dims]
        try:
            return [float(d) ** (2 * self.penalty) / math.sqrt(horizon) for d in dims]
        except OverflowError:
            raise InvalidValueError(
                f"penalty must be an exponent a such that d^(2a) is a number, got {self.penalty!r} (d = {max(dims):g})"
            ) from None

    def distribution(self, policies: Sequence[Policy], problem: Problem) -> TsallisMaster:
        horizon, reference = problem.horizon, problem.reference
        dims = dims_of(policies, problem)
        start = math.ceil(math.log(horizon) + 1) if self.first_plays is None else self.first_plays
        threshold = 5.0 * len(policies) if self.threshold is None else self.threshold
        return TsallisMaster(
            self.eta, like(self.penalties(dims, horizon), reference), horizon, start, threshold, reference
        )

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return TsallisCorralLearner(self, problem, streams)


def theory_rate(complexity: float, horizon: int) -> float:
    """Largest eta_1 of the theorem for a base of regret sqrt(complexity t): (1 - e^(-1/ln(T)^2)) / (50 sqrt(k)).

    Examples
    --------
    >>> round(theory_rate(10, 10_000), 12)
    7.4117603e-05
    """
    horizon = integer(horizon, "horizon", least=2)
    shrink = 1.0 - math.exp(-1.0 / math.log(horizon) ** 2)
    return shrink / (50.0 * math.sqrt(positive(complexity, "complexity", "k in the regret sqrt(k t)")))


class TsallisCorralLearner(CorralLearner):
    """State of `TsallisCorral`."""

    needs_sets = "iid"

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        if self.policy.feedback == "stochastic":
            super().absorb(arms, rewards, rows, memo)
            return
        # In the start a base is not drawn but has its turn: it alone learns, and from the reward as it is.
        for starting, members, at in rows.split(as_numpy(self.master.starting(rows))):
            own = part_of(memo, at)
            if starting:
                self._learn_in_turn(arms[at], rewards[at], members, own)
            else:
                super().absorb(arms[at], rewards[at], members, own)

    def _learn_in_turn(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        chosen = memo["base"]
        rows.add(self.counts, chosen, 1)
        for b, members, at in rows.split(as_numpy(chosen)):
            self.bases.learners[b].absorb(arms[at], rewards[at], members, unmarked(part_of(memo, at), b))
        self.master.update(chosen, loss(rewards, self.policy.loss_range), rows)

    def descriptions(self) -> list[dict[str, Any]]:
        """Probabilities, rounds and learning rates of each base, in each replication."""
        return self.describe_bases(
            probabilities=self.master.probabilities(self.everyone),
            rounds_of_each_base=self.counts,
            learning_rates=self.master.eta,
        )
