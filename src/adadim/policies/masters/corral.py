"""Corral: mirror descent over base learners, which are drawn.

By log-barrier (Agarwal, Luo, Neyshabur and Schapire 2017), or by the Tsallis-INF potential (Arora, Marinov and Mohri
2021) -4 sum_i (sqrt(w_i) - w_i/2) / eta_i.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import Array, all_true_on_host, as_numpy, indices, like, namespace, zeros
from adadim.core.barrier import ACCURACY, log_barrier_round
from adadim.core.checks import integer, not_negative, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.ties import sampled
from adadim.errors import InvalidValueError
from adadim.policies.base import Choice, Memo, Policy
from adadim.policies.masters.base import Master, MasterLearner, dims_of
from adadim.policies.parameters import LossRange, loss
from adadim.policies.player import part_of, with_prefix, without_prefix

Feedback = Literal["stochastic", "importance"]
LearningRate = Annotated[float, partial(positive, meaning="the learning rate, e.g. 0.02")]

TSALLIS_STEPS = 20  # the most ever needed were 11; where rounding keeps a row from settling, no further step helps


class CorralMaster(Master):
    """A master that draws its bases; derived classes have the two fields.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    feedback : {"stochastic", "importance"}
        "stochastic": only the chosen base learns, from the reward as it is. "importance": every base learns about its
        own proposal, the chosen one from the loss divided by its probability, the others from loss 0.
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0.
    """

    feedback: Feedback
    loss_range: LossRange

    @abstractmethod
    def distribution(self, policies: Sequence[Policy], problem: Problem) -> Any:
        """Fresh master probabilities over base policies."""


@dataclass(frozen=True)
class Corral(CorralMaster):
    """Let an adversarial master find the best of several base learners.

    Use it with bases that stay good when fed importance-weighted losses. Bases such as `LinUCB` do not: run them with
    ``feedback="stochastic"`` (no guarantee), or smoothed, by `SmoothCorral`.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    eta : float, optional
        Learning rate; T^-1/2 by default.
    feedback : {"stochastic", "importance"}
        "stochastic": only the chosen base learns, from the reward as it is. "importance": every base learns about its
        own proposal, the chosen one from the loss divided by its probability, the others from loss 0.
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0.

    Notes
    -----
    Against a base whose regret under importance weights grows by at most a factor rho (its largest inverse
    probability), regret O~(sqrt(MT) + M R(T)) with eta = min(1 / (40 R(T) ln T), sqrt(M / T)).

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=30, dim=8, intrinsic_dim=2, horizon=100)
    >>> outcome = adadim.simulate(adadim.Corral(bases=(adadim.LinUCB(dim=2), adadim.Random())), instance)
    >>> len(outcome.learner.describe()[0]["probabilities"])
    2
    """

    eta: LearningRate | None = None
    feedback: Feedback = "stochastic"
    loss_range: LossRange = (-1.0, 1.0)

    def distribution(self, policies: Sequence[Policy], problem: Problem) -> LogBarrier:
        eta = self.eta or 1 / math.sqrt(problem.horizon)
        return LogBarrier(problem.reference, len(policies), eta, problem.horizon)

    def learner(self, problem: Problem, streams: Streams) -> CorralLearner:
        return CorralLearner(self, problem, streams)


class CorralLearner(MasterLearner):
    """State of `Corral`."""

    policy: CorralMaster

    def __init__(self, policy: CorralMaster, problem: Problem, streams: Streams) -> None:
        self.updates_all_bases = policy.feedback == "importance"
        super().__init__(policy, problem, streams)
        self.master = policy.distribution(self.policies, problem)
        self.counts = self.zeros(len(self.bases), integers=True)

    def choose(self, rows: Replications) -> Choice:
        probabilities = self.master.probabilities(rows)
        chosen = sampled(probabilities, self.draws.uniforms(rows))
        if self.policy.feedback == "stochastic":
            return self.bases.choose(chosen, rows)
        proposals = [learner.choose(rows) for learner in self.bases.learners]
        proposed = self.xp.stack([arms for arms, *_ in proposals], axis=1)
        each = indices(chosen)
        memo = {"base": chosen, "probability": probabilities[each, chosen], "proposed": proposed}
        for b, (_, base_memo, *_) in enumerate(proposals):
            memo |= with_prefix(base_memo, b)
        distribution = partial(self._arm_probabilities, proposed, probabilities, rows)
        return Choice(proposed[each, chosen], memo, None, distribution)

    def _arm_probabilities(self, proposed: Array, probabilities: Array, rows: Replications) -> Array:
        """Probability (n, K) of each arm, given what each base proposes (n, M) and the master's probabilities."""
        arms = self.problem.arms if rows.features is None else rows.features.shape[1]
        numbers = indices(zeros(proposed, arms))
        return self.xp.sum(probabilities[:, :, None] * (proposed[:, :, None] == numbers), axis=1)

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        chosen, losses = memo["base"], loss(rewards, self.policy.loss_range)
        rows.add(self.counts, chosen, 1)
        if self.policy.feedback == "stochastic":
            self.bases.absorb(chosen, arms, rewards, rows, memo)
        else:
            self.teach_weighted(arms, rewards, rows, memo)
        self.master.update(chosen, losses, rows)

    def teach_weighted(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Let every base learn about its own proposal, from importance-weighted losses."""
        lo, hi = self.policy.loss_range
        weighted = loss(rewards, self.policy.loss_range) / memo["probability"]
        for b, learner in enumerate(self.bases.learners):
            # A loss l on the [0, 1] scale is the reward hi - (hi - lo) l.
            reward = hi - (hi - lo) * self.xp.where(memo["base"] == b, weighted, 0.0 * weighted)
            learner.absorb(memo["proposed"][:, b], reward, rows, without_prefix(memo, b))

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return super().pull_sums() if self.policy.feedback == "stochastic" else None

    def sequence(self) -> Hashable:
        return super().sequence() if self.policy.feedback == "stochastic" else None

    def descriptions(self) -> list[dict[str, Any]]:
        p = self.master.probabilities(self.everyone)
        return self.describe_bases(probabilities=p, rounds_of_each_base=self.counts, learning_rates=self.master.eta)


class LogBarrier:
    """Probabilities of the bases by log-barrier mirror descent over `horizon` rounds, rates rising from `eta`."""

    def __init__(self, reference: Array, bases: int, eta: float, horizon: int) -> None:
        horizon = max(3, horizon)
        self.gamma = 1.0 / horizon
        self.growth = math.exp(1.0 / math.log(horizon))
        self.p = zeros(reference, len(reference), bases) + 1.0 / bases
        self.pbar = self.p + 0.0
        self.eta = self.p * 0.0 + eta
        self.rho = self.p * 0.0 + 2.0 * bases

    def probabilities(self, rows: Replications) -> Array:
        return rows.of(self.pbar)

    def update(self, chosen: Array, losses: Array, rows: Replications) -> None:
        log_barrier_round((self.p, self.pbar, self.eta, self.rho), chosen, losses, self.gamma, self.growth, rows)


@dataclass(frozen=True)
class TsallisCorral(CorralMaster):
    """Let a master with the Tsallis-INF potential, which profits from gaps, find the best of several base learners.

    Like `Corral`, but the potential adapts to stochastic rewards: where one base owns the best arm, with a gap, the
    master's own regret is logarithmic. Without gaps, as with nested bases, it is of order sqrt(T) all the same. Bases
    such as `LinUCB` are not stable under importance weights: run them with ``feedback="stochastic"``.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    eta : float
        Initial learning rate; with the one of the theorem weights hardly move.
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
    >>> instance = adadim.instances.sphere(arms=50, dim=16, intrinsic_dim=2, horizon=200)
    >>> learner = adadim.simulate(adadim.TsallisCorral(), instance).learner
    >>> len(learner.describe()[0]["bases"])  # LinUCB in 1, 2, 4 and 8 features
    4
    """

    eta: LearningRate = 1.0
    penalty: Annotated[float, not_negative] | None = 0.5
    threshold: Annotated[float, partial(positive, meaning="the first inverse weight")] | None = None
    first_plays: Annotated[int, partial(integer, meaning="or None for ln(T) + 1")] | None = None
    feedback: Feedback = "stochastic"
    loss_range: LossRange = (-1.0, 1.0)

    def penalties(self, dims: Sequence[float], horizon: int) -> list[float]:
        """D_i = d_i^(2a) / sqrt(T)."""
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

    def learner(self, problem: Problem, streams: Streams) -> TsallisCorralLearner:
        return TsallisCorralLearner(self, problem, streams)


class TsallisCorralLearner(CorralLearner):
    """State of `TsallisCorral`."""

    needs_sets = "iid"

    def teach_weighted(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        # In the start a base is not drawn but has its turn: it alone learns, and from the reward as it is.
        for starting, members, at in rows.split(as_numpy(self.master.starting(rows))):
            part = part_of(memo, at)
            if starting:
                self.bases.absorb(part["base"], arms[at], rewards[at], members, part)
            else:
                super().teach_weighted(arms[at], rewards[at], members, part)


class TsallisMaster:
    """Weights of M bases in each replication: a start, then follow the leader, with steps that raise learning rates.

    Every base is played `start` times in turn. After that a round adds the estimated losses and the `penalties` (M,)
    and moves the weights; when a weight has fallen to 1/`threshold`, half of that, ... down to 1/T, three rounds raise
    the learning rates of the bases concerned (NEG-REG-STEP).
    """

    def __init__(
        self, eta: float, penalties: Array, horizon: int, start: int, threshold: float, reference: Array
    ) -> None:
        count, bases = int(reference.shape[0]), int(penalties.shape[0])
        self.horizon = max(3, horizon)
        self.growth = math.exp(1.0 / math.log(self.horizon) ** 2)
        self.penalties, self.threshold, self.start = penalties, threshold, start * bases
        self.w = like(np.full((count, bases), 1.0 / bases), reference)
        self.losses, self.eta = self.w * 0.0, self.w * 0.0 + eta
        self.level = self.w * 0.0  # rho of a base is threshold * 2^level
        self.raised = self.w < 0.0  # the bases whose rates a step under way raises
        self.nu = self.w[:, 0] * 0.0
        self.round = self.w[:, 0] * 0.0  # rounds played, those of the start included
        self.epoch = self.nu + 1.0  # round after the start at which the next epoch begins
        self.phase = self.nu * 0.0  # 1 and 2: second and third round of a raising step
        self.rested = self.nu == 0.0  # whether the last round belonged to no raising step
        self.numbers = indices(self.w[0])

    def starting(self, rows: Replications) -> Array:
        """Whether the round that comes next is one of the start."""
        return rows.of(self.round) < self.start

    def probabilities(self, rows: Replications) -> Array:
        """Sampling probabilities (n, M): (1 - 1/(TM)) w + 1/(T M^2), and in the start the base whose turn it is."""
        xp, bases = namespace(self.w), self.w.shape[1]
        share = 1.0 / (self.horizon * bases)
        mixed = (1.0 - share) * rows.of(self.w) + share / bases
        turn = (rows.of(self.round) % bases)[:, None] == self.numbers
        return xp.where(self.starting(rows)[:, None], xp.astype(turn, mixed.dtype), mixed)

    def update(self, chosen: Array, losses: Array, rows: Replications) -> None:
        """Learn the loss of the base that was sampled."""
        xp, w, eta = namespace(self.w), rows.of(self.w), rows.of(self.eta)
        played, starting, phase = rows.of(self.round) + 1.0, self.starting(rows), rows.of(self.phase)
        ended = played == self.start  # the start is over; weights for the first time
        p = self.probabilities(rows)
        is_chosen = chosen[:, None] == self.numbers
        probability = xp.sum(xp.where(is_chosen, p, xp.zeros_like(p)), axis=-1)
        estimate = xp.where(is_chosen, (losses / probability)[:, None], xp.zeros_like(p))
        estimate = estimate + xp.where(starting[:, None], xp.zeros_like(p), self.penalties + xp.zeros_like(p))
        ordinary = ~starting & (phase == 0.0)
        triggered, level = self._trigger(rows, ordinary, played - self.start)
        raising = ordinary & rows.of(self.rested) & xp.any(triggered, axis=-1)
        plain = ordinary & ~raising
        # NEG-REG-STEP: shifted by nu and divided by the growth, the losses give the same weights with raised rates.
        shifted = (rows.of(self.losses) - rows.of(self.nu)[:, None]) / xp.where(triggered, self.growth, 1.0)
        summed = xp.where(raising[:, None], shifted, rows.of(self.losses)) + estimate
        raised = (phase == 1.0)[:, None] & rows.of(self.raised)
        slower = 1.0 / xp.sqrt(1.0 / (eta * eta) + 1.0)
        used = xp.where(plain[:, None], slower, xp.where(raised, self.growth * eta, eta))
        # The first round of the step goes by mirror descent from w, every other by the summed losses.
        slack = xp.where(raising[:, None], 1.0 / xp.sqrt(w), xp.ones_like(w))
        weights, nu = tsallis_step(slack, xp.where(raising[:, None], estimate, summed), used)
        wait = starting & ~ended
        rows.put(self.w, xp.where(wait[:, None], w, weights))
        rows.put(self.nu, xp.where(wait, rows.of(self.nu), nu))
        rows.put(self.losses, summed)
        rows.put(self.eta, xp.where(ended[:, None], slower, used))
        rows.put(self.level, level + xp.astype(raised, level.dtype))
        rows.put(self.raised, xp.where(raising[:, None], triggered, rows.of(self.raised)))
        rows.put(self.rested, starting | plain)
        rows.put(self.phase, xp.where(raising, 1.0 + phase, xp.where(phase == 1.0, 1.0 + phase, 0.0 * phase)))
        rows.put(self.round, played)

    def _trigger(self, rows: Replications, ordinary: Array, round_: Array) -> tuple[Array, Array]:
        """Which weights are at their threshold; and the levels, set anew in the first round of an epoch."""
        xp, w, level, epoch = namespace(self.w), rows.of(self.w), rows.of(self.level), rows.of(self.epoch)
        first = ordinary & (round_ >= epoch)
        rows.put(self.epoch, xp.where(first, 2.0 * epoch, epoch))
        ratio = 1.0 / (w * self.threshold)
        least = xp.floor(xp.log2(xp.maximum(ratio, xp.ones_like(ratio))))
        least = xp.where(ratio >= 2.0**least, least + 1.0, least)  # least s with w > 1 / rho_s
        level = xp.where(first[:, None] & (ratio >= 1.0), least, level)
        rho = self.threshold * 2.0**level
        return (w * rho <= 1.0) & (rho <= self.horizon), level


def tsallis_step(slack: Array, losses: Array, eta: Array) -> tuple[Array, Array]:
    """Distributions w_i = (slack_i + eta_i (l_i - nu) / 2)^-2 and their multipliers nu.

    With slack 1 and summed losses this is follow the regularised leader, with slack 1/sqrt(w_i) and the losses of one
    round a step of mirror descent from w. With f the sum over i, h = f^(-1/2) is concave and decreasing in nu. Newton's
    method on h starts where the largest w_i is 1, above the root, and falls to it without ever crossing.
    """
    xp = namespace(losses)
    nu = xp.min(losses + 2.0 * (slack - 1.0) / eta, axis=-1)
    for _ in range(TSALLIS_STEPS):
        inverse = 1.0 / (slack + 0.5 * eta * (losses - nu[:, None]))
        squares = inverse * inverse
        total = xp.sum(squares, axis=-1)
        settled = xp.abs(total - 1.0) <= ACCURACY
        if all_true_on_host(settled):
            break
        # h = f^(-1/2), f' = sum eta inverse^3: nu falls by (1 - h) / -h' = 2 (f^(3/2) - f) / f'.
        step = 2.0 * (total**1.5 - total) / xp.sum(eta * squares * inverse, axis=-1)
        nu = xp.where(settled, nu, nu - step)  # a settled row stays, whatever the rows with it need
    return squares / total[:, None], nu
