"""The linear model: mean and width of every arm offered, whatever is offered and however the prior comes about.

`LinearModel` is made of parts, each with one question:

- an offer (`offers`): what are this round's arms as inputs of a regression?
- a prior (`priors`, `prefixes`): what is believed before, given the sums over the data (`statistics`)? It also says
  how means and widths come about (`parts.Prediction`).
- a likelihood (`parts`, `likelihoods`): what does a reward say about a mean?
- a memory (`parts`, `fading`): how much does a pull count by its age?
- a regression (`fixed`, `tensors`, `context`, `sums`): mean and width, exact and fast.

A learned prior is updated after 1, 2, 4, 8, ... rewards, unless likelihood or memory say when. A rule sees none of
that: it calls `predict` for mean and squared width of every arm, and hands what was pulled back to `absorb`, or to
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
from adadim.errors import InvalidValueError
from adadim.models import Form
from adadim.models.context import ContextPosterior
from adadim.models.fading import MemoryName, memory_of
from adadim.models.likelihoods import likelihood_of
from adadim.models.offers import ArrivingRows, Memo, Offer, StayingArms
from adadim.models.parts import Likelihood, Memory
from adadim.models.priors import Belief, Prior
from adadim.models.statistics import FORGOTTEN, ArmSums, Moments
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
    memory : float, str or Memory, optional
        Half-life of a pull, in decisions, or one of `fading.MEMORIES`: with "auto" each replication finds its own.
    samples : bool
        Whether parameters are drawn from the posterior (`sample`).
    likelihood : str or Likelihood
        One of `likelihoods.LIKELIHOODS`: with "bernoulli" means are logits, and squared widths their variances.
    on_host : bool
        Compute with NumPy whatever the problem's library, for rules that do.

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
        memory: MemoryName | Memory = None,
        samples: bool = False,
        likelihood: str | Likelihood = "gaussian",
        on_host: bool = False,
    ) -> None:
        self.problem, self.prior = problem, prior
        self.likelihood, self.memory = likelihood_of(likelihood), memory_of(memory)
        self.dim, count = problem.dim if dim is None else dim, len(problem)
        if problem.contextual:  # before anything of that size is made
            blocks = problem.arms if problem.disjoint else 1
            check_fits(16.0 * count * blocks * self.dim**2, dim=self.dim, replications=count * blocks)
        reweighs = self.likelihood.expands or self.memory.forgets  # pulls already made
        rows = problem.contextual or samples or prior.needs_sums or reweighs
        needs_host = problem.disjoint or self.likelihood.expands or self.memory.on_host or (prior.learns and rows)
        self.on_host = on_host or needs_host
        self.converts = self.on_host and not problem.on_host  # tensors come in and go out
        self.reference: Array = np.zeros(count) if self.on_host else problem.reference
        self.everyone = Replications.all(self.reference)
        self.offer: Offer
        if rows:
            updates = samples and self.everyone.on_host and not (prior.needs_sums or self.memory.forgets)
            kind = UpdatedSums if updates else SumsRegression
            sums = kind if samples or prior.needs_sums or self.memory.forgets else None
            covered = supported if reweighs and not samples and not prior.learns else None
            self.offer = ArrivingRows(problem, prior, self.dim, self.reference, sums, self.memory, covered)
        else:
            self.offer = StayingArms(problem, prior, self.dim, form, supported)
        self.ridge, self.noise, self.exponent = np.zeros(count), np.full(count, np.nan), np.zeros(count)
        self.offset, self.decisions = zeros(self.reference, count), zeros(self.reference, count)
        self.waiting = np.zeros(count, dtype=np.int64)
        self.answered = np.zeros(count, dtype=np.int64)
        self.changed: list[int] = []
        belief = prior([], 1.0, np.ones(self.dim), 0)
        self.evidence = np.zeros((count, *belief.evidence.shape))
        self.ridge[:], self.exponent[:] = belief.ridge, belief.exponent
        self.prediction, self.rewards = prior.prediction(self.offer), self.likelihood.rewards(count, self.offer)
        self.memory.begin(self.offer, self.decisions)
        # Whether likelihood or memory keep something of every decision, by its number.
        self.tracks = self.rewards.fits or self.memory.forgets
        # Whether there is something to do before a prediction.
        self.prepares = self.tracks or self.offer.keeps_sums or (prior.learns and problem.contextual)
        # Whether the belief is found after 1, 2, 4, 8, ... rewards.
        self.counts_rewards = prior.learns and not self.rewards.fits and not self.memory.each_decision

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
        return self.offer.fixed_operations and not self.rewards.fits

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
        return self.offer.total(self.offer.regression.pulls)

    @property
    def logdet(self) -> Array:
        """ln det(V / ridge) of each replication, (R,)."""
        return self.offer.total(self.regression.logdet)

    # Deciding

    def predict(self, rows: Replications) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered to `rows`, (n, K); pending pulls count in the width.

        With `PrefixPrior` they are averaged over d*, and the squared width is a variance.
        """
        if self.prepares:
            self.prepare(rows)
        return self.prediction.predict(rows)

    def prepare(self, rows: Replications) -> None:
        """Bring the model to the decision to be made: what is offered, weights of old pulls, factors."""
        if rows.features is not None and self.prior.learns:
            self.observe(rows.features, rows)
        if self.tracks:
            due = self.memory.prepare(rows)
            for r in due.sums:
                self.relearn(r)
            for r in due.beliefs:
                self._update_prior(r, pending=0)
        if self.offer.keeps_sums:
            self.prediction.prepare(rows)

    def observe(self, offered: Array, rows: Replications) -> None:
        """Record what is offered, (n, K, d) or (n, d); before the first reward it sets units and ridge."""
        offer: Any = self.offer
        if self.prior.learns:
            for r in offer.observe(offered, rows):
                self._hold(r, self.prior([], *self.offer.basis(r), 0))

    def choice(self, chosen: Array, rows: Replications) -> tuple[Array, Memo]:
        """The arms at the positions chosen, and what has to be remembered of them."""
        arms, memo = self.offer.choice(chosen, rows)
        return arms, self.numbered(rows, memo) if self.tracks else memo

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

    def sample_means(self, spread: Array, inputs: Array, rows: Replications) -> Array:
        """Means (n, m, K) of inputs (n, K, d) by parameters as `sample` draws them."""
        self.prepare(rows)
        return self.regression.sample_means(spread, inputs, self.offer.regressions(rows))

    def inputs(self, features: Array, rows: Replications) -> Array:
        """Inputs of the regressions of features (n, ..., d)."""
        offer: Any = self.offer
        return offer.inputs(features, rows)

    def offered_inputs(self, rows: Replications) -> Array:
        """Inputs (n, K, d) of the arms offered as rows of features, or (n, d) of one context for all arms."""
        offer: Any = self.offer
        return offer.offered_inputs(rows)

    def means_by(self, theta: Array, rows: Replications) -> Array:
        """Means of the arms offered, (n, K), by parameters (n, d) drawn, or (n K, d) where each arm has one."""
        offer, problem = self.offer, self.problem
        assert isinstance(offer, ArrivingRows)
        if rows.features is None and offer.staying is None:
            wide = zeros(self.reference, len(problem), problem.dim)
            wide[rows.index, : self.dim] = theta
            return rows.of(problem.actions.project(wide))
        inputs = offer.offered_inputs(rows)
        if problem.disjoint:
            return (theta.reshape(len(rows), -1, self.columns) @ inputs[..., None])[..., 0]
        return (inputs @ theta[..., None])[..., 0]

    def contrasts(self, chosen: Array, rows: Replications) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered less the one at `chosen` (n,), (n, K); needs `samples`."""
        self.prepare(rows)
        offer = self.offer
        assert isinstance(offer, ArrivingRows)
        inputs = offer.offered_inputs(rows)
        if not self.problem.disjoint:
            return offer.predict_inputs(inputs - at_each(inputs, chosen)[:, None, :], rows)
        mean, width2 = offer.predict_inputs(inputs, rows)  # the parameters of two arms are independent
        apart = width2 + at_each(width2, chosen)[:, None]
        apart[np.arange(len(apart)), chosen] = 0.0
        return mean - at_each(mean, chosen)[:, None], apart

    # Learning

    def numbered(self, rows: Replications, memo: Memo) -> Memo:
        """The memo with the numbers of the decisions; pulls of a log are decisions too."""
        if "decision" in memo:
            return memo
        rows.put(self.decisions, rows.of(self.decisions) + 1.0)
        return {**memo, "decision": rows.of(self.decisions) + 0.0}

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Learn from pulls that `add_pending` has not counted, one for each of `rows`."""
        if self.tracks:
            memo = self.numbered(rows, memo)
            self.rewards.keep(arms, rewards, rows, memo)
            self.memory.count_beside_pending(arms, rows, memo)
        state = self.offer.regression
        self._learn(state.resolve if state.pending is None else state.absorb, arms, rewards, rows, memo)

    def add_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        """Count pulls whose rewards are pending."""
        if self.tracks:
            memo = self.numbered(rows, memo)
            self.rewards.keep(arms, None, rows, memo)
            self.memory.add_pending(arms, rows, memo)
        if self.prior.learns:
            on_host(self._count_waiting, rows, 1)
        pulled, roots = self.offer.pulled(arms, rows, memo), self.rewards.roots(arms, rows, memo)
        if roots is not None:  # a pull of weight v is one of root v x
            pulled = pulled * roots[:, None]
        self.regression.add_pending(self.memory.dated(pulled, memo), self.offer.regressions(rows, arms))

    def resolve(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Learn the rewards of pulls that `add_pending` has counted."""
        if self.tracks:
            self.rewards.resolve(rewards, rows, memo)
        if self.prior.learns:
            on_host(self._count_waiting, rows, -1)
        self._learn(self.regression.resolve, arms, rewards, rows, memo)

    def clear_pending(self) -> None:
        """Count only the pulls that are answered."""
        self.waiting[:] = 0
        self.offer.regression.clear_pending()
        if self.tracks:
            self.rewards.clear_pending()
            self.memory.clear_pending()

    def _count_waiting(self, rows: Replications, change: int) -> None:
        self.waiting[rows.ids] += change

    def _learn(self, learn: Any, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        offer, constant = self.offer, self.prior.constant
        pulled, concerned = offer.pulled(arms, rows, memo), rows if offer.blocks == 1 else offer.regressions(rows, arms)
        if self.tracks:
            roots, working = self.rewards.expand(arms, rewards, rows, memo)
            working = working - rows.of(self.offset) if constant else working
            if roots is not None:
                pulled, working = pulled * roots[:, None], roots * working
            learn(self.memory.dated(pulled, memo), working, concerned)
        else:
            learn(pulled, rewards - rows.of(self.offset) if constant else rewards, concerned)
        if offer.counts is not None:
            offer.count(arms, rewards, rows)
        if self.counts_rewards:
            if rows.on_host:
                self._count_answered(rows.ids)
            else:
                on_host(self._count_answered, rows.ids)
        if self.tracks:
            for r in self.rewards.due(rows):
                self.relearn(r)
            due = self.memory.learn(arms, rewards, rows, memo)
            for r in due.sums:
                self.rewards.recount(r, self.memory, int(self.decisions[r]))
                self.relearn(r)
            for r in due.beliefs if self.counts_rewards else ():
                self._update_prior(r, int(self.waiting[r]))

    def relearn(self, r: int) -> None:
        """Make the sums of a replication again, and let belief and regression follow."""
        offer = self.offer
        assert isinstance(offer, ArrivingRows)
        offer.update_units(r)
        data, number, waiting = self.rewards.sums(r, self.prior, self.memory, int(self.decisions[r]))
        belief = self.prior(data, *offer.basis(r), float(self.waiting[r]) if waiting is None else waiting)
        self._note(r, belief)
        self.offset[r] = belief.offset
        offer.load(r, data, belief)
        self.memory.loaded(r, number)

    def _count_answered(self, ids: np.ndarray[Any, Any]) -> None:
        self.answered[ids] = answered = self.answered[ids] + 1
        for r, n in zip(ids.tolist(), answered.tolist(), strict=True):
            if not n & (n - 1):  # 1, 2, 4, 8, ...
                self._update_prior(r, int(self.waiting[r]))

    def _update_prior(self, r: int, pending: int) -> None:
        """Find the belief of a replication by its data, and let the regression follow."""
        self.offer.update_units(r)
        self._hold(r, self.prior(self._data(r), *self.offer.basis(r), pending))

    def _data(self, r: int) -> Sequence[Moments | ArmSums]:
        """The sums over the data of a replication; none if all are forgotten."""
        data = self.offer.data(r)
        return data if sum(one.n for one in data) >= FORGOTTEN else []

    def _hold(self, r: int, belief: Belief) -> None:
        """Let a replication follow a belief."""
        self._note(r, belief)
        shift = self.offer.restate(r, belief)
        if shift:
            self.offset[r] += shift

    def _note(self, r: int, belief: Belief) -> None:
        self.ridge[r], self.noise[r], self.exponent[r] = belief.ridge, belief.noise, belief.exponent
        self.evidence[r] = belief.evidence
        self.prediction.follow(r, belief)
        if r not in self.changed:  # many rules never read it
            self.changed.append(r)

    def restart(self, sums: Moments) -> None:
        """Replace everything learned by what these sums determine (one replication)."""
        if self.memory.forgets:
            raise InvalidValueError("an agent forgets by itself: give memory= to Agent.create, not to the policy")
        offer = self.offer
        assert isinstance(offer, ArrivingRows)
        self.waiting[0], self.answered[0] = 0, sums.pulls
        if sums.pending is None:
            self.clear_pending()
        if self.prior.learns:
            offer.begin(sums)
        belief = self.prior([sums], *offer.basis(0), 0)
        self._note(0, belief)
        self.offset[0] = belief.offset
        offer.load(0, [sums], belief)
        self.rewards.restart(sums)
        if self.tracks or offer.keeps_sums:
            self.prepare(self.everyone)

    def restart_arms(self, counts: Array, sums: Array, squares: Array) -> None:
        """Replace everything learned by what pulls and sums of rewards of all arms determine, where arms stay."""
        state = self.regression
        state.rebuild(counts, sums, state.everyone, squares)
        self.answered[:] = as_numpy(counts).sum(axis=1)
        if self.prior.learns:
            for r in np.flatnonzero(self.answered).tolist():
                self._update_prior(r, pending=0)

    # Asking what it knows

    def answered_predictions(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean, less the offset, and squared width of every arm covered that stays, by answered pulls alone (R, K).

        And the sum of squared residuals of each replication, (R,).
        """
        mean, width2 = as_numpy(self.regression.mean), as_numpy(self.regression.width2)
        residuals = as_numpy(self.regression.squares) - np.vecdot(as_numpy(self.regression.sums), mean)
        return mean, width2, np.maximum(residuals, 0.0)

    def logged_memo(self, features: Array) -> Memo:
        """The memo of logged pulls of these features, (n, d)."""
        reference = self.reference if self.on_host else self.problem.reference
        return {"features": like(features, reference)[..., : self.dim]}

    def predict_answered(self, features: Array) -> tuple[Array, Array]:
        """Mean and squared width (K,) of arms (K, d) in the first replication, by answered pulls alone."""
        offer, everyone = self.offer, self.everyone
        assert isinstance(offer, ArrivingRows)
        inputs = offer.inputs(features[None, ..., : self.dim], everyone)
        mean, width2 = offer.regression.predict_answered(inputs, everyone)
        return mean[0] + self.offset[0], width2[0]

    def predict_in_turn(
        self, rounds: Array | Sequence[Array]
    ) -> Generator[tuple[Array, Array], Sequence[int], None] | None:
        """Mean and squared width (K,) of the arms (K, d) of several rounds in one replication; None if it cannot.

        The positions of the arms pulled are sent back, and count as pending in the rounds after it.
        """
        offer, everyone = self.offer, self.everyone
        state = offer.regression
        if not isinstance(offer, ArrivingRows) or type(state) is not ContextPosterior or len(state.ridge) != 1:
            return None
        if self.prior.learns and not self.pulls[0]:
            return None  # before the first reward, units and ridge go by what is offered in each round
        if isinstance(rounds, np.ndarray):
            rounds = rounds[..., : self.dim]
            inputs = offer.inputs(rounds[None], everyone)[0]
        else:
            rounds = [arms[..., : self.dim] for arms in rounds]
            inputs = [offer.inputs(arms[None], everyone)[0] for arms in rounds]
        return state.predict_in_turn(inputs, self.rewards.roots_in_turn(rounds))

    def pull_sums(self, whole: bool = True) -> tuple[Array, Array, Array] | None:
        """Pulls and sums of rewards of every arm, and sums of squared rewards, where arms stay.

        Without `whole` rewards are less the offset, which is exact beside a large mean of them; so too in `moments`.
        """
        sums, squares = self.offer.pull_sums(self.offset * float(whole)), self.rewards.squares()
        return sums if sums is None or squares is None else (*sums[:2], squares)

    def moments(self, whole: bool = True) -> list[Moments] | None:
        """Sums over the features pulled in each replication, where all are learned in."""
        data = self.offer.moments(self.offset * float(whole))
        return data if data is None else self.rewards.unweighted(data, as_numpy(self.pulls).tolist())

    def log_evidence(self) -> FloatArray:
        """Log of the evidence of each replication, averaged over the priors that were compared (R,)."""
        logs = self.evidence.reshape(len(self.evidence), -1)
        return np.asarray(np.logaddexp.reduce(logs, axis=1) - math.log(max(1, logs.shape[1])))

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
        entries |= self.rewards.describe(r) | self.memory.describe(r)
        if self.prior.learns:
            noise = float(self.noise[r])
            known = math.isnan(noise) or self.likelihood.noise is not None  # then it is that of its probability, say
            entries |= {"ridge": float(self.ridge[r]), "noise": None if known else noise}
            belief = Belief(1.0, exponent=float(self.exponent[r]), evidence=self.evidence[r])
            entries |= self.prior.describe(belief, self._data(r), *self.offer.basis(r))
        return entries | self.prediction.describe(r)
