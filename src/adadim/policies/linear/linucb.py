"""Policies that are one rule over one linear model, in all features or the first few.

LinUCB is optimism with ridge regression (Chu et al. 2011). Three policies differ from it in one thing: the radius
(`Greedy`), the prior (`TaperedLinUCB`), or the score of an arm (`RegretBalancingLinear`, Abbasi-Yadkori, Pacchiano and
Phan 2020). `LinTS` is Thompson sampling (Agrawal and Goyal 2013).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, clamp, like, namespace
from adadim.core.checks import between, integer, positive
from adadim.core.codec import ADDED_LATER
from adadim.core.problem import Problem
from adadim.core.randomness import Draws, Streams
from adadim.core.rows import Rows
from adadim.errors import InvalidValueError
from adadim.models.context import ContextPosterior
from adadim.models.evidence import taper_weights
from adadim.models.forgetting import ForgettingModel, forgetting_model
from adadim.models.linear import ContextModel, FactorModel, FixedModel, Model, linear_model
from adadim.models.moments import Moments
from adadim.policies.arguments import logged_features
from adadim.policies.base import Learner, Memo, Policy
from adadim.policies.confidence import fixed_radius, oful_radius, optimism
from adadim.policies.parameters import Bonus, Dim, Form, HalfLife, Radius, RadiusScale, Ridge, Taper, ThetaNorm, Ties
from adadim.policies.player import Clock, choice_like, pulls_to_numpy


@dataclass(frozen=True)
class LinUCB(Policy):
    """Pull the arm with the largest estimated mean plus confidence width.

    Use it when you know how many features matter (`dim`), or when d is small against the horizon. Prefer a
    policy that adapts when d is large and you do not know: in too few features LinUCB is biased for ever, in all of
    them it pays for each.

    Parameters
    ----------
    only_supported : bool
        On an expressive set with `dim` < d: use only the arms that are zero after the first `dim` features, for which
        the model is still linear, instead of all arms that differ in those.

    Notes
    -----
    LinUCB itself has no sqrt(dT) proof, since its data depend on its choices; `SupLinUCB` has one, and
    ``radius="oful"`` gives O~(d sqrt(T)) for rewards linear in the features used, norms of at most 1 and
    sub-Gaussian noise.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=100, dim=20, intrinsic_dim=3, horizon=300, replications=range(4))
    >>> ambient = adadim.simulate(adadim.LinUCB(), instance)
    >>> oracle = adadim.simulate(adadim.LinUCB(dim=3), instance)
    >>> bool(oracle.final.mean() < ambient.final.mean())
    True
    """

    ridge: Ridge = 0.1
    bonus: Bonus = "norm"
    dim: Dim | None = None
    radius: Radius = "noise"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    only_supported: bool = False
    form: Form = "auto"
    ties: Ties = "random"
    memory: HalfLife | None = field(default=None, metadata=ADDED_LATER)

    def width_multiplier(self, problem: Problem, arms: int, t: Array | None = None) -> Any:
        """Radius for `arms` arms, as far as it does not depend on the data; `t` as `Clock.now` gives it."""
        if not isinstance(self.radius, str):
            return self.scale * self.radius  # a number needs neither noise nor horizon
        rounds = problem.horizon if t is None else t
        return self.scale * fixed_radius(self.radius, problem.noise, rounds, arms, self.ridge, self.theta_norm)

    def adaptive_radius(self, problem: Problem, logdet: Array, t: Array | None = None) -> Array:
        """Radius of the rule "oful", which depends on the data: one for each replication, (n, 1)."""
        delta = 1 / math.sqrt(problem.horizon) if t is None else t**-0.5
        return self.scale * oful_radius(problem.noise, self.ridge, self.theta_norm, delta, logdet[:, None])

    def scores(self, mean: Array, width2: Array, radius: Array, pulls: Callable[[], Array]) -> Array:
        """Optimistic score of every arm, given its mean and squared width; `pulls()` gives the pulls (n,) so far."""
        return optimism(mean, width2, radius, self.bonus)

    def checked_dim(self, problem: Problem) -> int:
        """Number of features that it learns in."""
        if self.dim is None:
            return problem.dim
        return integer(self.dim, "dim", most=problem.dim, meaning="the number of features")

    def model(self, problem: Problem, weights: Array | None = None) -> Model:
        """Its model of what a problem offers, whose features are multiplied by weights if there are any."""
        options = {"dim": self.checked_dim(problem), "weights": weights}
        if self.memory is None:
            return linear_model(problem, self.ridge, self.form, self.only_supported, **options)
        return forgetting_model(problem, self.ridge, self.memory, self.only_supported, **options)


def linucb_of(policy: Policy, **others: Any) -> LinUCB:
    """The LinUCB inside a policy that has some of its parameters."""
    shared = {entry.name: getattr(policy, entry.name) for entry in fields(LinUCB) if hasattr(policy, entry.name)}
    return LinUCB(**{**shared, **others})


class LinearLearner(Learner):
    """State of a policy that is a rule over a model: `scores` is the rule, of whose scores the largest is chosen."""

    no_contexts = ""
    no_disjoint = ""
    contexts_on_devices = True
    takes_new_arms = True

    rule: Any  # parameters of the rule: the policy, or the LinUCB inside it
    model: Model
    clock: Clock | None = None  # what counts the rounds, where the scores depend on them

    def __init__(self, problem: Problem, streams: Streams, model: Model) -> None:
        super().__init__(problem, streams)
        self.model = model
        self.fixed_operations, self.bytes_per_round = model.fixed_operations, model.streamed
        self.takes_any_arm = not problem.contextual

    @cached_property
    def draws(self) -> Draws:
        """Random numbers in the library of the model."""
        return self.streams if self.model.on_host else super().draws

    @abstractmethod
    def scores(self, rows: Rows) -> Array:
        """Score of every arm that the model covers, in each replication of `rows`."""

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        model = self.model
        model_rows = rows.to_numpy() if model.converts else rows
        masked = model_rows if model.all_arms else model.offered(model_rows)
        chosen = self.largest(self.scores(model_rows), masked, self.rule.ties)
        if self.clock is not None:
            self.clock.tick(model_rows)
        choice = model.arms_and_memo(chosen, model_rows)
        return choice_like(*choice, self.problem.reference) if model.converts else choice

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        if self.model.converts:
            arms, rewards, rows, memo = pulls_to_numpy(arms, rewards, rows, memo)
        self.model.absorb(arms, rewards, rows, memo)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        if self.model.converts:
            arms, _, rows, memo = pulls_to_numpy(arms, arms, rows, memo)
        self.model.expect(arms, rows, memo)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        if self.model.converts:
            arms, rewards, rows, memo = pulls_to_numpy(arms, rewards, rows, memo)
        self.model.answer(arms, rewards, rows, memo)

    def drop_expected(self) -> None:
        self.model.drop_expected()

    def learn(self, arms: Array, rewards: Array) -> None:
        if not self.problem.contextual or self.problem.disjoint:
            super().learn(arms, rewards)
            return
        for x, earned in logged_features(self.problem, arms, rewards):
            self.absorb(x, earned, self.everyone, self._context_model.logged_memo(x))

    def arms_added(self) -> None:
        self.model.arms_added()

    def check_arms(self, arms: Array) -> None:
        if not self.model.all_arms:
            self.model.check_arms(arms)

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return self.model.pull_sums()

    def context_sums(self) -> list[Moments] | None:
        return self.model.moments()

    def descriptions(self) -> list[dict[str, Any]]:
        """What the model has learned in each replication."""
        return [{"replication": n, **self.model.describe(r)} for r, n in enumerate(self.problem.replications)]

    # What an agent calls: on one replication, learning from sums over the data

    def restart(self, sums: Moments) -> None:
        """Replace everything learned by what these sums determine."""
        self._context_model.restart(sums)

    def expect_features(self, features: Array) -> None:
        """Count a pull of features (d,) whose reward is not known yet."""
        self.expect(np.zeros(1, dtype=np.int64), self.everyone, self._context_model.logged_memo(features[None]))

    def resume(self, decided: int, streams: Streams) -> None:
        super().resume(decided, streams)
        if self.clock is not None:
            self.clock.set(self.everyone, decided)

    def estimates(self, features: Array | None = None) -> tuple[Array, Array]:
        """Estimated means of arms and their standard deviations, by the noise of the problem or an estimate (NumPy).

        Of fixed arms, all of them, (K,), or (R, K) for R replications; where features come with the rounds, of arms
        with these `features` (K, d), for a single problem. On fixed arms the order in which pulls were learned does not
        matter, only which pulls and rewards they were.

        Examples
        --------
        >>> import adadim, numpy as np
        >>> learner = adadim.EvidenceLinUCB().start(adadim.Problem(np.eye(2), horizon=10))
        >>> learner.learn([0, 1, 0, 1, 0], [0.9, 0.1, 0.7, 0.3, 0.8])
        >>> means, deviations = learner.estimates()
        >>> means.round(1)
        array([0.8, 0.2])
        """
        if features is None:
            return self._estimates_of_all()
        model, pulls = self._context_model, int(self.model.pulls[0])
        mean, width2 = model.predict_answered(features)
        if self.problem.noise_known:
            return mean, self.problem.noise * np.sqrt(width2)
        if not pulls:
            return mean, np.full(len(width2), math.inf)
        return mean, math.sqrt(max(model.residual(), 0.0) / pulls) * np.sqrt(width2)

    def _estimates_of_all(self) -> tuple[Array, Array]:
        model = self.settled_model()
        if not isinstance(model, FixedModel):
            raise InvalidValueError(
                f"estimates() of {type(self.policy or self).__name__} needs the features of the arms here: it keeps no "
                "sums of fixed arms"
            )
        mean, width2, residuals = model.estimates()
        if self.problem.noise_known:
            noise = np.full(len(mean), float(self.problem.noise))
        else:
            pulls = as_numpy(model.pulls)
            noise = np.sqrt(np.divide(residuals, pulls, out=np.full(len(mean), np.inf), where=pulls > 0))
        deviation = noise[:, None] * np.sqrt(np.maximum(width2, 0.0))
        return (mean[0], deviation[0]) if self.problem.single else (mean, deviation)

    def settled_model(self) -> Model:
        """The model, as its data determine it whatever their order."""
        return self.model

    @property
    def _context_model(self) -> ContextModel:
        assert isinstance(self.model, ContextModel)
        return self.model


class LinUCBLearner(LinearLearner, of=LinUCB):
    """State of `LinUCB`: a model of what is offered; by default that of the policy's features and ridge."""

    def __init__(self, policy: LinUCB, problem: Problem, streams: Streams, model: Model | None = None) -> None:
        super().__init__(problem, streams, policy.model(problem) if model is None else model)
        self.rule = policy
        self.clock = self.make_clock()
        # Computed for every rule: an unknown noise is refused now.
        fixed = policy.width_multiplier(problem, self.model.arms) if self.clock is None else None
        self._radius = None if policy.radius == "oful" else fixed

    def make_clock(self) -> Clock | None:
        """What counts the rounds, where the radius depends on them."""
        if not self.problem.endless or not isinstance(self.rule.radius, str):
            return None
        self.problem.noise  # noqa: B018 - an unknown one is refused now, not in the first round
        return Clock(self.model.reference)

    def radius(self, rows: Rows, t: Array | None = None) -> Any:
        """Current multiplier of the width, or that of rounds `t` (n, 1); for "oful" and without end one each."""
        if self._radius is not None:
            return self._radius
        rule, model = self.rule, self.model
        if t is None and self.clock is not None:
            t = self.clock.now(rows, model.pulls)
        if rule.radius == "oful":
            return rule.adaptive_radius(self.problem, rows.of(model.logdet), t)
        return rule.width_multiplier(self.problem, model.arms, t)

    def scores(self, rows: Rows) -> Array:
        mean, width2 = self.model.predict(rows)
        return self.rule.scores(mean, width2, self.radius(rows), lambda: rows.of(self.model.pulls))

    def scores_in_turn(self, rounds: Array | Sequence[Array], decided: int) -> Generator[Array, int, None] | None:
        if not isinstance(self.model, ContextModel):
            return None
        predicted = self.model.predict_in_turn(rounds)
        return None if predicted is None else self._scores_in_turn(predicted, len(rounds), decided)

    def _scores_in_turn(
        self, predicted: Generator[tuple[Array, Array], int, None], count: int, decided: int
    ) -> Generator[Array, int, None]:
        """The rule over what a model predicts in turn."""
        t = np.maximum(decided + np.arange(count), self.model.pulls[0])[:, None] + 1.0
        radii = self.radius(self.everyone, t) * np.ones((count, 1))  # one for each round, or the same for all
        mean, width2 = next(predicted)
        for radius in radii:
            chosen = yield self.rule.scores(mean[None], width2[None], radius, lambda: self.model.pulls)[0]
            try:
                mean, width2 = predicted.send(chosen)
            except StopIteration:
                return

    def chosen_by(self, state: ContextPosterior, row: Rows) -> int:
        """Arm that it would choose in one replication, had it learned `state` and nothing else."""
        assert row.features is not None
        mean, width2 = state.predict(as_numpy(self._context_model.inputs(row.features)), Rows.all(state.theta))
        radius = self._radius
        if self.rule.radius == "oful":
            radius = self.rule.adaptive_radius(self.problem, state.logdet)
        scores = like(self.rule.scores(mean, width2, radius, lambda: state.pulls), self.problem.reference)
        return int(self.largest(scores, row, self.rule.ties)[0])


@dataclass(frozen=True)
class Greedy(Policy):
    """Pull the arm with the largest ridge estimate (`LinUCB` with radius 0).

    A baseline: cheap, often good when arms are diverse, and stuck for ever on an early mistake otherwise (no
    sublinear guarantee).

    Notes
    -----
    Nothing is proved of it: where arms are few or alike its regret can grow like T.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.Greedy(ties="lowest").start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    >>> learner.select()
    0
    """

    ridge: Ridge = 0.1
    dim: Dim | None = None
    ties: Ties = "random"
    memory: HalfLife | None = field(default=None, metadata=ADDED_LATER)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return linucb_of(self, radius=0.0).learner(problem, streams)


@dataclass(frozen=True)
class TaperedLinUCB(Policy):
    """Learn in all features at once, with a ridge that grows with the index: lambda_j = ridge * j^taper.

    A soft truncation: feature j is shrunk harder the later it comes, so late features cost little until the data speak
    for them, and nothing is thrown away. It needs no schedule, no restarts and no mixture-arms. Use it when features
    are ordered by importance, d* is unknown and a guarantee is wanted; `EvidenceLinUCB`, which learns the ridge, has
    less regret. When late features matter as much as early ones, plain `LinUCB` is the better prior.

    Parameters
    ----------
    taper : float
        Exponent s of the ridge. 0 is `LinUCB`; larger values favour small d*.
    ridge : float
        Ridge of the first feature.
    size : float, optional
        Size tau of a leading coefficient of theta. If given, the ridge is (noise / tau)^2 instead of `ridge`, the
        prior in units of the noise, so that one setting serves quiet and noisy rewards.
    theta_norm : float
        Bound on the norm of theta after the taper, sum_j j^taper theta_j^2 under the root, which is at most
        d*^(taper/2) if the norm of theta is at most 1.

    Notes
    -----
    It is LinUCB after multiplying feature j by j^(-taper/2), so the bounds of LinUCB hold with the effective dimension
    of the tapered design, ln det(V / Lambda), and the tapered norm of theta; ``radius="oful"`` uses exactly those. The
    effective dimension grows as T^(1 / (1 + taper)) however large d is (`adadim.theory.tapered_information`), which
    gives the rate `adadim.theory.tapered_rate`; docs/which-policy.md has the proof. That rate is not Pareto optimal.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=300, dim=150, intrinsic_dim=3, horizon=600, replications=range(4))
    >>> published = adadim.simulate(adadim.LinUCBPlusPlus(), instance)
    >>> tapered = adadim.simulate(adadim.TaperedLinUCB(), instance)
    >>> bool(tapered.final.mean() < published.final.mean())
    True
    """

    taper: Taper = 1.5
    ridge: Ridge = 0.1
    size: Annotated[float, partial(between, low=1e-100, high=1e100)] | None = None
    bonus: Bonus = "norm"
    radius: Radius = "noise"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    form: Form = "auto"
    ties: Ties = "random"
    memory: HalfLife | None = field(default=None, metadata=ADDED_LATER)

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        ridge = self.ridge if self.size is None else max((problem.noise / self.size) ** 2, np.finfo(float).tiny)
        policy = linucb_of(self, ridge=ridge)
        weights = like(taper_weights(self.taper, problem.dim), problem.reference)
        return LinUCBLearner(policy, problem, streams, policy.model(problem, weights))


