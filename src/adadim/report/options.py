"""The options that several commands take, each with one name and one help, and how what they are given is read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from adadim import study
from adadim.codec import parse_policy, parse_value
from adadim.errors import InvalidValueError
from adadim.report.figures import Band

__all__ = [
    "AddedPolicies",
    "AsJson",
    "Batch",
    "Cluster",
    "Device",
    "Folder",
    "Jobs",
    "OutFolder",
    "OutPlace",
    "Plugins",
    "Quiet",
    "Seed",
    "Settings",
    "Shading",
    "Shared",
    "Titled",
    "Trials",
    "WhichBand",
    "band_of",
    "load_plugins",
    "read_policies",
    "read_settings",
]

WhichBand = StrEnum("WhichBand", ["ci", "std"])

Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; by default one per core.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, or cuda (a GPU, with torch); cuda:1 is the second.")]
Trials = Annotated[int, typer.Option("--trials", "-n", min=1, help="Replications.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of instances, noise and policies.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no messages; errors still show.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Replications per block; by default what fits memory.")]
Shading = Annotated[WhichBand, typer.Option(help="Shading: 95% confidence interval of the mean, or one std.")]
OutFolder = Annotated[Path, typer.Option("--out", "-o", help="Results folder.")]
OutPlace = Annotated[str, typer.Option("--out", "-o", help="Where results, figures and tables go: a path or URL.")]
Folder = Annotated[
    str,
    typer.Argument(metavar="FOLDER", help="A results folder: a path, or a URL such as s3://...", show_default=False),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Compute on a Dask cluster: the scheduler's address, such as tcp://scheduler:8786, or local:4, which "
        "starts 4 workers here.",
        show_default=False,
    ),
]
Shared = Annotated[
    bool,
    typer.Option("--shared", help="The workers of the cluster see the results folder, and write to it themselves."),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="A Python file with policies or instances of your own. It is executed: trust it."),
]
AddedPolicies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="KIND[:KEY=VALUE,...]",
        help="A policy to run, e.g. LinUCBPlusPlus:beta=0.6; may be repeated. 'adadim policies' lists the kinds.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a parameter of the instances (dim=900, noise=0.5) or of a policy (linucb++.beta=0.6); may be "
        "repeated. The results go into a folder of their own.",
    ),
]
Titled = Annotated[bool, typer.Option("--title/--no-title", help="Whether figures have a title above them.")]


def load_plugins(paths: Sequence[Path] | None) -> dict[str, Any]:
    """Policies and instances of the user's own files."""
    plugins: dict[str, Any] = {}
    for path in paths or []:
        plugins |= study.load_plugin(path)
    return plugins


def read_policies(written: Sequence[str] | None, plugins: dict[str, Any]) -> dict[str, Any]:
    """Policies named on the command line, by what was written."""
    return {text: study.from_spec(parse_policy(text), plugins) for text in written or []}


def read_settings(written: Sequence[str] | None) -> dict[str, Any]:
    """Values given as KEY=VALUE, with values as in JSON, or else plain text.

    Examples
    --------
    >>> read_settings(["dim=900", "theta=decay", "intrinsic_dim=[3,8]"])
    {'dim': 900, 'theta': 'decay', 'intrinsic_dim': [3, 8]}
    """
    found: dict[str, Any] = {}
    for text in written or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise InvalidValueError(f"--set {text}: expected KEY=VALUE, e.g. --set noise=0.5")
        if key.strip() in found:
            raise InvalidValueError(f"--set {text}: {key.strip()} is set twice")
        found[key.strip()] = parse_value(value.strip())
    return found


def band_of(choice: WhichBand) -> Band:
    """What was chosen as shading, as `adadim.report.draw` takes it."""
    return "ci" if choice == WhichBand.ci else "std"
