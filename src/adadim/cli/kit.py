"""What commands share: options, errors as exit codes, running studies, printing, tables, JSON."""

from __future__ import annotations

import functools
import inspect
import json
import math
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand
from typer.models import ArgumentInfo

from adadim import study
from adadim.core.codec import finite_or_none, parse_policy
from adadim.core.files import Place, as_place, exists, is_folder, names, write_atomic
from adadim.errors import RunError, StoreError, StoreWarning, shortened
from adadim.study.kinds import policy_table

if TYPE_CHECKING:
    from adadim.report import Band

EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 1, 2, 130
USER_ERRORS = (RunError, ValueError, TypeError, OSError, ImportError, MemoryError)
MANIFEST = "manifest.json"  # which every folder with a study has
VERDICT_COLOURS = {
    **dict.fromkeys(["holds", "agrees"], "green"),
    **dict.fromkeys(["does not hold", "violated", "differs"], "red"),
    **dict.fromkeys(["undecided", "other horizon"], "yellow"),
}

Trials = Annotated[int, typer.Option("--trials", "-n", min=1, help="Replications.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of instances, noise and policies.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress bar and no messages, only errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Batch = Annotated[
    int | None, typer.Option(min=1, help="Replications computed together (default: as many as fit in memory).")
]
WhichBand = StrEnum("WhichBand", ["ci", "std"])
Shading = Annotated[
    WhichBand,
    typer.Option(help="Shaded band: 95% confidence interval of the mean (ci), or one standard deviation (std)."),
]
Titled = Annotated[bool, typer.Option("--title/--no-title", help="Print a title above each figure.")]
OutFolder = Annotated[Path, typer.Option("--out", "-o", help="Results folder.")]
OutPlace = Annotated[str, typer.Option("--out", "-o", help="Folder for results, figures and tables: a path or URL.")]
Folder = Annotated[
    str,
    typer.Argument(metavar="FOLDER", help="A results folder: a path, or a URL such as s3://...", show_default=False),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="A Python file with policies or instances of your own. The file is executed; use only files you trust.",
    ),
]
AddedPolicies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME[:KEY=VALUE,...]",
        help="A policy to run: recommended, LinUCB++, LinUCB++:beta=0.6, ...; may be repeated. 'adadim policies' lists "
        "them.",
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """How studies are run: options that every command which runs some has."""

    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Number of processes (default: one per core).")
    ] = None
    device: Annotated[str, typer.Option(help="cpu, or cuda for a GPU (needs torch); cuda:1 is the second GPU.")] = "cpu"
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Compute on a Dask cluster: the scheduler's address, such as tcp://scheduler:8786, or local:4, which "
            "starts 4 workers here.",
            show_default=False,
        ),
    ] = None
    shared: Annotated[
        bool,
        typer.Option("--shared", help="The cluster's workers share the results folder and write to it directly."),
    ] = False
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Recompute results that another version of adadim computed.")
    ] = False
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep results computed by another version of adadim (by default the run stops)."),
    ] = False
    quiet: Quiet = False


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """A function as typer takes it: a dataclass of options (`RunOptions`) becomes these, errors become exit codes."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Any, list[str]]] = {}  # by parameter: the dataclass and the names of its options
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        options = {parameter.name: parameter}
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, ArgumentInfo) and info.metavar is None:
                info.metavar = parameter.name.upper()
        if is_dataclass(parameter.annotation):
            group: Any = parameter.annotation
            options = dict(inspect.signature(group, eval_str=True).parameters)
            groups[parameter.name] = group, list(options)
        parameters += options.values()

    @functools.wraps(function)
    def command(**values: Any) -> None:
        for name, (group, options) in groups.items():
            values[name] = group(**{option: values.pop(option) for option in options})
        with errors():
            function(**values)

    command.__doc__ = unwrapped(inspect.getdoc(function) or "")
    by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    return command


def unwrapped(text: str) -> str:
    """A docstring with each paragraph in one line, for the terminal to break; indented ones, code, stay as they are."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(p if p.startswith("    ") else " ".join(p.split("\n")) for p in paragraphs)