@dataclass(frozen=True)
class RegretBalancingLinear(Policy):
    """Pull the arm whose gap to the optimistic best value is smallest in units of its squared width.

    With b the largest upper value of any arm, the arm with the least (b - mean) / width^2 is pulled: 1 / width^2 plays
    the part of a number of pulls, so this balances the empirical regrets of the arms. It explores more evenly than
    `LinUCB`, which has the better bound; use it to compare.

    Parameters
    ----------
    radius
        As in `LinUCB`. The default "oful" has the factor 2 under the root that the source's formula lacks.

    Notes
    -----
    Regret O~(d^(3/2) sqrt(T)) for rewards linear in the features used, norms of at most 1 and sub-Gaussian noise of
    known scale.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> policy = adadim.RegretBalancingLinear(ridge=1.0, radius=1.0)
    >>> learner = policy.start(adadim.Problem([[1.0, 0.0], [0.0, 0.9]], horizon=9, noise=0.1))
    >>> learner.select()  # (1 - 0) / 1 is less than (1 - 0) / 0.81
    0
    """

    ridge: Ridge = 0.1
    dim: Dim | None = None
    radius: Radius = "oful"
    scale: RadiusScale = 1.0
    theta_norm: ThetaNorm = 1.0
    form: Form = "auto"
    ties: Ties = "random"

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        # It is LinUCB with the same parameters, but for the score of an arm.
        return _RegretScoredLinUCB(**vars(self)).learner(problem, streams)


