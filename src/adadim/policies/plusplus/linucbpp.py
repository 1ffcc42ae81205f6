"""LinUCB++ (the paper's Algorithm 1): LinUCB in ever fewer features, remembering by mixture-arms.

And LinUCB++ with Corral (Algorithm 2), which needs no expressive action set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from adadim.core.arrays import Array, as_numpy, clamp, like, namespace
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.core.ties import argmax
from adadim.errors import InvalidValueError
from adadim.models.fixed import check_precision
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.policies.arms import UCB, UCBStatistics
from adadim.policies.base import Choice, Memo, Policy
from adadim.policies.confidence import fixed_radius, optimism
from adadim.policies.linear.linucb import LinUCB
from adadim.policies.linear.suplinucb import AccuracyLevels
from adadim.policies.masters.base import Bases
from adadim.policies.masters.corral import LogBarrier
from adadim.policies.masters.smooth_corral import RoundFeedback, SmoothedBases, master_rounds
from adadim.policies.parameters import (
    ADAPTIVE_RULES,
    Beta,
    Bonus,
    Form,
    Index,
    LossRange,
    Radius,
    RadiusScale,
    Ridge,
    ThetaNorm,
    Ties,
)
from adadim.policies.player import Solver, choose_largest
from adadim.policies.plusplus.iterations import IteratedLearner, check_expressive
from adadim.theory import Iteration


@dataclass(frozen=True)
class LinUCBPlusPlus(Policy):
    """Adapt to an unknown number of relevant features, at the price that theory says must be paid.

    Iterations of doubling length learn from scratch in halving numbers of features. Each leaves behind a virtual
    mixture-arm, which replays what it did: once the dimension has fallen below d*, pulling those keeps the regret
    at the level reached while the model was still right.

    Use it when d is large against the horizon and d* unknown. When d is small (d <= sqrt(T), say) plain `LinUCB` loses
    less, and when d* is known ``LinUCB(dim=d*)`` does.

    Parameters
    ----------
    beta : float in [0.5, 1)
        Where on the Pareto frontier to be: the regret is of order T^max(beta, 1 + alpha - beta) for d* = T^alpha. 0.5
        favours easy problems; (1 + alpha) / 2 is best if alpha is known.
    ridge : float
        Regularisation lambda of the least squares.
    bonus : {"norm", "squared"}
        Width sqrt(a^T V^-1 a) as in the theory, or its square, as in the authors' released code.
    radius : {"noise", "full", "paper"} or float
        Multiplier of the width, as in `LinUCB`, with the length of the iteration as the horizon. Mixture-arms use the
        same rule with their own noise scale (see Notes).
    scale : float
        Factor on the radius.
    theta_norm : float
        Bound on the norm of theta, where the radius has one.
    expressive : bool, optional
        Pull arms cut to the iteration's features, which keeps the model linear; needs an action set closed under
        truncation. By default whatever the action set allows.
    solver : {"linucb", "suplinucb"}
        What runs in an iteration; the theorem is about "suplinucb" (with ``ridge=1, radius="paper"``).
    reuse : bool
        Keep the data: an iteration starts from all earlier pulls instead of none, and a mixture-arm from the rewards
        that made it. Less regret in every setting measured, and no longer the algorithm of the theorem (see Notes).
    form : {"auto", "gram", "feature"}
        How the posterior is held; the choices are the same.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Guarantee (Theorems 3 and 4 of the paper): with SupLinUCB inside and an expressive action set the regret is
    O(ln^{7/2}(KT ln T) T^min(max(beta, 1+alpha-beta), 1)) for every d* = T^alpha at once, and no algorithm is better
    for all alpha. Without an expressive set the truncated model is misspecified and the guarantee is lost
    (`LinUCBPlusPlusCorral` restores it); in experiments it works all the same.

    A mixture-arm is sigma_v-sub-Gaussian with sigma_v^2 = sigma^2 + (range/2)^2, where range is the range of the
    means: `Problem.reward_range` if given. Otherwise sigma_v is estimated by the standard deviation of the rewards
    that made the mixture, a heuristic: the worst case, range 2, would make mixture-arms useless.

    Where arms arrive (`Problem(arrives=...)`, `add_arms`) the guarantee holds under the two conditions of the paper's
    remark: arms only come, at most K of them, which is checked and is the K of the radius; and one of the best is there
    from the start, which no policy can see (`Instance` checks it). Arms that come later and are better by at
    most eps add eps T.

    With ``reuse=True`` nothing is proved: the data of an iteration were chosen by earlier ones. The rewards that made a
    mixture-arm average to an unbiased estimate of its mean. In d_i < d* features and without an expressive set the
    model is misspecified for old data as for new; with one, only arms that are zero after feature d_i are kept,
    for which it is right.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=300, dim=150, intrinsic_dim=3, horizon=600, replications=range(4))
    >>> plain = adadim.simulate(adadim.LinUCB(), instance)
    >>> adaptive = adadim.simulate(adadim.LinUCBPlusPlus(), instance)
    >>> bool(adaptive.final.mean() < plain.final.mean())
    True
    >>> adaptive.learner.describe()[0]["dim"]
    8
    """

    beta: Beta = 0.5
    ridge: Ridge = 0.1
    bonus: Bonus = "norm"
    radius: Radius = "noise"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    expressive: bool | None = None
    solver: Literal["linucb", "suplinucb"] = "linucb"
    reuse: bool = False
    form: Form = "auto"
    ties: Ties = "random"
    rescales: ClassVar[bool] = False  # whether an iteration divides the truncated arms by the norm of the longest

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius in ADAPTIVE_RULES:
            raise InvalidValueError(
                f"LinUCBPlusPlus takes radius 'noise', 'full', 'paper' or a number, got {self.radius!r}"
            )
        if self.solver == "suplinucb" and self.reuse:
            raise InvalidValueError("reuse=True needs solver='linucb': the levels of 'suplinucb' must not share data")
        if self.solver == "suplinucb" and self.bonus == "squared":
            raise InvalidValueError(
                "bonus='squared' is a deviation of the released LinUCB; use it with solver='linucb'"
            )

    def width_multiplier(self, noise: Any, horizon: int, arms: int, total: int) -> Any:
        """Radius for arms with this noise, in an iteration of `horizon` rounds out of `total`."""
        return self.scale * fixed_radius(self.radius, noise, horizon, arms, self.ridge, self.theta_norm, total)

    def learner(self, problem: Problem, streams: Streams) -> LinUCBPlusPlusLearner:
        return LinUCBPlusPlusLearner(self, problem, streams)


class LinUCBPlusPlusLearner(IteratedLearner):
    """State of `LinUCBPlusPlus`."""

    policy: LinUCBPlusPlus
    no_growing = ""  # arms never leave, so a mixture-arm always finds those that it replays
    takes_new_arms = True

    def __init__(self, policy: LinUCBPlusPlus, problem: Problem, streams: Streams) -> None:
        if problem.growing and policy.rescales:
            raise InvalidValueError(
                "the released code divides all arms by the norm of the longest, which is unknown while arms arrive; "
                "use LinUCBPlusPlus"
            )
        super().__init__(policy.beta, problem, streams)
        self.policy = policy
        self.expressive = check_expressive(policy.expressive, problem)
        check_precision(problem.actions, policy.ridge, problem.horizon)
        if policy.reuse:
            # Pulls and sums of rewards, of every real arm so far and of every mixture-arm.
            self.data = (self.zeros(problem.arms), self.zeros(problem.arms))
            self.mixture_data = (self.zeros(self.schedule.p), self.zeros(self.schedule.p))

    def make_solver(self, iteration: Iteration) -> Solver:
        solver = _SupLinUCBSolver if self.policy.solver == "suplinucb" else _LinUCBSolver
        return solver(self, iteration)

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        if self.policy.reuse:
            rows.add(self.data[0], arms, 1.0)
            rows.add(self.data[1], arms, rewards)
        super().absorb(arms, rewards, rows, memo)

    def arms_added(self) -> None:
        for solver in self.solvers.values():
            assert isinstance(solver, _LinUCBSolver | _SupLinUCBSolver)
            solver.arms_added()

    def finish(self, i: int, rows: Replications) -> None:
        if self.policy.reuse:
            for column, data in enumerate(self.mixture_data):
                data[rows.index, i] = self.moments[rows.index, column]
        super().finish(i, rows)

    def begin(self, i: int, rows: Replications) -> None:
        if self.policy.reuse:
            solver, (counts, sums) = self.solver(i), self.data
            assert isinstance(solver, _LinUCBSolver)
            solver.inherit(rows.of(counts), rows.of(sums), rows)


class _ModifiedProblem(Solver):
    """The modified problem of one iteration: truncated real arms, and a dimension of its own for each mixture-arm."""

    def __init__(self, learner: LinUCBPlusPlusLearner, iteration: Iteration) -> None:
        policy, problem = learner.policy, learner.problem
        self.policy, self.draws = policy, learner.draws
        self.virtual = iteration.index - 1
        actions, self.real = problem.actions.truncate(iteration.dim, supported=learner.expressive)
        self.actions = actions.rescaled() if policy.rescales else actions
        self.truncated = problem.with_actions(self.actions, problem.replications, problem.reward_range)
        self.all_arms = actions.arms == problem.arms
        if not self.all_arms:
            choices = np.concatenate([as_numpy(self.real), problem.arms + np.arange(self.virtual)])
            within = np.zeros(problem.arms + self.virtual, dtype=np.int64)
            within[choices] = np.arange(len(choices))
            self.choices, self.within = like(choices, actions.base), like(within, actions.base)
        self.size = (iteration.length, actions.arms + self.virtual, problem.horizon)
        self.radius = policy.width_multiplier(problem.noise, *self.size)
        self.virtual_noise = learner.virtual_noise(self.virtual)

    def model(self) -> LinearModel:
        """A model of the truncated real arms, before any pull."""
        return LinearModel(self.truncated, RidgePrior(self.policy.ridge), form=self.policy.form)

    def virtual_radius(self, rows: Replications) -> Array:
        """Radius of every mixture-arm."""
        return self.policy.width_multiplier(rows.of(self.virtual_noise), *self.size)

    def to_choice(self, local: Array) -> Array:
        """Choices as real arms and K + j, from positions in the modified set."""
        return local if self.all_arms else self.choices[local]

    def offered(self, rows: Replications) -> Replications:
        """The rows with the mask of the modified set: every mixture-arm is allowed."""
        if rows.allowed is None:
            return rows
        allowed = rows.allowed if self.all_arms else rows.allowed[:, self.real]
        xp = namespace(allowed)
        mixtures = xp.ones_like(allowed[:, :1]) if self.virtual else allowed[:, :0]
        return rows.with_offer(None, xp.concat([allowed, *[mixtures] * self.virtual], axis=-1))

    def to_local(self, choice: Array) -> Array:
        """Positions in the modified set, from choices."""
        return choice if self.all_arms else self.within[choice]


class _LinUCBSolver(_ModifiedProblem):
    """LinUCB on the modified problem; a mixture-arm has mean s / (ridge + n) and width^2 1 / (ridge + n)."""

    def __init__(self, learner: LinUCBPlusPlusLearner, iteration: Iteration) -> None:
        super().__init__(learner, iteration)
        self.reals = self.model()
        self.known: Array | None = None  # scores of the real arms, until one of them is pulled (NumPy)
        self.pulls, self.sums = self.virtual_noise * 0.0, self.virtual_noise * 0.0
        if self.policy.reuse:  # views: later iterations keep what is learned here
            self.pulls, self.sums = (part[:, : self.virtual] for part in learner.mixture_data)

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make room for the scores if a saved state has them."""
        if saved.get("known") is not None:
            self.known = self.reals.regression.mean * 0.0

    def inherit(self, counts: Array, sums: Array, rows: Replications) -> None:
        """Start `rows` from earlier pulls of the real arms, as far as this iteration has those arms."""
        self.reals.regression.rebuild(counts[:, self.real], sums[:, self.real], rows)
        self.known = None

    def arms_added(self) -> None:
        """Compute mean and width of arms that were added."""
        self.reals.offer.arms_added()
        self.known = None

    def scores(self, rows: Replications) -> Array:
        """Optimistic score of every real arm and mixture-arm."""
        bonus, ridge = self.policy.bonus, self.policy.ridge
        if rows.everyone and self.known is not None:
            real = self.known
        else:
            real = optimism(*self.reals.predict(rows), self.radius, bonus)
            self.known = real if rows.everyone and rows.on_host else None
        if not self.virtual:
            return real
        precision = ridge + rows.of(self.pulls)
        virtual = optimism(rows.of(self.sums) / precision, 1.0 / precision, self.virtual_radius(rows), bonus)
        return namespace(real).concat([real, virtual], axis=-1)

    def choose(self, rows: Replications) -> Choice:
        local = choose_largest(self.scores(rows), self.offered(rows), self.draws, self.policy.ties).arms
        return Choice(self.to_choice(local), {})

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        local, real = self.to_local(arms), self.actions.arms
        if rows.on_host:
            parts = [(v, part, local[at] - real * v, rewards[at]) for v, part, at in rows.split(local >= real)]
        else:
            masked, local, rewards = rows.masked(local, rewards)
            parts = [(0, masked.only(local < real), clamp(local, None, real - 1), rewards)]
            if self.virtual:
                parts.append((1, masked.only(local >= real), clamp(local - real, 0), rewards))
        for virtual, members, positions, earned in parts:
            if virtual:
                members.add(self.pulls, positions, 1.0)
                members.add(self.sums, positions, earned)
            else:
                self.known = None
                self.reals.absorb(positions, earned, members, {})


