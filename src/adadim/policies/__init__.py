"""One file per algorithm."""

from adadim.policies.base import Learner, Policy
from adadim.policies.greedy import Greedy
from adadim.policies.linucb import LinUCB
from adadim.policies.single import Single
from adadim.policies.suplinucb import SupLinUCB
from adadim.policies.ucb import UCB
from adadim.policies.uniform import Random

__all__ = ["UCB", "Greedy", "Learner", "LinUCB", "Policy", "Random", "Single", "SupLinUCB"]
