"""What a policy's guarantee needs of the action sets, and what a problem says of its own."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Literal

from adadim.errors import SetsWarning
from adadim.problem import Problem

__all__ = ["NEEDS", "Need", "warn_about_sets"]

Need = Literal["any", "oblivious", "iid", "fresh", "kept"]

NEEDS: dict[Need, tuple[str, tuple[str, ...]]] = {
    "any": ("nothing", ("fixed", "growing", "iid", "adversarial")),
    "oblivious": ("sets that do not depend on past rewards", ("fixed", "growing", "iid")),
    "iid": ("sets that are fixed or i.i.d., since it compares averages over different rounds", ("fixed", "iid")),
    "fresh": ("sets drawn anew in each round, of mean zero and independent over arms", ("iid",)),
    "kept": ("arms that stay", ("fixed", "growing")),
}
"""What a guarantee may need of the sets, in words, and the laws under which it has that."""

PACKAGE = str(Path(__file__).parents[1])


def warn_about_sets(name: str, need: Need, problem: Problem) -> None:
    """Warn if the guarantee of the policy called `name` needs more of the sets than the problem says."""
    words, enough = NEEDS[need]
    if problem.sets is None or problem.sets in enough:
        return
    warnings.warn(
        f"the guarantee of {name} needs {words}, but the sets of this problem are {problem.sets}: it runs, and nothing "
        "is promised",
        SetsWarning,
        stacklevel=_frames_of_adadim(),
    )


def _frames_of_adadim() -> int:
    """How far up the first caller outside this package is, so that a warning is shown once for each place there."""
    depth = 1
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth
