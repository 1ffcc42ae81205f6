"""The half-life that predicts best, against a computation from scratch at every block."""

import math

import numpy as np
import pytest

from adadim.models.memory import (
    AGE_STEP,
    BEGINS_AGAIN_AFTER,
    BLOCK_REWARDS,
    DELAY_HALF_LIFE,
    FALL,
    FAR_BEHIND,
    FLOOR,
    HALF_LIVES,
    MIN_FALLEN,
    PRIOR,
    RECENT_REWARDS,
    SCORE_HALF_LIFE,
    SCORED_FROM,
    TOLERANCE,
    MemoryBank,
)
from adadim.models.priors import CONSTANT_WIDTH, like_units
from adadim.models.statistics import Moments

DIM = 3


def turning(count, seed=0, turn=None, dim=DIM, noise=0.5, late=0, fall=0.0):
    """Numbers, features and rewards in the order of the tells; the parameter changes its sign at decision `turn`.

    From there on rewards are less by `fall`, too.
    """
    rng = np.random.default_rng(seed)
    numbers, features = np.arange(1, count + 1), rng.standard_normal((count, dim))
    sign = np.where(numbers < (turn or math.inf), 1.0, -1.0)
    rewards = 2.0 + sign * features[:, 0] + noise * rng.standard_normal(count) - fall * (sign < 0)
    order = np.argsort(numbers + rng.integers(0, late + 1, count), kind="stable")
    return numbers[order], features[order], rewards[order]


