"""What all commands share: consoles, options, errors as exit codes, a progress bar, tables, JSON."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adadim import study
from adadim.errors import InvalidValueError, RunError, StoreError, StoreWarning
from adadim.files import Place, as_place, exists, is_folder, names
from adadim.report.figures import Band

__all__ = [
    "EXIT_FAILED",
    "VERDICT_COLOURS",
    "AddedPolicies",
    "AsJson",
    "Batch",
    "Cluster",
    "Device",
    "Folder",
    "Jobs",
    "Plugins",
    "Quiet",
    "Seed",
    "Settings",
    "Shading",
    "Shared",
    "Titled",
    "WhichBand",
    "as_json_text",
    "band_of",
    "client_of",
    "compact_table",
    "errors",
    "load_plugins",
    "print_written",
    "read_policies",
    "read_settings",
    "run_study",
    "stderr",
    "stdout",
    "study_folders",
    "summary_table",
    "typed_as",
]

EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 1, 2, 130
MOST_TEXT = 2000  # characters of an error that a command shows
VERDICT_COLOURS = {"holds": "green", "does not hold": "red", "violated": "red", "undecided": "yellow"}

WhichBand = StrEnum("WhichBand", ["ci", "std"])

Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; by default one per core.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, or cuda (a GPU, with torch); cuda:1 is the second.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of instances, noise and policies.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no messages; errors still show.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Replications per block; by default what fits memory.")]
Shading = Annotated[WhichBand, typer.Option(help="Shading: 95% confidence interval of the mean, or one std.")]
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


def stdout() -> Console:
    """Standard output, as wide as it is now: a console made at import keeps the width of that moment."""
    return Console()


def stderr() -> Console:
    """Standard error."""
    return Console(stderr=True)


@contextmanager
def errors() -> Iterator[None]:
    """Turn errors that a person can mend into one line and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        stderr().print("interrupted; what was finished is kept, and the same command goes on from there")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:  # whoever was to read the output has had enough: typer ends quietly
        raise
    except RunError as error:
        _complain(error)
        raise typer.Exit(EXIT_FAILED) from error
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        _complain(error)
        raise typer.Exit(EXIT_INPUT) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # how polars ends where the system refuses it something
            raise
        _complain(error)
        raise typer.Exit(EXIT_INPUT) from None


def _complain(error: BaseException) -> None:
    text = str(error) or type(error).__name__
    if len(text) > MOST_TEXT:
        text = f"{text[: MOST_TEXT // 2]} ... {text[-MOST_TEXT // 2 :]}"
    stderr().print(Text.assemble(("error:", "red"), " ", text), highlight=False, soft_wrap=True)


def client_of(cluster: str | None) -> AbstractContextManager[Any]:
    """A client of a cluster for several studies; None if there is no cluster."""
    if cluster is None:
        return nullcontext()
    from adadim.study.cluster import connected

    return connected(cluster)


def run_study(
    plan: study.Study,
    folder: Place,
    jobs: int | None,
    batch: int | None,
    quiet: bool,
    device: str = "cpu",
    client: Any = None,
    shared: bool = False,
) -> study.Results:
    """Run what is missing of a study, with a bar of rounds and the time left on a terminal."""
    options: dict[str, Any] = {"jobs": jobs, "batch": batch, "device": device, "cluster": client, "shared": shared}
    with _warnings_as_lines(stderr()):
        return study.run(plan, folder, progress=not quiet, **options)


@contextmanager
def _warnings_as_lines(console: Console) -> Iterator[None]:
    """Show what a run warns of in a line each, without the line of code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        console.print(Text.assemble(("warning:", "yellow"), " ", str(message)), highlight=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", StoreWarning)
        warnings.showwarning = show
        yield


def load_plugins(paths: Sequence[Path] | None) -> dict[str, Any]:
    """Policies and instances of the user's own files."""
    plugins: dict[str, Any] = {}
    for path in paths or []:
        plugins |= study.load_plugin(path)
    return plugins


def read_policies(written: Sequence[str] | None, plugins: dict[str, Any]) -> dict[str, Any]:
    """Policies named on the command line, by what was written."""
    return {text: study.from_spec(_spec(text), plugins) for text in written or []}


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
        found[key.strip()] = _value(value.strip())
    return found


def _spec(text: str) -> dict[str, Any]:
    """Read KIND:KEY=VALUE,... with values as in JSON, or else plain text."""
    kind, _, rest = text.partition(":")
    table: dict[str, Any] = {"kind": kind}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidValueError(f"--policy {text}: expected KEY=VALUE after the colon, got {pair!r}")
        table[key.strip()] = _value(value)
    return table


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def typed_as() -> str:
    """What to type to call this command again: `adadim`, or the path it was called by where that is not on PATH."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("adadim", "__main__.py"):
        return f"{shlex.quote(sys.executable)} -m adadim"
    if called.stem != "adadim":
        return "adadim"
    found = shutil.which("adadim")
    if found is not None and called.exists() and Path(found).samefile(called):
        return "adadim"
    return shlex.quote(sys.argv[0])


def summary_table(results: study.Results) -> Table:
    """Regret after the last round, a row per instance and policy."""
    headings = ("instance", "policy", "trials", "mean regret", "std")
    table = Table(*headings, title=Text(f"{results.name}: regret after the last round, in units of the reward"))
    for instance, policy in results.cells():
        final = results.final(instance, policy)
        spread = f"{final.std(ddof=1):.3g}" if len(final) > 1 else "-"
        table.add_row(Text(instance), Text(policy), str(len(final)), f"{final.mean():.4g}", spread)
    return table


def band_of(choice: WhichBand) -> Band:
    """What was chosen as shading, as `adadim.report.draw` takes it."""
    return "ci" if choice == WhichBand.ci else "std"


def study_folders(folder: str | Place) -> list[Place]:
    """The folder itself if it holds a study, else the studies right below it."""
    place = as_place(folder, "folder", StoreError)
    if not is_folder(place, StoreError):
        raise StoreError(f"{folder} is not a folder")
    if exists(place / "manifest.json", StoreError):
        return [place]
    found: list[Place] = [place / name for name in sorted(names(place, StoreError)) if _holds_study(place / name)]
    if not found:
        raise StoreError(f"no results in {folder}; make some with 'adadim run' or 'adadim reproduce'")
    return found


def _holds_study(folder: Place) -> bool:
    return is_folder(folder, StoreError) and exists(folder / "manifest.json", StoreError)


def as_json_text(rows: Sequence[Any]) -> str:
    """Dataclasses as JSON, which has neither NaN nor infinity: null instead."""
    tables = [asdict(row) for row in rows]
    plain = [{k: None if isinstance(x, float) and not math.isfinite(x) else x for k, x in t.items()} for t in tables]
    return json.dumps(plain, indent=2, allow_nan=False)


def print_written(paths: Iterable[Place], quiet: bool) -> None:
    """Say which files were written."""
    if not quiet:
        for path in paths:
            stdout().print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def compact_table(title: str, headings: Sequence[str], wraps: str, least: int = 0) -> Table:
    """An empty table narrow enough for 80 columns: only the column `wraps`, at least so wide, may break lines."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=heading != wraps, min_width=least if heading == wraps else None)
    return table
