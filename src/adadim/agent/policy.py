"""Which policies an agent can play, and how they are written to its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from adadim import policies
from adadim.agent.file import File, sealed
from adadim.agent.settings import Settings
from adadim.checks import positive, shown
from adadim.codec import from_table, to_table
from adadim.dimension import Levels, checked_levels
from adadim.errors import AdadimError, FileError, InvalidTypeError, InvalidValueError
from adadim.policies.base import Learner, Policy
from adadim.policies.recommended import recommended
from adadim.policies.sums import LearnsFromSums
from adadim.problem import Problem

__all__ = ["Plugins", "checked_policy", "policy_version", "problem_of", "read_policy", "write_policy"]

Plugins = Mapping[str, type[Policy]] | None
"""Policy classes of the caller's own, by name."""


def problem_of(settings: Settings, noise: float | None) -> Problem:
    """The problem that an agent's learner plays."""
    return Problem(arms=settings.arms, dim=settings.dim, horizon=None, noise=noise)


def kinds_of(plugins: Plugins) -> dict[str, Any]:
    """What the file may name: the policies of the library and the caller's own."""
    return {**policies.kinds(), **policies.parts(), **(plugins or {})}


def checked_policy(
    policy: Policy | None, levels: Levels, noise: float | None, settings: Settings, plugins: Plugins
) -> tuple[str, str | None, float | None]:
    """A policy that can decide for an agent, levels and noise as they are written to the file; others are refused."""
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
    return table, None if levels is None else json.dumps(checked_levels(levels, settings.dim)), noise


def _started(policy: Policy, problem: Problem) -> Learner:
    try:
        return policy.start(problem)
    except InvalidValueError as error:
        raise InvalidValueError(f"an agent cannot play {type(policy).__name__}: {error}") from error


def write_policy(file: File, time: float, policy: str, levels: str | None, noise: float | None) -> None:
    """Write down what holds from now on, as `checked_policy` gives it."""
    version = int(file.value("SELECT ifnull(max(version), 0) FROM policies")) + 1
    query = "INSERT INTO policies (version, time, policy, levels, noise, seal) VALUES (?, ?, ?, ?, ?, ?)"
    file.run(query, *sealed(version, float(time), policy, levels, None if noise is None else float(noise)))


def policy_version(file: File) -> int:
    """Number of the policy that holds."""
    found = file.value("SELECT max(version) FROM policies")
    if not isinstance(found, int):
        raise file.damaged("there is no policy")
    return found


def read_policy(file: File, plugins: Plugins) -> tuple[int, Policy, dict[str, int] | None, float | None]:
    """Number of the policy that holds, the policy, levels and noise."""
    query = "SELECT version, time, policy, levels, noise, seal FROM policies ORDER BY version DESC LIMIT 1"
    version, _, table, levels, noise = file.only(query, "policy")
    try:
        policy: Policy = from_table(json.loads(table), kinds_of(plugins))
    except (AdadimError, ValueError) as error:
        raise FileError(f"{file.path}: {error}") from error
    return version, policy, None if levels is None else json.loads(levels), noise
