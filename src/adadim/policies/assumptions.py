"""What a policy's guarantee needs of the action sets, and what a problem says of its own."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

from adadim.core.deprecated import warn_renamed
from adadim.core.problem import Sets
from adadim.errors import SetsWarning

Need = Literal["any", "oblivious", "iid", "iid-centred", "persistent"]
FORMER_NEEDS: dict[str, Need] = {"fresh": "iid-centred", "kept": "persistent"}

NEEDS: dict[Need, tuple[str, tuple[str, ...]]] = {
    "any": ("nothing", ("fixed", "growing", "iid", "adversarial")),
    "oblivious": ("sets that do not depend on past rewards", ("fixed", "growing", "iid")),
    "iid": ("sets that are fixed or i.i.d., since it compares averages over different rounds", ("fixed", "iid")),
    "iid-centred": ("sets drawn anew in each round, of mean zero and independent over arms", ("iid",)),
    "persistent": ("arms that stay", ("fixed", "growing")),
}
"""What a guarantee may need of the sets, in words, and the laws under which it has that."""

PACKAGE_PREFIX = str(Path(__file__).parents[1])

_silent: ContextVar[bool] = ContextVar("silent", default=False)


def sets_lacking(name: str, need: Need, sets: Sets | None, called: str = "this problem") -> str:
    """What the guarantee of the policy called `name` lacks on such sets; empty if nothing, or if `sets` is None."""
    if need in FORMER_NEEDS:
        warn_renamed(f"needs_sets = {need!r}", repr(FORMER_NEEDS[need]))
    words, enough = NEEDS[FORMER_NEEDS.get(need, need)]
    if sets is None or sets in enough:
        return ""
    return (
        f"the guarantee of {name} needs {words}, but the sets of {called} are {sets}: it runs, and nothing is promised"
    )


def warn_about_sets(lacking: str) -> None:
    """Warn of what `sets_lacking` says, if anything."""
    if lacking and not _silent.get():
        warnings.warn(lacking, SetsWarning, stacklevel=_frames_of_adadim())


@contextmanager
def without_warning_about_sets() -> Iterator[None]:
    """Let policies start in this thread without such a warning: it was given before."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def _frames_of_adadim() -> int:
    """How many frames up the first caller outside this package is: a warning is shown once for each of its lines."""
    depth = 1
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(PACKAGE_PREFIX) and frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth
