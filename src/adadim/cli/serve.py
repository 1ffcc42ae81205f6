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
ADDRESS_HELP = "The agent's file, or the URL of its database: postgresql://user@host/db."
Name = Annotated[str | None, typer.Option(help="Name of the agent in a database; the URL may end in #NAME instead.")]
LogFormat = StrEnum("LogFormat", ["text", "json"])
NEW_AGENT = "To create the agent, if it does not exist yet"


@dataclass(frozen=True)
class NewAgent:
    """What an agent is made with; an agent that is there must have these settings."""

    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES|NUMBER",
            help="Features of a visitor, most important first: their names, such as hour,weekend, or their number.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    arm: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES|NUMBER",
            help="Features of an arm, most important first: their names, such as price,rating, or their number.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    dim: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Instead of --context and --arm: number of features that each request brings ready-made.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto|none",
            help="Half-life in decisions, for rewards that drift; auto (the default) estimates it, none disables it.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    rewards: Annotated[
        str | None,
        typer.Option(
            metavar="gaussian|bernoulli",
            help="Distribution of the rewards: bernoulli for clicks (0 or 1).",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    explore: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Share of decisions drawn uniformly, e.g. 0.02, so that policies can be evaluated on the log.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    expire_after: Annotated[
        float | None,
        typer.Option(
            help="Seconds after which a pending decision expires.",
            rich_help_panel=NEW_AGENT,
            show_default=False,
        ),
    ] = None
    expired_reward: Annotated[
        float | None,
        typer.Option(help="Reward of an expired decision, e.g. 0.", rich_help_panel=NEW_AGENT, show_default=False),
    ] = None

    def make(self, address: str | Path) -> None:
        """Make an agent with these settings, if any is given; one that is there must have the same."""
        options = {name: value for name, value in asdict(self).items() if value is not None}
        if not options:
            if not is_url(address) and not Path(address).exists():
                raise FileError(
                    f"{address}: no such file; to create an agent, name the features of visitors and arms: adadim "
                    f"serve {address} --context hour,weekend --arm price,rating"
                )
            return
        if not {"arm", "dim"} & set(options):
            given = ", ".join(f"--{name.replace('_', '-')}" for name in options)
            raise InvalidValueError(f"{given}: to create an agent give --arm, and --context if there is one, or --dim")
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
    file: Annotated[str, typer.Argument(help=ADDRESS_HELP, show_default=False)],
    name: Name = None,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 picks a free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; addresses that other machines can reach require a token.")
    ] = DEFAULTS.host,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token that requests must carry; or set {TOKEN_VARIABLE}."),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0, help="Limit on requests per second from one address, on average; 0: no limit.")
    ] = DEFAULTS.rate,
    largest_body: Annotated[int, typer.Option(min=1, help="Limit on the bytes of a request.")] = DEFAULTS.largest_body,
    most_arms: Annotated[int, typer.Option(min=1, help="Limit on the arms of a request.")] = DEFAULTS.most_arms,
    request_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds within which a client must send its request.")
    ] = DEFAULTS.request_timeout,
    patience: Annotated[float | None, typer.Option(min=0.1, hidden=True)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that serve this port.")] = 1,
    log_format: Annotated[
        LogFormat,
        typer.Option(help="Log on standard error: errors as text, or every request and event as a line of JSON."),
    ] = LogFormat.text,
    new: NewAgent = NewAgent(),
) -> None:
    r"""Serve an agent over HTTP, with a live page at the root.

    To create an agent that does not exist yet, name the features of visitors and of arms:

        adadim serve shop.db --context hour,weekend --arm price,rating

    From then on adadim serve shop.db is enough. For an agent in a database: adadim serve postgresql://user@host/db
    --name shop. Give it arms to choose from, ask for a decision, and report its reward:

        curl http://127.0.0.1:8000/arms \
            --json '{"arms": {"red": \[1, 0.5], "blue": \[0, 0.1]}}'

        curl http://127.0.0.1:8000/ask --json '{"context": \[0.5, 1]}'

        curl http://127.0.0.1:8000/tell --json '{"id": 1, "reward": 1.0}'

    http://127.0.0.1:8000 shows the agent's activity, and /docs documents all paths.
    From Python, use adadim.serve.Client.

    Without a token the service accepts connections from this machine only.
    Ctrl-C or SIGTERM stops it after requests in progress have been answered.
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
    source: Annotated[str, typer.Argument(metavar="FROM", help=ADDRESS_HELP, show_default=False)],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="File or URL of the copy; must not exist yet.", show_default=False)
    ],
    name: Name = None,
) -> None:
    """Copy an agent and its whole log from a file to a database, or back.

    Example: adadim copy shop.db postgresql://shop@db.example/bandits --name shop

    The copy has the same decisions and the same model. Stop all processes that use the agent first: what they write
    during the copying is not in the copy.
    """
    original, copied = (full_address(address, name, optional=True) for address in (source, target))
    copy_agent(original, copied)
    with Agent.open(copied) as agent:
        status = agent.status()
    numbers = f"{status['decisions']:,} decisions with {status['rewards']:,} rewards"
    kit.say(f"copied {shown_address(original)} to {shown_address(copied)}: {numbers}")


def backup(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="The agent's file.", show_default=False)],
    copy: Annotated[Path, typer.Argument(metavar="TO", help="File to write; must not exist yet.", show_default=False)],
) -> None:
    """Back up an agent's file, even while it is in use.

    The copy is a consistent snapshot, and an agent like any other: Agent.open and adadim serve accept it. It is checked
    before it gets its name, so a file of that name is complete.

    Example: adadim backup shop.db backups/shop-2024-05-01.db
    """
    decisions = backup_file(source, copy)
    kit.say(f"{copy}: {decisions:,} decisions, {copy.stat().st_size / 1e6:.1f} MB, checked")
