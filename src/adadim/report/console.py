"""What all commands share: consoles, errors as exit codes, running a study, tables, JSON; `options` has the options."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adadim import study
from adadim.errors import RunError, StoreError, StoreWarning
from adadim.files import Place, as_place, exists, is_folder, names, write_atomic

__all__ = [
    "EXIT_FAILED",
    "VERDICT_COLOURS",
    "as_json_text",
    "client_of",
    "compact_table",
    "errors",
    "print_written",
    "run_study",
    "say",
    "stderr",
    "stdout",
    "study_folders",
    "summary_table",
    "typed_as",
    "warnings_as_lines",
    "write_texts",
]

EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 1, 2, 130
MOST_TEXT = 2000  # characters of an error that a command shows
VERDICT_COLOURS = {"holds": "green", "does not hold": "red", "violated": "red", "undecided": "yellow"}


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
    with warnings_as_lines():
        return study.run(plan, folder, progress=not quiet, **options)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show what a study warns of in a line each, without the line of code."""
    console = stderr()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        console.print(Text.assemble(("warning:", "yellow"), " ", str(message)), highlight=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", StoreWarning)
        warnings.showwarning = show
        yield


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


def study_folders(folder: str | Place, levels: int = 1) -> list[Place]:
    """The folder itself if it holds a study, else the studies below it, so many levels deep."""
    place = as_place(folder, "folder", StoreError)
    if not is_folder(place, StoreError):
        raise StoreError(f"{folder} is not a folder")
    if _holds_study(place):
        return [place]
    found: list[Place] = []
    level = [place]
    for _ in range(levels):
        below: list[Place] = [outer / name for outer in level for name in sorted(names(outer, StoreError))]
        level = [inner for inner in below if is_folder(inner, StoreError)]
        found += filter(_holds_study, level)
    if not found:
        raise StoreError(f"no results in {folder}; make some with 'adadim run' or 'adadim reproduce'")
    return found


def _holds_study(folder: Place) -> bool:
    return exists(folder / "manifest.json", StoreError)


def as_json_text(rows: Sequence[Any]) -> str:
    """Dataclasses as JSON, which has neither NaN nor infinity: null instead."""
    tables = [asdict(row) for row in rows]
    plain = [{k: None if isinstance(x, float) and not math.isfinite(x) else x for k, x in t.items()} for t in tables]
    return json.dumps(plain, indent=2, allow_nan=False)


def write_texts(folder: Place, texts: Mapping[str, str]) -> list[Place]:
    """Write files of text into a folder, by name; gives their paths."""
    return [write_atomic(folder / name, text.encode()) for name, text in texts.items()]


def print_written(paths: Iterable[Place], quiet: bool) -> None:
    """Say which files were written."""
    if not quiet:
        for path in paths:
            say(f"wrote {path}")


def say(text: str) -> None:
    """Print a text as it is: no markup, no colours, no lines broken."""
    stdout().print(text, markup=False, highlight=False, soft_wrap=True)


def compact_table(title: str, headings: Sequence[str], wraps: str, least: int = 0) -> Table:
    """An empty table narrow enough for 80 columns: only the column `wraps`, at least so wide, may break lines."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=heading != wraps, min_width=least if heading == wraps else None)
    return table
