"""Policies that pull given arms, for tests that recompute a run by hand."""

from adadim import Single


class Scripted:
    """A policy for one replication that pulls given arms in turn and writes down the rewards."""

    def __init__(self, arms, log):
        self.arms, self.log, self.t = arms, log, 0

    def select(self):
        return int(self.arms[self.t])

    def update(self, arm, reward):
        self.log.append((arm, reward))
        self.t += 1


def scripted(arms):
    """Policy that pulls `arms`, the same in every replication, and the log of each replication."""
    logs = []

    def make(problem, rng):
        logs.append([])
        return Scripted(arms, logs[-1])

    return Single(make), logs


def every(instance):
    return range(1, instance.problem.horizon + 1)
