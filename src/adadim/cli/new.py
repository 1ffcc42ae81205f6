"""The command that writes a policy to start from."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from adadim import study
from adadim.errors import InvalidValueError, StoreError
from adadim.files import write_atomic
from adadim.report.console import errors, print_written, typed_as

__all__ = ["policy"]

SKELETON = '''"""A policy of your own.

    {adadim} reproduce fig2a --trials 4 --plugin {file} --policy {name}
    {adadim} reproduce fig2a --trials 4 --plugin {file} --policy {name}:width=0.5

What a study may vary is a field of the dataclass; what changes while it plays is in the learner. Arrays have the
replications first: `rows` says which of them a call is about, `rows.of(array)` reads their part of an array, and
`rows.add` and `rows.put` write it.
"""

from dataclasses import dataclass

import adadim


@dataclass(frozen=True)
class {name}(adadim.Policy):
    """Pull the arm with the largest mean plus `width` / sqrt(pulls); an arm never pulled counts as pulled once."""

    width: float = 0.5

    def learner(self, problem, streams):
        return {name}Learner(self, problem, streams)


class {name}Learner(adadim.Learner):
    def __init__(self, policy, problem, streams):
        super().__init__(problem, streams)
        self.policy = policy
        # problem.actions.base is (replications, arms, features); problem.noise and problem.horizon are known too.
        self.pulls, self.sums = self.zeros(problem.arms), self.zeros(problem.arms)  # (replications, arms)

    def choose(self, rows):
        """The arm of each replication in `rows`, and what `absorb` must know of the choice: here nothing."""
        pulls = rows.of(self.pulls).clip(1.0)
        scores = rows.of(self.sums) / pulls + self.policy.width / pulls**0.5
        return self.largest(scores, rows), {{}}

    def absorb(self, arms, rewards, rows, memo):
        """Learn from the rewards of these arms."""
        rows.add(self.pulls, arms, 1.0)
        rows.add(self.sums, arms, rewards)
'''


def policy(
    name: Annotated[str, typer.Argument(help="Name of its class, e.g. MyPolicy.", show_default=False)],
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; by default my_policy.py for MyPolicy.")
    ] = None,
) -> None:
    """Write a policy that runs as it is, to change into your own.

    Example: adadim new policy MyPolicy
    """
    with errors():
        _check(name)
        file = out_file or Path(f"{_snake(name)}.py")
        if file.suffix != ".py":
            raise InvalidValueError(f"--out must end in .py, got {file}")
        if file.exists():
            raise StoreError(f"{file} is there already, and is not overwritten; choose another name, or --out")
        text = SKELETON.format(name=name, file=file.as_posix(), adadim=typed_as())
        print_written([write_atomic(file, text.encode())], quiet=False)
    typer.echo(f"Try it: {typed_as()} reproduce fig2a --trials 4 --plugin {file} --policy {name}")


def _check(name: str) -> None:
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or name.startswith("_"):
        raise InvalidValueError(f"NAME must be a name that Python takes for a class, such as MyPolicy, got {name!r}")
    if name in {**study.policy_kinds(), **study.instance_kinds()} or name == "adadim":
        raise InvalidValueError(f"adadim has a {name} of its own; give yours another name")


def _snake(name: str) -> str:
    """MyPolicy as my_policy; LinUCBMine as lin_ucb_mine."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return parted.lower()
