"""Commands for studies of one's own: run one, look at its results, list the policies, start a new one."""

from __future__ import annotations

import inspect
import io
import json
import keyword
import re
import shlex
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from adadim import report, study
from adadim.cli import kit
from adadim.core.checks import suggestion
from adadim.core.codec import parse_policy, to_table
from adadim.core.files import as_place, write_atomic
from adadim.errors import InvalidValueError, StoreError, StudyError
from adadim.policies.linear.evidence import RECOMMENDED, recommended
from adadim.policies.names import with_kind

WhichFormat = StrEnum("WhichFormat", ["csv", "parquet"])

SKELETON = '''"""A policy of your own.

    adadim reproduce fig2a --trials 4 --plugin {file} --policy {name}
    adadim reproduce fig2a --trials 4 --plugin {file} --policy {name}:width=0.5

What a study may vary is a field of the dataclass; what changes while it plays is in the learner, which is written for
one replication, with plain numbers: `adadim.Single` lifts it to many. docs/tutorials/your-policy.md explains it, and
leads on to policies written on arrays, which are faster.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

import adadim


@dataclass(frozen=True)
class {name}(adadim.Policy):
    """Pull the arm with the largest mean plus `width` / sqrt(pulls); an arm never pulled counts as pulled once."""

    width: float = 0.5

    def learner(self, problem, streams):
        return adadim.Single(partial({name}Learner, self)).learner(problem, streams)


class {name}Learner:
    def __init__(self, policy, problem, rng):
        # problem.features is (arms, features); problem.noise and problem.horizon are there too, None if unknown.
        self.width, self.rng = policy.width, rng
        self.pulls, self.sums = np.zeros(len(problem.features)), np.zeros(len(problem.features))

    def select(self):
        """The arm to pull. All randomness comes from the generator given, so that a replication can be repeated."""
        pulls = self.pulls.clip(1.0)
        scores = self.sums / pulls + self.width / pulls**0.5
        return int(self.rng.choice(np.flatnonzero(scores == scores.max())))

    def update(self, arm, reward):
        """Learn from the reward of an arm."""
        self.pulls[arm] += 1
        self.sums[arm] += reward
'''


def run(
    file: Annotated[Path, typer.Argument(help="A study as a TOML file.", show_default=False)],
    out_folder: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Results folder, a path or URL (default: results/NAME of the study)."),
    ] = None,
    plugin: kit.Plugins = None,
    trials: Annotated[
        int | None, typer.Option("--trials", "-n", min=1, help="Replications, instead of the number in the file.")
    ] = None,
    batch: kit.Batch = None,
    band: kit.Shading = kit.WhichBand.ci,
    titled: kit.Titled = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the study, print it and exit.")] = False,
    *,
    how: kit.RunOptions,
) -> None:
    r"""Run a study of your own and draw its results.

    A study is a TOML file:

        trials = 20

        \[instances.easy]
        kind = "sphere"
        arms = 200
        dim = 50
        intrinsic_dim = 4
        horizon = 1000

        \[policies.adaptive]
        kind = "LinUCBPlusPlus"

        \[policies.oracle]
        kind = "LinUCB"
        dim = "@intrinsic_dim"

    Example: adadim run study.toml --plugin my_policy.py
    """
    plan = _read_study(file, plugin, trials)
    if dry_run:
        kit.say(plan.to_toml())
        return
    folder = as_place(out_folder or Path("results") / plan.name, "out")
    results = kit.run_study(plan, folder, how, batch)
    paths = report.draw_and_save(results, folder / "figures" / plan.name, kit.band_of(band), titled)
    if not how.quiet:
        kit.print_written(paths)
        kit.stdout().print(kit.summary_table(results))


def status(folder: kit.Folder, as_json: kit.AsJson = False) -> None:
    """Show the progress of a study in a results folder, and which source of adadim computed it.

    For a folder made by [bold]reproduce[/bold] it shows every study in it. The source is given as a digest of all files
    that can affect a result. The exit code is 0 if the study is complete, and 1 otherwise.
    """
    statuses = [study.status(path) for path in kit.study_folders(folder)]
    if as_json:
        keys = ("name", "done", "total", "complete", "current")
        entries = [{key: getattr(s, key) for key in keys} | {"cells": list(map(asdict, s.cells))} for s in statuses]
        for entry, s in zip(entries, statuses, strict=True):
            entry["made_by"] = [{**by._asdict(), "blocks": blocks} for by, blocks in s.made_by.items()]
        typer.echo(json.dumps(entries, indent=2))
    else:
        table = Table("study", "done", "wanted", "cells", "")
        for s in statuses:
            counts = (str(s.done), str(s.total), str(len(s.cells)))
            table.add_row(Text(s.name), *counts, "complete" if s.complete else "incomplete")
        kit.stdout().print(table)
        for s in statuses:
            for by, blocks in s.made_by.items():
                kit.say(f"{s.name}: {blocks} blocks by {by}{'' if by.current else ' (not the present one)'}")
    if not all(s.complete for s in statuses):
        raise typer.Exit(kit.EXIT_FAILED)


