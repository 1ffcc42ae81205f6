"""Running learners one step at a time, in batches that fall out of step, and with scripted randomness."""

import numpy as np

from adadim.core.arrays import as_numpy, like
from adadim.core.rows import Replications


class Stepper:
    """Plays a learner through its public methods.

    Remembers the arms, the rewards and, of learners with mixture-arms, the choices behind the arms: below K a real arm,
    K + j mixture-arm j.
    """

    def __init__(self, policy, instance, seed=0):
        self.instance, self.learner = instance, policy.start(instance.problem, seed=seed)
        self._noise = instance.noise_streams(seed)
        count = len(instance.problem)
        self.arms, self.rewards, self.choices = ([[] for _ in range(count)] for _ in range(3))
        self.lead = 0  # most rounds by which one replication was ahead of another

    def ask(self, rows=None):
        return self.learner.ask(rows=rows)

    def tell(self, decision):
        """Pull what `ask` decided; the noise is that of `adadim.simulate`."""
        ids, arms = decision.rows, as_numpy(decision.arms)
        means = as_numpy(self.instance.means)[ids, arms]
        drawn = self._noise.normals(Replications.some(ids, as_numpy(self.instance.means)))
        rewards = means + self.instance.problem.noise * drawn
        choices = as_numpy(decision.memo.get("choice", arms))
        self.learner.tell(decision, like(rewards, decision.arms))
        for r, arm, reward, choice in zip(ids, arms.tolist(), rewards.tolist(), choices.tolist(), strict=True):
            self.arms[r].append(arm)
            self.rewards[r].append(reward)
            self.choices[r].append(choice)

    def step(self):
        """One round of every replication; gives the decision."""
        decision = self.ask()
        self.tell(decision)
        return decision

    def run(self, steps=None):
        for _ in range(self.instance.problem.horizon if steps is None else steps):
            self.step()
        return self

    def stagger(self, rng):
        """All rounds of all replications, a random few at a time: two groups are asked before either is answered."""
        left = np.full(len(self.instance.problem), self.instance.problem.horizon)
        haste = rng.uniform(0.2, 1.0, len(left))
        while left.any():
            rows = rng.permutation(np.flatnonzero((rng.random(len(left)) < haste) & (left > 0)))
            left[rows] -= 1
            self.lead = max(self.lead, int(np.ptp(left)))
            for decision in [self.ask(part) for part in np.array_split(rows, 2) if part.size]:
                self.tell(decision)
        return self


class ScriptedDraws:
    """Stands in for `Streams`: hands out given uniforms, the last one for ever."""

    def __init__(self, *values):
        self.values = list(values)

    def source(self, draws):
        return self

    def uniforms(self, rows):
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        return np.full(len(rows), value)
