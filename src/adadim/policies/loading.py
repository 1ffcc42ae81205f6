"""Reading a saved learner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from adadim import policies
from adadim.core.codec import from_table
from adadim.core.files import as_path
from adadim.core.problem import Problem
from adadim.core.saving import read_learner
from adadim.errors import AdadimError, FileError, InvalidTypeError
from adadim.policies.base import Learner, Policy, revive
from adadim.policies.inputs import checked_plugins


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
    file, own = as_path(path, "path"), checked_plugins(plugins)
    header, state = read_learner(file, problem)
    if policy is None:
        if header["policy"] is None:
            raise FileError(
                f"{path}: its policy holds a function, which no file can; give the policy itself: "
                f"load(path, problem, policy=...), which was {header['policy_text']}"
            )
        try:
            policy = from_table(header["policy"], {**policies.kinds(), **policies.parts(), **own})
        except AdadimError as error:
            raise FileError(f"{path}: {error}") from error
    elif repr(policy) != header["policy_text"] and header["policy"] is not None:
        raise FileError(f"{path}: was saved by {header['policy_text']}, not by {policy!r}")
    try:
        return revive(policy, problem, state)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FileError(f"{path}: damaged, or saved by another version: {error}") from error
