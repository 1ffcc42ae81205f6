"""Whether LinUCB++ has learned the true reward parameter, as the paper says of its flat curve.

What it saw up to a round is regressed on the d* features that matter, and the estimate is held against theta. The claim
is that they differ by at most a tenth of theta's length. The threshold is ours.
"""

from __future__ import annotations

import numpy as np

from adadim import instances
from adadim.backend.arrays import FloatArray
from adadim.experiments.paper.plan import FIGURES, Variant, policies
from adadim.experiments.paper.verdicts import Verdict, verdict_of
from adadim.instances.instance import Instance
from adadim.policies.base import Policy
from adadim.report.bootstrap import resamples

__all__ = ["LEARNED", "learned_claim", "parameter_errors"]


LEARNED = 0.10  # distance of the estimate from theta, relative to theta, that counts as learned
RIDGE = 0.1
ROUNDS = 1500


def learned_claim(variant: Variant = "theory", trials: int = 20, seed: int = 0) -> tuple[Verdict, FloatArray]:
    """Verdict on the claim at the end of the early rounds of figure 2a, and the error of each trial."""
    table = dict(FIGURES["fig2a"].instances()["d12"])
    make = getattr(instances, table.pop("kind"))
    parts = [make(**table, seed=seed, replications=[r]) for r in range(trials)]  # one at a time fits any memory
    policy = policies(variant)["linucb++"]
    errors = np.concatenate([parameter_errors(policy, part, ROUNDS, 12, seed) for part in parts])
    about = (
        f"By round {ROUNDS} LinUCB++ has learned the true reward parameter at d* = 12",
        "fig2a",
        "5",
        variant,
        f"{LEARNED} minus |estimate - theta| / |theta|, mean over trials; the estimate by ridge {RIDGE} on 12 features",
        "ratio",
    )
    return verdict_of(about, LEARNED - errors[resamples(trials)].mean(axis=1), trials), errors


def parameter_errors(policy: Policy, instance: Instance, rounds: int, dim: int, seed: int = 0) -> FloatArray:
    """Relative distance of the estimate from theta in each replication, after so many rounds.

    Parameters
    ----------
    policy : Policy
        Who plays.
    instance : Instance
        Where, with linear rewards.
    rounds : int
        How long; at most the horizon.
    dim : int
        Features of the regression.
    seed : int
        Seed of noise and policy.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(
    ...     arms=20, dim=4, intrinsic_dim=2, horizon=400, noise=0.01, replications=range(2)
    ... )
    >>> parameter_errors(adadim.Random(), instance, rounds=400, dim=2).round(1)
    array([0., 0.])
    """
    problem, everyone = instance.problem, instance.everyone
    learner = policy.start(problem, seed=seed)
    noise = instance.noise_streams(seed).source(problem.horizon, normal=True)
    features = np.asarray(problem.actions.dense_batch())[:, :, :dim]
    theta = np.asarray(instance.theta).reshape(len(problem), -1)[:, :dim]
    ids = np.arange(len(problem))
    design = np.tile(RIDGE * np.eye(dim), (len(problem), 1, 1))
    sums = np.zeros((len(problem), dim))
    for _ in range(rounds):
        arms, memo = learner.choose(everyone)
        rewards = instance.pull(arms, noise, everyone)
        learner.absorb(arms, rewards, everyone, memo)
        pulled = features[ids, arms]
        design += pulled[:, :, None] * pulled[:, None, :]
        sums += rewards[:, None] * pulled
    estimate = np.linalg.solve(design, sums[:, :, None])[:, :, 0]
    found: FloatArray = np.linalg.norm(estimate - theta, axis=1) / np.linalg.norm(theta, axis=1)
    return found
