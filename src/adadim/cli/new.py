"""Commands that write a file to start from: a program with an agent, a study."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from adadim.cli import kit
from adadim.core.files import write_atomic
from adadim.errors import InvalidValueError, StoreError

FILE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")

PROGRAM = '''"""An agent that chooses what to show to each visitor, and learns from clicks.

Run it with: python {name}.py

All it decided and learned is in {name}.db: run it again, and it goes on from there. To put it behind HTTP, with a live
page: adadim serve {name}.db
"""

import numpy as np

import adadim

# What is known of a visitor and of an article, the most important first. Numbers of like size work best.
CONTEXT = ["returning", "hour"]
ARM = ["price", "rating", "new"]

CATALOGUE = {{
    "boots": {{"price": 0.8, "rating": 0.9, "new": 1}},
    "scarf": {{"price": 0.1, "rating": 0.8, "new": 0}},
    "gloves": {{"price": 0.3, "rating": 0.5, "new": 0}},
    "hat": {{"price": 0.6, "rating": 0.4, "new": 1}},
}}


def next_visitor(rng):
    """What is known of a visitor; put your own here."""
    return {{"returning": rng.integers(2), "hour": rng.random()}}


def clicked(visitor, article, rng):
    """Whether the visitor clicked; put your own here. Returning visitors want what is new, others what is cheap."""
    features = CATALOGUE[article]
    liked = features["new"] if visitor["returning"] else 1 - features["price"]
    return rng.random() < 0.1 + 0.3 * features["rating"] + 0.5 * liked


# Of 100 decisions 2 are random: agent.export("log.csv") can then be evaluated, by adadim evaluate log.csv.
with adadim.Agent.create("{name}.db", context=CONTEXT, arm=ARM, explore=0.02, exist_ok=True) as agent:
    agent.set_arms(CATALOGUE)
    rng = np.random.default_rng(agent.status()["decisions"])  # other visitors in each run
    clicks = []
    for _ in range(300):
        visitor = next_visitor(rng)
        decision = agent.ask(context=visitor)  # on disk when this returns
        clicks.append(float(clicked(visitor, decision.arm, rng)))
        agent.tell(decision.id, reward=clicks[-1])  # at once or later, in any order

    print(f"{{agent.status()['decisions']}} decisions so far; clicks in this run: {{np.mean(clicks):.0%}}")
    for returning in (0, 1):
        estimates = agent.estimate(context={{"returning": returning, "hour": 0.5}})
        best = max(estimates, key=lambda arm: estimates[arm][0])
        print(f"best for a visitor with returning = {{returning}}: {{best}}")
'''

STUDY = """# Three policies on problems with 40 ordered features, of which the first 4 matter. Run it with:
#
#     adadim run {file}
#
# Results, figure and numbers go to results/{stem}. Raise `trials` later: only the new ones are computed.
# `adadim policies` lists the values of `kind` for policies, and `adadim policies LinUCB` the settings of one.

trials = 8

[instances.sphere]
kind = "sphere"
arms = 100
dim = 40
intrinsic_dim = 4
horizon = 500

[policies.recommended]
kind = "recommended"

[policies."LinUCB++"]
kind = "LinUCBPlusPlus"
beta = 0.5

[policies.oracle]
kind = "LinUCB"
dim = "@intrinsic_dim" # only this policy is given the number of features that matter
"""


def agent(
    name: Annotated[str, typer.Argument(help="Name of the program and of its agent.")] = "shop",
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (default: shop.py for shop).", show_default=False)
    ] = None,
) -> None:
    """Write a program with an agent that runs as it is, for you to edit.

    Example: adadim new agent, then python shop.py
    """
    file = _new_file(name, out_file, ".py")
    if file.stem in (*sys.stdlib_module_names, "adadim", "numpy"):
        raise InvalidValueError(f"Python has a module {file.stem}, which {file} would replace; choose another name")
    kit.print_written([write_atomic(file, PROGRAM.format(name=name).encode())])
    typer.echo(f"Try it: python {file}")


def study(
    name: Annotated[str, typer.Argument(help="Name of the study.")] = "study",
    out_file: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write (default: study.toml for study).", show_default=False),
    ] = None,
) -> None:
    """Write a study that runs as it is, for you to edit.

    Example: adadim new study, then adadim run study.toml
    """
    file = _new_file(name, out_file, ".toml")
    kit.print_written([write_atomic(file, STUDY.format(file=file.as_posix(), stem=file.stem).encode())])
    typer.echo(f"Try it: adadim run {file}")


def _new_file(name: str, out_file: Path | None, suffix: str) -> Path:
    """The file to write, which must not be there yet."""
    if not FILE_NAME.fullmatch(name):
        raise InvalidValueError(f"NAME must be a letter, then letters, digits, - and _, at most 60, got {name!r}")
    file = out_file or Path(f"{name}{suffix}")
    if file.suffix != suffix:
        raise InvalidValueError(f"--out must end in {suffix}, got {file}")
    if file.exists():
        raise StoreError(f"{file} exists already and is not overwritten; choose another name, or --out")
    return file
