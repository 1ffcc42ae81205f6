"""Small instances that the tests of policies share."""

import numpy as np

import adadim


def small(replications=range(1), horizon=300, arms=40, dim=24, intrinsic_dim=3, **changes):
    """A small instance; T = 300 and d = 24 give LinUCB++ iterations of 64, 128 and 108 rounds in 24, 24 and 16."""
    return adadim.instances.sphere(
        arms=arms, dim=dim, intrinsic_dim=intrinsic_dim, horizon=horizon, replications=replications, **changes
    )


def with_range(instance, known):
    """The same instance, whose policies know the range of the means or do not."""
    problem = instance.problem
    return adadim.Instance(
        problem.actions,
        theta=instance.theta,
        horizon=problem.horizon,
        noise=problem.noise,
        reward_range="true" if known else "unknown",
        replications=problem.replications,
    )


def in_torch(instance, torch):
    """The same instance, made from tensors."""
    problem = instance.problem
    actions = problem.actions
    base = torch.from_numpy(np.array(actions.base))
    return adadim.Instance(
        adadim.ActionSet(base, levels=actions.levels if actions.expressive else None),
        theta=torch.from_numpy(np.array(instance.theta)),
        horizon=problem.horizon,
        noise=problem.noise,
        reward_range="unknown" if problem.reward_range is None else problem.reward_range,
        replications=problem.replications,
    )