def figure(
    folder: kit.Folder,
    band: kit.Shading = kit.WhichBand.ci,
    titled: kit.Titled = True,
    out_folder: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder for the figures (default: FOLDER/figures).")
    ] = None,
) -> None:
    """Draw the results in a folder as PNG, PDF and SVG, and write their numbers as CSV."""
    for path in kit.study_folders(folder):
        results = study.load(path)
        stem = as_place(out_folder or as_place(folder, "folder") / "figures", "out") / results.name
        kit.print_written(report.draw_and_save(results, stem, kit.band_of(band), titled))


def export(
    folder: kit.Folder,
    kind: Annotated[WhichFormat, typer.Option("--format", "-f", help="Format of the table.")] = WhichFormat.csv,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write (default: NAME.csv or NAME.parquet, in this folder)."),
    ] = None,
) -> None:
    """Write all results of a study as one table: instance, policy, replication, time, regret."""
    folders = kit.study_folders(folder)
    if out_file is not None and len(folders) > 1:
        raise StoreError(f"{folder} holds {len(folders)} studies; export one of them: {folders[0]}")
    for path in folders:
        results = study.load(path)
        target = out_file or Path(f"{results.name}.{kind}")
        frame, buffer = results.frame(), io.BytesIO()
        (frame.write_csv if kind == WhichFormat.csv else frame.write_parquet)(buffer)
        kit.print_written([write_atomic(target, buffer.getvalue())])


def list_policies(
    name: Annotated[
        str | None,
        typer.Argument(help="Show one policy in detail: LinUCB, recommended, LinUCB++, ...", show_default=False),
    ] = None,
    as_json: kit.AsJson = False,
) -> None:
    """List the policies and their hyper-parameters, or describe one: what it does, what is proved, an example.

    Example: adadim policies LinUCB++
    """
    if name is not None:
        entry = _policy_entry(name)
        typer.echo(json.dumps(entry, indent=2)) if as_json else _show_policy(entry)
        return
    rows: list[dict[str, Any]] = []
    for kind_name, kind in study.policy_kinds().items():
        summary = (inspect.getdoc(kind) or "").split("\n")[0]
        parameters = [
            str(p).split(": ")[0] + (f"={p.default!r}" if isinstance(p.default, int | float | str | None) else "")
            for p in inspect.signature(kind).parameters.values()
        ]
        rows.append({"name": kind_name, "what": summary, "parameters": parameters})
        if isinstance(RECOMMENDED, kind):
            rows[-1]["recommended"] = _settings(RECOMMENDED)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table("policy", "what it does", "hyper-parameters")
    (start,) = [row for row in rows if "recommended" in row]
    table.add_row(
        Text("recommended", style="bold"),
        f"Start with this one: {start['name']} with the settings on the right.",
        Text(", ".join(f"{key}={value}" for key, value in start["recommended"].items())),
        end_section=True,
    )
    for row in rows:
        table.add_row(*(Text(str(text)) for text in (row["name"], row["what"], ", ".join(row["parameters"]))))
    kit.stdout().print(table)


def _settings(policy: Any) -> dict[str, str]:
    """The parameters of a policy that differ from their defaults, as they are written in Python."""
    table = to_table(policy, defaults=False)
    return {key: repr(getattr(policy, key)) for key in table if key != "kind"}


def _policy_entry(name: str) -> dict[str, Any]:
    """The parts of a policy's docstring, and its parameters; `name` is its kind, or a name that figures give it."""
    kinds = study.policy_kinds()
    table = with_kind(parse_policy(name), kinds)
    kind = kinds.get(table["kind"])
    if kind is None:
        raise InvalidValueError(f"there is no policy {table['kind']!r}; {suggestion(table['kind'], kinds)}")
    parts = _sections(kind.__doc__ or "")
    settings = {key: repr(value) for key, value in table.items() if key != "kind"}
    if _is_recommended(table):
        settings = _settings(RECOMMENDED)
        parts["Examples"] = _sections(recommended.__doc__ or "")["Examples"]
    what = {key: _one_line(text.partition("\n")[2]) for key, text in _entries(parts.get("Parameters", "")).items()}
    parameters = [
        {"name": field.name, "default": _default(field), "what": what.get(field.name, "")} for field in fields(kind)
    ]
    return {
        "name": kind.__name__,
        "settings": settings,
        "what": parts[""].strip(),
        "parameters": parameters,
        "proved": parts.get("Notes", "Nothing is proved of it.").strip(),
        "example": parts["Examples"].strip(),
        "written": name,
    }


