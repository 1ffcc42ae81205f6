"""One decision and its learning by other packages, each on a model for each of K arms and a context of p covariates.

A peer that is not installed is left out. The cost of each includes bringing the context into the form that it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

import adadim

Play = Callable[[np.ndarray[Any, Any], list[float]], None]
RADIUS = 1.0


def disjoint(contexts, rewards, arms):
    """LinUCB of adadim, told that each arm has a parameter of its own."""
    problem = adadim.Problem(arms=arms, dim=contexts.shape[1], horizon=len(rewards), noise=0.1, disjoint=True)
    learner = adadim.LinUCB(ridge=1.0, radius=RADIUS).start(problem)
    for t, reward in enumerate(rewards):
        learner.update(learner.select(contexts[t % len(contexts)]), reward)


def products(contexts, rewards, arms):
    """LinUCB of adadim on the products of arms and covariates, which it is not told are such."""
    dim = contexts.shape[1]
    problem = adadim.Problem(arms=arms, dim=arms * dim, horizon=len(rewards), noise=0.1)
    learner = adadim.LinUCB(ridge=1.0, radius=RADIUS).start(problem)
    for t, reward in enumerate(rewards):
        features = np.zeros((arms, arms, dim))
        features[range(arms), range(arms)] = contexts[t % len(contexts)]
        learner.update(learner.select(features.reshape(arms, arms * dim)), reward)


def vowpal_wabbit(contexts, rewards, arms):
    """Vowpal Wabbit: squarecb on interactions of the shared context with the arm."""
    import vowpalwabbit

    work, rng = vowpalwabbit.Workspace("--cb_explore_adf --squarecb -q UA --quiet"), np.random.default_rng(0)
    actions = [f"|A {k}" for k in range(arms)]
    for t, reward in enumerate(rewards):
        context = contexts[t % len(contexts)].tolist()
        shared = "shared |U " + " ".join(f"{i}:{value:.6g}" for i, value in enumerate(context))
        examples = [shared, *actions]
        chances = work.predict(examples)
        arm = min(int(np.searchsorted(np.cumsum(chances), rng.random())), arms - 1)
        examples[arm + 1] = f"0:{-reward}:{chances[arm]} {actions[arm]}"
        work.learn(examples)
    work.finish()


def river(contexts, rewards, arms):
    """river: LinUCBDisjoint."""
    from river import bandit

    policy, names = bandit.LinUCBDisjoint(alpha=RADIUS, seed=0), list(range(arms))
    for t, reward in enumerate(rewards):
        context = dict(enumerate(contexts[t % len(contexts)].tolist()))
        policy.update(policy.pull(names, context=context), context, reward)


def mabwiser(contexts, rewards, arms):
    """MABWiser: LinUCB."""
    from mabwiser.mab import MAB, LearningPolicy

    policy = MAB(list(range(arms)), LearningPolicy.LinUCB(alpha=RADIUS))
    policy.fit(list(range(arms)), [0.0] * arms, contexts[:arms])  # it cannot start from nothing
    for t, reward in enumerate(rewards):
        context = contexts[t % len(contexts)][None]
        policy.partial_fit([policy.predict(context)], [reward], context)


def bayesianbandits(contexts, rewards, arms):
    """bayesianbandits: upper confidence bounds on Bayesian linear regressions."""
    from bayesianbandits import Arm, ContextualAgent, NormalRegressor, UpperConfidenceBound

    models = [Arm(k, learner=NormalRegressor(alpha=1.0, beta=1.0)) for k in range(arms)]
    agent = ContextualAgent(models, UpperConfidenceBound(), random_seed=0)
    for t, reward in enumerate(rewards):
        context = contexts[t % len(contexts)][None]
        agent.pull(context)
        agent.update(context, np.array([reward]))


# Name, package, function, rounds in a turn, and how many times faster adadim should be.
PEERS = [
    ("adadim, disjoint", "adadim", disjoint, 2000, None),
    ("adadim, products", "adadim", products, 500, None),
    ("Vowpal Wabbit", "vowpalwabbit", vowpal_wabbit, 500, 5),
    ("river", "river", river, 300, 8),
    ("MABWiser", "mabwiser", mabwiser, 80, 30),
    ("bayesianbandits", "bayesianbandits", bayesianbandits, 40, 50),
]


def installed():
    """Those of `PEERS` that are installed."""
    peers = []
    for peer in PEERS:
        try:
            metadata.version(peer[1])
        except metadata.PackageNotFoundError:
            continue
        peers.append(peer)
    return peers
