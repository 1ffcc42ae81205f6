"""Policies that learn their prior and the noise as they go, by the evidence of the data.

The prior says that importance fades with the index (`EvidenceLinUCB`), or that features stop mattering
(`PrefixLinUCB`); or the likelier of the two is taken (`TwoPriorLinUCB`). One of them is the policy to start with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from adadim.core.arrays import Array, BoolArray, as_numpy
from adadim.core.checks import positive
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.models.level_prior import LevelPrior
from adadim.models.likelihoods import likelihood_of
from adadim.models.linear import LinearModel
from adadim.models.prefixes import PrefixPrior
from adadim.models.priors import EXPONENTS, RELATIVE_RIDGES, EvidencePrior, Prior
from adadim.models.statistics import Moments
from adadim.policies.base import Choice, Learner, Memo, Policy
from adadim.policies.confidence import noise_radius
from adadim.policies.linear.learner import LinearPolicy
from adadim.policies.linear.rules import Confidence, EvidenceOptimism, EvidenceRadius, Optimism, PrefixThompson, Rule
from adadim.policies.parameters import (
    BayesFactor,
    Decay,
    Form,
    LikelihoodName,
    MemorySetting,
    Probes,
    RadiusScale,
    Taper,
    Tapers,
    ThetaNorm,
    Ties,
)
from adadim.policies.player import choice_like

EVEN = 1e-9  # a difference of log evidences that is rounding


@dataclass(frozen=True)
class EvidenceLinUCB(LinearPolicy):
    """Learn in all features, with a ridge lambda_j = lambda j^taper that grows with the index and is learned too.

    The policy to start with: `adadim.recommended` gives it with several exponents to choose from, a free constant and
    probes. It need not be given d*, the noise or the range of the means: it reads neither `Problem.noise` nor
    `Problem.reward_range`, and multiplying all rewards or all features by a number changes none of its choices. Columns
    in raw units (some column more than 10 times as large as an earlier one) are divided by their root mean square
    first, so that powers 1, x, x^2 can be given as they are; where features come with each round, by the largest value
    seen so far, after rounds 1, 2, 4, ... Without `intercept` rewards should be centred. Prefer ``radius="evidence"``
    or `Certified` where a guarantee matters more than regret, and `LinUCB` where d* is known.

    Parameters
    ----------
    taper : float or tuple of float
        Exponent s of the ridge; larger values favour small d*, 0 says that the order of the features means nothing. Of
        several, the data choose after rounds 1, 2, 4, ...; see `doubt`.
    scale : float
        Factor on the radius; not on that of "evidence".
    factor : float
        Bayes factor that rules a ridge out. The smallest ridge not ruled out is used, the one that explores most; 1
        would trust the likeliest.
    form : {"auto", "gram", "feature"}
        How the posterior is held; the choices are the same.
    ties : {"random", "lowest"}
        How equal scores are resolved.
    intercept : bool
        Whether the rewards have a constant of their own, with a flat prior. Adding a number to all rewards then
        changes none of its choices. Several exponents need it.
    doubt : float
        Bayes factor that rules an exponent out; the smallest not ruled out is used. 1 trusts the likeliest.
    probes : int
        How many of the rounds after 8, 16, 32, ... decisions, answered or not, are played with the whole radius, as if
        `scale` were 1. They are `probes` times the logarithm of the horizon in all, and free most of the runs that an
        unlucky first reward would have kept from the best arm.
    memory : float, optional
        Half-life in decisions, as in `LinUCB`. Ridge and noise are then chosen for every decision, by the evidence of
        the weighted data with the sum of the weights for n, at about 10 d^3 operations.
    likelihood : {"gaussian", "bernoulli"}
        What a reward is. "bernoulli": a click, 0 or 1 (or a share in [0, 1]), whose logit is linear in the features,
        with a constant; scores are then logits, noise need not be known, and costs of arms are in units of probability.
        See docs/clicks.md.
    levels : {"one", "each"}
        Whether all features share one ridge and exponent, or each level of the problem (`Problem(levels=...)`, or the
        parts of the features that an agent makes) has its own, chosen by the evidence: where 24 features of an arm
        matter and their 192 products with the context hardly do, one ridge fits neither. `describe()` then says what
        each level contributes. Without several levels "each" is "one".
    radius : {"noise", "evidence"}
        Multiplier of the width. "noise": `scale` times sigma sqrt(2 ln(2 T^1.5 K)), sigma as estimated. "evidence": a
        radius that is proved for all ridges at once, of which the data choose one. It needs `Problem.noise` and
        `theta_norm`, arms that stay, one exponent, and no intercept, memory, likelihood or levels.
    theta_norm : float
        For "evidence": a bound on the norm of theta after the taper, as in `TaperedLinUCB`, which must be true.

    Notes
    -----
    After rounds 1, 2, 4, 8, ... it updates its prior. With theta_j ~ N(0, sigma^2 / (lambda j^s)) and Gaussian noise
    the data of n rounds have the evidence

        det(V / Lambda)^(-1/2) S^(-n/2),   S = sum_t r_t^2 - b^T V^-1 b,

    up to a constant, once sigma^2 has been integrated out under the prior 1/sigma^2 (Lambda is diagonal with entries
    lambda j^s, V = Lambda + sum_t a_t a_t^T, b = sum_t r_t a_t). Of the ridges whose evidence is within `factor` of
    the largest it takes the smallest, and estimates sigma^2 by S/n, plus one standard error sqrt(2/n) of itself. Until
    the next update it is LinUCB with these and the radius scale sigma sqrt(2 ln(2 T^1.5 K)). On a problem without
    end (``horizon=None``) the number t of the round takes the place of T in it. With `intercept` a constant with a flat
    prior is integrated out too: features and rewards are then less their means, and n - 1 stands for n.

    With a prior for each level, feature number k of level l has the ridge lambda_l k^(s_l). The levels are tuned in
    turn, each while the others hold their likeliest values: in their order, with those after it left out, then back.
    What is chosen for each is within the L-th root of `factor` and of `doubt`, so that all L together are within these.
    A level that explains nothing gets a ridge by which it is as good as left out.

    With ``radius="evidence"`` the multiplier of the width in round t is

        b_t = sqrt(sigma^2 (ln det(V / Lambda) + 2 ln(17 sqrt(T))) + lambda theta_norm^2)

    with the ridge lambda that is in use, one of 17 that the arms fix beforehand. For each of them theta is within b_t
    of theta_hat in the norm of V, in all rounds with probability 1 - 1/(17 sqrt(T))
    (`adadim.policies.confidence.root_radius`), hence for all 17 with probability 1 - 1/sqrt(T), however the data choose
    among them. Where the noise is sigma-sub-Gaussian, sum_j j^taper theta_j^2 <= theta_norm^2 in the units of the
    columns, the means are within an interval of length D and rewards come at once, a round then loses at most
    min(D, 2 b_t w_t), so the regret is at most 2 max(D/2, b_T) sqrt(T sum_m gamma_m / ln 2), where b_T is the largest
    of all b_t, gamma_m is ln det(V / Lambda) in the end, and the sum is over the ridges that were in use. On a problem
    without end, where t takes the place of T, the radius holds in each round with probability 1 - 1/sqrt(t).

    With ``radius="noise"`` nothing is proved about its regret. If theta came from the prior with a known ridge and
    noise, the radius would hold with ``scale=1`` for all arms and rounds with probability 1 - 1/sqrt(T); the default
    scale is smaller, and chosen by experiment.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=300, dim=150, intrinsic_dim=3, horizon=600, replications=range(4))
    >>> published = adadim.simulate(adadim.LinUCBPlusPlus(), instance)
    >>> outcome = adadim.simulate(adadim.EvidenceLinUCB(), instance)
    >>> bool(outcome.final.mean() < published.final.mean() / 2)
    True
    >>> round(outcome.learner.describe()[0]["noise"], 2)  # it was 0.1
    0.1
    """

    taper: Tapers = 1.75
    scale: RadiusScale = 0.35
    factor: BayesFactor = 20.0
    form: Form = "auto"
    ties: Ties = "random"
    intercept: bool = False
    doubt: BayesFactor = 1.0
    probes: Probes = 0
    memory: MemorySetting | None = None
    likelihood: LikelihoodName = "gaussian"
    levels: Literal["one", "each"] = "one"
    radius: Literal["noise", "evidence"] = "noise"
    theta_norm: ThetaNorm = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius == "evidence":
            others = {"intercept": False, "memory": None, "likelihood": "gaussian", "levels": "one", "probes": 0}
            for name, needed in others.items():
                if getattr(self, name) != needed:
                    raise InvalidValueError(f'radius="evidence" is proved for {name}={needed!r}')
        if isinstance(self.taper, tuple) and not self.intercept:
            raise InvalidValueError(f"taper: one of {self.taper} is chosen by the data only with intercept=True")

    def model_for(self, problem: Problem) -> LinearModel:
        exponents = tuple(sorted(self.taper)) if isinstance(self.taper, tuple) else (self.taper,)
        noise = likelihood_of(self.likelihood).noise
        one = EvidencePrior(exponents, self.factor, self.doubt, self.intercept or noise is not None, noise)
        prior: Prior = one
        if self.levels == "each" and problem.column_levels is not None and len(problem.column_levels.slices) > 1:
            prior = LevelPrior(one, problem.column_levels)
        return LinearModel(problem, prior, form=self.form, memory=self.memory, likelihood=self.likelihood)

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        if self.radius == "evidence":
            if problem.contextual or problem.growing:
                raise InvalidValueError(
                    'radius="evidence" is for arms that stay, by which the ridges to choose from are fixed'
                )
            return EvidenceRadius(problem, model, self.ties, self.theta_norm, len(RELATIVE_RIDGES))
        return EvidenceOptimism(problem, model, self.ties, self.scale, self.probes)


@dataclass(frozen=True)
class PrefixLinUCB(LinearPolicy):
    """Learn in all prefixes of the features at once and weigh each by how likely it is that d* is its length.

    Like `EvidenceLinUCB` it need not be given d*, the noise or the range of the means. It is better where the signal
    ends after few features, d* = 1 above all, and worse where it fades slowly or hides;
    docs/notebook/how-the-default-was-chosen.md has both.

    Parameters
    ----------
    rule : {"optimism", "thompson"}
        Pull the arm with the largest mean plus radius times width; or draw d* and the parameters from their posterior
        and pull the arm that is best for them.
    taper : float
        Exponent s of the ridge lambda j^s inside every prefix.
    decay : float
        P(d* = m) is m^-decay beforehand, up to a constant.
    scale : float, optional
        Factor on the radius, by default 0.35; for "thompson" on the standard deviation of the draw, by default 0.7.
    factor : float
        Bayes factor that rules a ridge out. The smallest ridge not ruled out is used, the one that explores most; 1
        would trust the likeliest.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    With L the Cholesky factor of V, z = L^-1 a, w = L^-1 b and tail_j = P(d* >= j | data), the average over all
    prefixes of an arm's mean is sum_j tail_j z_j w_j, its variance given d* sigma^2 sum_j tail_j z_j^2, and the
    variance of the mean between prefixes is added to that. One factor holds all of it, and features whose tail has
    vanished cost nothing. If each arm has a parameter of its own, they share d*, the ridge and the noise, and the
    evidence of a prefix is prod_k det(V_k / Lambda)^(-1/2) (sum_k S_k)^(-n/2) over the arms k. Nothing is proved about
    its regret.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=100, dim=40, intrinsic_dim=1, horizon=300, replications=range(4))
    >>> averaged = adadim.simulate(adadim.PrefixLinUCB(), instance)
    >>> bool(averaged.final.mean() < adadim.simulate(adadim.LinUCB(), instance).final.mean() / 3)
    True
    """

    rule: Literal["optimism", "thompson"] = "optimism"
    taper: Taper = 0.0
    decay: Decay = 0.0
    scale: RadiusScale | None = None
    factor: BayesFactor = 20.0
    ties: Ties = "random"

    def model_for(self, problem: Problem) -> LinearModel:
        return LinearModel(problem, PrefixPrior(self.factor, self.taper, self.decay))

    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        if self.rule == "thompson":
            return PrefixThompson(problem, model, self.ties, streams, 0.7 if self.scale is None else self.scale)
        radius = (0.35 if self.scale is None else self.scale) * noise_radius(1.0, problem.horizon, problem.arms)
        return Optimism(problem, model, self.ties, Confidence(radius=radius))


@dataclass(frozen=True)
class TwoPriorLinUCB(Policy):
    """Hold two beliefs about the features, both learned from all data, and choose by the one of larger evidence.

    `EvidenceLinUCB` believes that importance fades with the index, `PrefixLinUCB` that it ends after the first d*
    features. Each is good where it is right. This one compares both after 1, 2, 4, 8, ... rounds, and until the next
    time pulls what the likelier would pull.

    Parameters
    ----------
    taper : float
        How fast importance fades, as in `EvidenceLinUCB`.
    decay : float
        Prior of d*, as in `PrefixLinUCB`.
    odds : float
        How much likelier it is beforehand that importance ends than that it fades.
    scale : float
        Factor on the radius.
    factor : float
        Bayes factor that rules a ridge out. The smallest ridge not ruled out is used, the one that explores most; 1
        would trust the likeliest.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    Evidences are averaged over all ridges, and over all lengths of a prefix. Nothing is proved about its regret.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=200, dim=30, intrinsic_dim=15, horizon=300, noise=0.02)
    >>> outcome = adadim.simulate(adadim.TwoPriorLinUCB(), instance)
    >>> outcome.learner.describe()[0]["belief"]
    'prefix'
    """

    taper: Taper = 1.75
    decay: Decay = 1.0
    odds: Annotated[float, partial(positive, meaning="prior odds of features that stop mattering, e.g. 1")] = 1.0
    scale: RadiusScale = 0.35
    factor: BayesFactor = 20.0
    ties: Ties = "random"

    def beliefs(self) -> tuple[EvidenceLinUCB, PrefixLinUCB]:
        """The two policies inside."""
        shared: dict[str, Any] = {"scale": self.scale, "factor": self.factor, "ties": self.ties}
        return EvidenceLinUCB(self.taper, **shared), PrefixLinUCB(decay=self.decay, **shared)

    def learner(self, problem: Problem, streams: Streams) -> TwoPriorLearner:
        return TwoPriorLearner(self, problem, streams)


def call_on_both(name: str) -> Any:
    """A method of `TwoPriorLearner` that calls the method of this name of both learners inside."""

    def method(self: TwoPriorLearner, *arguments: Any) -> None:
        for learner in self.both:
            getattr(learner, name)(*arguments)

    return method


class TwoPriorLearner(Learner):
    """State of `TwoPriorLinUCB`: the learners of both beliefs."""

    no_contexts = ""
    no_disjoint = ""
    contexts_on_devices = True
    takes_new_arms = True

    def __init__(self, policy: TwoPriorLinUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        fading, prefix = policy.beliefs()
        self.advantage = math.log(policy.odds)
        self.fading = fading.learner(problem, streams.child(0))
        self.prefix = prefix.learner(problem, streams.child(1))
        self.both = (self.fading, self.prefix)
        self.takes_any_arm = not problem.contextual

    def prefers_prefix(self) -> BoolArray:
        """Whether the features more likely stop mattering than fade, in each replication."""
        return self.prefix.model.log_evidence() + self.advantage > self.fading.model.log_evidence() + EVEN

    def choose(self, rows: Replications) -> Choice:
        host_rows = rows.to_numpy()
        if host_rows.features is not None:  # one of them chooses, and both have to know what was offered
            for learner in self.both:
                learner.model.observe(host_rows.features, host_rows)
        arms = rows.positions * 0
        for end, part, at in rows.split(host_rows.of(self.prefers_prefix()).astype(np.int64)):
            arms[at] = self.both[end].choose(part).arms
        choice = Choice(*self.prefix.model.choice(as_numpy(arms), host_rows))
        return choice_like(choice, self.problem.reference)

    @property
    def learns_from_others(self) -> bool:
        return True

    def memo_of_other(self, arms: Array, rows: Replications, memo: Memo) -> Memo:
        return self.prefix.memo_of_other(arms, rows, memo)

    absorb, add_pending, resolve = call_on_both("absorb"), call_on_both("add_pending"), call_on_both("resolve")
    clear_pending, arms_added = call_on_both("clear_pending"), call_on_both("arms_added")

    def learn(self, arms: Array, rewards: Array) -> None:
        if self.problem.disjoint or not self.problem.contextual:
            super().learn(arms, rewards)
            return
        for learner in self.both:
            learner.learn(arms, rewards)

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return self.prefix.pull_sums()

    def context_sums(self) -> list[Moments] | None:
        return self.prefix.context_sums()

    def descriptions(self) -> list[dict[str, Any]]:
        """What the likelier belief says, and which it is."""
        rows = zip(self.prefers_prefix().tolist(), self.fading.descriptions(), self.prefix.descriptions(), strict=True)
        return [
            {"belief": "prefix", **prefix} if ends else {"belief": "fading", **fading} for ends, fading, prefix in rows
        ]


CLICKS_SCALE = 0.17  # of the radius, for clicks with several levels: chosen on a home page (docs/notebook/speed.md)
RECOMMENDED = EvidenceLinUCB(taper=EXPONENTS, intercept=True, doubt=3.0, probes=2)


def recommended(problem: Problem) -> Policy:
    """The policy to start with: `EvidenceLinUCB`, which also learns how informative the order of the features is.

    It needs the features, best in their order of importance, and the number of rounds, and nothing else: how much the
    order means, the noise and a constant in the rewards are learned. It was chosen by a rule that was written down
    before the numbers (see docs/notebook/how-the-default-was-chosen.md). Where each arm has a parameter of its own
    (`disjoint`) the same rule chose `EvidenceLinUCB` with its default parameters. Where the problem has several levels,
    each has its own prior (``levels="each"``), but not where it is disjoint. Where rewards are clicks
    (``rewards="bernoulli"``), it has that likelihood, and with several levels half the radius (``scale=0.17``).

    Examples
    --------
    >>> import adadim, numpy as np
    >>> features = np.random.default_rng(0).normal(size=(200, 50)) / 10
    >>> problem = adadim.Problem(features, horizon=1000)  # the noise is unknown
    >>> learner = adadim.recommended(problem).start(problem)
    >>> learner.update(learner.select(), 1000.3)  # rewards need not be centred
    """
    if not isinstance(problem, Problem):
        raise InvalidTypeError(f"recommended needs an adadim.Problem, got {type(problem).__name__}")
    chosen = EvidenceLinUCB() if problem.disjoint else RECOMMENDED
    if not problem.disjoint and problem.column_levels is not None and len(problem.column_levels.slices) > 1:
        chosen = replace(chosen, levels="each")
        if problem.rewards == "bernoulli":
            chosen = replace(chosen, scale=CLICKS_SCALE)
    return replace(chosen, likelihood=problem.rewards)
