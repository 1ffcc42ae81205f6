"""Running learners one step at a time, in batches that fall out of step, and with scripted randomness."""

import numpy as np

import adadim
from adadim.arrays import ALL, like


def small(replications=range(1), horizon=300, arms=40, dim=24, intrinsic_dim=3, **changes):
    """A small instance; T = 300 and d = 24 give LinUCB++ iterations of 64, 128 and 108 rounds in 24, 24 and 16."""
    return adadim.instances.sphere(
        arms=arms, dim=dim, intrinsic_dim=intrinsic_dim, horizon=horizon, replications=replications, **changes
    )


def told(instance, range_known):
    """The same instance, its policies told the range of the means or not."""
    problem = instance.problem
    return adadim.Instance(
        problem.actions,
        theta=instance.theta,
        horizon=problem.horizon,
        noise=problem.noise,
        reward_range="true" if range_known else "unknown",
        replications=problem.replications,
    )


def in_torch(instance, torch):
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


class Driver:
    """Plays a learner through its public methods; remembers arms, rewards and, where there is one, the inner choice."""

    def __init__(self, policy, instance, seed=0):
        self.instance, self.learner = instance, policy.start(instance.problem, seed=seed)
        self._noise = instance.noise_streams(seed)
        count = len(instance.problem)
        self.arms, self.rewards, self.choices = ([[] for _ in range(count)] for _ in range(3))
        self.lead = 0  # most rounds by which one replication was ahead of another

    def ask(self, rows=None):
        arms = self.learner.select(rows)
        ids = np.arange(len(self.instance.problem)) if rows is None else np.asarray(rows)
        return rows, ids, arms

    def tell(self, rows, ids, arms):
        """Pull what `ask` chose; the noise is that of `adadim.simulate`."""
        host = np.asarray(arms)
        means = np.asarray(self.instance.means)[ids, host]
        rewards = means + self.instance.problem.noise * self._noise.normals(ids)
        choices = np.asarray(self.learner._choice)[ids] if hasattr(self.learner, "_choice") else host
        self.learner.update(arms, like(rewards, arms), rows)
        for r, arm, reward, choice in zip(ids, host.tolist(), rewards.tolist(), choices.tolist(), strict=True):
            self.arms[r].append(arm)
            self.rewards[r].append(reward)
            self.choices[r].append(choice)

    def step(self):
        self.tell(*self.ask())

    def run(self, steps=None):
        for _ in range(self.instance.problem.horizon if steps is None else steps):
            self.step()
        return self

    def stagger(self, rng):
        """All rounds of all replications, a random few at a time: two groups are asked before either is told."""
        left = np.full(len(self.instance.problem), self.instance.problem.horizon)
        haste = rng.uniform(0.2, 1.0, len(left))
        while left.any():
            rows = rng.permutation(np.flatnonzero((rng.random(len(left)) < haste) & (left > 0)))
            left[rows] -= 1
            self.lead = max(self.lead, int(np.ptp(left)))
            asked = [self.ask(part) for part in np.array_split(rows, 2) if part.size]
            for request in asked:
                self.tell(*request)
        return self


class Scripted:
    """Stands in for `Streams`: hands out given uniforms, the last one for ever."""

    def __init__(self, *values):
        self.values = list(values)

    def uniforms(self, rows=ALL):
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        return np.full(1 if isinstance(rows, slice) else len(rows), value)