class _SupLinUCBSolver(_ModifiedProblem):
    """SupLinUCB on the modified problem, the version of Theorem 3."""

    def __init__(self, learner: LinUCBPlusPlusLearner, iteration: Iteration) -> None:
        super().__init__(learner, iteration)
        self.levels = AccuracyLevels(self.truncated, iteration.length, self.model, self.virtual)

    def radii(self, rows: Replications) -> Any:
        """Radius of every real arm, then of every mixture-arm."""
        if not self.virtual:
            return self.radius
        virtual = self.virtual_radius(rows)
        xp = namespace(virtual)
        real = xp.repeat(virtual[:, :1] * 0.0 + self.radius, self.actions.arms, axis=1)
        return xp.concat([real, virtual], axis=-1)

    def choose(self, rows: Replications) -> Choice:
        draws = self.draws.uniforms(rows) if self.policy.ties == "random" else None
        chosen, memo = self.levels.climb(self.radii(rows), draws, rows, self.offered(rows))
        return Choice(self.to_choice(chosen), memo)

    def arms_added(self) -> None:
        """Compute mean and width of arms that were added, at each level."""
        self.levels.arms_added()

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        self.levels.absorb(self.to_local(arms), rewards, rows, memo)

    def sequence(self) -> None:
        return None


@dataclass(frozen=True)
class LinUCBPlusPlusCorral(Policy):
    """Adapt to an unknown number of relevant features, with a guarantee for every action set.

    The iterations and mixture-arms are those of `LinUCBPlusPlus`, but real arms and mixture-arms are learned apart: by
    `LinUCB` in d_i features, which may be misspecified, and by `UCB`, which is not, under a smoothed corral of the
    two. In experiments the corral costs more than the misspecification does: prefer `LinUCBPlusPlus` in practice.

    Parameters
    ----------
    beta : float in [0.5, 1)
        Where on the Pareto frontier to be: the regret is of order T^max(beta, 1 + alpha - beta) for d* = T^alpha. 0.5
        favours easy problems; (1 + alpha) / 2 is best if alpha is known.
    ridge : float
        Regularisation lambda of the least squares.
    bonus : {"norm", "squared"}
        Width sqrt(a^T V^-1 a) as in the theory, or its square, as in the authors' released code.
    radius : {"noise", "full", "paper", "oful"} or float
        Of the `LinUCB` inside, whose horizon is the length of the iteration.
    scale : float
        Factor on the radius.
    index : {"self-normalised", "subgaussian", "ucb1", "released"}
        Index of the `UCB` on mixture-arms.
    feedback : {"step2", "mean", "sum"}
        Which losses of a two-step round the master sees: the replay's, the mean or the sum of both.
    loss_range : (float, float)
        Rewards that count as loss 1 and loss 0.
    replay : bool
        False drops the second step of every round: Stochastic Corral, without the guarantee.
    expressive : bool, optional
        Pull arms cut to the iteration's features, which keeps the model linear; needs an action set closed under
        truncation. By default whatever the action set allows.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Theorem 5 of the paper: the rate function theta_beta, Pareto optimal, without an expressive action set. The
    master's learning rate is 1 / sqrt(d_i DeltaT_i). Iteration 1 has no mixture-arm and is plain `LinUCB`.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=40, intrinsic_dim=2, horizon=300)
    >>> outcome = adadim.simulate(adadim.LinUCBPlusPlusCorral(), instance)
    >>> outcome.learner.describe()[0]["iteration"]
    3
    """

    beta: Beta = 0.5
    ridge: Ridge = 0.1
    bonus: Bonus = "norm"
    radius: Radius = "noise"
    scale: RadiusScale = 1.0
    index: Index = "self-normalised"
    feedback: RoundFeedback = "step2"
    loss_range: LossRange = (-1.0, 1.0)
    replay: bool = True
    expressive: bool | None = None
    ties: Ties = "random"

    def learner(self, problem: Problem, streams: Streams) -> LinUCBPlusPlusCorralLearner:
        return LinUCBPlusPlusCorralLearner(self, problem, streams)