def empirical_regrets(mean: Array, width2: Array, radius: Array) -> tuple[Array, Array]:
    """The optimistic best value b (n,), and (b - mean) / width^2 of every arm (n, K), huge at width 0."""
    xp = namespace(mean)
    best = xp.max(mean + radius * xp.sqrt(width2), axis=-1)
    return best, (best[:, None] - mean) / clamp(width2, 1e-300)


@dataclass(frozen=True)
class _RegretScoredLinUCB(LinUCB):
    """LinUCB whose score is minus the empirical regret."""

    def scores(self, mean: Array, width2: Array, radius: Array, pulls: Callable[[], Array]) -> Array:
        return -empirical_regrets(mean, width2, radius)[1]


@dataclass(frozen=True)
class LinTS(Policy):
    """Draw a parameter from the posterior in every round, and pull the arm that is best for it.

    Use it where many arms are nearly as good as the best, since it spreads its choices over them, or where rewards come
    late and in batches; `LinUCB` has less regret in most of the problems measured here. Of the adaptive policies,
    prefer `EvidenceLinUCB` when the number of features that matter is unknown.

    Parameters
    ----------
    ridge : float
        Regularisation lambda of the least squares: theta ~ N(0, sigma^2 / lambda) beforehand.
    scale : float
        Factor on the standard deviation of the draw. 1 is the posterior itself; the proof below needs more.

    Notes
    -----
    The draw is theta_hat + scale sigma L^-T xi with V = L L^T and xi standard normal. Agrawal and Goyal prove regret
    O~(d^(3/2) sqrt(T)) for a scale of order sqrt(d ln T), which is far too wide in practice; with scale 1 the Bayesian
    regret is O~(d sqrt(T)) if theta comes from the prior (Russo and Van Roy 2014).

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=60, dim=10, intrinsic_dim=2, horizon=300, replications=range(4))
    >>> sampled = adadim.simulate(adadim.LinTS(dim=2), instance)
    >>> bool(sampled.final.mean() < adadim.simulate(adadim.Random(), instance).final.mean() / 5)
    True
    """

    ridge: Ridge = 0.1
    scale: Annotated[float, partial(positive, meaning="a factor on the standard deviation of the draw")] = 1.0
    dim: Dim | None = None
    ties: Ties = "random"
    memory: HalfLife | None = field(default=None, metadata=ADDED_LATER)


