"""Dynamic Balancing with rewards that depend on the base alone."""

import numpy as np

import adadim
from adadim import DynamicBalancing, LinUCB
from stepping import ScriptedDraws


def balance(dims, rewards, rounds, lowest=True, kind=DynamicBalancing, **settings_):
    """Play with rewards that depend on the base alone; yields the base played and the learner after every round."""
    bases = tuple(LinUCB(dim=d, ties="lowest") for d in dims)
    problem = adadim.Problem(np.full((2, max(dims)), 0.1), horizon=rounds, noise=0.1)
    learner = kind(bases=bases, bound="sqrt", **settings_).start(problem)
    if lowest:
        learner.draws = ScriptedDraws(0.0)
    for t in range(1, rounds + 1):
        decision = learner.ask()
        chosen = int(decision.memo["base"][0])
        learner.tell(decision, rewards(chosen, t) if callable(rewards) else rewards[chosen])
        yield t, chosen, learner


def plays(learner):
    return tuple(int(n) for n in learner.plays[0])
