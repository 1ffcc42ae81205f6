"""Certified: play any policy, and overrule it before the regret that can be proved exceeds a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, at_each, clamp, like, namespace, squared_lengths, zeros
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rewards import KINDS
from adadim.core.rows import Replications
from adadim.errors import InvalidValueError
from adadim.models.linear import LinearModel
from adadim.models.priors import RidgePrior
from adadim.models.statistics import Moments
from adadim.policies.arguments import checked_offer, logged_features
from adadim.policies.base import AnyPolicy, Choice, Learner, Memo, Policy, started
from adadim.policies.certificate import Certificate, Ellipsoid, default_ridge, parameter_count, rounds_until_promise
from adadim.policies.linear.evidence import recommended
from adadim.policies.parameters import Delta, LossRange, Ridge, ThetaNorm, check_factor
from adadim.policies.player import choice_like, merged, part_of, pulls_to_numpy, with_prefix, without_prefix

INNER, CERTIFICATE = range(2)  # whose memo it is
DEFAULT_DELTA = 0.01


@dataclass(frozen=True)
class Certified(Policy):
    """Play any policy beside a confidence ellipsoid, which overrules it before a bound on the regret is exceeded.

    The bound holds whatever the policy does, in every round, on arms that stay and where features come with the
    rounds, in any way. A good policy is hardly ever overruled: use it where the policy is believed to be good and a
    theorem is wanted all the same. `Learner.certificate` says what is certain so far.

    Parameters
    ----------
    policy : Policy, optional
        What plays; by default ``adadim.recommended(problem)``. Nothing is needed of it but its arm. It learns from the
        rounds in which it is overruled too, if it can.
    mu : float
        How much the policy may add to the bound B(T) of the optimistic algorithm. Less for a policy that is not
        trusted; the smaller, the more often it is overruled.
    ridge : float, optional
        Ridge lambda of the ellipsoid, which need not be the policy's; by default 2.5 d sigma^2 / S^2, for which B(T) is
        close to smallest.
    delta : float, optional
        Probability that the certificate is wrong; 0.01 by default.
    theta_norm : float
        S: a bound on the norm of theta, which must be true. For d parameters of each arm (`disjoint`) it is the norm of
        all of them together.
    reward_bounds : (float, float), optional
        Between which all rewards lie, if that is known. The noise need not be known then, since sigma = (hi - lo) / 2
        is enough, and the bounds on means are clipped to the interval. (0, 1) where the problem says that rewards are
        clicks (``rewards="bernoulli"``); their probability must be linear in the features all the same.

    Notes
    -----
    Let gamma_t = ln det(V_t / lambda) of the ridge regression on the rounds played before round t, theta_hat_t its
    estimate, w_t(a) = ||a|| in the norm of V_t^-1, and

        b_t = sqrt(sigma^2 (gamma_t + 2 ln(1/delta)) + lambda S^2),   UCB, LCB = <a, theta_hat_t> +- b_t w_t(a),
        g_t(x) = min(D, max_a UCB_t(a) - LCB_t(x)),   c_t(x) = min(D, 2 b_t w_t(x)),   e_t(x) = max(0, g_t(x) - c_t(x)),
        Gamma_t = d ln(1 + t L^2 / (d lambda)),   B(t) = 2 max(D/2, b(Gamma_t)) sqrt(t Gamma_t / ln 2),

    where b(Gamma) is b_t with Gamma for gamma_t. In round t the policy proposes x_t. If the excesses so far and
    e_t(x_t) sum to at most mu B(t), x_t is played; else the arm of largest UCB, whose excess is 0. C_T is the sum of
    g_t over the arms played.

    Theorem. Assume that the mean of an arm is <a, theta> without a further constant, ||theta|| <= S, that all arms
    offered have norm at most L, all means of a round lie in an interval of length D, the set of a round is chosen
    before its noise, and the noise is sigma-sub-Gaussian given the past and the arm. Then with probability at least
    1 - delta, for all T at once,

        R_T <= C_T <= (mu + 1) B(T),

    and the second inequality is sure. L and D are not told: L is the largest norm offered so far, D = 2 S L or, if it
    is less, hi - lo, and B(t) with these never falls.

    Proof. (1) With probability 1 - delta theta is in all ellipsoids ||theta - theta_hat_t||_V <= b_t
    (`adadim.policies.confidence.root_radius`). (2) Then all means are between LCB and UCB, so round t loses at most
    max UCB - LCB(a_t), and at most D: at most g_t(a_t), and R_T <= C_T. Clipping both at [lo, hi] does not change
    that. (3) g_t <= c_t + e_t. Let tau be the last round in which the policy's arm was played with e > 0. The rule
    gives sum e <= mu B(tau) <= mu B(T). The arm of largest UCB has e = 0: its g is at most UCB - LCB <= 2 b_t w_t. (4)
    min(D, 2 b w) <= 2 max(D/2, b) min(1, w), in the cases w >= 1 and w < 1; b_t <= b(Gamma_T), since
    gamma_t <= Gamma_T, a determinant being at most (trace / d)^d; sum min(1, w) <= sqrt(T sum min(1, w^2)); and
    min(1, z) <= ln(1 + z) / ln 2, whose sum over z = w_t^2 is gamma_{T+1} / ln 2 <= Gamma_T / ln 2. So the c_t of all
    rounds, whoever chose the arm, sum to at most B(T).

    Late rewards. The ellipsoid has answered rounds only, so R_T <= C_T holds if, given all that was seen before its
    arrival, the noise of a reward is sigma-sub-Gaussian. That is true if delays do not depend on the noise, and false
    where the reward decides how late it comes (a click at once, silence after a time-out): answer such rounds at the
    time-out, all alike. With delays of at most m rounds C_T <= (mu + sqrt(2)) B(T) + D m Gamma_T / ln 2: where det V
    has at most doubled in m rounds w^2 has too, and of the other rounds each residue class mod m has at most
    Gamma_T / ln 2. Rounds that are never answered, and those in which another arm was pulled than was chosen, add D
    each. Logged pulls (`learn`) count in Gamma and not in T.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=50, dim=4, intrinsic_dim=2, horizon=3000)
    >>> outcome = adadim.simulate(adadim.Certified(), instance)
    >>> certificate = outcome.learner.certificate()[0]
    >>> bool(outcome.final[0] <= certificate.regret_at_most <= certificate.promised < certificate.largest_possible)
    True
    >>> certificate.overruled, len(certificate.can_be_best) < 50
    (0, True)
    """

    policy: AnyPolicy | None = None
    mu: Annotated[float, partial(check_factor, meaning="a factor on the bound, e.g. 1")] = 1.0
    ridge: Ridge | None = None
    delta: Delta | None = None
    theta_norm: ThetaNorm = 1.0
    reward_bounds: LossRange | None = None

    def ellipsoid(self, problem: Problem) -> Ellipsoid:
        """The confidence ellipsoid on a problem, which must say what the noise is unless rewards are bounded."""
        bounds, dim = self.reward_bounds or KINDS[problem.rewards].bounds, parameter_count(problem)
        noise = problem.noise if bounds is None else (bounds[1] - bounds[0]) / 2
        if bounds is not None and problem.noise_known:
            noise = min(noise, problem.noise)
        ridge = default_ridge(dim, noise, self.theta_norm) if self.ridge is None else self.ridge
        reward_bounds = None if bounds is None else (float(bounds[0]), float(bounds[1]))
        return Ellipsoid(dim, noise, self.theta_norm, ridge, self.delta or DEFAULT_DELTA, reward_bounds)

    def learner(self, problem: Problem, streams: Streams) -> CertifiedLearner:
        return CertifiedLearner(self, problem, streams)


class CertifiedLearner(Learner):
    """State of `Certified`: the policy's learner, the certificate's regression, and sums over the rounds so far."""

    no_contexts = ""
    no_disjoint = ""
    no_growing = ""
    contexts_on_devices = True
    policy: Certified

    def __init__(self, policy: Certified, problem: Problem, streams: Streams) -> None:
        self.ellipsoid = policy.ellipsoid(problem)  # an unknown noise is refused before anything is made
        super().__init__(problem, streams)
        self.policy = policy
        self.inner = started(policy.policy or recommended(problem), problem, streams.child(1))
        inner = self.inner
        self.takes_any_arm, self.takes_late_rewards = inner.takes_any_arm, inner.takes_late_rewards
        self.takes_new_arms, self.no_allowed = inner.takes_new_arms, inner.no_allowed
        # It never hears of pending pulls: widths are those of answered rounds.
        try:
            self.model = LinearModel(problem, RidgePrior(self.ellipsoid.ridge))
        except InvalidValueError as error:
            if policy.ridge is None:
                made_of = f"noise {self.ellipsoid.noise:g} and theta_norm {policy.theta_norm:g}"
                raise InvalidValueError(f"Certified makes its ridge of {made_of}, but {error}") from None
            raise
        reference, count = self.model.reference, len(problem)
        self.rounds, self.overruled, self.delay, self.answered, self.foreign, self.logged = (
            zeros(reference, count, integers=True) for _ in range(6)
        )
        self.excess, self.gaps, self.longest, self.spread = (zeros(reference, count) for _ in range(4))
        if not problem.contextual:
            self.arm_lengths = self._arm_lengths()

    def _arm_lengths(self) -> Array:
        squared = self.problem.xp.max(self.problem.actions.squared_norms(), axis=-1)
        lengths = self.problem.xp.sqrt(squared)
        return as_numpy(lengths) if self.model.converts else lengths

    def _model_rows(self, rows: Replications) -> Replications:
        return rows.to_numpy() if self.model.converts else rows

    def _lengths(self, rows: Replications) -> Array:
        """Norm of the longest arm offered, (n,)."""
        if rows.features is None:
            return rows.of(self.arm_lengths)
        features = rows.features[:, None, :] if self.problem.disjoint else rows.features
        xp = namespace(features)
        return xp.sqrt(xp.max(squared_lengths(features), axis=-1))

    def intervals(self, rows: Replications) -> tuple[Array, Array, Array]:
        """Lower and upper bounds on the means of the arms offered, less their costs, and twice the half widths."""
        mean, width2 = self.model.predict(rows)
        lower, upper, widths = self.ellipsoid.intervals(mean, width2, rows.of(self.model.logdet))
        if rows.costs is not None:
            lower, upper = lower - rows.costs, upper - rows.costs
        return lower, upper, widths

    def choose(self, rows: Replications) -> Choice:
        proposed, inner_memo, *_ = self.inner.choose(rows)
        model, model_rows = self.model, self._model_rows(rows)
        proposed = as_numpy(proposed) if model.converts else proposed
        xp = namespace(self.excess)
        self._count_round(model_rows)
        lower, upper, widths = self.intervals(model_rows)
        possible = (
            upper if model_rows.allowed is None else xp.where(model_rows.allowed, upper, xp.full_like(upper, -math.inf))
        )
        top = xp.max(possible, axis=-1)
        spread = model_rows.of(self.spread)
        gaps = xp.minimum(spread[:, None], top[:, None] - lower)
        excess = clamp(gaps - xp.minimum(spread[:, None], widths), 0.0)
        budget = self.policy.mu * self.regret_bound(model_rows)
        asked = model_rows.of(self.excess) + at_each(excess, proposed)
        # Of arms whose bounds are clipped to one value, that with the largest width.
        best = xp.argmax(xp.where(possible >= top[:, None], widths, xp.full_like(widths, -1.0)), axis=-1)
        follow = asked <= budget
        arms = xp.where(follow, proposed, best)
        gap, overruled = at_each(gaps, arms), xp.astype(~follow, xp.int64)
        model_rows.put(self.excess, xp.where(follow, asked, model_rows.of(self.excess)))
        model_rows.put(self.gaps, model_rows.of(self.gaps) + gap)
        model_rows.put(self.overruled, model_rows.of(self.overruled) + overruled)
        _, model_memo = model.choice(arms, model_rows)
        own = {"arm": arms, "gap": gap, "overruled": overruled, "round": model_rows.of(self.rounds) + 0}
        memo: Memo = {**own, **with_prefix(model_memo, CERTIFICATE)}
        if model.converts:
            arms, memo, *_ = choice_like(Choice(arms, memo), self.problem.reference)
        redirected = self._redirected(arms, as_numpy(overruled), rows, inner_memo)
        return Choice(arms, {**memo, **with_prefix(redirected, INNER)})

    def _count_round(self, rows: Replications) -> None:
        xp, lengths = namespace(self.longest), self._lengths(rows)
        rows.put(self.rounds, rows.of(self.rounds) + 1)
        rows.put(self.longest, xp.maximum(rows.of(self.longest), lengths))
        spread = self.ellipsoid.spread(rows.of(self.longest))
        if rows.costs is not None:
            spread = spread + (xp.max(rows.costs) - xp.min(rows.costs))
        rows.put(self.spread, xp.maximum(rows.of(self.spread), spread))

    def regret_bound(self, rows: Replications) -> Array:
        """B(t) in the present round."""
        xp = namespace(self.longest)
        rounds, logged = (xp.astype(rows.of(counts), xp.float64) for counts in (self.rounds, self.logged))
        return self.ellipsoid.bound(rounds, rounds + logged, rows.of(self.longest), rows.of(self.spread))

    def _redirected(self, arms: Array, overruled: np.ndarray[Any, Any], rows: Replications, memo: Memo) -> Memo:
        """The policy's memo, with what it needs to know of the arms that were played in the place of its own."""
        if not overruled.any():
            return memo
        parts = []
        for by_certificate, part, at in rows.split(overruled):
            own = part_of(memo, at)
            parts.append((at, self.inner.memo_of_other(arms[at], part, own) if by_certificate else own))
        return merged(parts, len(rows))

    # Learning

    def _teach(self, method: str, arms: Array, rewards: Array | None, rows: Replications, memo: Memo) -> None:
        """Hand pulls on to the policy, without those in which it was overruled if it cannot learn from them."""
        call, inner_memo = getattr(self.inner, method), without_prefix(memo, INNER)
        if "overruled" not in memo:  # logged
            call(arms, *(() if rewards is None else (rewards,)), rows, inner_memo)
            return
        for by_certificate, part, at in rows.split(as_numpy(memo["overruled"])):
            if by_certificate and not self.inner.learns_from_others:
                continue
            call(arms[at], *(() if rewards is None else (rewards[at],)), part, part_of(inner_memo, at))

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        self._learn(arms, rewards, rows, memo)
        self._teach("absorb", arms, rewards, rows, memo)

    def resolve(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        self._learn(arms, rewards, rows, memo)
        self._teach("resolve", arms, rewards, rows, memo)

    def add_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        self._teach("add_pending", arms, None, rows, memo)

    def clear_pending(self) -> None:
        self.inner.clear_pending()

    def _learn(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Let the certificate's regression learn, and count what the theorem needs to know of these rounds."""
        if self.model.converts:
            arms, rewards, rows, memo = pulls_to_numpy(arms, rewards, rows, memo)
        self.model.absorb(arms, rewards, rows, without_prefix(memo, CERTIFICATE))
        xp = namespace(self.gaps)
        if "round" not in memo:
            rows.put(self.logged, rows.of(self.logged) + 1)
            return
        late, foreign = rows.of(self.rounds) - memo["round"], arms != memo["arm"]
        rows.put(self.delay, xp.maximum(rows.of(self.delay), late))
        rows.put(self.answered, rows.of(self.answered) + 1)
        rows.put(self.foreign, rows.of(self.foreign) + xp.astype(foreign, xp.int64))
        more = xp.where(foreign, rows.of(self.spread) - memo["gap"], xp.zeros_like(memo["gap"]))
        rows.put(self.gaps, rows.of(self.gaps) + more)

    def learn(self, arms: Array, rewards: Array) -> None:
        if self.problem.disjoint or not self.problem.contextual:
            super().learn(arms, rewards)
            return
        pulls = list(logged_features(self.problem, arms, rewards))
        self.inner.learn(arms, rewards)
        for features, earned in pulls:
            self.learn_logged(features, earned)

    def learn_logged(self, features: np.ndarray[Any, Any], rewards: Array) -> None:
        """Let the certificate, and not the policy, learn from pulls of features (R, d), which it did not decide."""
        memo = with_prefix(self.model.logged_memo(features), CERTIFICATE)
        lengths = like(np.sqrt(np.vecdot(features, features)), self.longest)
        self.longest = namespace(self.longest).maximum(self.longest, lengths)
        self._learn(self.everyone.positions * 0, rewards, self.everyone, memo)

    def arms_added(self) -> None:
        self.inner.arms_added()
        self.model.offer.arms_added()
        self.arm_lengths = self._arm_lengths()

    def check_arms(self, arms: Array) -> None:
        self.inner.check_arms(arms)

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return self.model.pull_sums()

    def context_sums(self) -> list[Moments] | None:
        return self.model.moments()

    # What is certain

    def certificate(self, features: Any = None, *, allowed: Any = None) -> Any:
        """What is certain of the regret so far: a `Certificate`, or a list of one for each replication.

        Parameters
        ----------
        features : array (K, d) or (R, K, d), optional
            Features of arms, where they come with the rounds: of these `can_be_best` says which can still be best.
        allowed : bool array (K,) or (R, K), optional
            Which arms to compare; by default all.

        Examples
        --------
        >>> import adadim, numpy as np
        >>> learner = adadim.Certified().start(adadim.Problem(arms=3, dim=2, horizon=None, noise=0.1))
        >>> arms = np.array([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]])
        >>> for _ in range(200):
        ...     arm = learner.select(arms)
        ...     learner.update(arm, arms[arm, 0])
        >>> learner.certificate(arms).can_be_best
        (0, 1)
        """
        possible: Sequence[tuple[int, ...] | None] = [None] * len(self.problem)
        compared = [0] * len(self.problem)
        if features is not None or not self.problem.contextual:
            possible, compared = self.possible_arms(self._offered(features, allowed))
        elif allowed is not None:
            raise InvalidValueError("allowed says which of the arms to compare, so it needs their features")
        open_rounds = self._pending()
        certificates = [
            self._certificate(r, *open_rounds[r], best, arms)
            for r, (best, arms) in enumerate(zip(possible, compared, strict=True))
        ]
        return certificates[0] if self.problem.single else certificates

    def _offered(self, features: Any, allowed: Any) -> Replications:
        rows = self.everyone
        if features is not None or allowed is not None:
            rows = rows.with_offer(*checked_offer(self.problem, features, allowed, len(rows)))
        if self.problem.growing:
            there = rows.of(self.arrives) <= rows.of(self.calendar.decided)[:, None] + 1
            rows = rows.with_offer(rows.features, there if rows.allowed is None else there & rows.allowed)
        return rows

    def possible_arms(self, rows: Replications) -> tuple[list[tuple[int, ...]], list[int]]:
        """Which of the arms offered can be the best, and how many are offered, in each replication."""
        rows = self._model_rows(rows)
        lower, upper, _ = self.intervals(rows)
        xp = namespace(upper)
        everything = xp.ones_like(upper) > 0
        offered = everything if rows.allowed is None else rows.allowed
        floor = xp.max(xp.where(offered, lower, xp.full_like(lower, -np.inf)), axis=-1)
        best = as_numpy(offered & (upper >= floor[:, None]))
        return [tuple(np.flatnonzero(row).tolist()) for row in best], as_numpy(offered).sum(axis=1).tolist()

    def _pending(self) -> list[tuple[int, int]]:
        """How many decisions of each replication are open, and for how many rounds the oldest has been."""
        pending = [(0, 0)] * len(self.problem)
        rounds = as_numpy(self.rounds)
        for ids, _, memo in (*self._open.values(), *self._selected):
            for r, made in zip(ids.tolist(), as_numpy(memo["round"]).tolist(), strict=True):
                count, age = pending[r]
                pending[r] = count + 1, max(age, int(rounds[r]) - made)
        return pending

    def _certificate(self, r: int, pending: int, age: int, best: tuple[int, ...] | None, arms: int) -> Certificate:
        numbers = ("rounds", "overruled", "delay", "answered", "foreign", "logged", "gaps", "longest", "spread")
        state = {name: as_numpy(getattr(self, name))[r].item() for name in numbers}
        rounds, mu = state["rounds"], self.policy.mu
        longest, spread = np.array([state["longest"]]), np.array([state["spread"]])
        sizes = float(rounds), float(rounds + state["logged"]), longest, spread
        lost = rounds - state["answered"] - pending + state["foreign"]
        widths = self.ellipsoid.delayed_bound(*sizes, np.array([max(state["delay"], age)]), np.array([lost]))
        promised = mu * self.ellipsoid.bound(*sizes) + widths
        return Certificate(
            rounds=rounds,
            regret_at_most=state["gaps"],
            promised=float(promised[0]),
            largest_possible=rounds * state["spread"],
            overruled=state["overruled"],
            delta=self.ellipsoid.delta,
            can_be_best=best,
            arms=arms,
            dim=self.ellipsoid.dim,
            says_something_at=rounds_until_promise(self.ellipsoid, mu, longest, spread),
        )

    def descriptions(self) -> list[dict[str, Any]]:
        """What the policy says of itself, how often it was overruled, and the bound on the regret so far."""
        own = self.described(overruled=self.overruled, regret_at_most=self.gaps)
        return [{**inner, **certified} for inner, certified in zip(self.inner.descriptions(), own, strict=True)]
