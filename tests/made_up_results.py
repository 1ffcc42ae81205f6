"""Results that were made up: what the experiments need of `Results`, with numbers of known truth."""

import functools

import numpy as np


class MadeUpResults:
    """Regrets {(instance, policy): (trials, record points)}, of trials 0, 1, ... unless `numbers` says which."""

    def __init__(self, regret, times=(1,), numbers=None, labels=None):
        self.regret, self.times = regret, np.array(times)
        self.numbers = numbers or {}
        self.labels = labels or {}

    @property
    def instances(self):
        return tuple(dict.fromkeys(instance for instance, _ in self.regret))

    def cells(self):
        return tuple(self.regret)

    def replications(self, instance, policy):
        regret = self.regret[instance, policy]
        return np.array(self.numbers.get((instance, policy), range(len(regret))), dtype=int)

    def common_trials(self, cells=None):
        chosen = self.cells() if cells is None else cells
        return functools.reduce(np.intersect1d, [self.replications(*cell) for cell in chosen])

    def curves(self, instance, policy, trials=None):
        regret = self.regret[instance, policy]
        if trials is not None:
            stored = self.replications(instance, policy).tolist()
            regret = regret[[stored.index(number) for number in trials]]
        return self.times, regret

    def final(self, instance, policy, trials=None):
        return self.curves(instance, policy, trials)[1][:, -1]
