"""What all commands share: consoles, options, errors as exit codes, a progress bar, JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from adadim import study

__all__ = [
    "EXIT_FAILED",
    "AsJson",
    "Device",
    "Jobs",
    "Plugins",
    "Quiet",
    "Seed",
    "as_json_text",
    "errors",
    "load_plugins",
    "out",
    "run_study",
    "tell",
]

EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 1, 2, 130

Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; by default one per core.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, or cuda (a GPU, with torch); cuda:1 is the second.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of instances, noise and policies.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no messages; errors still show.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="A Python file with policies or instances of your own. It is executed: trust it."),
]


def out() -> Console:
    """Standard output, as wide as it is now: a console made at import keeps the width of that moment."""
    return Console()


def err() -> Console:
    """Standard error."""
    return Console(stderr=True)


@contextmanager
def errors() -> Iterator[None]:
    """Turn errors that a person can mend into one line and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        err().print("interrupted; what was finished is kept, and the same command goes on from there")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except study.RunError as error:
        _complain(error)
        raise typer.Exit(EXIT_FAILED) from error
    except (ValueError, TypeError, OSError, ImportError) as error:
        _complain(error)
        raise typer.Exit(EXIT_INPUT) from error


def _complain(error: Exception) -> None:
    err().print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)


def run_study(
    plan: study.Study, folder: Path, jobs: int | None, batch: int | None, quiet: bool, device: str = "cpu"
) -> study.Results:
    """Run what is missing of a study, with a progress bar on a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err(), disable=quiet or not sys.stderr.isatty()) as bar:
        task = bar.add_task(plan.name, total=None)

        def progress(done: int, total: int, unit: study.Unit | None) -> None:
            bar.update(task, completed=done, total=total)

        return study.run(plan, folder, jobs=jobs, batch=batch, progress=progress, device=device)


def load_plugins(paths: Sequence[Path] | None) -> dict[str, Any]:
    """Policies and instances of the user's own files."""
    plugins: dict[str, Any] = {}
    for path in paths or []:
        plugins |= study.load_plugin(path)
    return plugins


def as_json_text(rows: Sequence[Any]) -> str:
    """Dataclasses as JSON, which has neither NaN nor infinity: null instead."""
    tables = [asdict(row) for row in rows]
    plain = [{k: None if isinstance(x, float) and not math.isfinite(x) else x for k, x in t.items()} for t in tables]
    return json.dumps(plain, indent=2, allow_nan=False)


def tell(paths: Iterable[Path], quiet: bool) -> None:
    """Say which files were written."""
    if not quiet:
        for path in paths:
            out().print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
