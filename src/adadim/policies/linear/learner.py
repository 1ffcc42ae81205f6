"""The learner of every policy that is a rule over a linear model, and what such a policy declares."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, zeros
from adadim.core.problem import Problem
from adadim.core.randomness import Draws, LateDraws, Streams
from adadim.core.rows import Replications
from adadim.errors import InvalidValueError
from adadim.models.likelihoods import likelihood_of
from adadim.models.linear import LinearModel
from adadim.models.offers import StayingArms
from adadim.models.statistics import Moments
from adadim.policies.arguments import logged_features
from adadim.policies.base import Choice, Learner, Memo, Policy
from adadim.policies.confidence import noise_radius
from adadim.policies.linear.rules import Optimism, Rule
from adadim.policies.player import Chooser, Turn, choice_like, choosers_one_by_one, offered, pulls_to_numpy


@dataclass(frozen=True)
class LinearPolicy(Policy):
    """A policy that is a rule over a linear model: it declares both."""

    @abstractmethod
    def model_for(self, problem: Problem) -> LinearModel:
        """Its model of what a problem offers."""

    @abstractmethod
    def rule_for(self, problem: Problem, model: LinearModel, streams: Streams) -> Rule:
        """Its rule over that model."""

    def learner(self, problem: Problem, streams: Streams) -> LinearLearner:
        problem, played = likelihood_of(getattr(self, "likelihood", "gaussian")).played(problem)
        learner = LinearLearner(problem, streams, self.model_for(played))
        learner.rule = self.rule_for(played, learner.model, streams)
        learner.policy = self
        return learner


class LinearLearner(Learner):
    """State of a policy that is a rule over a linear model: of the rule's scores the largest is chosen."""

    no_contexts = ""
    no_disjoint = ""
    contexts_on_devices = True
    takes_new_arms = True
    rule: Rule

    def __init__(self, problem: Problem, streams: Streams, model: LinearModel) -> None:
        super().__init__(problem, streams)
        self.model = model
        self.fixed_operations, self.bytes_per_round = model.fixed_operations, model.regression.streamed
        self.takes_any_arm = not problem.contextual

    @cached_property
    def draws(self) -> Draws:
        """Random numbers in the library of the model."""
        return self.streams if self.model.on_host else super().draws

    def sequence(self) -> str | None:
        return type(self.rule).__name__ if self.model.recordable else None

    def choose(self, rows: Replications) -> Choice:
        model, rule = self.model, self.rule
        rows = rows.to_numpy() if model.converts else rows
        rows = rows if model.offer.all_arms else model.offer.mask(rows)
        choice = rule.choose(rows, self.draws)
        chosen, noted, scores, distribution, estimate = choice
        if rule.clock is not None:
            rule.clock.tick(rows)
        arms, memo = model.offer.choice(chosen, rows)
        if model.tracks:
            memo = model.numbered(rows, memo)
        if arms is chosen and not memo and not model.converts:
            return choice
        memo = {**memo, **noted} if noted else memo
        if not model.offer.all_arms:
            scores, distribution = None, distribution and partial(self._of_all_arms, distribution)
        choice = Choice(arms, memo, scores, distribution, estimate)
        return choice_like(choice, self.problem.reference) if model.converts else choice

    def _of_all_arms(self, distribution: Callable[[], Array]) -> Array:
        """Probabilities of all arms, where the model covers some of them."""
        covered = distribution()
        probabilities = zeros(covered, len(covered), self.problem.arms)
        probabilities[:, self.model.offer.real] = covered
        return probabilities

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        if self.model.converts:
            arms, rewards, rows, memo = pulls_to_numpy(arms, rewards, rows, memo)
        self.model.absorb(arms, rewards, rows, memo)
        self.rule.learn(rewards, rows, memo)
        self.rule.decided(rows)

    def add_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        if self.model.converts:
            arms, _, rows, memo = pulls_to_numpy(arms, arms, rows, memo)
        if self.rule.counts_pending:
            self.model.add_pending(arms, rows, memo)
        self.rule.decided(rows)

    def resolve(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        if self.model.converts:
            arms, rewards, rows, memo = pulls_to_numpy(arms, rewards, rows, memo)
        self.model.resolve(arms, rewards, rows, memo)
        self.rule.learn(rewards, rows, memo)
        self.rule.answered()

    def clear_pending(self) -> None:
        self.model.clear_pending()

    @property
    def learns_from_others(self) -> bool:
        return self.model.offer.all_arms

    def memo_of_other(self, arms: Array, rows: Replications, memo: Memo) -> Memo:
        return self.rule.memo_of_other(self.model.memo_of_other(arms, rows, memo))

    def learn(self, arms: Array, rewards: Array) -> None:
        if not self.problem.contextual or self.problem.disjoint:
            super().learn(arms, rewards)
            return
        pulls = list(logged_features(self.problem, arms, rewards))
        if pulls and self.model.prior.learns:
            offered = np.stack([np.asarray(x, dtype=float) for x, _ in pulls], axis=1)
            self.model.observe(offered, self.everyone.to_numpy())
        for x, earned in pulls:
            self.absorb(x, earned, self.everyone, self.model.logged_memo(x))

    def arms_added(self) -> None:
        self.model.offer.arms_added()

    def check_arms(self, arms: Array) -> None:
        if not self.model.offer.all_arms:
            self.model.offer.check_arms(arms)

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        return self.model.pull_sums()

    def context_sums(self) -> list[Moments] | None:
        return self.model.moments()

    def shifted_sums(self) -> tuple[Array, Array, Array] | list[Moments] | None:
        moments = self.model.moments(whole=False)
        return self.model.pull_sums(whole=False) if moments is None else moments

    def descriptions(self) -> list[dict[str, Any]]:
        """What the model has learned in each replication, and what the rule has to say."""
        return [
            {"replication": n, **self._described(r), **self.rule.describe(r)}
            for r, n in enumerate(self.problem.replications)
        ]

    def _described(self, r: int) -> dict[str, Any]:
        entries, model = self.model.describe(r), self.model
        noise = entries.get("noise")
        if noise is not None and isinstance(model.offer, StayingArms) and model.prior.constant:
            rounds = max(1, int(model.pulls[r])) if self.problem.endless else self.problem.horizon
            radius, state = noise_radius(noise, rounds, self.problem.arms), model.regression
            mean, widths = as_numpy(state.mean[r]), np.sqrt(np.maximum(as_numpy(state.width2[r]), 0.0))
            possible = mean + radius * widths >= (mean - radius * widths).max()
            entries["arms_not_ruled_out"] = int(possible.sum())
        return entries

    # What an agent calls: on one replication, learning from sums over the data

    def restart(self, sums: Moments) -> None:
        """Replace everything learned by what these sums determine."""
        self.model.restart(sums if self.rule.counts_pending else replace(sums, pending=None))
        self.rule.answered()

    def expect_features(self, features: Array) -> None:
        """Count a pull of features (d,) whose reward is not known yet."""
        self.add_pending(np.zeros(1, dtype=np.int64), self.everyone, self.model.logged_memo(features[None]))

    def resume(self, decided: int, streams: Streams) -> None:
        super().resume(decided, streams)
        self.rule.resume(decided, streams)

    def estimates(self, features: Array | None = None) -> tuple[Array, Array]:
        """Estimated means of arms and their standard deviations, by the noise of the problem or an estimate (NumPy).

        Of fixed arms, all of them, (K,), or (R, K) for R replications; where features come with the rounds, of arms
        with these `features` (K, d), for a single problem. With likelihood "bernoulli" they are probabilities, and mean
        plus or minus twice the deviation is in [0, 1]. On fixed arms the order in which pulls were learned does not
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
        model, pulls = self.model, int(self.model.pulls[0])
        mean, width2 = model.predict_answered(features)
        noise = self.problem.noise if self.problem.noise_known else None
        if noise is None and not pulls:
            return mean, np.full(len(width2), math.inf)
        noise = math.sqrt(model.regression.residual(0) / pulls) if noise is None else noise
        return model.likelihood.estimates(mean, width2, noise)

    def _estimates_of_all(self) -> tuple[Array, Array]:
        noise: Any
        if self.model.rewards.fits and not self.problem.contextual:
            model, everyone = copy.deepcopy(self.model), Replications.all(self.model.reference)
            model.clear_pending()
            for r in everyone.ids.tolist():  # by a fit to all rewards
                model.relearn(r)
            (mean, width2), noise = model.predict(everyone), model.likelihood.noise
        elif isinstance(self.model.offer, StayingArms):
            model = self._settled_model()
            mean, width2, residuals = model.answered_predictions()
            pulls, unknown = as_numpy(model.pulls), np.full(len(mean), math.inf)
            noise = np.sqrt(np.divide(residuals, pulls, out=unknown, where=pulls > 0))[:, None]
            noise = float(self.problem.noise) if self.problem.noise_known else noise
        else:
            raise InvalidValueError(
                f"estimates() of {type(self.policy or self).__name__} needs the features of the arms here: it keeps no "
                "sums of fixed arms"
            )
        mean = mean + as_numpy(model.offset)[:, None]
        estimates = np.full((2, len(mean), self.problem.arms), np.nan)  # NaN for arms that it does not cover
        covered = slice(None) if model.offer.all_arms else as_numpy(model.offer.real)
        estimates[:, :, covered] = model.likelihood.estimates(mean, width2, noise)
        means, deviations = estimates[:, 0] if self.problem.single else estimates
        return means, deviations

    def _settled_model(self) -> LinearModel:
        """The model as its data determine it, whatever their order.

        A prior in use was chosen after 1, 2, 4, ... rewards, by those that were first; this one is chosen by all.
        """
        sums = self.model.pull_sums()
        if not self.model.prior.learns or sums is None:
            return self.model
        model: LinearModel = self.policy.model_for(self.problem)
        model.restart_arms(*sums)
        return model

    def choosers(
        self, features: Array | Sequence[Array], rounds: Sequence[Turn], decided: int, streams: Callable[[int], Streams]
    ) -> Generator[Chooser, Sequence[int], None]:
        """As `LearnsFromSums.choosers`; where a model predicts several rounds at once, in a tenth of the time."""
        rule, model = self.rule, self.model
        predicted = model.predict_in_turn(features) if isinstance(rule, Optimism) else None
        if predicted is None or not isinstance(rule, Optimism):
            yield from choosers_one_by_one(self, features, rounds, decided, streams)
            return
        numbers = list(accumulate((turn.decisions for turn in rounds[:-1]), initial=decided))
        t = np.maximum(numbers, model.pulls[0])[:, None] + 1.0
        radii = rule.radius(self.everyone, t) * np.ones((len(rounds), 1))  # one for each round, or the same for all
        confidence, draws = rule.confidence, LateDraws(streams)

        def choose(taken: Sequence[int], position: int) -> Choice:
            """Choose in the present round."""
            draws.position = position
            rows = self.everyone if turn.costs is None and not taken else offered(self.everyone, arms, turn, taken)
            return rule.choose_by(scores, rows, draws)

        mean, width2 = next(predicted)
        for at, radius in enumerate(radii):
            arms, turn = features[at], rounds[at]
            scores = confidence.score(mean[None], width2[None], radius, confidence.bonus, lambda: model.pulls)
            try:
                mean, width2 = predicted.send((yield choose))
            except StopIteration:
                return
