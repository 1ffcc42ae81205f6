"""Small studies to draw, and their statistics computed in plain Python."""

import math
import statistics

import polars as pl

import adadim
from adadim.study import Study

SPHERE = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}
KINDS = ("png", "pdf", "svg", "csv")


def small(**changes):
    parts = {
        "name": "small",
        "instances": {"easy": SPHERE},
        "policies": {"linucb": adadim.LinUCB(), "mine": adadim.Random(), "greedy": adadim.Greedy()},
        "trials": 5,
        "record": 10,
    }
    return Study(**{**parts, **changes})


def alphas(**changes):
    instances = {f"d{d}": {**SPHERE, "intrinsic_dim": d} for d in (4, 2, 6)}  # not in the order of alpha
    return small(instances=instances, record=[20, 40], **changes)


def recomputed(results, instance, policy, time):
    """Mean, standard deviation and standard error from the rows of the table, in plain Python."""
    frame = results.frame().filter(
        (pl.col("instance") == instance) & (pl.col("policy") == policy) & (pl.col("time") == time)
    )
    values = frame["regret"].to_list()
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return statistics.fmean(values), spread, spread / math.sqrt(len(values))
