"""Which policies an agent can play, and how they are written to its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from adadim import policies
from adadim.checks import positive, shown
from adadim.codec import from_table, to_table
from adadim.errors import AdadimError, InvalidTypeError, InvalidValueError
from adadim.policies.base import Learner, Policy
from adadim.policies.recommended import recommended
from adadim.policies.sums import LearnsFromSums
from adadim.problem import Problem

__all__ = ["checked_policy", "policy_of", "problem_of"]


def problem_of(settings: Mapping[str, Any], noise: float | None) -> Problem:
    """The problem that an agent's learner plays."""
    return Problem(arms=settings["arms"], dim=settings["dim"], horizon=None, noise=noise)


def kinds_of(plugins: Mapping[str, type[Policy]] | None) -> dict[str, Any]:
    """What the file may name: the policies of the library and the caller's own."""
    return {**policies.kinds(), **policies.parts(), **(plugins or {})}


def checked_policy(
    policy: Policy | None, settings: Mapping[str, Any], noise: float | None, plugins: Mapping[str, type[Policy]] | None
) -> tuple[str, float | None]:
    """A policy that can decide for an agent, as it is written to the file; one that cannot is refused."""
    if noise is not None:
        noise = positive(noise, "noise", "the standard deviation of the rewards' noise, e.g. 0.1, or None if unknown")
    problem = problem_of(settings, noise)
    chosen = recommended(problem) if policy is None else policy
    if not isinstance(chosen, Policy):
        raise InvalidTypeError(f"policy must be a policy such as adadim.LinUCB(), got {shown(chosen)}")
    name = type(chosen).__name__
    learner = _started(chosen, problem_of(settings, noise or 1.0).with_horizon(10**6))
    if not learner.takes_late_rewards:
        raise InvalidValueError(
            f"an agent cannot play {name}: it needs each reward before its next decision, and an agent's rewards come "
            "late; EvidenceLinUCB, LinUCB and LinTS take them in any order"
        )
    if not isinstance(learner, LearnsFromSums):
        raise InvalidValueError(
            f"an agent cannot play {name}: it keeps more than a regression, so no log of decisions and rewards gives "
            "its state back; EvidenceLinUCB, LinUCB and LinTS can be rebuilt from one"
        )
    _started(chosen, problem_of(settings, noise or 1.0))
    try:
        chosen.start(problem)
    except InvalidValueError as error:
        raise InvalidValueError(
            f"{name} needs to know the noise: give noise=, the standard deviation of the rewards of one arm, or let "
            "EvidenceLinUCB play, which estimates it"
        ) from error
    try:
        table = json.dumps(to_table(chosen))
        if from_table(json.loads(table), kinds_of(plugins)) != chosen:
            raise InvalidValueError("it does not come back from a file as it was")
    except (TypeError, AdadimError) as error:
        raise InvalidValueError(f"an agent cannot play {name}: it cannot be written to a file ({error})") from error
    return table, noise


def _started(policy: Policy, problem: Problem) -> Learner:
    try:
        return policy.start(problem)
    except InvalidValueError as error:
        raise InvalidValueError(f"an agent cannot play {type(policy).__name__}: {error}") from error


def policy_of(table: str, plugins: Mapping[str, type[Policy]] | None) -> Policy:
    """The policy that `checked_policy` wrote."""
    policy: Policy = from_table(json.loads(table), kinds_of(plugins))
    return policy
