"""Small instances of any generator, and their arms."""


def small(make, **changes):
    return make(**{"arms": 30, "dim": 8, "intrinsic_dim": 3, "horizon": 100, "replications": range(4)} | changes)


def features(instance, replication=0):
    return instance.problem.actions.dense(replication)
