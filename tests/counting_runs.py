"""Masters that count, driven with rewards that depend on the base alone, or in step with a plain version."""

import numpy as np

import adadim
from adadim import LinUCB
from reference import LinUCB as PlainLinUCB
from stepping import ScriptedDraws

DIMS = (1, 2, 4, 8)


def play_bases(policy, rewards, rounds, lowest=True, horizon=None):
    """Yields round, base played and learner after every round; a callable reward gets the base and its plays so far."""
    problem = adadim.Problem(np.full((2, 4), 0.1), horizon=horizon or rounds, noise=0.1)
    learner = policy.start(problem)
    if lowest:
        learner.draws = ScriptedDraws(0.0)
    for t in range(1, rounds + 1):
        decision = learner.ask()
        chosen = int(decision.memo["base"][0])
        learner.tell(decision, rewards(chosen, t) if callable(rewards) else rewards[chosen])
        yield t, chosen, learner


def bases(count):
    return tuple(LinUCB(dim=1, ties="lowest") for _ in range(count))


def plays(learner):
    return tuple(int(n) for n in learner.plays[0])


def nested_bases():
    return tuple(LinUCB(dim=d, ties="lowest") for d in DIMS)


def in_lock_step(policy, make_reference, compare, rounds=250):
    """Run a master over nested LinUCB and its plain version on the same draws and rewards; the same bases and arms."""
    instance = adadim.instances.sphere(arms=10, dim=16, intrinsic_dim=3, horizon=rounds, noise=0.05)
    features = instance.problem.actions.dense(0)
    plain = [PlainLinUCB(features[:, :d], rounds, 0.05, 0.1, None, ties="lowest") for d in DIMS]
    learner, reference = policy.start(instance.problem), make_reference(plain)
    rng = np.random.default_rng(4)
    picked = []
    for _ in range(rounds):
        uniform = rng.random()
        learner.draws = ScriptedDraws(uniform)
        decision = learner.ask()
        base = reference.pick(uniform)
        arm = plain[base].select()
        assert (int(decision.memo["base"][0]), int(decision.arms[0])) == (base, arm)
        reward = float(instance.means[0, arm] + 0.05 * rng.standard_normal())
        learner.tell(decision, [reward])
        plain[base].update(arm, reward)
        reference.update(reward)
        compare(learner, reference)
        picked.append(base)
    return picked
