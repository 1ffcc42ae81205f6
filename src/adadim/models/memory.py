"""A memory that finds itself: the half-life by which the rewards so far were predicted best.

For each half-life of `HALF_LIVES` there are sums over the data, in which the pull of decision n counts
2^(-(N - n) / half-life) at decision N; decisions age together, `AGE_STEP` at a time. Rewards are taken in the order in
which they are told, `BLOCK_REWARDS` to a block. Before a block is learned, each half-life predicts it from the blocks
before:

    score = -1/2 ln(1 + x^T V^-1 x) - (r - x^T theta)^2 / (2 sigma^2 (1 + x^T V^-1 x)),

summed over its rewards, with a prior found by the evidence of its own sums, and found again once a quarter of them is
new. The variance sigma^2 is that of the half-life in use for all of them, or the mean of its squared errors in the
block if that is larger: half-lives are compared by the means that they predict; a noise that grows, or a few huge
rewards, are no reason to forget. A score fades with the half-life `SCORE_HALF_LIFE` in rewards, and falls at most
`FLOOR` behind the best, so that a half-life that was wrong once is found again. In use is the longest one whose score
is within `TOLERANCE` of the best.

Scores begin with `SCORED_FROM` rewards for each coefficient. A half-life longer than that in use begins again once it
is `FAR_BEHIND`: what was learned before the world changed would stand in its way for long. Its sums are empty then, and
later take the rewards of decisions from its start on, the median one of the block by which it fell out of use: late
rewards of earlier ones come from the world before. It is in use again when it predicts as well as the shorter one, and
then all rewards since its start count in an agent, which can read them again. Rewards of decisions before the last
start no longer enter the scores.

A fall of the rewards shows a change sooner. Errors z of the half-life in use, divided by their standard deviation, add
up over the rewards of the last n decisions among the `RECENT_REWARDS` told last. If rewards are less than predicted
from some decision on, with a log likelihood ratio (sum z)^2 / 2n of `FALL` over at least `MIN_FALLEN` rewards, all
half-lives begin again with that decision, where the ratio is largest, and with those of the recent rewards that came
since; the longest is in use. Scores are 0, and begin with `SCORED_FROM` further rewards for each coefficient.

Where good rewards are told sooner than bad ones, or bad ones sooner, a part of the rewards of some decisions looks like
a fall. So only decisions count all of whose rewards so far are among the recent ones; and rewards must also be less
than predicted when errors are taken less their mean over earlier rewards that came as late, by classes of delays, each
twice as long as the one before. A fall is not looked for while pulls that are pending are counted in the sums, since
those before it could not be told apart.

So the half-life in use is a function of the pulls and rewards in the order of the tells. It does not depend on how many
are told at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.core.state import check_positions
from adadim.errors import InvalidValueError
from adadim.models.parts import Numbers
from adadim.models.priors import EXPONENTS, MIN_RESIDUAL_SHARE, EvidencePrior, like_units
from adadim.models.statistics import Moments, whitened

HALF_LIVES = (math.inf, 8000.0, 2500.0, 800.0, 250.0)  # decisions, longest first
AGE_STEP = 32  # decisions that have the same age
BLOCK_REWARDS = 64  # rewards that are predicted together
SCORE_HALF_LIFE = 1000.0  # rewards
SCORED_FROM = 5  # rewards for each coefficient: a model that has just begun changes fast though the world stays
TUNED_AGAIN_AT = 0.25  # share of the data that are new, from which the prior of a half-life is found again
TOLERANCE = 3.0  # log score
FAR_BEHIND = 6.0  # log score: a Bayes factor of 400
FLOOR = 10.0  # log score: how far a half-life can fall behind the best one
MAX_HISTORY = 100  # changes of the half-life that are remembered
RECENT_REWARDS = 512  # in which a fall is looked for
MIN_FALLEN = 32  # rewards of the decisions since a fall
FALL = 12.0  # log likelihood ratio
DELAYS = 40  # classes of delays, each twice as long as the one before
DELAY_HALF_LIFE = 5000.0  # rewards, of the mean error of a class
BEGINS_AGAIN_AFTER = 2000  # rewards since a half-life began again last, unless it has caught up since
CHANGED_FROM = 2  # position of the longest half-life at which the world counts as changed

PRIOR = EvidencePrior(EXPONENTS, factor=1.0, constant=True)

RewardPrediction = tuple[FloatArray, FloatArray, float]
"""Means (n,), squared widths (n,) and the variance of the noise, NaN where nothing is known of it."""

RewardBlock = tuple[Numbers, Numbers, FloatArray, FloatArray]
"""Numbers of decisions, the parameters concerned, features and rewards."""


def age_of(number: Any) -> Any:
    """The number of the decision as which decisions of these numbers are weighted."""
    return number // AGE_STEP * AGE_STEP


class MemoryBank:
    """Sums over the data for each half-life, and how well each predicted them.

    Parameters
    ----------
    dim : int
        Number of features.
    parameters : int
        How many parameters are learned: one, or one for each arm.

    Attributes
    ----------
    sums : list of list of Moments
        Sums over the blocks learned so far, for each half-life and parameter; decision `epoch` counts 1.
    scores : array
        Log score of each half-life.
    tuned : array (half-lives, 3)
        Exponent and relative ridge of the prior of each half-life, and how many rewards had been learned when they were
        found; 0 before.
    starts : array (half-lives,)
        The first decision that counts in the sums of each half-life.
    left : array (half-lives,)
        The median decision of the block by which it fell out of use.
    begun : array (half-lives, 2)
        How many rewards had been learned when it began again, -`BEGINS_AGAIN_AFTER` if it never did or has caught up
        since; and the last decision that had a reward when it began.
    scored_after : int
        How many rewards have to be learned before half-lives are compared.
    kept : int
        How many of the recent rewards are kept, with the errors by which they were predicted, as they are and less
        what is usual.
    dropped : int
        The last decision that has a reward which is no longer kept.
    usual : array (2, delays)
        Number and sum of the errors of rewards, by the class of their delay.
    in_use : int
        Position of the half-life in use in `HALF_LIVES`.
    history : list of [decision, position, rewards]
        Changes of the half-life in use; `rewards` is the number learned by then if the world seemed to change, else 0.

    Examples
    --------
    >>> import numpy as np
    >>> rng, bank = np.random.default_rng(0), MemoryBank(2)
    >>> x = rng.standard_normal((4000, 2))
    >>> turned = np.where(np.arange(4000) < 2000, 1.0, -1.0)
    >>> bank.learn(np.arange(1, 4001), x, turned * x[:, 0] + rng.standard_normal(4000))
    >>> bank.half_life, 2000 < bank.world_changed < 2200
    (inf, True)
    """

    def __init__(self, dim: int, parameters: int = 1) -> None:
        self.sums = [[Moments.zeros(dim) for _ in range(parameters)] for _ in HALF_LIVES]
        self.pending: list[list[Moments]] | None = None  # over all pulls decided, if some are pending
        self.epoch = 0
        self.scores, self.in_use = np.zeros(len(HALF_LIVES)), 0
        self.tuned = np.zeros((len(HALF_LIVES), 3))
        self.starts = np.zeros(len(HALF_LIVES), dtype=np.int64)
        self.left = np.zeros(len(HALF_LIVES), dtype=np.int64)
        self.begun = np.tile([-BEGINS_AGAIN_AFTER, 0], (len(HALF_LIVES), 1))
        self.latest = 0  # decision that was counted beside or among pending ones
        self.scored_after = SCORED_FROM * dim * parameters
        self.whole = True  # whether the sums have all data
        self.rewards = 0  # learned so far, without those of the block that is being filled
        self.history: list[list[int]] = []
        # The block that is being filled.
        self.filled = 0
        self.numbers, self.arms = (np.zeros(BLOCK_REWARDS, dtype=np.int64) for _ in range(2))
        self.features, self.values = np.zeros((BLOCK_REWARDS, dim)), np.zeros(BLOCK_REWARDS)
        # The recent rewards, the last ones at the end.
        self.kept = 0
        self.recent_numbers, self.recent_arms = (np.zeros(RECENT_REWARDS, dtype=np.int64) for _ in range(2))
        self.recent_features = np.zeros((RECENT_REWARDS, dim))
        self.recent_values, self.recent_errors = np.zeros(RECENT_REWARDS), np.zeros((RECENT_REWARDS, 2))
        self.dropped = 0
        self.usual = np.zeros((2, DELAYS))

    def prepare_restore(self, saved: Any) -> None:
        """Make the sums over pending pulls, if a saved state has them."""
        if saved.get("pending") is not None:
            dim = self.features.shape[1]
            self.pending = [[Moments.zeros(dim) for _ in part] for part in self.sums]

    def check_restored(self) -> None:
        """Refuse positions that are not there."""
        check_positions(self, arms=len(self.sums[0]))
        positions = [self.in_use, *(position for _, position, _ in self.history)]
        filled = 0 <= self.filled < BLOCK_REWARDS and 0 <= self.kept <= RECENT_REWARDS
        if not (filled and all(0 <= at < len(HALF_LIVES) for at in positions)):
            raise InvalidValueError("MemoryBank has positions that are not there")

    @property
    def half_life(self) -> float:
        """The half-life in use, in decisions; infinite where nothing is forgotten."""
        return HALF_LIVES[self.in_use]

    @property
    def start(self) -> int:
        """The first decision that counts by the half-life in use."""
        return int(self.starts[self.in_use])

    @property
    def since(self) -> int:
        """The last decision that was learned when the half-life in use was chosen; 0 for the start."""
        return self.history[-1][0] if self.history else 0

    @property
    def world_changed(self) -> int | None:
        """The last decision that was learned when the world seemed to change for the last time; None if never."""
        return next((number for number, _, changed in reversed(self.history) if changed), None)

    def learn(self, numbers: Numbers, features: FloatArray, rewards: FloatArray, arms: Numbers | None = None) -> None:
        """Learn rewards (n,) of decisions `numbers` with features (n, d), in this order."""
        start = 0
        while start < len(rewards):
            count = min(BLOCK_REWARDS - self.filled, len(rewards) - start)
            block, part = slice(self.filled, self.filled + count), slice(start, start + count)
            self.numbers[block], self.features[block] = numbers[part], features[part]
            self.values[block], self.arms[block] = rewards[part], 0 if arms is None else arms[part]
            self.filled, start = self.filled + count, start + count
            if self.filled == BLOCK_REWARDS:
                self._learn_block()

    def replace(self, number: int, features: FloatArray, old: float, new: float) -> None:
        """Replace a reward that was learned before by a corrected one."""
        at = np.flatnonzero(self.numbers[: self.filled] == number)
        if len(at):
            self.values[at] = new
            return
        self.recent_values[self._recent][self.recent_numbers[self._recent] == number] = new
        for half_life, last, (sums,) in zip(HALF_LIVES, self.begun[:, 1].tolist(), self.sums, strict=True):
            if number <= last:  # it may have been told before the sums were emptied
                continue
            weights = _faded_weights(np.array([number]), self.epoch, half_life)
            sums.replace(features[None], np.array([old]), np.array([new]), weights)

    def restart(self) -> None:
        """Drop all data; the half-life in use and the scores stay."""
        dim = self.features.shape[1]
        self.sums = [[Moments.zeros(dim) for _ in part] for part in self.sums]
        self.filled, self.kept, self.whole = 0, 0, False

    def add_pending(self, number: int, features: FloatArray, arm: int = 0) -> None:
        """Count a pull whose reward is pending."""
        if self.pending is None:
            self.pending = [[one.without_rewards().copy() for one in self.moments(at)] for at in range(len(HALF_LIVES))]
        self._count(number, features, arm)

    def count_beside_pending(self, number: int, features: FloatArray, arm: int = 0) -> None:
        """Count a pull that is answered at once beside pending ones."""
        if self.pending is not None:
            self._count(number, features, arm)

    def clear_pending(self) -> None:
        """Count only the pulls that are answered."""
        self.pending = None

    def _count(self, number: int, features: FloatArray, arm: int) -> None:
        assert self.pending is not None
        self.latest = max(self.latest, number)
        for half_life, start, data in zip(HALF_LIVES, self.starts.tolist(), self.pending, strict=True):
            if number < start:
                continue
            weights = _faded_weights(np.array([number]), self.epoch, half_life)
            data[arm].add(features[None], np.zeros(1), weights)

    def moments(self, at: int | None = None) -> list[Moments]:
        """The sums of each parameter for a half-life, by default the one in use, with the block that is being filled.

        Decision `epoch` counts 1 in them.
        """
        at = self.in_use if at is None else at
        data = [sums.copy() for sums in self.sums[at]]
        self._add(data, at)
        if self.pending is None:
            return data
        return [replace(one, pending=every) for one, every in zip(data, self.pending[at], strict=True)]

    def move(self, positions: list[int], dim: int) -> None:
        """Move the features to these positions among `dim`; the others are 0 in all data so far."""
        self.sums = [[sums.moved(positions, dim) for sums in part] for part in self.sums]
        for name in ("features", "recent_features"):
            before = getattr(self, name)
            setattr(self, name, np.zeros((len(before), dim)))
            getattr(self, name)[:, positions] = before
        self.scored_after = max(self.scored_after, SCORED_FROM * dim)

    def _add(self, data: Sequence[Moments], at: int, block: RewardBlock | None = None) -> None:
        """Add a block to the sums for a half-life, by default the one that is being filled."""
        numbers, arms, features, values = self._block if block is None else block
        counts = numbers >= self.starts[at]
        weights = _faded_weights(numbers, self.epoch, HALF_LIVES[at])
        for arm in np.unique(arms[counts]).tolist():
            rows = np.flatnonzero(counts & (arms == arm))
            data[arm].add(features[rows], values[rows], None if weights is None else weights[rows])

    @property
    def _block(self) -> RewardBlock:
        """The block that is being filled."""
        part = slice(self.filled)
        return self.numbers[part], self.arms[part], self.features[part], self.values[part]

    @property
    def _recent_rewards(self) -> tuple[Any, ...]:
        """Numbers, arms, features and values of the recent rewards, and their errors as `_surprises`."""
        return self.recent_numbers, self.recent_arms, self.recent_features, self.recent_values, self.recent_errors

    @property
    def _recent(self) -> slice:
        """Where the recent rewards are that are kept."""
        return slice(RECENT_REWARDS - self.kept, None)

    def _learn_block(self) -> None:
        """Score the half-lives by the block, learn it, and choose the half-life to use."""
        errors = self._score() if self.rewards > self.scored_after else np.full(BLOCK_REWARDS, math.nan)
        latest = max(int(age_of(self.numbers.max())), self.epoch)
        for at, half_life in enumerate(HALF_LIVES):
            if latest > self.epoch and math.isfinite(half_life):
                factor = 2.0 ** ((self.epoch - latest) / half_life)
                for sums in self.sums[at] + ([] if self.pending is None else self.pending[at]):
                    sums.fade(factor)
        self.epoch = latest
        for at, data in enumerate(self.sums):
            self._add(data, at)
        dropped = self.recent_numbers[self._recent][: max(self.kept + BLOCK_REWARDS - RECENT_REWARDS, 0)]
        self.dropped = max(self.dropped, int(dropped.max(initial=0)))
        for recent, block in zip(self._recent_rewards, (*self._block, self._surprises(errors)), strict=True):
            recent[:-BLOCK_REWARDS], recent[-BLOCK_REWARDS:] = recent[BLOCK_REWARDS:].copy(), block
        self.kept = min(self.kept + BLOCK_REWARDS, RECENT_REWARDS)
        self.rewards += self.filled
        self.filled = 0
        self._choose(int(self.numbers.max()))
        self._begin_again()
        if self.pending is None:
            self._begin_again_after_fall()

    def _score(self) -> FloatArray:
        """Score the half-lives by the block; gives the errors of the one in use, in standard deviations.

        NaN where nothing was predicted, or rewards come from the world before a change.
        """
        predictions = [self._predict(at) for at in range(len(HALF_LIVES))]
        mean, width2, variance = predictions[self.in_use]
        self.scores *= 2.0 ** (-BLOCK_REWARDS / SCORE_HALF_LIFE)
        recent, errors = self.numbers >= self.starts.max(), np.full(BLOCK_REWARDS, math.nan)
        if variance > 0 and recent.any():  # otherwise no reward has differed from another yet
            squares = (self.values - mean) ** 2 / (1.0 + width2)
            variance = max(variance, float(np.mean(squares[recent])))
            errors[recent] = ((self.values - mean) / np.sqrt(variance * (1.0 + width2)))[recent]
            for at, (mean, width2, _) in enumerate(predictions):
                losses = (self.values - mean) ** 2 / (variance * (1.0 + width2)) + np.log1p(width2)
                self.scores[at] -= 0.5 * float(np.sum(losses[recent]))
        self.scores = np.maximum(self.scores - self.scores.max(), -FLOOR)  # only differences count
        return errors

    def _surprises(self, errors: FloatArray) -> FloatArray:
        """Errors, and errors less what is usual for rewards that come so late; 0 where there is none, or none usual."""
        scored = np.flatnonzero(~np.isnan(errors))
        steps = (self.epoch - age_of(self.numbers[scored])) // AGE_STEP
        delays = np.minimum(np.log2(steps + 1).astype(np.int64), DELAYS - 1)
        count, total = self.usual[:, delays]
        surprises, known = np.zeros((BLOCK_REWARDS, 2)), count >= MIN_FALLEN
        surprises[scored, 0] = errors[scored]
        surprises[scored[known], 1] = errors[scored[known]] - total[known] / count[known]
        self.usual *= 2.0 ** (-len(scored) / DELAY_HALF_LIFE)
        np.add.at(self.usual[0], delays, 1.0)
        np.add.at(self.usual[1], delays, errors[scored])
        return surprises

    def _predict(self, at: int) -> RewardPrediction:
        """What a half-life predicts of the block, by a prior that is found again if enough is new."""
        data = self.sums[at]
        if self.rewards - self.tuned[at, 2] >= TUNED_AGAIN_AT * sum(one.n for one in data):
            found = find_prior(data)
            self.tuned[at] = (0.0, 0.0, 0.0) if found is None else (*found, self.rewards)
        exponent, relative, rewards = self.tuned[at].tolist()
        return predict(data, self.features, self.arms, (exponent, relative) if rewards else None)

    def _begin_again(self) -> None:
        """Empty the sums of the longer half-lives if one has fallen far behind."""
        self.begun[self.scores >= -TOLERANCE, 0] = -BEGINS_AGAIN_AFTER  # it has caught up
        behind = (self.scores <= -FAR_BEHIND) & (self.rewards - self.begun[:, 0] >= BEGINS_AGAIN_AFTER)
        fallen = np.flatnonzero(behind[: self.in_use])
        for at in range(int(fallen.max(initial=-1)) + 1):  # longer ones remember at least as much of what was
            # Pending pulls stay in the widths of the half-life in use; they have no part in this one.
            start = int(self.left[fallen[-1]]) if self.pending is None else self.latest + 1
            self.sums[at] = self._empty()
            if self.pending is not None:
                self.pending[at] = self._empty()
            self.starts[at], self.begun[at], self.tuned[at] = start, (self.rewards, self.numbers.max()), 0.0

    def _begin_again_after_fall(self) -> None:
        """Begin again with the decision from which rewards fall short of what was predicted, if they do."""
        numbers, arms, features, values, errors = (each[self._recent] for each in self._recent_rewards)
        order = np.argsort(-numbers, kind="stable")  # the last decision first
        count, fallen = np.arange(1, len(order) + 1), -np.cumsum(errors[order], axis=0).max(axis=1)
        ratios = np.maximum(fallen, 0.0) ** 2 / (2.0 * count)
        ratios[: MIN_FALLEN - 1] = ratios[numbers[order] <= self.dropped] = 0.0
        at = int(np.argmax(ratios))
        if ratios[at] < FALL:
            return
        since = numbers >= numbers[order[at]]
        block = numbers[since], arms[since], features[since], values[since]
        self.starts[:], self.begun[:] = numbers[order[at]], (-BEGINS_AGAIN_AFTER, self.numbers.max())
        self.tuned[:], self.scores[:], self.kept, self.dropped = 0.0, 0.0, 0, int(numbers.max())
        for lane in range(len(HALF_LIVES)):
            self.sums[lane] = self._empty()
            self._add(self.sums[lane], lane, block)
        self.scored_after = self.rewards + SCORED_FROM * self.features.shape[1] * len(self.sums[0])
        self._use(0, int(self.numbers.max()), changed=True)

    def _empty(self) -> list[Moments]:
        """Sums of no data for each parameter."""
        return [Moments.zeros(self.features.shape[1]) for _ in self.sums[0]]

    def _choose(self, number: int) -> None:
        chosen = int(np.argmax(self.scores >= self.scores.max() - TOLERANCE))
        if chosen == self.in_use:
            return
        self.left[self.in_use : chosen] = np.median(self.numbers)
        self._use(chosen, number, changed=chosen > self.in_use and chosen >= CHANGED_FROM)

    def _use(self, chosen: int, number: int, changed: bool) -> None:
        """Use a half-life from now on, when the last decision learned was `number`; says if the world changed."""
        # What follows soon after belongs to the same change.
        last = max((rewards for _, _, rewards in self.history), default=0)
        changed = changed and (not last or self.rewards - last >= 2 * SCORE_HALF_LIFE)
        self.history.append([number, chosen, self.rewards if changed else 0])
        del self.history[:-MAX_HISTORY]
        self.in_use = chosen


def _faded_weights(numbers: Numbers, epoch: int, half_life: float) -> FloatArray | None:
    if math.isinf(half_life):
        return None
    return np.asarray(np.exp2((age_of(numbers) - epoch) / half_life))


def find_prior(data: Sequence[Moments]) -> tuple[float, float] | None:
    """Exponent and relative ridge of the likeliest prior; None if no reward differs from another yet."""
    longest, units = _scales(data)
    belief = PRIOR(data, longest, units, 0)
    return None if math.isnan(belief.noise) else (belief.exponent, belief.ridge / longest)


def predict(
    data: Sequence[Moments], features: FloatArray, arms: Numbers, prior: tuple[float, float] | None
) -> RewardPrediction:
    """What sums over the data predict of pulls with features (n, d) of the parameters at `arms` (n,).

    `prior` is what `find_prior` found.
    """
    longest, units = _scales(data)
    offset, squares, degrees = PRIOR.response(data)
    mean, width2 = np.full(len(features), offset), np.zeros(len(features))
    if prior is None or not squares:
        return mean, width2, math.nan
    belief, explained = PRIOR.with_values(*prior, longest, units, offset), 0.0
    assert belief.scale is not None
    inputs = np.column_stack([np.ones(len(features)), features]) * belief.scale
    for arm, sums in enumerate(data):
        concerned = arms == arm
        second, moment = sums.less(offset).with_constant().truncated(len(belief.scale), belief.scale)
        second.ravel()[:: len(second) + 1] += belief.ridge
        left = whitened(second, np.vstack([inputs[concerned], moment]).T)
        mean[concerned] += left[:, -1] @ left[:, :-1]
        width2[concerned] = np.square(left[:, :-1]).sum(axis=0)
        explained += float(left[:, -1] @ left[:, -1])
    return mean, width2, max(squares - explained, MIN_RESIDUAL_SHARE * squares) / degrees


def _scales(data: Sequence[Moments]) -> tuple[float, FloatArray]:
    """Squared length of the longest row in units of the columns, and these units."""
    extent = np.max([one.extent for one in data], axis=0)
    units = like_units(extent)
    longest = float(np.count_nonzero(extent)) if (units != 1).any() else max(one.longest for one in data)
    return longest or 1.0, units
