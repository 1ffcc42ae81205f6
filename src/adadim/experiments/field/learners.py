"""Policies that only these experiments need: UCB1 on some of the arms, and the masters and bases of one table.

The table is the first of Pacchiano, Dann and Gentile 2024, with seven masters. D3RB and ED2RB are the library's. What
the authors' code does where the papers of the other five say something else is read off it:
github.com/pacchiano/modelselection (algorithmsmodsel.py, experiments_synthetic.py) and, for EXP3 with its discount, the
older github.com/pacchiano/PLOT. Of the settings there, the rate of Corral and the discount of EXP3 are those whose
regret is the published one. The arms of its experiments 3 and 5 are all points of the unit sphere, which cannot be
listed, so these runs are no study: a base proposes a point, which travels in the memo of its decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, clamp, indices, like, namespace
from adadim.core.checks import integer, not_negative, numbers, positive
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams
from adadim.core.rows import Replications
from adadim.core.ties import argmax
from adadim.models.context import ContextPosterior
from adadim.policies import D3RB, ED2RB, UCB, Corral
from adadim.policies.arms import UCBStatistics
from adadim.policies.base import Choice, Learner, Memo, Policy
from adadim.policies.masters.balancing import DataDriven, DataDrivenLearner
from adadim.policies.masters.base import CountingMasterLearner, Master
from adadim.policies.masters.corral import CorralLearner, LogBarrier

CONFIDENCE = (0.0, 0.16, 2.5, 5.0, 25.0)  # scales of Thompson sampling that the masters choose from
NESTED = (2, 5, 10, 15)  # or dimensions


@dataclass(frozen=True)
class OwnArmsUCB(Policy):
    """UCB1 on `count` arms in a row from the arm `first`, as if there were no others."""

    first: Annotated[int, partial(integer, least=0, meaning="the number of an arm")] = 0
    count: Annotated[int, partial(integer, meaning="of arms")] = 1

    def learner(self, problem: Problem, streams: Streams) -> OwnArmsUCBLearner:
        return OwnArmsUCBLearner(self, problem, streams)


class OwnArmsUCBLearner(Learner):
    """State of `OwnArmsUCB`."""

    fixed_operations = True
    takes_any_arm = False

    def __init__(self, policy: OwnArmsUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        integer(policy.first + policy.count, "first + count", most=problem.arms, meaning="the number of arms")
        self.policy = policy
        self.statistics = UCBStatistics(UCB(index="ucb1"), policy.count, 1.0, problem.horizon, problem.reference)

    def choose(self, rows: Replications) -> Choice:
        return Choice(self.largest(self.statistics.scores(rows), rows) + self.policy.first, {})

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        self.statistics.add(clamp(arms - self.policy.first, 0), rewards, rows)

    def descriptions(self) -> list[dict[str, Any]]:
        """Pulls of each arm, in each replication."""
        first = [self.policy.first] * len(self.problem)
        return self.described(first_arm=first, pulls_of_each_arm=self.statistics.counts)


@dataclass(frozen=True)
class SphereTS(Policy):
    """Thompson sampling on the unit sphere: the point is the direction of theta_hat + scale sqrt(d) V^(-1/2) xi.

    A scale of 0 is greedy, and starts in a random direction.

    Parameters
    ----------
    dim : int, optional
        Learn in the first `dim` features; all of them by default.
    scale : float
        Factor on the radius.

    Examples
    --------
    >>> final = play_on_sphere(SphereTS(dim=2, scale=1.0), [0.0, 2.0], horizon=200, replications=range(3))
    >>> bool((final < 200).all())  # the worst is 4 a round
    True
    """

    dim: Annotated[int, partial(integer, meaning="the number of features")] = 1
    scale: Annotated[float, not_negative] = 1.0

    def learner(self, problem: Problem, streams: Streams) -> SphereTSLearner:
        return SphereTSLearner(self, problem, streams)


class SphereTSLearner(Learner):
    """State of `SphereTS`."""

    takes_any_arm = False
    no_contexts = ""

    def __init__(self, policy: SphereTS, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy, self.factor = policy, policy.scale * math.sqrt(policy.dim)
        integer(policy.dim, "dim", most=problem.dim)
        self.posterior = ContextPosterior(len(problem), policy.dim, ridge=1.0)
        first = [generator.standard_normal(policy.dim) for generator in streams.generators]
        self.posterior.theta[:] = first / np.linalg.norm(first, axis=1, keepdims=True)

    def choose(self, rows: Replications) -> Choice:
        generators, d = self.streams.generators, self.policy.dim
        drawn = np.array([generators[r].standard_normal(d) for r in rows.ids.tolist()])
        # V^-1 = L L^T, so L xi has the law of V^(-1/2) xi.
        root = np.linalg.cholesky(self.posterior.inverse[rows.ids])
        sampled = self.posterior.theta[rows.ids] + self.factor * (root @ drawn[..., None])[..., 0]
        point = np.zeros((len(rows), self.problem.dim))
        point[:, :d] = sampled / np.linalg.norm(sampled, axis=1, keepdims=True)
        return Choice(np.zeros(len(rows), dtype=np.int64), {"point": point})

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        for r in rows.ids[self.posterior.pulls[rows.ids] == 0].tolist():
            self.posterior.theta[r] = 0.0  # the first direction was no estimate
        self.posterior.absorb(memo["point"][:, : self.policy.dim], rewards, rows)


def play_on_sphere(
    policy: Policy,
    theta: Sequence[float],
    *,
    horizon: int,
    noise: float = 1.0,
    noise_mean: float = 0.0,
    replications: Sequence[int] | int = range(1),
    seed: int = 0,
) -> FloatArray:
    """Regret of a `SphereTS`, or of a master over some, against the best point of the unit sphere, (R,).

    The noise is Gaussian, with standard deviation `noise`; the rest is as in `adadim.simulate`.
    """
    vector = np.array(numbers(theta, "theta"), dtype=float)
    positive(noise, "noise", "the standard deviation of the noise, e.g. 1")
    problem = Problem(arms=1, dim=len(vector), horizon=horizon, noise=noise, replications=replications, sets="iid")
    learner, draws = policy.start(problem, seed=seed), Streams(seed, Purpose.NOISE, problem.replications)
    rows = Replications.all(problem.reference).with_offer(np.zeros((len(problem), 1, problem.dim)), None)
    regret, best = np.zeros(len(problem)), float(np.linalg.norm(vector))
    for _ in range(horizon):
        arms, memo, *_ = learner.choose(rows)
        # Of a master's bases only the one asked has a point, and the others have zeros.
        point = sum((values for key, values in memo.items() if key.endswith("point")), np.zeros(1))
        means = point @ vector
        learner.absorb(arms, means + noise_mean + noise * draws.normals(), rows, memo)
        regret += best - means
    return regret


def sphere_experiment(experiment: str, variant: str, master: str, trials: int, seed: int, horizon: int) -> FloatArray:
    """Regret of one of `masters` in an experiment on the whole sphere, (trials,).

    In "exp3" theta is (0, 1, ..., 9) of norm 5 and bases differ in their scale, in "exp5" it is (0, 1, 2, 3, 4) and ten
    zeros, and they differ in their dimension. The variant "released" is as the authors' code has it (noise of mean 1,
    in "exp5" Thompson sampling of scale d_i), "printed" as the paper does (0, and 2).
    """
    released = variant == "released"
    if experiment == "exp3":
        theta = 5 * np.arange(10) / np.linalg.norm(np.arange(10))
        bases = tuple(SphereTS(10, c) for c in CONFIDENCE)
    else:
        theta = np.array([*range(5), *[0] * 10], dtype=float)
        bases = tuple(SphereTS(d, float(d) if released else 2.0) for d in NESTED)
    policy, mean = masters(bases, variant)[master], float(released)
    return play_on_sphere(
        policy, theta.tolist(), horizon=horizon, noise_mean=mean, replications=range(trials), seed=seed
    )


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
    """Corral with losses 1 - reward of any size and a tenth of the learning rate, its smoothing fed back.

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
    """

    def distribution(self, policies: Sequence[Policy], problem: Problem) -> LogBarrier:
        eta = self.eta or 0.1 / math.sqrt(problem.horizon)
        return FedBackBarrier(problem.reference, len(policies), eta, problem.horizon)

    def learner(self, problem: Problem, streams: Streams) -> RawRewardLearner:
        return RawRewardLearner(self, problem, streams)


class RawRewardLearner(CorralLearner):
    """A master that draws its bases, and whose losses 1 - reward are not brought into [0, 1]."""

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        chosen = memo["base"]
        rows.add(self.counts, chosen, 1)
        self.bases.absorb(chosen, arms, rewards, rows, memo)
        self.master.update(chosen, 1.0 - rewards, rows)


class FedBackBarrier(LogBarrier):
    """The next step of mirror descent starts at the smoothed probabilities; thresholds rho_i are whole numbers."""

    def update(self, chosen: Array, losses: Array, rows: Replications) -> None:
        super().update(chosen, losses, rows)
        rows.put(self.p, rows.of(self.pbar))
        rows.put(self.rho, namespace(self.rho).floor(rows.of(self.rho)))


@dataclass(frozen=True)
class DiscountedEXP3(ReleasedCorral):
    """EXP3 over bases: weights exp(eta S_i), eta = sqrt(ln M / (M T)), and S_i is 0.9 S_i + reward / p_i at a play.

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
    """

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

    def probabilities(self, rows: Replications) -> Array:
        return rows.of(self.p)

    def update(self, chosen: Array, losses: Array, rows: Replications) -> None:
        p, sums = rows.of(self.p), rows.of(self.sums)
        xp, own = namespace(p), chosen[:, None] == indices(p[0])
        sums = xp.where(own, 0.9 * sums + (1.0 - losses)[:, None] / p, sums)
        weights = xp.exp(clamp(rows.of(self.eta) * sums, None, 100.0))
        rows.put(self.sums, sums)
        rows.put(self.p, weights / xp.sum(weights, axis=-1, keepdims=True))


@dataclass(frozen=True)
class BalancingGrid(DataDriven):
    """Regret balancing with elimination ("RB grid"): each base floor(ln T) times, with coefficients 1, 2, 4, ...

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    d_min : float
        Least coefficient, for rewards in [0, 1]; T^(beta - 1/2) moves along the Pareto frontier.
    delta : float, optional
        Confidence; by default 1/sqrt(T), and 0.01 in the released variant.
    c : float
        Factor on the width of a mean.
    reward_scale : float, optional
        As in `BoundBalancing`, and a factor on `d_min` too.
    variant : {"printed", "released"}
        The algorithm as published, or as the authors' code has it: another width, sums divided by sqrt(n) in the test
        (of ED2RB in the estimate), no doubling above 10^4. The released one is far quicker to give up a base, and
        nothing is proved of it.
    """

    @staticmethod
    def copies(horizon: int) -> int:
        """Copies of each base."""
        return max(1, int(math.log(horizon)))

    def policies(self, problem: Problem) -> tuple[Policy, ...]:
        copies = self.copies(problem.horizon)
        return tuple(base for base in super().policies(problem) for _ in range(copies))

    def learner(self, problem: Problem, streams: Streams) -> BalancingGridLearner:
        return BalancingGridLearner(self, problem, streams)


class BalancingGridLearner(DataDrivenLearner):
    """Potentials d_i sqrt(n_i ln(n_i / delta)), infinite for ever once the data refute them; the lowest of equals."""

    policy: BalancingGrid

    def __init__(self, policy: BalancingGrid, problem: Problem, streams: Streams) -> None:
        super().__init__(policy, problem, streams)
        copies = policy.copies(problem.horizon)
        grid = np.tile(2.0 ** np.arange(copies), len(self.bases) // copies)
        self.coefficients = self.zeros(len(self.bases)) + like(grid, problem.reference)
        self.potential = self.coefficients + 0.0

    def next_base(self, rows: Replications) -> Array:
        return argmax(self.scores(rows), None)

    def updated(self, rows: Replications) -> tuple[Array, Array]:
        coefficients, (n, estimate) = rows.of(self.coefficients), self.released_estimate(rows)
        bound = coefficients * self.xp.sqrt(n * self.xp.log(n / self.delta))
        # Differences of sums over sqrt(n) are compared with a bound for sums.
        return coefficients, self.xp.where(estimate > n * bound, math.inf, bound)


@dataclass(frozen=True)
class CappedUCB(Master):
    """UCB over bases with indices of at most 1, greedy if the radius is 0; the first two bases are drawn.

    Parameters
    ----------
    bases : tuple of Policy
        Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
    base : LinUCB
        Template of the nested bases; its `dim` is set for each.
    ambient : bool
        Add a base in all d features.
    radius : {"noise", "full", "paper", "oful", "oful-2011"} or float
        Multiplier of the width. "noise": sigma sqrt(2 ln(2 T^1.5 K)). "full": that plus sqrt(ridge) times `theta_norm`,
        the bound for a fixed design. "paper": the constants of the paper's corollary, which assume ridge 1 and unit
        noise. "oful": sqrt(sigma^2 (ln det(V/ridge) + 2 ln sqrt(T)) + ridge theta_norm^2), valid for adaptive designs.
        "oful-2011": that bound as published, the sum of the roots of both terms, which is up to 1.41 times as large. On
        a problem without end (``horizon=None``) the number t of the round takes the place of T, so that the radius
        grows.
    """

    radius: Annotated[float, not_negative] = 2.0

    def learner(self, problem: Problem, streams: Streams) -> CappedUCBLearner:
        return CappedUCBLearner(self, problem, streams)


class CappedUCBLearner(CountingMasterLearner):
    """State of `CappedUCB`."""

    policy: CappedUCB

    def scores(self, rows: Replications) -> Array:
        xp, plays = self.xp, rows.of(self.plays)
        t = xp.sum(plays, axis=-1, keepdims=True)
        width = self.policy.radius * xp.sqrt(xp.log((t + 1.0) / 0.1) / (plays + 1e-10))
        index = clamp(self.means(rows) + width, None, 1.0)
        return xp.where(t > 1.0, index, xp.zeros_like(index))
