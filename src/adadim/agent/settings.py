"""What an agent was created with, and keeps for ever."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from adadim.agent.file import File, sealed
from adadim.agent.inputs import checked_reward
from adadim.backend.memory import check_fits
from adadim.checks import integer, positive
from adadim.errors import InvalidValueError
from adadim.randomness import check_seed

__all__ = ["Settings", "checked_settings"]


@dataclass(frozen=True)
class Settings:
    """What `Agent.create` was given, where each is explained."""

    dim: int
    arms: int
    seed: int
    memory: float | None
    expire_after: float | None
    expired_reward: float | None

    @classmethod
    def read(cls, file: File) -> Settings:
        """Those in a file."""
        rows = file.intact(file.rows("SELECT key, value, seal FROM settings"), "setting")
        found = {key: json.loads(value) for key, value in rows}
        names = {field.name for field in fields(cls)}
        if missing := names - found.keys():
            raise file.damaged(f"the setting {min(missing)!r} is missing")
        return cls(**{name: found[name] for name in names})

    def write(self, file: File) -> None:
        """Write them to a new file."""
        rows = [sealed(key, json.dumps(value)) for key, value in asdict(self).items()]
        file.run_for_each("INSERT INTO settings (key, value, seal) VALUES (?, ?, ?)", rows)


def checked_settings(dim: Any, arms: Any, seed: Any, memory: Any, expire_after: Any, expired_reward: Any) -> Settings:
    """Those of a new agent; an error says what is wrong."""
    settings = Settings(
        integer(dim, "dim", meaning="the number of features"),
        integer(arms, "arms", meaning="the largest number of arms in a round"),
        check_seed(seed),
        None if memory is None else positive(memory, "memory", "a half-life in decisions"),
        None if expire_after is None else positive(expire_after, "expire_after", "in seconds"),
        None if expired_reward is None else checked_reward(expired_reward, "expired_reward"),
    )
    check_fits(32.0 * settings.dim**2, dim=settings.dim)  # the sums, V^-1, a factor and a copy
    if expired_reward is not None and expire_after is None:
        raise InvalidValueError("expired_reward says what expired decisions earn: give expire_after= in seconds too")
    return settings
