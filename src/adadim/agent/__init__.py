"""A bandit that survives its process: decisions and rewards in a log, and a model that is a function of it.

The log is a file of SQLite, or in PostgreSQL, where processes on several machines share it.
"""

from adadim.agent.agent import Agent, AgentDecision, AskCall, Slate, TellCall
from adadim.agent.log import Arm
from adadim.agent.stores import copy_agent
from adadim.core.columns import Category
from adadim.core.design import Features

__all__ = ["Agent", "AgentDecision", "Arm", "AskCall", "Category", "Features", "Slate", "TellCall", "copy_agent"]
