"""The linear model: mean and width of every arm offered, whatever is offered and however the prior comes about.

`LinearModel` is made of parts, each with one question:

- an offer (`offers`): what are this round's arms as inputs of a regression?
- a prior (`priors`, `prefixes`): what is believed before, given the sums over the data (`statistics`)?
- a likelihood (`likelihoods`): what does a reward say about a mean?
- a memory: after how many further decisions does a pull count half? A number, or what the data find (`memory`).
- a regression (`fixed`, `tensors`, `context`, `sums`): mean and width, exact and fast.

A learned prior is updated after 1, 2, 4, 8, ... rewards, or for every decision where old pulls fade. A rule sees none
of that: it calls `predict` for mean and squared width of every arm, and hands what was pulled back to `absorb`, or to
`add_pending` while its reward is pending and to `resolve` once it is known. A model that computes with NumPy whatever
the problem's library (`on_host`) takes and returns NumPy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from adadim.core.arrays import Array, FloatArray, as_numpy, at_each, like, zeros
from adadim.core.checks import check_fits
from adadim.core.problem import Problem
from adadim.core.recording import on_host
from adadim.core.rows import Replications
from adadim.core.state import check_positions
from adadim.errors import InvalidValueError
from adadim.models import Form
from adadim.models.context import ContextPosterior, stacked
from adadim.models.level_prior import LevelPrior, contributions_text
from adadim.models.likelihoods import Likelihood, PastTrials, expanded_moments, expansion, fit, logits_at
from adadim.models.memory import AGE_STEP, HALF_LIVES, Memory, MemoryBank, age_of
from adadim.models.offers import ArrivingRows, Memo, Offer, StayingArms
from adadim.models.prefixes import PrefixPrior, average, drawn_length
from adadim.models.priors import Belief, EvidencePrior, Prior
from adadim.models.statistics import FORGOTTEN, Moments
from adadim.models.sums import SumsRegression, UpdatedSums


class LinearModel:
    """A linear model of what a problem offers, for all replications.

    Parameters
    ----------
    problem : Problem
    prior : Prior
        What is believed before the data.
    dim : int, optional
        Number of features that it learns in; by default all.
    form : {"auto", "gram", "feature"}
        Form of the regression where arms stay.
    supported : bool
        In fewer features than all: cover only the arms that are zero after these.
    memory : float or "auto", optional
        Half-life of a pull, in decisions; with "auto" each replication finds its own (`MemoryBank`).
    samples : bool
        Whether parameters are drawn from the posterior (`sample`).
    likelihood : {"gaussian", "bernoulli"}
        With "bernoulli" means are logits, and squared widths their variances.
    on_host : bool
        Compute with NumPy whatever the problem's library, for rules that do.
    updates : bool
        Of a model on NumPy that samples, without memory: let each pull update the factor (`UpdatedSums`).

    Attributes
    ----------
    noise, ridge, exponent : arrays (R,)
        What is believed now, on NumPy; the noise is NaN before an estimate.
    waiting : int array (R,)
        Decisions whose reward is pending.
    changed : list of int
        Replications whose belief has changed; the reader empties it.
    """

    def __init__(
        self,
        problem: Problem,
        prior: Prior,
        *,
        dim: int | None = None,
        form: Form = "auto",
        supported: bool = False,
        memory: Memory = None,
        samples: bool = False,
        likelihood: Likelihood = "gaussian",
        on_host: bool = False,
        updates: bool = False,
    ) -> None:
        self.problem, self.prior, self.memory = problem, prior, memory
        self.dim, count = problem.dim if dim is None else dim, len(problem)
        # Asked once: a decision takes tens of microseconds, and asking an abstract class takes part of one.
        self.averages = isinstance(prior, PrefixPrior)
        if problem.contextual:  # before anything of that size is made
            blocks = problem.arms if problem.disjoint else 1
            check_fits(16.0 * count * blocks * self.dim**2, dim=self.dim, replications=count * blocks)
        bernoulli = likelihood == "bernoulli"
        rows = problem.contextual or memory is not None or samples or self.averages or bernoulli
        self.on_host = on_host or problem.disjoint or bernoulli or (prior.learns and rows) or memory == "auto"
        self.converts = self.on_host and not problem.on_host  # tensors come in and go out
        self.reference: Array = np.zeros(count) if self.on_host else problem.reference
        self.offer: Offer
        if rows:
            kind = UpdatedSums if updates else SumsRegression
            sums = kind if samples or self.averages or memory is not None else None
            alike = not samples and not prior.learns
            covered = supported if alike and (memory is not None or bernoulli) else None
            self.offer = ArrivingRows(problem, prior, self.dim, self.reference, sums, memory, covered)
        else:
            self.offer = StayingArms(problem, prior, self.dim, form, supported)
        self.factorises = isinstance(self.regression, SumsRegression) and not self.averages
        self.ridge, self.noise, self.exponent = np.zeros(count), np.full(count, np.nan), np.zeros(count)
        self.offset = zeros(self.reference, count)
        self.waiting = np.zeros(count, dtype=np.int64)
        self.answered = np.zeros(count, dtype=np.int64)
        self.changed: list[int] = []
        belief = prior([], 1.0, np.ones(self.dim), 0)
        self.evidence = np.zeros((count, *belief.evidence.shape))
        self.ridge[:], self.exponent[:] = belief.ridge, belief.exponent
        self.size = np.full(count, self.dim)  # leading columns in use
        if memory is not None:
            self.decisions = zeros(self.reference, count)
        self.trials = PastTrials(count, self.dim, self.offer.blocks, problem.contextual) if bernoulli else None
        self.banks: list[MemoryBank] = []
        if memory == "auto":
            blocks = self.offer.blocks
            check_fits(8.0 * len(HALF_LIVES) * count * blocks * self.dim**2, dim=self.dim, replications=count * blocks)
            self.banks = [MemoryBank(self.dim, blocks) for _ in range(count)]

    def expect_few_pulls(self) -> None:
        """Compute of a regression on arms that stay only what each pull needs, which is cheaper while these are few."""
        if isinstance(self.offer, StayingArms):
            self.offer.regression.lazy_gram = True

    def check_restored(self) -> None:
        """Refuse numbers of columns that are not there."""
        check_positions(self, size=self.dim + 1)

    @property
    def regression(self) -> Any:
        """The regressions of all replications."""
        return self.offer.regression

    @property
    def fixed_operations(self) -> bool:
        """Whether a round is always the same array operations, which a device can record."""
        return self.recordable and not self.prior.learns

    @property
    def recordable(self) -> bool:
        """Whether it is so between two updates of the prior."""
        return self.offer.fixed_operations and self.trials is None

    @property
    def columns(self) -> int:
        """Number of inputs of a regression: features, and a constant if there is one."""
        return self.dim + self.prior.constant

    @property
    def arms(self) -> int:
        """How many arms a radius has to cover."""
        return self.offer.arms

    @property
    def pulls(self) -> Array:
        """How many answered pulls each replication has, (R,)."""
        return self.offer.total(self.regression.pulls)

    @property
    def logdet(self) -> Array:
        """ln det(V / ridge) of each replication, (R,)."""
        return self.offer.total(self.regression.logdet)

    # Deciding

    def predict(self, rows: Replications) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered to `rows`, (n, K); pending pulls count in the width.

        With `PrefixPrior` they are averaged over d*, and the squared width is a variance.
        """
        self.prepare(rows)
        return self._predict_prefixes(rows) if self.averages else self.offer.predict(rows)

    def prepare(self, rows: Replications) -> None:
        """Bring the model to the decision to be made: what is offered, weights of old pulls, factors."""
        if rows.features is not None and self.prior.learns:
            self.observe(rows.features, rows)
        if self.memory is not None:
            self._fade(rows)
        if self.factorises:
            self.regression.factorise(self.offer.regressions(rows))

    def observe(self, offered: Array, rows: Replications) -> None:
        """Record what is offered, (n, K, d) or (n, d); before the first reward it sets units and ridge."""
        offer: Any = self.offer
        if self.prior.learns:
            for r in offer.observe(offered, rows):
                self._hold(r, self.prior([], *self.offer.basis(r), 0))

    def _fade(self, rows: Replications) -> None:
        """Fade all pulls to their weights in the decision to be made, and find the belief by them."""
        offer, regressions, number = self.offer, self.offer.regressions(rows), rows.of(self.decisions) + 1.0
        if self.banks:
            number = age_of(number)
        if offer.blocks > 1:
            number = like(np.repeat(as_numpy(number), offer.blocks), number)
        self.regression.fade(number, regressions)
        if self.prior.learns and not self.banks:
            for r in rows.ids.tolist():
                self._update_prior(r, pending=0)  # as in an agent of the same memory, which learns from sums

    def choice(self, chosen: Array, rows: Replications) -> tuple[Array, Memo]:
        """The arms at the positions chosen, and what has to be remembered of them."""
        arms, memo = self.offer.choice(chosen, rows)
        if self.memory is not None:
            rows.put(self.decisions, rows.of(self.decisions) + 1.0)
            memo = {**memo, "decision": rows.of(self.decisions) + 0.0}
        return arms, memo if self.trials is None else self._numbered(rows, memo)

    def memo_of_other(self, arms: Array, rows: Replications, memo: Memo) -> Memo:
        """The memo of a choice after which other arms were pulled, given the rows of the problem."""
        if rows.features is None:
            return memo
        if not self.converts:
            return {**memo, **self.offer.choice(arms, rows)[1]}
        other = self.offer.choice(as_numpy(arms), rows.to_numpy())[1]
        return {**memo, **{key: like(values, self.problem.reference) for key, values in other.items()}}

    def sample(self, spread: Array, rows: Replications) -> Array:
        """theta_hat + spread L^-1 (n, m, d) of spreads, in units of the inputs, for all regressions of `rows`."""
        self.prepare(rows)
        return self.regression.sample(spread, self.offer.regressions(rows))

    def inputs(self, features: Array, rows: Replications) -> Array:
        """Inputs of the regressions of features (n, ..., d)."""
        offer: Any = self.offer
        return offer.inputs(features, rows)

    def sampled_means(self, theta: Array, rows: Replications) -> Array:
        """Means of the arms offered, (n, K), by parameters (n, d) drawn, or (n K, d) where each arm has one."""
        offer, problem = self.offer, self.problem
        assert isinstance(offer, ArrivingRows)
        if rows.features is None and offer.staying is None:
            wide = zeros(self.reference, len(problem), problem.dim)
            wide[rows.index, : self.dim] = theta
            return rows.of(problem.actions.project(wide))
        inputs = offer.inputs(offer.offered(rows), rows)
        if problem.disjoint:
            return (theta.reshape(len(rows), -1, self.columns) @ inputs[..., None])[..., 0]
        return (inputs @ theta[..., None])[..., 0]

    def contrasts(self, chosen: Array, rows: Replications) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered less the one at `chosen` (n,), (n, K); needs `samples`."""
        self.prepare(rows)
        offer = self.offer
        assert isinstance(offer, ArrivingRows)
        inputs = offer.inputs(offer.offered(rows), rows)
        if not self.problem.disjoint:
            return offer.predict_inputs(inputs - at_each(inputs, chosen)[:, None, :], rows)
        mean, width2 = offer.predict_inputs(inputs, rows)  # the parameters of two arms are independent
        apart = width2 + at_each(width2, chosen)[:, None]
        apart[np.arange(len(apart)), chosen] = 0.0
        return mean - at_each(mean, chosen)[:, None], apart

    # Learning

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Learn from pulls that `add_pending` has not counted, one for each of `rows`."""
        if self.trials is not None:
            memo = self._numbered(rows, memo)
            self._keep(arms, rewards, rows, memo)
        state, memo = self.regression, self._dated(rows, memo)
        for bank, pull in self._bank_pulls(arms, rows, memo):
            bank.count_beside_pending(*pull)
        self._learn(state.resolve if state.pending is None else state.absorb, arms, rewards, rows, memo)

    def add_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        """Count pulls whose rewards are pending."""
        if self.trials is not None:
            memo = self._numbered(rows, memo)
            self._keep(arms, None, rows, memo)
        if self.prior.learns:
            on_host(self._count_waiting, rows, 1)
        memo = self._dated(rows, memo)
        for bank, pull in self._bank_pulls(arms, rows, memo):
            bank.add_pending(*pull)
        self.regression.add_pending(self._pulled(arms, rows, memo), self.offer.regressions(rows, arms))

    def resolve(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Learn the rewards of pulls that `add_pending` has counted."""
        if self.trials is not None:
            check_shares(rewards)
            for r, number, reward in zip(rows.ids.tolist(), memo["trial"].tolist(), rewards.tolist(), strict=True):
                self.trials.resolve(r, number, reward)
        if self.prior.learns:
            on_host(self._count_waiting, rows, -1)
        self._learn(self.regression.resolve, arms, rewards, rows, memo)

    def clear_pending(self) -> None:
        """Count only the pulls that are answered."""
        self.waiting[:] = 0
        self.regression.clear_pending()
        if self.trials is not None:
            self.trials.clear_pending()
        for bank in self.banks:
            bank.clear_pending()

    def _count_waiting(self, rows: Replications, change: int) -> None:
        self.waiting[rows.ids] += change

    def _dated(self, rows: Replications, memo: Memo) -> Memo:
        """The memo with the numbers of the decisions, where old ones fade."""
        if self.memory is None or "decision" in memo:
            return memo
        rows.put(self.decisions, rows.of(self.decisions) + 1.0)  # pulls of a log are decisions of their own
        return {**memo, "decision": rows.of(self.decisions) + 0.0}

    def _pulled(self, arms: Array, rows: Replications, memo: Memo) -> Any:
        if self.banks:
            memo = {**memo, "decision": age_of(memo["decision"])}
        pulled = self.offer.pulled(arms, rows, memo)
        if self.trials is None:
            return pulled
        root = np.sqrt(expansion(self._logits(arms, rows, memo))[0])[:, None]  # a pull of weight v is one of root v x
        return (pulled[0] * root, pulled[1]) if isinstance(pulled, tuple) else pulled * root

    def _learn(self, learn: Any, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        earned, learned, memo = rewards, rewards, self._dated(rows, memo)
        if self.trials is not None:
            logits = self._logits(arms, rows, memo)
            weights, working = expansion(logits, rewards)
            working = np.where(self.trials.decided(rows.ids), working, logits)  # until then no arm differs in mean
            learned = np.sqrt(weights) * (working - rows.of(self.offset))
        elif self.prior.constant:
            learned = rewards = rewards - rows.of(self.offset)
        learn(self._pulled(arms, rows, memo), learned, self.offer.regressions(rows, arms))
        self.offer.count(arms, rewards, rows)
        if self.trials is not None:
            for r in rows.ids.tolist():
                if self.trials.fit_is_due(r):
                    self.refit(r)
        elif self.prior.learns and (self.memory is None or self.banks):
            on_host(self._count_answered, rows.ids)
        if self.banks:
            self._find_memory(arms, earned, rows, memo)

    def _bank_pulls(
        self, arms: Array, rows: Replications, memo: Memo
    ) -> list[tuple[MemoryBank, tuple[int, FloatArray, int]]]:
        """The bank of each replication, with number, features and parameter of the decision pulled."""
        if not self.banks:
            return []
        offer = self.offer
        assert isinstance(offer, ArrivingRows)
        features = offer.pulled_features(arms, rows, memo)
        blocks = arms.tolist() if offer.blocks > 1 else [0] * len(rows)
        numbers = memo["decision"].astype(np.int64).tolist()
        pulls = zip(numbers, features, blocks, strict=True)
        return [(self.banks[r], pull) for r, pull in zip(rows.ids.tolist(), pulls, strict=True)]

    def _find_memory(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Let the banks learn rewards, and follow the half-lives that they find."""
        pulls = self._bank_pulls(arms, rows, memo)
        for at, (r, (bank, (number, features, block))) in enumerate(zip(rows.ids.tolist(), pulls, strict=True)):
            before = bank.in_use
            bank.learn(np.array([number]), features[None], rewards[at : at + 1], np.array([block]))
            if bank.in_use != before:
                self._change_half_life(r)
            elif not bank.filled and bank.in_use and self.prior.learns and self.trials is None:  # a block is complete
                self._update_prior(r, int(self.waiting[r]))

    def _fading(self, r: int) -> tuple[float | None, int]:
        """Half-life of a replication, None where nothing is forgotten, and the step in which its decisions age."""
        if self.memory == "auto":
            half_life = self.banks[r].half_life
            return None if math.isinf(half_life) else half_life, AGE_STEP
        return self.memory, 1

    def _change_half_life(self, r: int) -> None:
        """Weigh all pulls of a replication by the half-life that its bank has found."""
        offer, state, bank = self.offer, self.regression, self.banks[r]
        assert isinstance(offer, ArrivingRows)
        for block in offer.blocks_of(r):
            state.memory[block] = bank.half_life
        if self.trials is not None:
            self.refit(r)
            return
        for block in offer.blocks_of(r):
            for regression in (state, state.pending):
                if regression is not None:
                    regression.epoch[block] = bank.epoch
        if self.prior.learns:
            offer.update_units(r)
        data = bank.moments()
        belief = self.prior(data, *offer.basis(r), int(self.waiting[r]))
        self._note(r, belief)
        self.offset[r] = belief.offset
        offer.load(r, data, belief)

    # Clicks

    def _numbered(self, rows: Replications, memo: Memo) -> Memo:
        """The memo with the number of the decision, which a pull of a log is too."""
        assert self.trials is not None
        if "trial" in memo:
            return memo
        rows.put(self.trials.numbered, rows.of(self.trials.numbered) + 1)
        return {**memo, "trial": rows.of(self.trials.numbered).copy()}

    def _keep(self, arms: Array, rewards: Array | None, rows: Replications, memo: Memo) -> None:
        """Keep pulls for the next fit; without rewards, as pending."""
        offer, trials = self.offer, self.trials
        assert isinstance(offer, ArrivingRows)
        assert trials is not None
        if rewards is not None:
            check_shares(rewards)
        values = [math.nan] * len(rows) if rewards is None else rewards.tolist()
        numbers = memo["trial"].tolist()
        at = np.zeros(len(rows), dtype=np.int64) if offer.blocks == 1 and self.problem.contextual else arms
        at = offer.positions(at)
        features = offer.pulled_features(arms, rows, memo) if self.problem.contextual else at
        for i, (r, number, reward) in enumerate(zip(rows.ids.tolist(), numbers, values, strict=True)):
            trials.add(r, int(at[i]), features[i], number, reward)

    def _logits(self, arms: Array, rows: Replications, memo: Memo) -> FloatArray:
        """Logits of the arms pulled at the points of these replications."""
        offer, trials = self.offer, self.trials
        assert isinstance(offer, ArrivingRows)
        assert trials is not None
        points = trials.points[rows.ids, arms if offer.blocks > 1 else 0]
        return logits_at(points, offer.pulled_features(arms, rows, memo))

    def refit(self, r: int) -> None:
        """Expand the likelihood of a replication about the MAP by its data, and let belief and regression follow."""
        offer, trials = self.offer, self.trials
        assert isinstance(offer, ArrivingRows)
        assert trials is not None
        offer.update_units(r)
        staying = None if offer.staying is None else offer.staying[r]
        half_life, step = self._fading(r)
        answered, pending = trials.of(r, staying, offer.blocks > 1, half_life, step)
        told, parameters = trials.told(r), [[answered.of(block)] for block in range(offer.blocks)]
        trials.points[r] = fit(parameters, self.prior, offer.basis(r), told)
        trials.fitted[r] = told.due
        data = expanded_moments(answered, trials.points[r], told.decided, pending)
        belief = self.prior(data, *offer.basis(r), sum(max(0.0, one.pending_weight - one.weight) for one in data))
        self._note(r, belief)
        self.offset[r] = belief.offset
        offer.load(r, data, belief)
        state = self.regression
        for block, one in zip(offer.blocks_of(r), data, strict=True):
            if self.memory is None:
                state.pulls[block] = round(one.count or 0)
            else:
                for regression in (state, state.pending):
                    if regression is not None:
                        regression.epoch[block] = trials.numbered[r] // step * step

    def _count_answered(self, ids: np.ndarray[Any, Any]) -> None:
        self.answered[ids] = answered = self.answered[ids] + 1
        for r, n in zip(ids.tolist(), answered.tolist(), strict=True):
            if not n & (n - 1):  # 1, 2, 4, 8, ...
                self._update_prior(r, int(self.waiting[r]))

    def _update_prior(self, r: int, pending: int) -> None:
        """Find the belief of a replication by its data, and let the regression follow."""
        offer = self.offer
        if isinstance(offer, ArrivingRows):
            offer.update_units(r)
        data = offer.data(r)
        if sum(one.n for one in data) < FORGOTTEN:
            data = []
        self._hold(r, self.prior(data, *offer.basis(r), pending))

    def _hold(self, r: int, belief: Belief) -> None:
        """Let a replication follow a belief."""
        self._note(r, belief)
        shift = self.offer.restate(r, belief)
        if shift:
            self.offset[r] += shift

    def _note(self, r: int, belief: Belief) -> None:
        self.ridge[r], self.noise[r], self.exponent[r] = belief.ridge, belief.noise, belief.exponent
        self.evidence[r], self.size[r] = belief.evidence, belief.size or self.dim
        if r not in self.changed:  # many rules never read it
            self.changed.append(r)

    def restart(self, sums: Moments) -> None:
        """Replace everything learned by what these sums determine (one replication)."""
        if self.memory is not None:
            raise InvalidValueError("an agent forgets by itself: give memory= to Agent.create, not to the policy")
        offer = self.offer
        assert isinstance(offer, ArrivingRows)
        self.waiting[0], self.answered[0] = 0, round(sums.weight)
        if sums.pending is None:
            self.clear_pending()
        if self.prior.learns:
            offer.begin(sums)
        belief = self.prior([sums], *offer.basis(0), 0)
        self._note(0, belief)
        self.offset[0] = belief.offset
        offer.load(0, [sums], belief)
        if self.trials is not None:
            self.trials = PastTrials(1, self.dim, 1, contextual=True)
            self.trials.points[0, 0] = 0.0 if sums.point is None else sums.point
            self.regression.pulls[0] = self.answered[0] = round(sums.count or 0)
        self.prepare(Replications.all(self.reference))

    def restart_arms(self, counts: Array, sums: Array, squares: Array) -> None:
        """Replace everything learned by what pulls and sums of rewards of all arms determine, where arms stay."""
        state = self.regression
        state.rebuild(counts, sums, state.everyone, squares)
        self.answered[:] = as_numpy(counts).sum(axis=1)
        if self.prior.learns:
            for r in np.flatnonzero(self.answered).tolist():
                self._update_prior(r, pending=0)

    # Asking what it knows

    def estimates(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and squared width of every arm that stays, by answered pulls (R, K); and sums of squared residuals (R,).

        NaN for arms that it does not cover.
        """
        state, offer, shape = self.regression, self.offer, (len(self.problem), self.problem.arms)
        mean, width2 = np.full(shape, np.nan), np.full(shape, np.nan)
        covered = as_numpy(offer.real)
        mean[:, covered], width2[:, covered] = as_numpy(state.mean), as_numpy(state.width2)
        residuals = as_numpy(state.squares) - np.vecdot(as_numpy(state.sums), as_numpy(state.mean))
        return mean + as_numpy(self.offset)[:, None], width2, np.maximum(residuals, 0.0)

    def logged_memo(self, features: Array) -> Memo:
        """The memo of logged pulls of these features, (n, d)."""
        reference = self.reference if self.on_host else self.problem.reference
        return {"features": like(features, reference)[..., : self.dim]}

    def predict_answered(self, features: Array) -> tuple[Array, Array]:
        """Mean and squared width (K,) of arms (K, d) in the first replication, by answered pulls alone."""
        offer, everyone = self.offer, Replications.all(self.reference)
        assert isinstance(offer, ArrivingRows)
        inputs = offer.inputs(features[None, ..., : self.dim], everyone)
        mean, width2 = self.regression.predict_answered(inputs, everyone)
        return mean[0] + self.offset[0], width2[0]

    def predict_in_turn(
        self, rounds: Array | Sequence[Array]
    ) -> Generator[tuple[Array, Array], Sequence[int], None] | None:
        """Mean and squared width (K,) of the arms (K, d) of several rounds in one replication; None if it cannot.

        The positions of the arms pulled are sent back, and count as pending in the rounds after it.
        """
        offer, state = self.offer, self.regression
        if not isinstance(offer, ArrivingRows) or type(state) is not ContextPosterior or len(state.ridge) != 1:
            return None
        if self.prior.learns and not self.pulls[0]:
            return None  # before the first reward, units and ridge go by what is offered in each round
        everyone = Replications.all(self.reference)
        if isinstance(rounds, np.ndarray):
            rounds = rounds[..., : self.dim]
            inputs = offer.inputs(rounds[None], everyone)[0]
        else:
            rounds = [arms[..., : self.dim] for arms in rounds]
            inputs = [offer.inputs(arms[None], everyone)[0] for arms in rounds]
        if self.trials is None:
            return state.predict_in_turn(inputs)
        point = self.trials.points[0, 0]  # a pull of weight v is one of root v x
        return state.predict_in_turn(inputs, (np.sqrt(expansion(logits_at(point, arms))[0]) for arms in rounds))

    def residual(self) -> float:
        """Regularised sum of squared residuals of the first replication."""
        return float(self.regression.residual(0))

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        """Pulls and sums of rewards of every arm, and sums of squared rewards, where arms stay."""
        sums = self.offer.pull_sums(self.offset)
        return sums if sums is None or self.trials is None else (*sums[:2], self.trials.squares())

    def moments(self) -> list[Moments] | None:
        """Sums over the features pulled in each replication, where all are learned in."""
        return self._unweighted(self.offer.moments(self.offset))

    def _unweighted(self, data: list[Moments] | None) -> list[Moments] | None:
        """Sums whose weights are 1 on average: those of clicks are the precisions of logits, and what is n counts."""
        if data is None or self.trials is None:
            return data
        for one, count in zip(data, as_numpy(self.pulls).tolist(), strict=True):
            one.fade(count / one.weight if one.weight else 1.0)
        return data

    def shifted_sums(self) -> tuple[Array, Array, Array] | list[Moments] | None:
        """As `moments`, or else `pull_sums`, of rewards less the offset: exact beside a large mean of the rewards."""
        if self.trials is not None:
            moments = self.moments()
            return self.pull_sums() if moments is None else moments
        moments = self.offer.moments(self.offset * 0.0)
        return self.offer.pull_sums(self.offset * 0.0) if moments is None else moments

    def log_evidence(self) -> FloatArray:
        """Log of the evidence of each replication, averaged over the ridges (R,)."""
        best = np.logaddexp.reduce(self.evidence, axis=-1) - math.log(max(1, self.evidence.shape[-1]))
        if isinstance(self.prior, EvidencePrior):
            at = [self.prior.exponents.index(exponent) for exponent in self.exponent.tolist()]
            return np.asarray(best[np.arange(len(best)), at])
        return np.asarray(best[:, 0])

    def describe(self, r: int) -> dict[str, Any]:
        """What it has learned in one replication, as entries of `Learner.describe`."""
        entries: dict[str, Any] = {"dim": self.dim}
        state, by_arm = self.regression, self.pull_sums()
        counts = None if by_arm is None else as_numpy(by_arm[0][r])
        if counts is not None:
            entries["distinct_arms_pulled"] = int((counts > 0).sum())
        entries["pulls"] = int(self.pulls[r])
        if counts is not None:
            entries |= {"most_pulled_arm": int(counts.argmax()), "pulls_of_that_arm": int(counts.max())}
        if self.problem.disjoint:
            entries["pulls_of_each_arm"] = state.pulls.reshape(len(self.problem), -1)[r].tolist()
        if self.memory is not None:
            entries["effective_pulls"] = float(state.weight.reshape(len(self.problem), -1)[r].sum())
        if self.trials is not None:
            entries["likelihood"] = "bernoulli"
        if self.banks:
            bank = self.banks[r]
            entries["half_life"] = None if math.isinf(bank.half_life) else bank.half_life
            entries |= {"half_life_since": bank.since, "world_changed": bank.world_changed}
        if self.prior.learns:
            noise = float(self.noise[r])
            known = math.isnan(noise) or self.trials is not None  # the noise of a click is its probability's
            entries |= {"ridge": float(self.ridge[r]), "noise": None if known else noise}
        if isinstance(self.prior, EvidencePrior) and self.prior.constant:
            belief = Belief(1.0, exponent=float(self.exponent[r]), evidence=self.evidence[r])
            entries |= {"taper": belief.exponent, "order": belief.contradiction(self.prior.exponents)}
        if isinstance(self.prior, LevelPrior):
            entries |= self._describe_levels(r)
        if isinstance(self.prior, PrefixPrior):
            probabilities, noise2 = self.dim_posterior(r)
            entries |= {
                "dim": int(np.argmax(probabilities)) + 1,
                "features_in_use": len(probabilities),
                "noise": None if math.isnan(noise2) else math.sqrt(noise2),
            }
        return entries

    def _describe_levels(self, r: int) -> dict[str, Any]:
        data = self.offer.data(r)
        assert isinstance(self.prior, LevelPrior)
        found = self.prior.contributions(data if sum(one.n for one in data) >= FORGOTTEN else [], *self.offer.basis(r))
        levels = {
            one.name: {
                "explains": one.share,
                "matters": one.matters,
                "ridge": None if math.isnan(one.ridge) else one.ridge,
                "taper": None if math.isnan(one.exponent) else one.exponent,
            }
            for one in found
        }
        against = [f"in {one.name!r} {one.order}" for one in found if one.order is not None]
        order = "; ".join(against) or None
        return {"order": order, "levels": levels, "levels_that_matter": contributions_text(found)}

    # Averages over d*

    def dim_posterior(self, r: int) -> tuple[FloatArray, float]:
        """P(d* = m) of the prefixes in use, and the variance of the noise, with `PrefixPrior`; factorises the sums."""
        offer, state, prior = self.offer, self.regression, self.prior
        assert isinstance(prior, PrefixPrior)
        at, size = slice(r * offer.blocks, (r + 1) * offer.blocks), int(self.size[r])
        for block in range(at.start, at.stop):
            state.factorise_leading(block, size)
        diagonals = np.diagonal(state.inverse[at], axis1=1, axis2=2)[:, :size]  # 1 / L_jj
        logdets = -2.0 * np.cumsum(np.log(diagonals), axis=1).sum(axis=0)
        logdets -= offer.blocks * math.log(self.ridge[r]) * np.arange(1, size + 1)
        squares = float(state.squares[at].sum())
        residuals = np.maximum(squares - np.cumsum(state.w[at, :size] ** 2, axis=1).sum(axis=0), 0.0)
        return prior.posterior(logdets, residuals, float(state.pulls[at].sum()), squares)

    def _whitened(self, r: int, offered: Array, size: int, counted: bool) -> Array:
        """z (size, K) of what is offered to a replication; with `counted`, pending pulls count too."""
        offer, state = self.offer, self.regression
        state = state.pending if counted and state.pending is not None else state
        at = slice(r * offer.blocks, (r + 1) * offer.blocks)
        z = state.inverse[at, :size, :size] @ offered.reshape(-1, self.dim)[:, :size].T
        return np.asarray(z.transpose(1, 0, 2).reshape(size, -1))

    def _predict_prefixes(self, rows: Replications) -> tuple[Array, Array]:
        offer, state = self.offer, self.regression
        assert isinstance(offer, ArrivingRows)
        offered, predicted = offer.inputs(offer.offered(rows), rows), []
        for r, x in zip(rows.ids.tolist(), offered, strict=True):
            probabilities, noise2 = self.dim_posterior(r)
            size, at = len(probabilities), slice(r * offer.blocks, (r + 1) * offer.blocks)
            z = self._whitened(r, x, size, counted=False)
            counted = z if state.pending is None else self._whitened(r, x, size, counted=True)
            w = state.w[r, :size] if offer.blocks == 1 else state.w[at, :size].T
            predicted.append(average(z, w, probabilities, noise2 if noise2 > 0 else 1.0, counted))
        return stacked(predicted)

    def sample_prefixes(self, rows: Replications, generators: Sequence[np.random.Generator], scale: float) -> Array:
        """Means of the arms (n, K) under d* and parameters drawn from their posterior, `scale` times as wide."""
        self.prepare(rows)
        offer, state, means = self.offer, self.regression, []
        assert isinstance(offer, ArrivingRows)
        for r, x in zip(rows.ids.tolist(), offer.inputs(offer.offered(rows), rows), strict=True):
            probabilities, noise2 = self.dim_posterior(r)
            last = drawn_length(probabilities, generators[r].random())
            normals = generators[r].standard_normal((offer.blocks, self.dim))[:, :last].T
            at = slice(r * offer.blocks, (r + 1) * offer.blocks)
            drawn = scale * math.sqrt(noise2 if noise2 > 0 else 1.0) * normals
            z, counted = (self._whitened(r, x, last, counted) for counted in (False, True))
            means.append((z * state.w[at, :last].T + counted * drawn).sum(axis=0))
        return np.array(means)


def check_shares(rewards: Array) -> None:
    """Refuse rewards that are no shares in [0, 1]."""
    for reward in rewards.tolist():
        if not 0.0 <= reward <= 1.0:
            raise InvalidValueError(
                f"rewards must be 0, 1 or a share in [0, 1] where the likelihood is 'bernoulli', got {reward!r}"
            )
