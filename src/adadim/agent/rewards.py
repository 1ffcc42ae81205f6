"""Telling, correcting and expiring: which rewards are written to a log, and why others are refused."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import starmap

from adadim.agent import statements
from adadim.agent.log import Expiry, Log, Reward, RewardReport, damaged
from adadim.core.checks import shown, suggestion
from adadim.errors import DecisionError, UnknownDecisionError


def is_overdue(log: Log, before: float) -> bool:
    """Whether decisions wait that were made before a time, so that `expire` would find them."""
    for oldest in log.select(statements.OLDEST_WAITING):
        if not isinstance(oldest.time, float | int):
            raise damaged(log, "the time of a pending decision cannot be read")
        return oldest.time < before
    return False


def expire(log: Log, before: float, now: float, reward: float | None) -> None:
    """Let waiting decisions expire that were made before a time, with `reward` if it is given."""
    if is_overdue(log, before):
        numbers = [row.number for row in log.select(statements.OVERDUE, before)]
        log.append(map(Expiry, numbers), now)
        if reward is not None:
            log.append([Reward(number, reward) for number in numbers], now)


def tell_groups(log: Log, groups: Iterable[Sequence[RewardReport]], now: float) -> list[int | DecisionError]:
    """Write the rewards of several groups, each group all or none.

    Gives how many rewards of each group were new, or why it was refused; the other groups are written all the same.
    """
    pairs = [_rewards_by_decision(log, group) for group in groups]
    waiting = _waiting(log, {number for group in pairs if isinstance(group, list) for number, _ in group})
    results: list[int | DecisionError] = []
    rewards: list[Reward] = []
    told: dict[int, float] = {}
    for group in pairs:
        if isinstance(group, DecisionError):
            results.append(group)
            continue
        new: dict[int, float] = {}
        try:
            for number, reward in group:
                if number in waiting and number not in new:
                    new[number] = reward
                else:
                    earlier = new.get(number, told.get(number))
                    _check_same(number, reward, _settled_reward(log, number) if earlier is None else earlier)
        except DecisionError as refusal:
            results.append(refusal)
            continue
        waiting.difference_update(new)
        told |= new
        rewards.extend(starmap(Reward, new.items()))
        results.append(len(new))
    if rewards:
        log.append(rewards, now)
    return results


def correct(log: Log, number: int, reward: float, now: float) -> bool:
    """Write another reward of a decision, or the first of one that expired; gives whether this was new."""
    if _waiting(log, [number]):
        raise DecisionError(f"decision {number} has no reward yet; call tell({number}, reward={reward:g})")
    previous_reward = _settled_reward(log, number)
    if previous_reward != reward:
        log.append([Reward(number, reward, previous_reward)], now)
    return previous_reward != reward


def _waiting(log: Log, numbers: Collection[int]) -> set[int]:
    """Those of some decisions that wait for their reward."""
    if len(numbers) == 1:
        return set(numbers) if log.select(statements.IS_WAITING, *numbers) else set()
    return {row.number for row in log.select(statements.ARE_WAITING, json.dumps(list(numbers)))}


def _settled_reward(log: Log, number: int) -> float | None:
    """The reward of a decision that does not wait; None if it expired. It must be in the log."""
    rewards = log.select(statements.REWARDS_OF, number)
    if rewards:
        return float(max(rewards).reward)  # the last of them, by their rows
    if not log.select(statements.DECISION, number):
        last = log.place().number
        if 1 <= number <= last:
            raise DecisionError(f"decision {number} was compacted: its reward can no longer change")
        raise UnknownDecisionError(f"there is no decision {number}; the last one is {last}")
    if not log.select(statements.EXPIRED, number):
        raise damaged(log, f"decision {number} is neither pending nor has a reward")
    return None


def _rewards_by_decision(log: Log, group: Sequence[RewardReport]) -> list[tuple[int, float]] | DecisionError:
    """Decisions and their rewards, where those of slates were told by arm; or the error of a slate."""
    pairs: list[tuple[int, float]] = []
    try:
        for number, reward in group:
            if type(reward) is not float and isinstance(reward, Mapping):
                slots = _decisions_by_arm(log, number, reward)
                pairs.extend((slots[arm], earned) for arm, earned in reward.items())
            else:
                pairs.append((number, reward))
    except DecisionError as refusal:
        return refusal
    return pairs


def _decisions_by_arm(log: Log, number: int, arms: Iterable[str]) -> dict[str, int]:
    """The decisions of a slate by arm; it must be in the log and have these arms."""
    slots = {row.arm: row.number for row in log.select(statements.SLATE, number)}
    if not slots:
        if not _waiting(log, [number]):
            _settled_reward(log, number)  # which says so if there is no such decision
        raise UnknownDecisionError(
            f"there is no slate {number}: rewards by arm are for the id of what ask(slots=) gave; the reward of a "
            f"decision is a number, tell({number}, reward=0.5)"
        )
    for arm in arms:
        if arm not in slots:
            compacted = any(number <= row.upto for row in log.select(statements.ALL["folded"]))
            others = "; others were compacted" if compacted else ""
            near = suggestion(arm, list(slots)[:50])
            raise UnknownDecisionError(f"arm {shown(arm)} is not in slate {number}; {near}{others}")
    return slots


def _check_same(number: int, reward: float, previous_reward: float | None) -> None:
    """Refuse a reward of a decision that expired, or that has another one."""
    if previous_reward is None:
        raise DecisionError(
            f"decision {number} expired before its reward arrived; correct({number}, reward={reward:g}) records it "
            "anyway"
        )
    if previous_reward != reward:
        raise DecisionError(
            f"decision {number} has the reward {previous_reward:g} already, got {reward:g}; "
            f"correct({number}, reward={reward:g}) changes it"
        )
