"""The commands of an agent: serving it over HTTP, moving it to another store, copying its file while it is in use."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from adadim.agent import Agent, copy_agent
from adadim.agent.sqlite import backup_file
from adadim.agent.stores import full_address, shown_address
from adadim.cli import kit
from adadim.serve import events
from adadim.serve.settings import TOKEN_VARIABLE, Settings, find_token

DEFAULTS = Settings()
ADDRESS = "File of the agent, which Agent.create made, or postgresql://user@host/db of its database."
Name = Annotated[str | None, typer.Option(help="Which agent of a database; its URL may also end in #NAME.")]
LogFormat = StrEnum("LogFormat", ["text", "json"])


def serve(
    file: Annotated[str, typer.Argument(help=ADDRESS, show_default=False)],
    name: Name = None,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than this machine's own only with a token.")
    ] = DEFAULTS.host,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token that every call must carry; or put it into {TOKEN_VARIABLE}."),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0, help="Requests per second from one address, on average; 0: no limit.")
    ] = DEFAULTS.rate,
    largest_body: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = DEFAULTS.largest_body,
    most_arms: Annotated[int, typer.Option(min=1, help="Arms in one request.")] = DEFAULTS.most_arms,
    patience: Annotated[
        float, typer.Option(min=0.1, help="Seconds that a client has for sending a request.")
    ] = DEFAULTS.request_timeout,
    workers: Annotated[int, typer.Option(min=1, help="Processes that serve on this port.")] = 1,
    log_format: Annotated[
        LogFormat,
        typer.Option(help="What goes to standard error: errors as text, or each request and event as a line of JSON."),
    ] = LogFormat.text,
) -> None:
    r"""Serve an agent over HTTP, with a live page at the root.

    Make an agent once, in Python:

        adadim.Agent.create("shop.db", dim=3)

    Serve it: adadim serve shop.db --port 8000, or adadim serve postgresql://user@host/db --name shop.
    Then ask for a decision, and tell what it brought:

        curl http://127.0.0.1:8000/ask --json '{"arms": {"red": \[1, 0, 0.5], "blue": \[0, 1, 0.1]}}'

        curl http://127.0.0.1:8000/tell --json '{"id": 1, "reward": 1.0}'

    http://127.0.0.1:8000 shows what the agent does, and /docs lists all paths.
    From Python, adadim.serve.Client calls them.

    Without a token the service listens on this machine only.
    Ctrl-C or SIGTERM stops it once the requests under way are answered.
    """
    from adadim.serve import Service

    if log_format is LogFormat.json:
        events.log_as_json()
    token = find_token(token_file)
    burst = max(DEFAULTS.burst, int(2 * rate))
    settings = Settings(host, port, token, largest_body, most_arms, rate, burst, patience)
    guard = "with a token" if token else "without a token, so for this machine only"
    address = full_address(file, name)

    def say(url: str) -> None:
        by = f" by {workers} processes" if workers > 1 else ""
        kit.say(f"serving {shown_address(address)} at {url}{by} ({guard}); Ctrl-C stops it")

    if workers > 1:
        from adadim.serve.workers import run_workers

        run_workers(address, settings, workers, say)
        return
    service = Service(address, settings)
    say(service.url)
    service.run()


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help=ADDRESS, show_default=False)],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Where it is to be; must not be there yet.", show_default=False)
    ],
    name: Name = None,
) -> None:
    """Copy an agent with all its log, from a file to a database, or back.

    Example: adadim copy shop.db postgresql://shop@db.example/bandits --name shop

    The copy goes on where the agent was when the copying began: same numbers of decisions, same model. Stop all
    processes that use the agent first; what they write meanwhile is not in the copy.
    """
    original, copied = (full_address(address, name, optional=True) for address in (source, target))
    copy_agent(original, copied)
    with Agent.open(copied) as agent:
        status = agent.status()
    numbers = f"{status['decisions']:,} decisions with {status['rewards']:,} rewards"
    kit.say(f"copied {shown_address(original)} to {shown_address(copied)}: {numbers}")


def backup(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="File of the agent.", show_default=False)],
    copy: Annotated[Path, typer.Argument(metavar="TO", help="File to make; must not be there.", show_default=False)],
) -> None:
    """Copy the file of an agent, also while it is asked, told and served.

    The copy is the agent as it was at one moment, and an agent like any other: Agent.open and adadim serve take it. It
    is checked before it gets its name, so that a file of that name is complete.

        adadim backup shop.db backups/shop-2024-05-01.db
    """
    decisions = backup_file(source, copy)
    kit.say(f"{copy}: {decisions:,} decisions, {copy.stat().st_size / 1e6:.1f} MB, checked")
