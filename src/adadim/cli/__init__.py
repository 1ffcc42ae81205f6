"""The `adadim` command: the commands of all rooms put together."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Annotated

import typer

import adadim
from adadim import startup
from adadim.cli import comparison, data, new, page, paper, serve, studies, tradeoff
from adadim.cli.kit import Command, as_command

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help=(
        "Linear bandits for ordered features when you do not know how many of them matter.\n\n"
        "Start with [bold]adadim reproduce fig2a --trials 20[/bold]: it runs six policies on the paper's main "
        "experiment, draws the regret curves and checks the paper's claims against them. Everything it computes is "
        "kept, so running it again with more trials only adds what is missing."
    ),
)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        typer.echo(adadim.__version__)
        raise typer.Exit


# The help lists the commands under these headings, in this order.
PAPER, STUDIES, DATA, AGENT, THEORY = "The paper", "Your studies", "Your data", "The agent", "Theory"
COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    PAPER: {"reproduce": paper.reproduce, "show": paper.show, "claims": paper.claims},
    STUDIES: {
        "policies": studies.list_policies,
        "run": studies.run,
        "status": studies.status,
        "figure": studies.figure,
        "report": page.report,
        "export": studies.export,
    },
    DATA: {"dimension": data.dimension, "evaluate": data.evaluate},
    AGENT: {"serve": serve.serve, "copy": serve.copy, "backup": serve.backup},
    THEORY: {"frontier": tradeoff.frontier, "lower-bound": tradeoff.lower_bound, "rates": tradeoff.rates},
}
for _heading, _commands in COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, cls=Command, rich_help_panel=_heading)(as_command(_command))

_studies = typer.Typer(no_args_is_help=True, help="Compare all policies; check two more statements of the paper.")
_studies.command("regret", cls=Command)(as_command(comparison.regret))
_studies.command("footnote", cls=Command)(as_command(paper.footnote))
_studies.command("parameter", cls=Command)(as_command(paper.parameter))
app.add_typer(_studies, name="study", rich_help_panel=PAPER)

_new = typer.Typer(no_args_is_help=True, help="Create starter files.")
_new.command("agent", cls=Command)(as_command(new.agent))
_new.command("study", cls=Command)(as_command(new.study))
_new.command("policy", cls=Command)(as_command(studies.new_policy))
app.add_typer(_new, name="new", rich_help_panel=STUDIES)


def main() -> None:
    """Entry point of the command."""
    startup.open_missing_streams()
    startup.leave_out_current_folder()
    startup.interrupt_as_usual()
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: workers and temporary files go
    app()
