"""A bandit that lives in a file: decisions and rewards in an SQLite log, and a model that is a function of it."""

from adadim.agent.agent import Agent
from adadim.agent.arms import Arm
from adadim.agent.decision import AgentDecision

__all__ = ["Agent", "AgentDecision", "Arm"]
