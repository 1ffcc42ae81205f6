"""What the tests of LinUCB++ and its Corral variant look at inside a learner."""

import numpy as np

from adadim.core.arrays import as_numpy


def solver_of(learner, r=0):
    """What plays the current iteration of a replication."""
    return learner.solvers[int(learner.iteration[r])]


def mixture_means(mixtures, means):
    """Mean reward of every mixture-arm, (R, mixtures), from those of the real arms, (R, K)."""
    return np.stack([(as_numpy(law) * as_numpy(means)).sum(axis=1) for law in mixtures.q], axis=1)


def levels_of(instance):
    """Level of every arm; None for a set that is not expressive."""
    actions = instance.problem.actions
    return np.repeat(actions.levels, actions.base_arms) if actions.expressive else None
