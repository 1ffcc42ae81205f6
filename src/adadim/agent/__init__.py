"""A bandit that lives in a file: decisions and rewards in an SQLite log, and a model that is a function of it."""

from adadim.agent.agent import Agent, AgentDecision, AskCall, TellCall
from adadim.agent.log import Arm
from adadim.core.design import Features

__all__ = ["Agent", "AgentDecision", "Arm", "AskCall", "Features", "TellCall"]