class Command(TyperCommand):
    """A command whose usage has its arguments as other programs do: FOLDER, WHAT..., [NAME]."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = [self.options_metavar or ""]
        for argument in (p for p in self.get_params(ctx) if p.param_type_name == "argument"):
            name = f"{str(argument.metavar).removesuffix('...')}{'...' if argument.nargs != 1 else ''}"
            pieces.append(name if argument.required else f"[{name}]")
        return pieces


@contextmanager
def errors() -> Iterator[None]:
    """Turn errors that the user can mend into one line and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        stderr().print("interrupted; finished results are kept, and the same command continues from there")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:  # the reader of the output has closed it: typer ends quietly
        raise
    except BaseException as error:
        panic = type(error).__name__ == "PanicException"  # how polars ends where the system refuses it something
        if not panic and not isinstance(error, USER_ERRORS):
            raise
        notice(stderr(), "error", "red", shortened(str(error) or type(error).__name__))
        raise typer.Exit(EXIT_FAILED if isinstance(error, RunError) else EXIT_INPUT) from error


def notice(console: Console, what: str, colour: str, text: str) -> None:
    """Print an error or a warning in one line."""
    console.print(Text.assemble((f"{what}:", colour), " ", text), highlight=False, soft_wrap=True)


def warn_former_option(old: str, new: str) -> None:
    """Say that an option will not be understood by the next version."""
    notice(stderr(), "warning", "yellow", f"{old} is now {new}; the next version will not understand {old}")


def load_plugins(paths: Sequence[Path] | None) -> dict[str, Any]:
    """Policies and instances of the user's own files."""
    plugins: dict[str, Any] = {}
    for path in paths or []:
        plugins |= study.load_plugin(path)
    return plugins


def read_policies(written: Sequence[str] | None, plugins: dict[str, Any]) -> dict[str, Any]:
    """Policies of the command line, by the text that names them; one with a value from the instance (@) is a table."""
    policies: dict[str, Any] = {text: policy_table(parse_policy(text), "policy", plugins) for text in written or []}
    for text, table in policies.items():
        if not any(isinstance(value, str) and value.startswith("@") for value in table.values()):
            policies[text] = study.from_spec(table, plugins)
    return policies


def band_of(choice: WhichBand) -> Band:
    """The chosen shading as `adadim.report.draw` takes it."""
    return "ci" if choice == WhichBand.ci else "std"


def run_study(
    plan: study.Study,
    folder: Place,
    how: RunOptions,
    batch: int | None = None,
    client: Any = None,
    reuse: Iterable[Place] = (),
) -> study.Results:
    """Run what is missing of a study, with a bar of rounds and the time left on a terminal."""
    options: dict[str, Any] = {"device": how.device, "cluster": client or how.cluster, "shared": how.shared}
    options |= {"fresh": how.fresh, "keep": how.keep, "reuse": reuse}
    with warnings_as_lines():
        return study.run(plan, folder, how.jobs, batch, progress=not how.quiet, **options)


