"""A learner and its plain version on the same rounds of features, with the same random numbers."""

import numpy as np

import adadim
from adadim.core.randomness import Purpose, Streams


def uniform_of(seed, replication):
    """The numbers that a learner started with `seed` draws in a replication."""
    streams = Streams(seed, Purpose.POLICY, [replication])
    return lambda: float(streams.uniforms()[0])


def sets(rounds, arms, dim, replications=2, seed=0, norm=1.0):
    """Features (rounds, replications, arms, dim) on a sphere."""
    x = np.random.default_rng(seed).standard_normal((rounds, replications, arms, dim))
    return norm * x / np.linalg.norm(x, axis=-1, keepdims=True)


def in_lock_step(policy, plain, features, rewards, noise, compare, takes_arm=False, fixed=False):
    """Run both; `plain(uniform)` makes the plain version. Arms must agree in every round; returns the arms."""
    rounds, count, arms, dim = features.shape
    seed, numbers = 11, list(range(3, 3 + count))
    if fixed:
        problem = adadim.Problem(features[0], horizon=rounds, noise=noise, replications=numbers)
    else:
        problem = adadim.Problem(arms=arms, dim=dim, horizon=rounds, noise=noise, replications=numbers)
    learner = policy.start(problem, seed=seed)
    versions = [plain(uniform_of(seed, r)) for r in numbers]
    chosen = []
    for t in range(rounds):
        shown = features[0] if fixed else features[t]
        picked = learner.select() if fixed else learner.select(shown)
        assert picked.tolist() == [v.select(x) for v, x in zip(versions, shown, strict=True)], t
        gained = np.array([rewards(t, r, int(a), shown[r, a]) for r, a in enumerate(picked)])
        learner.update(picked, gained)
        for r, version in enumerate(versions):
            known = (int(picked[r]),) if takes_arm else ()
            version.update(*known, shown[r, picked[r]], float(gained[r]))
            compare(learner, version, r)
        chosen.append(picked.tolist())
    return np.array(chosen)
