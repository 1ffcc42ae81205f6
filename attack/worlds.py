"""A small study and its results folder to attack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adadim.study import Study, run

SPHERE = {"kind": "sphere", "arms": 8, "dim": 4, "intrinsic_dim": 2, "horizon": 20}
TABLE: dict[str, Any] = {
    "name": "small",
    "trials": 4,
    "seed": 3,
    "record": [10, 20],
    "instances": {
        "easy": SPHERE,
        "hard": {**SPHERE, "kind": "ball", "theta": "decay", "expressive": True, "levels": [2, 4]},
    },
    "policies": {
        "LinUCB": {"kind": "LinUCB", "ridge": 0.5},
        "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"},
        "master": {"kind": "SmoothCorral", "base": {"kind": "LinUCB"}},
        "adaptive": {"kind": "LinUCBPlusPlus", "beta": 0.5},
    },
    "only": {"oracle": ["easy"]},
    "labels": {"title": "a title", "instances": {"easy": {"alpha": 0.5}}},
}


def study(**changes: Any) -> Study:
    """The study."""
    return Study.from_dict({**TABLE, **changes})


def small_folder(folder: Path) -> Path:
    """Results of a study of two policies on one instance."""
    small = study(instances={"easy": SPHERE}, policies={k: TABLE["policies"][k] for k in ("LinUCB", "oracle")})
    run(small, folder, jobs=1, batch=2)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, but for what a lock leaves behind."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
