"""The `adadim` command: argument handling and printing, nothing else."""

from __future__ import annotations

from typing import Annotated

import typer

import adadim
from adadim.cli import comparison, limits, studies

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help=(
        "Linear bandits whose features are ordered, when nobody knows how many of them matter.\n\n"
        "Start with [bold]adadim reproduce fig2a --trials 20[/bold]: it runs six policies on the paper's main "
        "experiment, draws the regret curves and holds the paper's sentences against them. Everything it computes is "
        "kept, so running it again with more trials only adds what is missing."
    ),
)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        typer.echo(adadim.__version__)
        raise typer.Exit


studies.register(app)
limits.register(app)
comparison.register(app)


def main() -> None:
    """Entry point of the command."""
    app()