class LinUCBPlusPlusCorralLearner(IteratedLearner):
    """State of `LinUCBPlusPlusCorral`."""

    policy: LinUCBPlusPlusCorral

    def __init__(self, policy: LinUCBPlusPlusCorral, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.beta, problem, streams)
        self.policy = policy
        self.expressive = check_expressive(policy.expressive, problem)

    def make_solver(self, iteration: Iteration) -> Solver:
        policy, problem, earlier = self.policy, self.problem, iteration.index - 1
        streams = self.streams.child(iteration.index)
        inner = problem.with_horizon(iteration.length)
        shared = {name: getattr(policy, name) for name in ("ridge", "bonus", "radius", "scale", "ties")}
        base = LinUCB(dim=iteration.dim, only_supported=self.expressive, **shared)
        linucb = base.learner(inner, self.streams)
        if not earlier:
            return linucb
        ucb = _MixtureUCB(self, iteration, streams.child(0))
        eta = 1 / math.sqrt(iteration.dim * iteration.length)
        rounds = master_rounds(iteration.length, policy.replay)
        master = LogBarrier(problem.reference, 2, eta, rounds)
        bases = Bases([linucb, ucb], problem.reference)
        return SmoothedBases(policy, bases, master, iteration.length, streams)

    def descriptions(self) -> list[dict[str, Any]]:
        rows = super().descriptions()
        for r, row in enumerate(rows):
            solver = self.solvers.get(int(self.iteration[r]))
            if isinstance(solver, SmoothedBases):
                row["probabilities"] = solver.master.probabilities(self.everyone)[r].tolist()
                row["rounds_of_each_base"] = solver.counts[r].tolist()
        return rows


class _MixtureUCB(Solver):
    """UCB over the mixture-arms of the finished iterations."""

    fixed_operations = True

    def __init__(self, learner: LinUCBPlusPlusCorralLearner, iteration: Iteration, streams: Streams) -> None:
        policy, problem, earlier = learner.policy, learner.problem, iteration.index - 1
        self.real, self.ties, self.streams, self.horizon = problem.arms, policy.ties, streams, iteration.length
        self.statistics = UCBStatistics(
            UCB(index=policy.index), earlier, learner.virtual_noise(earlier), iteration.length, problem.reference
        )

    def choose(self, rows: Replications) -> Choice:
        draws = self.streams.source(self.horizon)
        uniforms = draws.uniforms(rows) if self.ties == "random" else None
        return Choice(self.real + argmax(self.statistics.scores(rows), uniforms), {})

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        # Outside a mask there may be a real arm.
        self.statistics.add(clamp(arms - self.real, 0), rewards, rows)
