"""What a policy would have earned, from somebody else's log: replay, importance weights, doubly robust."""

from adadim.evaluate.evaluation import Estimate, Evaluation, evaluate
from adadim.evaluate.logs import Log, read_log

__all__ = ["Estimate", "Evaluation", "Log", "evaluate", "read_log"]