def _sections(text: str) -> dict[str, str]:
    """Parts of a docstring in NumPy's style by heading; the part before the first heading has the key ""."""
    introduction, *parts = re.split(r"^(\w+)\n-{3,}\n", f"{inspect.cleandoc(text)}\n", flags=re.MULTILINE)
    return {"": introduction, **dict(zip(parts[::2], parts[1::2], strict=True))}


def _entries(section: str) -> dict[str, str]:
    """What a section says of each parameter, from the end of its name on."""
    matches = re.finditer(r"^(\w+(?:, \w+)*)((?: : .*)?\n(?:    .*\n)+)", section, flags=re.MULTILINE)
    return {name: entry[2] for entry in matches for name in entry[1].split(", ")}


def _is_recommended(table: Mapping[str, Any]) -> bool:
    return dict(table) == to_table(RECOMMENDED, defaults=False)


def _default(field: Field[Any]) -> str:
    """The default of a parameter as it is written in Python; empty where the parameter is required."""
    if field.default_factory is not MISSING:
        table = to_table(field.default_factory(), defaults=False)
        return f"{table.pop('kind')}({', '.join(f'{key}={value!r}' for key, value in table.items())})"
    return "" if field.default is MISSING else repr(field.default)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _show_policy(entry: Mapping[str, Any]) -> None:
    console = kit.stdout()

    def paragraphs(text: str) -> None:
        for paragraph in text.split("\n\n"):
            console.print(Text(_one_line(paragraph)), highlight=False)
            console.print()

    settings = entry["settings"]
    console.print(Text(entry["name"], style="bold"))
    if settings and not entry["written"].startswith(entry["name"]):
        written = f"{entry['written']} is {entry['name']}({', '.join(f'{k}={v}' for k, v in settings.items())})."
        console.print(Text(written), highlight=False)
        console.print()
    paragraphs(entry["what"])
    if entry["parameters"]:
        rows = [(p["name"], settings.get(p["name"], p["default"]), p["what"]) for p in entry["parameters"]]
        value = "value" if settings else "default"
        console.print(kit.compact_table("", ("parameter", value, "what it is"), rows, "what it is", 30))
    console.print(Text("What is proved, and notes", style="bold"))
    paragraphs(entry["proved"])
    console.print(Text("In Python", style="bold"))
    kit.say(entry["example"] + "\n")
    console.print(Text("On the command line", style="bold"))
    kit.say(f"{kit.typed_as()} reproduce fig2a --trials 4 --policy {shlex.quote(entry['written'])}")


def _read_study(file: Path, plugin: list[Path] | None, trials: int | None) -> study.Study:
    """Read and check the study in a file; `trials`, if not None, replaces its number of trials."""
    plugins = kit.load_plugins(plugin)
    plan = study.Study.from_toml(file, plugins=plugins)
    if trials is not None:
        plan = study.Study.from_dict({**plan.to_dict(), "trials": trials}, plugins=plugins)
    try:
        with kit.warnings_as_lines():
            plan.check()
    except StudyError as error:
        raise StudyError(f"{file}: {error}") from error
    return plan


def new_policy(
    name: Annotated[str, typer.Argument(help="Name of the class, e.g. MyPolicy.", show_default=False)],
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (default: my_policy.py for MyPolicy).")
    ] = None,
) -> None:
    """Write a policy that runs as it is, for you to edit.

    Example: adadim new policy MyPolicy
    """
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or name.startswith("_"):
        raise InvalidValueError(f"NAME must be a name that Python takes for a class, such as MyPolicy, got {name!r}")
    if name in {**study.policy_kinds(), **study.instance_kinds()} or name == "adadim":
        raise InvalidValueError(f"adadim has a {name} of its own; give yours another name")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)  # LinUCBMine: lin_ucb_mine.py
    file = out_file or Path(f"{words.lower()}.py")
    if file.suffix != ".py":
        raise InvalidValueError(f"--out must end in .py, got {file}")
    if file.exists():
        raise StoreError(f"{file} exists already and is not overwritten; choose another name, or --out")
    text = SKELETON.format(name=name, file=file.name if file.is_absolute() else file.as_posix())
    kit.print_written([write_atomic(file, text.encode())])
    typer.echo(f"Try it: {kit.typed_as()} reproduce fig2a --trials 4 --plugin {file} --policy {name}")