def run_studies(
    plans: Iterable[study.Study], out: Place, how: RunOptions, batch: int | None = None
) -> Iterator[study.Results]:
    """Run each study in a folder of its name, one after the other; they share one client of a cluster.

    What another study in `out` has computed of the same is used.
    """
    clients: Any = nullcontext()
    if how.cluster is not None:
        from adadim.study.cluster import connected

        clients = connected(how.cluster)
    with clients as client:
        for plan in plans:
            there = sorted(names(out, StoreError)) if is_folder(out, StoreError) else []
            others = [out / name for name in there if name != plan.name and exists(out / name / MANIFEST, StoreError)]
            yield run_study(plan, out / plan.name, how, batch, client, others)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show each warning of a study in one line, without the line of code."""
    console = stderr()
    with warnings.catch_warnings():
        warnings.simplefilter("always", StoreWarning)
        warnings.showwarning = lambda message, *_, **__: notice(console, "warning", "yellow", str(message))
        yield


def study_folders(folder: str | Place, levels: int = 1) -> list[Place]:
    """The folder itself if it holds a study, else the studies below it, so many levels deep."""
    place = as_place(folder, "folder", StoreError)
    if not is_folder(place, StoreError):
        raise StoreError(f"{folder} is not a folder")
    if exists(place / MANIFEST, StoreError):
        return [place]
    studies: list[Place] = []
    level = [place]
    for _ in range(levels):
        below: list[Place] = [outer / name for outer in level for name in sorted(names(outer, StoreError))]
        level = [inner for inner in below if is_folder(inner, StoreError)]
        studies += [inner for inner in level if exists(inner / MANIFEST, StoreError)]
    if not studies:
        raise StoreError(f"no results in {folder}; make some with 'adadim run' or 'adadim reproduce'")
    return studies


def as_json_text(rows: Sequence[Any]) -> str:
    """Dataclasses as JSON, which has neither NaN nor infinity: null instead."""
    return json.dumps(finite_or_none([asdict(row) for row in rows]), indent=2, allow_nan=False)


def write_texts(folder: Place, texts: Mapping[str, str]) -> list[Place]:
    """Write files of text into a folder, by name; gives their paths."""
    return [write_atomic(folder / name, text.encode()) for name, text in texts.items()]


def write_rows(folder: Place, name: str, text: str, rows: Sequence[Any]) -> list[Place]:
    """Write a table as text (claims.md, say) and its rows as JSON (claims.json) into a folder; gives their paths."""
    return write_texts(folder, {name: text, f"{name.rpartition('.')[0]}.json": as_json_text(rows) + "\n"})


def stdout() -> Console:
    """Standard output, as wide as it is now: a console made at import keeps the width of that moment."""
    return Console()


def stderr() -> Console:
    """Standard error."""
    return Console(stderr=True)


def say(text: str) -> None:
    """Print a text as it is: no markup, no colours, no lines broken."""
    stdout().print(text, markup=False, highlight=False, soft_wrap=True)


def print_written(paths: Iterable[Place]) -> None:
    """Say which files were written."""
    for path in paths:
        say(f"wrote {path}")


def typed_as() -> str:
    """What to type to call this command again: `adadim`, or the path it was called by where that is not on PATH."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("adadim", "__main__.py"):
        return f"{shlex.quote(sys.executable)} -m adadim"
    if called.stem != "adadim":
        return "adadim"
    on_path = shutil.which("adadim")
    if on_path is not None and called.exists() and Path(on_path).samefile(called):
        return "adadim"
    return shlex.quote(sys.argv[0])


def summary_table(results: study.Results) -> Table:
    """Regret after the last round, a row per instance and policy."""
    table = Table(title=Text(f"{results.name}: regret after the last round, in units of the reward"))
    for heading in ("instance", "policy", "trials"):
        table.add_column(heading, overflow="fold")
    for heading in ("mean regret", "std"):
        table.add_column(heading, justify="right")
    finals = {cell: results.final(*cell) for cell in results.cells()}
    means = aligned([final.mean() for final in finals.values()])
    spreads = aligned([final.std(ddof=1) if len(final) > 1 else math.nan for final in finals.values()])
    for ((instance, policy), final), mean, spread in zip(finals.items(), means, spreads, strict=True):
        table.add_row(Text(instance), Text(policy), str(len(final)), mean, spread)
    return table


def aligned(values: Iterable[float], digits: int = 3) -> list[str]:
    """Numbers with as many decimals each, so that they line up: so many digits of the smallest, two more in all."""
    listed = [float(value) for value in values]
    sizes = [math.floor(math.log10(abs(x))) for x in listed if math.isfinite(x) and x != 0] or [0]
    decimals = max(0, min(digits - 1 - min(sizes), digits + 1 - max(sizes)))
    return [f"{x:.{decimals}f}" if math.isfinite(x) else "-" for x in listed]


def compact_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[Any]],
    wraps: str,
    least: int = 0,
    numbers: Collection[str] = (),
) -> Table:
    """A table of texts, narrow enough for 80 columns: only the column `wraps`, at least so wide, may break lines.

    The columns called `numbers` are flush right.
    """
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        width = least if heading == wraps else None
        justify: Any = "right" if heading in numbers else "left"
        table.add_column(heading, no_wrap=heading != wraps, min_width=width, justify=justify)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def coloured(verdict: str) -> Text:
    """A verdict in its colour."""
    return Text(verdict, style=VERDICT_COLOURS[verdict])