def summed(numbers, features, rewards, half_life, start=0):
    """Weighted sums over the decisions from `start` on, and the decision that counts 1, written out row by row."""
    epoch = max((number // AGE_STEP * AGE_STEP for number in numbers), default=0)
    sums = Moments.zeros(features.shape[1])
    for number, x, reward in zip(numbers, features, rewards, strict=True):
        if number < start:
            continue
        weight = 0.5 ** ((epoch - number // AGE_STEP * AGE_STEP) / half_life)
        sums.second += weight * np.outer(x, x)
        sums.moment += weight * reward * x
        sums.first += weight * x
        sums.total += weight * reward
        sums.squares += weight * reward**2
        sums.weight += weight
        sums.longest, sums.extent = max(sums.longest, float(x @ x)), np.maximum(sums.extent, np.abs(x))
    return sums


def predicted(sums, features, prior):
    """Mean, squared width and variance of the noise by the normal equations, with an exponent and a relative ridge."""
    assert (like_units(sums.extent) == 1).all()
    (exponent, relative), n = prior, sums.weight
    offset, ridge = sums.total / n, relative * sums.longest
    constant = CONSTANT_WIDTH * math.sqrt(sums.longest) * max(1.0, math.sqrt(relative))
    scale = np.concatenate([[constant], np.arange(1.0, len(sums.moment) + 1) ** (-exponent / 2)])
    x = np.column_stack([np.ones(len(features)), features]) * scale
    second = np.block([[np.array([[n]]), sums.first[None]], [sums.first[:, None], sums.second]])
    moment = (np.concatenate([[sums.total], sums.moment]) - offset * second[0]) * scale
    inverse = np.linalg.inv(second * np.outer(scale, scale) + ridge * np.eye(len(second)))
    noise2 = (sums.squares - n * offset**2 - moment @ inverse @ moment) / (n - 1)
    return offset + x @ inverse @ moment, np.einsum("ij,jk,ik->i", x, inverse, x), noise2


def found(numbers, features, rewards):
    """Scores and the half-life in use after each block, and at how many rewards each prior was found.

    And of each half-life the first decision that counts, and the first row that was told when that was decided; and
    the decisions with which all began again after a fall of the rewards.
    """
    scores, use, uses = np.zeros(len(HALF_LIVES)), 0, []
    priors, tuned = [None] * len(HALF_LIVES), [[0] for _ in HALF_LIVES]
    left = [0] * len(HALF_LIVES)
    starts, told, begun = [0] * len(HALF_LIVES), [0] * len(HALF_LIVES), [-BEGINS_AGAIN_AFTER] * len(HALF_LIVES)
    surprises, looked_from, scored_after, falls = np.zeros((len(numbers), 2)), 0, SCORED_FROM * DIM, []
    usual = {}  # number and sum of the errors of each class of delays
    for start in range(0, len(numbers) - BLOCK_REWARDS + 1, BLOCK_REWARDS):
        block = slice(start, start + BLOCK_REWARDS)
        if start > scored_after:
            every = []
            for at, half_life in enumerate(HALF_LIVES):
                past = slice(told[at], start)
                sums = summed(numbers[past], features[past], rewards[past], half_life, starts[at])
                sums.fade(0.5 ** ((aged(numbers[:start]) - aged(numbers[past])) / half_life) if sums.weight else 1.0)
                if not sums.weight:
                    every.append((np.zeros(BLOCK_REWARDS), np.zeros(BLOCK_REWARDS), math.nan))
                    continue
                if start - tuned[at][-1] >= sums.weight / 4:
                    belief = PRIOR([sums], sums.longest, np.ones(DIM), 0)
                    priors[at] = belief.exponent, belief.ridge / sums.longest
                    tuned[at].append(start)
                every.append(predicted(sums, features[block], priors[at]))
            gained, recent = [], numbers[block] >= max(starts)
            mean, width2, noise2 = every[use]
            noise2 = max(noise2, np.mean(((rewards[block] - mean) ** 2 / (1 + width2))[recent]))
            errors = ((rewards[block] - mean) / np.sqrt(noise2 * (1 + width2)))[recent]
            delays = [
                int(math.log2((aged(numbers[: block.stop]) - number // AGE_STEP * AGE_STEP) / AGE_STEP + 1))
                for number in numbers[block][recent]
            ]
            at_rows = start + np.flatnonzero(recent)
            for at, delay, error in zip(at_rows, delays, errors, strict=True):
                count, total = usual.get(delay, (0.0, 0.0))
                surprises[at] = error, error - total / count if count >= MIN_FALLEN else 0.0
            fading = 0.5 ** (len(errors) / DELAY_HALF_LIFE)
            usual = {delay: (count * fading, total * fading) for delay, (count, total) in usual.items()}
            for delay, error in zip(delays, errors, strict=True):
                count, total = usual.get(delay, (0.0, 0.0))
                usual[delay] = (count + 1.0, total + error)
            for mean, width2, _ in every:
                variance = noise2 * (1 + width2)
                gained.append(-np.sum(((rewards[block] - mean) ** 2 / variance + np.log(1 + width2))[recent]) / 2)
            scores = scores * 0.5 ** (BLOCK_REWARDS / SCORE_HALF_LIFE) + gained
            scores = np.maximum(scores - scores.max(), -FLOOR)
        before, use = use, next(at for at, score in enumerate(scores) if score >= -TOLERANCE)
        for at in range(before, use):
            left[at] = int(np.median(numbers[block]))
        uses.append(use)
        learned = start + BLOCK_REWARDS
        for at in range(len(HALF_LIVES)):
            if scores[at] >= -TOLERANCE:
                begun[at] = -BEGINS_AGAIN_AFTER
        behind = [at for at in range(use) if scores[at] <= -FAR_BEHIND and learned - begun[at] >= BEGINS_AGAIN_AFTER]
        if behind:
            for at in range(behind[-1] + 1):
                starts[at], told[at], begun[at] = left[behind[-1]], learned, learned
                tuned[at].append(0)
        first = max(looked_from, learned - RECENT_REWARDS)
        ratios = {}
        for number in numbers[first:learned]:
            later = surprises[first:learned][numbers[first:learned] >= number]
            whole = number > numbers[:first].max(initial=0)  # none of them has a reward that is no longer recent
            if whole and len(later) >= MIN_FALLEN and later.sum(axis=0).max() < 0:
                ratios[number] = later.sum(axis=0).max() ** 2 / (2 * len(later))
        if ratios and max(ratios.values()) >= FALL:
            begins = max(ratios, key=ratios.get)
            falls.append(int(begins))
            starts, told, scores = [int(begins)] * len(HALF_LIVES), [first] * len(HALF_LIVES), scores * 0
            begun, use = [-BEGINS_AGAIN_AFTER] * len(HALF_LIVES), 0
            uses[-1], looked_from, scored_after = 0, learned, learned + SCORED_FROM * DIM
            for times in tuned:
                times.append(0)
    return scores, uses, tuned, starts, told, falls


def aged(numbers):
    """The age of sums over these decisions."""
    return int(numbers.max(initial=0)) // AGE_STEP * AGE_STEP


@pytest.mark.parametrize("fall", [0.0, 1.0])
@pytest.mark.parametrize("late", [0, 90])
def test_scores_and_sums_are_those_from_scratch(late, fall):
    """Also for rewards that come late and in another order than their decisions."""
    data = turning(700, turn=300, late=late, fall=fall)
    bank, uses = MemoryBank(DIM), []
    for at in range(700):
        bank.learn(*(part[at : at + 1] for part in data))
        if (at + 1) % BLOCK_REWARDS == 0:
            uses.append(bank.in_use)
    scores, expected, tuned, starts, told, falls = found(*data)
    assert uses == expected
    assert bank.tuned[:, 2].tolist() == [times[-1] for times in tuned]
    assert len(falls) == (fall > 0)
    assert fall or {0, 4} <= set(uses)  # from for ever to the shortest
    assert 295 <= starts[0] < 700  # what was learned before the change is gone
    assert bank.starts.tolist() == starts
    np.testing.assert_allclose(bank.scores, scores, rtol=1e-6, atol=1e-6)
    complete = 700 // BLOCK_REWARDS * BLOCK_REWARDS
    epoch = int(data[0][:complete].max()) // AGE_STEP * AGE_STEP
    assert bank.epoch == epoch
    for at, half_life in enumerate(HALF_LIVES):
        later = (part[told[at] :] for part in data)
        (ours,), theirs = bank.moments(at), summed(*later, half_life, starts[at])
        last = int(data[0][told[at] :].max()) // AGE_STEP * AGE_STEP
        theirs.fade(2.0 ** ((last - epoch) / half_life))
        for name in ("second", "moment", "first", "squares", "weight", "total", "longest", "extent"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9)


def test_how_many_are_told_at_a_time_makes_no_difference():
    data, banks = turning(1000, turn=400), []
    for size in (1, 7, 64, 1000):
        bank = MemoryBank(DIM)
        for start in range(0, 1000, size):
            bank.learn(*(part[start : start + size] for part in data))
        banks.append(bank)
    for bank in banks[1:]:
        assert bank.scores.tobytes() == banks[0].scores.tobytes()
        assert bank.history == banks[0].history
        for ours, theirs in zip(bank.sums, banks[0].sums, strict=True):
            assert ours[0].second.tobytes() == theirs[0].second.tobytes()


def test_it_marks_one_change_of_the_world_and_none_where_there_is_none():
    for seed in range(3):
        bank = MemoryBank(DIM)
        bank.learn(*turning(2000, seed))
        assert bank.half_life == math.inf
        assert (bank.since, bank.world_changed) == (0, None)
        bank = MemoryBank(DIM)
        bank.learn(*turning(2000, seed, turn=1000))
        assert 1000 <= bank.world_changed <= 1000 + 3 * BLOCK_REWARDS
        assert sum(rewards > 0 for *_, rewards in bank.history) == 1
        assert 990 <= bank.starts[0] <= 1000 + 3 * BLOCK_REWARDS  # what was learned before the change is gone
        assert bank.since >= bank.world_changed


def test_a_fall_is_found_within_few_rewards_and_where_it_began():
    for seed in range(3):
        numbers, features, rewards = turning(2000, seed, turn=1000, fall=1.0)
        bank = MemoryBank(DIM)
        for at in range(0, 2000, BLOCK_REWARDS):
            part = slice(at, at + BLOCK_REWARDS)
            bank.learn(numbers[part], features[part], rewards[part])
            if bank.start:
                break
        assert 995 <= bank.start <= 1005
        assert bank.since <= 1000 + 3 * BLOCK_REWARDS
        assert bank.half_life == math.inf
        (sums,) = bank.moments()
        since = (numbers >= bank.start) & (numbers <= bank.since)
        np.testing.assert_allclose(sums.second, features[since].T @ features[since], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(sums.moment, rewards[since] @ features[since], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_no_fall_is_found_where_there_is_none(rate):
    """Also of rare clicks, which are far from Gaussian, and where rewards rise."""
    for seed in range(3):
        rng, bank, numbers = np.random.default_rng(seed), MemoryBank(DIM), np.arange(1, 6001)
        chance = np.where(numbers < 3000, rate, 1.5 * rate)
        bank.learn(numbers, rng.standard_normal((6000, DIM)), (rng.random(6000) < chance).astype(float))
        assert bank.starts[-1] == 0  # the shortest begins again after falls alone


@pytest.mark.parametrize(("sooner", "nights"), [(0.0, False), (1.0, False), (1.0, True)])
def test_rewards_that_are_told_sooner_if_they_are_bad_are_no_fall(sooner, nights):
    """Or if they are good, then also where there are more decisions by day."""
    rng, bank, count = np.random.default_rng(0), MemoryBank(DIM), 20_000
    hours = np.cumsum(rng.exponential(0.001, count))
    if nights:
        hours = np.interp(hours, [0, 5, 5.5, 10.5, 11, 16, 16.5, 30], [8, 20, 32, 44, 56, 68, 80, 92])
    rewards = (rng.random(count) < 0.3).astype(float)
    told = hours + np.where(rewards == sooner, rng.uniform(0.0, 0.3, count), rng.uniform(0.5, 1.0, count))
    order = np.argsort(told, kind="stable")
    order = order[told[order] < hours[-1]]
    bank.learn(order + 1, rng.standard_normal((len(order), DIM)), rewards[order])
    assert bank.starts[-1] == 0


def test_noise_that_grows_is_no_reason_to_forget():
    numbers, features, rewards = turning(3000)
    louder = rewards + np.where(numbers > 1500, 3.0, 0.0) * np.random.default_rng(9).standard_normal(3000)
    huge = rewards.copy()
    huge[[1000, 1600, 2100]] = 1e4
    for told in (louder, huge):
        bank = MemoryBank(DIM)
        bank.learn(numbers, features, told)
        assert bank.world_changed is None


@pytest.mark.parametrize("rewards", [np.zeros(300), np.ones(300), np.full(300, 1e-300)], ids=["0", "1", "tiny"])
def test_rewards_that_never_differ_say_nothing(rewards):
    bank = MemoryBank(DIM)
    bank.learn(np.arange(1, 301), np.random.default_rng(0).standard_normal((300, DIM)), rewards)
    assert (bank.in_use, bank.scores.tolist()) == (0, [0.0] * len(HALF_LIVES))


def test_features_that_are_zero_or_alike():
    rng = np.random.default_rng(0)
    for features in (np.zeros((300, DIM)), np.ones((300, DIM)), np.full((300, DIM), 1e8)):
        bank = MemoryBank(DIM)
        bank.learn(np.arange(1, 301), features, rng.standard_normal(300))
        assert np.isfinite(bank.scores).all()


def test_a_corrected_reward_is_as_if_it_had_been_told():
    """In the block that is being filled; in an earlier one the sums are those of the corrected reward."""
    numbers, features, rewards = turning(150)
    wrong = rewards.copy()
    wrong[[20, 140]] = 9.0
    right, bank = MemoryBank(DIM), MemoryBank(DIM)
    right.learn(numbers, features, rewards)
    bank.learn(numbers, features, wrong)
    for at in (20, 140):
        bank.replace(int(numbers[at]), features[at], 9.0, float(rewards[at]))
    for at in range(len(HALF_LIVES)):
        (ours,), (theirs,) = bank.moments(at), right.moments(at)
        np.testing.assert_allclose(ours.moment, theirs.moment, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose([ours.squares, ours.total], [theirs.squares, theirs.total], rtol=1e-9)
