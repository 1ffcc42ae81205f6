"""The commands of an agent: serving it over HTTP, moving it to another store, copying its file while it is in use."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from adadim.agent import Agent, copy_agent
from adadim.agent.sqlite import backup_file
from adadim.agent.stores import full_address, is_url, shown_address
from adadim.cli import kit
from adadim.errors import AgentExistsError, FileError, InvalidValueError
from adadim.serve import events
from adadim.serve.settings import TOKEN_VARIABLE, Settings, find_token

DEFAULTS = Settings()
ADDRESS = "File of the agent, or postgresql://user@host/db of its database."
Name = Annotated[str | None, typer.Option(help="Which agent of a database; its URL may also end in #NAME.")]
LogFormat = StrEnum("LogFormat", ["text", "json"])
NEW_AGENT = "To make the agent, if it is not there yet"


@dataclass(frozen=True)
class NewAgent:
    """What an agent is made with; an agent that is there must have these settings."""

    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES|NUMBER",
            help="What is known of a visitor: names of numbers, such as hour,weekend, or how many there are.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    arm: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES|NUMBER",
            help="What is known of an arm, the most important first, such as price,rating.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    dim: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Instead of --context and --arm: number of features that come ready-made.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto|none",
            help="Half-life in decisions, for rewards that drift; auto, the default, finds it; none forgets nothing.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    rewards: Annotated[
        str | None,
        typer.Option(
            metavar="gaussian|bernoulli",
            help="What rewards are: bernoulli for clicks, 0 or 1.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    explore: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Share of decisions drawn uniformly, so that the log can be evaluated, e.g. 0.02.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    expire_after: Annotated[
        float | None,
        typer.Option(
            help="Seconds after which a decision no longer waits for its reward.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    expired_reward: Annotated[
        float | None,
        typer.Option(
            help="The reward of a decision that expired, e.g. 0.", rich_help_panel=NEW_AGENT, show_default=False
        ),
    ] = None

    def make(self, address: str | Path) -> None:
        """Make an agent with these settings, if any is given; one that is there must have the same."""
        options = {name: value for name, value in asdict(self).items() if value is not None}
        if not options:
            if not is_url(address) and not Path(address).exists():
                raise FileError(
                    f"{address}: no such file; to make an agent, say what is known of visitors and arms: adadim serve "
                    f"{address} --context hour,weekend --arm price,rating"
                )
            return
        if not {"arm", "dim"} & set(options):
            given = ", ".join(f"--{name.replace('_', '-')}" for name in options)
            raise InvalidValueError(f"{given}: to make an agent give --arm, and --context if there is one, or --dim")
        for part in {"context", "arm"} & set(options):
            options[part] = _columns(options[part])
        if "memory" in options:
            options["memory"] = _half_life(options["memory"])
        try:
            agent = Agent.create(address, **options)
        except AgentExistsError:
            Agent.create(address, **options, exist_ok=True).close()
            return
        with agent:
            kit.say(f"made {shown_address(address)}: an agent with {agent.dim} features")


def _half_life(text: str) -> float | str | None:
    """A number, None for "none", or else the text as it is, which is for the agent to judge."""
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _columns(text: str) -> int | list[str]:
    """Names of columns, or their number."""
    return int(text) if text.strip().isdecimal() else [name.strip() for name in text.split(",")]


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
    request_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds that a client has for sending a request.")
    ] = DEFAULTS.request_timeout,
    patience: Annotated[float | None, typer.Option(min=0.1, hidden=True)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that serve on this port.")] = 1,
    log_format: Annotated[
        LogFormat,
        typer.Option(help="What goes to standard error: errors as text, or each request and event as a line of JSON."),
    ] = LogFormat.text,
    new: NewAgent = NewAgent(),
) -> None:
    r"""Serve an agent over HTTP, with a live page at the root.

    An agent that is not there yet is made, if you say what is known of visitors and of arms:

        adadim serve shop.db --context hour,weekend --arm price,rating

    Later adadim serve shop.db is enough; an agent in a database is adadim serve postgresql://user@host/db --name shop.
    Give it arms to choose from, ask for a decision, and report its reward:

        curl http://127.0.0.1:8000/arms \
            --json '{"arms": {"red": \[1, 0.5], "blue": \[0, 0.1]}}'

        curl http://127.0.0.1:8000/ask --json '{"context": \[0.5, 1]}'

        curl http://127.0.0.1:8000/tell --json '{"id": 1, "reward": 1.0}'

    http://127.0.0.1:8000 shows what the agent does, and /docs lists all paths.
    From Python, adadim.serve.Client calls them.

    Without a token the service listens on this machine only.
    Ctrl-C or SIGTERM stops it once the requests under way are answered.
    """
    from adadim.serve import Service

    if log_format is LogFormat.json:
        events.log_as_json()
    if patience is not None:
        kit.warn_former_option("--patience", "--request-timeout")
        request_timeout = patience
    token = find_token(token_file)
    burst = max(DEFAULTS.burst, int(2 * rate))
    settings = Settings(host, port, token, largest_body, most_arms, rate, burst, request_timeout)
    guard = "with a token" if token else "without a token, so for this machine only"
    address = full_address(file, name)
    new.make(address)

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
    """Back up an agent's file, even while it is in use.

    The copy is the agent as it was at one moment, and an agent like any other: Agent.open and adadim serve take it. It
    is checked before it gets its name, so that a file of that name is complete.

    Example: adadim backup shop.db backups/shop-2024-05-01.db
    """
    decisions = backup_file(source, copy)
    kit.say(f"{copy}: {decisions:,} decisions, {copy.stat().st_size / 1e6:.1f} MB, checked")