class LinTSLearner(LinearLearner, of=LinTS):
    """State of `LinTS`: a model from which parameters can be drawn."""

    model: FactorModel

    def __init__(self, policy: LinTS, problem: Problem, streams: Streams) -> None:
        self.rule, self.deviation = policy, policy.scale * problem.noise
        dim = problem.dim if policy.dim is None else integer(policy.dim, "dim", most=problem.dim)
        if policy.memory is None:
            model = FactorModel(problem, policy.ridge, dim=dim)
        else:
            model = ForgettingModel(policy.memory, problem, policy.ridge, dim=dim)
        super().__init__(problem, streams, model)
        self.normal_streams = streams.child(0)

    def sample(self, rows: Rows) -> Array:
        """Parameters drawn from the posteriors, (n, d); (n * K, d) if each arm has one."""
        generators, dim = self.normal_streams.generators, self.model.dim
        count = self.model.blocks * dim
        drawn = np.array([generators[r].standard_normal(count) for r in rows.ids.tolist()]).reshape(-1, dim)
        return self.model.sample(self.deviation * like(drawn, self.problem.reference)[:, None], rows)[:, 0]

    def scores(self, rows: Rows) -> Array:
        return self.model.means(self.sample(rows), rows)

    def resume(self, decided: int, streams: Streams) -> None:
        super().resume(decided, streams)
        self.normal_streams = streams.child(0)

    def more_scores(self, rows: Rows, draws: int) -> Array | None:
        assert rows.features is not None
        spread = self.deviation * self.normal_streams.generators[0].standard_normal((draws, self.model.dim))
        return self.model.sampled_means(spread, rows.features[0])
