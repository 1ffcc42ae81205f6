"""LinUCB++ (the paper's Algorithm 1): LinUCB in ever fewer features, remembering by mixture-arms."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adadim.arrays import ALL, Array, Rows, as_numpy, clamp, like, masked, positions, take, tally
from adadim.errors import InvalidValueError
from adadim.policies.base import Policy
from adadim.policies.confidence import Bonus, Radius, check_bonus, check_radius, fixed_radius, optimism
from adadim.policies.iterations import IteratedLearner, Solver, check_beta, check_expressive
from adadim.policies.suplinucb import Levels
from adadim.policies.ties import Ties, argmax, check_ties
from adadim.posterior import Form, check_form, posterior
from adadim.problem import Problem, check_positive
from adadim.randomness import Streams
from adadim.theory import Iteration

__all__ = ["LinUCBPlusPlus"]


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
        Where on the Pareto frontier to be: the regret is of order T^max(beta, 1 + alpha - beta) for d* = T^alpha.
        0.5 favours easy problems; (1 + alpha) / 2 is best if alpha is known.
    ridge : float
        Regularisation lambda of the least squares.
    bonus : {"norm", "squared"}
        Width as in the theory, or squared, as in the authors' released code.
    radius : {"noise", "full", "paper"} or float
        Multiplier of the width, as in `LinUCB`, with the length of the iteration as the horizon. Mixture-arms use the
        same rule with their own noise scale (see Notes).
    scale : float
        Factor on the radius.
    theta_norm : float
        Bound on the norm of theta, for "full".
    rescale : bool
        Divide the truncated features by the largest norm among them, as the released code does.
    expressive : bool, optional
        Pull arms cut to the iteration's features, which keeps the model linear; needs an action set closed under
        truncation. By default whatever the action set allows.
    solver : {"linucb", "suplinucb"}
        What runs in an iteration; the theorem is about "suplinucb" (with ``ridge=1, radius="paper"``).
    reuse : bool
        Keep the data: an iteration starts from all earlier pulls instead of none, and a mixture-arm from the rewards
        that made it. Less regret in every setting measured, and no longer the algorithm of the theorem (see Notes).
    form : {"auto", "gram", "feature"}
        How the posterior is held.
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

    beta: float = 0.5
    ridge: float = 0.1
    bonus: Bonus = "norm"
    radius: Radius = "noise"
    scale: float = 1.0
    theta_norm: float = 1.0
    rescale: bool = False
    expressive: bool | None = None
    solver: Literal["linucb", "suplinucb"] = "linucb"
    reuse: bool = False
    form: Form = "auto"
    ties: Ties = "random"

    def __post_init__(self) -> None:
        check_beta(self.beta)
        check_positive(self.ridge, "ridge", "the regularisation lambda, e.g. 0.1")
        check_positive(self.theta_norm, "theta_norm", "a bound on the norm of theta, e.g. 1")
        check_bonus(self.bonus)
        check_radius(self.radius, self.scale)
        check_ties(self.ties)
        check_form(self.form)
        if self.radius == "oful":
            raise InvalidValueError("LinUCBPlusPlus takes radius 'noise', 'full', 'paper' or a number, got 'oful'")
        if self.solver not in ("linucb", "suplinucb"):
            raise InvalidValueError(f"solver must be 'linucb' or 'suplinucb', got {self.solver!r}")
        if self.solver == "suplinucb" and self.reuse:
            raise InvalidValueError("reuse=True needs solver='linucb': SupLinUCB's levels must not share data")
        if self.solver == "suplinucb" and self.bonus == "squared":
            raise InvalidValueError(
                "bonus='squared' is a deviation of the released LinUCB; use it with solver='linucb'"
            )

    def width_multiplier(self, noise: Any, horizon: int, arms: int, total: int) -> Any:
        """Radius for arms with this noise, in an iteration of `horizon` rounds out of `total`."""
        return self.scale * fixed_radius(self.radius, noise, horizon, arms, self.ridge, self.theta_norm, total)

    def _start(self, problem: Problem, streams: Streams) -> IteratedLearner:
        return _LinUCBPlusPlusLearner(self, problem, streams)


class _LinUCBPlusPlusLearner(IteratedLearner):
    def __init__(self, policy: LinUCBPlusPlus, problem: Problem, streams: Streams) -> None:
        super().__init__(policy.beta, problem, streams)
        self.policy = policy
        self.expressive = check_expressive(policy.expressive, problem)
        if policy.reuse:
            base, count, mixtures = problem.actions.base, len(problem), self.schedule.p
            # Every real pull so far, and what is known of every mixture-arm: (pulls, sum of rewards).
            self.data = like(np.zeros((2, count, problem.arms)), base)
            self.mixture_data = like(np.zeros((2, count, mixtures)), base)

    def _solver(self, iteration: Iteration) -> Solver:
        solver = _SupLinUCBSolver if self.policy.solver == "suplinucb" else _LinUCBSolver
        return solver(self, iteration)

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        if self.policy.reuse:
            tally(self.data[0], rows, arms, 1.0)
            tally(self.data[1], rows, arms, rewards)
        super()._update(arms, rewards, rows)

    def _finish(self, i: int, rows: Array) -> None:
        if self.policy.reuse:
            self.mixture_data[0][rows, i] = self._moments[rows, 0]
            self.mixture_data[1][rows, i] = self._moments[rows, 1]
        super()._finish(i, rows)
        if self.policy.reuse and i + 1 < len(self.schedule.iterations):
            if i + 1 not in self._solvers:
                self._solvers[i + 1] = self._solver(self.schedule.iterations[i + 1])
            following = self._solvers[i + 1]
            assert isinstance(following, _LinUCBSolver)
            following.inherit(self.data[0][rows], self.data[1][rows], rows)


class _Modified:
    """The modified problem of one iteration: truncated real arms, and a dimension of its own for each mixture-arm."""

    def __init__(self, learner: _LinUCBPlusPlusLearner, iteration: Iteration) -> None:
        policy, problem = learner.policy, learner.problem
        self.policy, self.xp, self.streams = policy, learner.xp, learner._ties
        self.virtual = iteration.index - 1
        actions, self.pull = problem.actions.truncate(iteration.dim, supported=learner.expressive)
        self.real = self.pull
        self.actions = actions.rescaled() if policy.rescale else actions
        self.whole = actions.arms == problem.arms
        if not self.whole:
            place = np.zeros(problem.arms + self.virtual, dtype=np.int64)
            place[as_numpy(self.pull)] = np.arange(actions.arms)
            place[problem.arms :] = actions.arms + np.arange(self.virtual)
            self.place = like(place, actions.base)
            every = np.concatenate([as_numpy(self.pull), problem.arms + np.arange(self.virtual)])
            self.pull = like(every, actions.base)
        self.size = (iteration.length, actions.arms + self.virtual, problem.horizon)
        self.radius = policy.width_multiplier(problem.noise, *self.size)
        self.virtual_noise = learner.virtual_noise(self.virtual)

    def virtual_radius(self, rows: Rows) -> Array:
        """Radius of every mixture-arm."""
        return self.policy.width_multiplier(take(self.virtual_noise, rows), *self.size)

    def draws(self, rows: Rows) -> Array | None:
        return self.streams.uniforms(rows) if self.policy.ties == "random" else None

    def outward(self, local: Array) -> Array:
        """Choices as real arms and K + j, from positions in the modified set."""
        return local if self.whole else self.pull[local]

    def inward(self, choice: Array) -> Array:
        return choice if self.whole else self.place[choice]


class _LinUCBSolver(_Modified):
    """LinUCB on the modified problem.

    V is block diagonal with a diagonal virtual block, so a mixture-arm pulled n times with rewards summing to s has
    mean s / (ridge + n) and squared width 1 / (ridge + n).
    """

    def __init__(self, learner: _LinUCBPlusPlusLearner, iteration: Iteration) -> None:
        super().__init__(learner, iteration)
        self.posterior = posterior(self.actions, self.policy.ridge, self.policy.form)
        self._known: Array | None = None  # scores of the real arms, until one of them is pulled (NumPy)
        self.pulls, self.sums = self.virtual_noise * 0.0, self.virtual_noise * 0.0
        if self.policy.reuse:  # views: what is learned here stays known
            self.pulls, self.sums = (part[:, : self.virtual] for part in learner.mixture_data)

    def inherit(self, counts: Array, sums: Array, rows: Array) -> None:
        """Start `rows` from earlier pulls of the real arms, as far as this iteration has those arms."""
        self.posterior.rebuild(counts[:, self.real], sums[:, self.real], rows)
        self._known = None

    def scores(self, rows: Rows) -> Array:
        state, bonus, ridge = self.posterior, self.policy.bonus, self.policy.ridge
        if rows is ALL and self._known is not None:
            real = self._known
        else:
            real = optimism(take(state.mean, rows), take(state.width2, rows), self.radius, bonus)
            self._known = real if rows is ALL and isinstance(real, np.ndarray) else None
        if not self.virtual:
            return real
        precision = ridge + take(self.pulls, rows)
        virtual = optimism(take(self.sums, rows) / precision, 1.0 / precision, self.virtual_radius(rows), bonus)
        return self.xp.concat([real, virtual], axis=-1)

    def _select(self, rows: Rows) -> Array:
        return self.outward(argmax(self.scores(rows), self.draws(rows)))

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        local, real, count = self.inward(arms), self.actions.arms, self.actions.replications
        if isinstance(local, np.ndarray):
            at = local >= real
            if not at.all():
                self._known = None
            if not at.any():
                self.posterior.absorb(local, rewards, rows)
                return
            ids = positions(rows, count)
            if not at.all():
                self.posterior.absorb(local[~at], rewards[~at], ids[~at])
            tally(self.pulls, ids[at], local[at] - real, 1.0)
            tally(self.sums, ids[at], local[at] - real, rewards[at])
            return
        mask, local, rewards = masked(rows, count, local, rewards)
        virtual = mask & (local >= real)
        self.posterior.absorb(clamp(local, None, real - 1), rewards, mask & ~virtual)
        if self.virtual:
            column = clamp(local - real, 0)
            tally(self.pulls, virtual, column, 1.0)
            tally(self.sums, virtual, column, rewards)

    def _advance(self, rows: Rows) -> None:
        self.posterior.settle()

    def _phase(self) -> Hashable:
        return type(self).__name__


class _SupLinUCBSolver(_Modified):
    """SupLinUCB on the modified problem, the version of Theorem 3."""

    def __init__(self, learner: _LinUCBPlusPlusLearner, iteration: Iteration) -> None:
        super().__init__(learner, iteration)
        policy = self.policy
        self.levels = Levels(self.actions, policy.ridge, policy.form, iteration.length, self.virtual)

    def radii(self, rows: Rows) -> Any:
        """Radius of every real arm, then of every mixture-arm."""
        if not self.virtual:
            return self.radius
        virtual = self.virtual_radius(rows)
        real = self.xp.repeat(virtual[:, :1] * 0.0 + self.radius, self.actions.arms, axis=1)
        return self.xp.concat([real, virtual], axis=-1)

    def _select(self, rows: Rows) -> Array:
        radius = self.radii(rows)
        return self.outward(self.levels.select(radius, self.draws(rows), rows))

    def _update(self, arms: Array, rewards: Array, rows: Rows) -> None:
        self.levels.update(self.inward(arms), rewards, rows)

    def _advance(self, rows: Rows) -> None:
        return

    def _phase(self) -> Hashable:
        return None
