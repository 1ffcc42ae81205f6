"""Reading a saved learner."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from adadim import policies
from adadim.core.files import as_path
from adadim.core.problem import Problem
from adadim.core.saving import read_learner
from adadim.errors import FileError, InvalidTypeError
from adadim.policies.arguments import checked_plugins
from adadim.policies.base import Learner, Policy, restore_learner


def load(
    path: str | Path,
    problem: Problem,
    policy: Policy | None = None,
    plugins: Mapping[str, type[Policy]] | None = None,
) -> Learner:
    """Read a learner that `Learner.save` wrote; it goes on bit for bit as the saved one would have.

    Parameters
    ----------
    path : path
        The file.
    problem : Problem
        The problem that it was started on: the same features, horizon, noise and replications.
    policy : Policy, optional
        The policy that started it. Needed only if it holds a function, which no file can.
    plugins : mapping, optional
        Policy classes of your own, by name, which the file may name.

    Examples
    --------
    See `Learner.save`.
    """
    if not isinstance(problem, Problem):
        raise InvalidTypeError(f"load needs an adadim.Problem, got {type(problem).__name__}")
    kinds = {**policies.kinds(), **policies.parts(), **checked_plugins(plugins)}
    policy, state = read_learner(as_path(path, "path"), problem, policy, kinds)
    try:
        learner = restore_learner(policy, problem, state)
        if learner.has_open():  # can they be answered? On a copy, since that changes a learner.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                restore_learner(policy, problem, state).answer_open()
        return learner
    except Exception as error:  # whatever a class makes of a forged state
        raise FileError(f"{path}: damaged, or saved by another version: {error}") from error
