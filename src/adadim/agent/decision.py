"""What an agent has decided."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AgentDecision"]


@dataclass(frozen=True)
class AgentDecision:
    """What an agent has decided; it is on disk.

    Attributes
    ----------
    id : int
        What to give back with the reward; decisions are numbered 1, 2, 3, ...
    arm : str
        Name of the arm to play.
    probability : float
        Probability with which this arm was to be chosen: 1 for policies that are not random (1/k if k arms tied), 1/K
        for `Random`, an estimate from 1,001 draws for `LinTS`.
    policy : int
        Version of the policy that chose (see `Agent.replace_policy`).
    time : float
        When, in seconds since 1970.
    """

    id: int
    arm: str
    probability: float
    policy: int
    time: float
