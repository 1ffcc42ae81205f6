"""Studies small enough to run in a test, a master to put in them, and what a results folder holds."""

from __future__ import annotations

from dataclasses import dataclass

import adadim
from adadim.study import Study, run

SPHERE = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}


def two_instances(**changes):
    """LinUCB and an oracle on an easy and on a hard instance, 3 trials."""
    parts = {
        "name": "small",
        "instances": {"easy": SPHERE, "hard": {**SPHERE, "intrinsic_dim": 4, "theta": "decay"}},
        "policies": {"LinUCB": adadim.LinUCB(), "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"}},
        "trials": 3,
    }
    return Study(**{**parts, **changes})


def one_instance(**changes):
    """LinUCB and Random on one instance, 4 trials, two record points."""
    parts = {
        "name": "small",
        "instances": {"easy": SPHERE},
        "policies": {"LinUCB": adadim.LinUCB(), "random": adadim.Random()},
        "trials": 4,
        "record": [30, 60],
    }
    return Study(**{**parts, **changes})


def six_cells(**changes):
    """Three policies on two instances of different horizon, 5 trials."""
    parts = {
        "name": "small",
        "instances": {"easy": SPHERE, "ball": {**SPHERE, "kind": "ball", "horizon": 50}},
        "policies": {
            "LinUCB": adadim.LinUCB(),
            "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"},
            "random": adadim.Random(),
        },
        "trials": 5,
        "record": 10,
    }
    return Study(**{**parts, **changes})


@dataclass(frozen=True)
class Team(adadim.Policy):
    """Runs its first base; what a master looks like to a study."""

    bases: tuple[adadim.Policy, ...]
    rate: float = 0.5

    def __post_init__(self):
        if not 0.5 <= self.rate < 1:
            raise ValueError(f"rate must be in [0.5, 1), got {self.rate!r}")

    def learner(self, problem, streams):
        return self.bases[0].learner(problem, streams)


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def blocks(folder):
    return sorted((folder / "blocks").glob("*.parquet"))


def done_by(study, folder, **options):
    """Units that a run finished."""
    calls = []
    run(study, folder, progress=lambda done, total, unit: calls.append((done, total, unit)), **options)
    assert [done for done, _, _ in calls] == list(range(len(calls)))
    assert {total for _, total, _ in calls} == {len(calls) - 1}
    assert calls[0][2] is None
    return [unit for _, _, unit in calls[1:]]
