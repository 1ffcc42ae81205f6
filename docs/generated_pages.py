"""Pages of the site that say what the program says of itself: the command line, and the paths of the HTTP service.

A hook of mkdocs.
"""

from __future__ import annotations

import html
import json
import re
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.structure.files import File
from rich.text import Text

URL = "http://127.0.0.1:8000"
COMMAND_LINE = """# Command line

What `adadim --help` and `adadim COMMAND --help` say. Errors are one line, with exit code 2.
"""
HTTP = f"""# HTTP

Every path of [the service](service.md), with calls of an agent that has the columns `returning` and `hour` of a
visitor, and `price` and `rating` of an arm. A running service has this page at `/docs`, with its own columns and arms,
and the same as OpenAPI at `/openapi.json`. The address here is `{URL}`.
"""


def on_files(files: Any, config: Any) -> Any:
    """Add both pages."""
    files.append(File.generated(config, "command-line.md", content=command_line_page()))
    files.append(File.generated(config, "http.md", content=http_page()))
    return files


def command_line_page() -> str:
    """Markdown with the help of every command, under the headings of `adadim --help`."""
    from adadim import cli

    group = typer.main.get_command(cli.app)
    lines, heading = [COMMAND_LINE, *_commands_table(group)], ""
    for words, command in _commands(group):
        panel = getattr(group.commands[words[0]], "rich_help_panel", None) or ""
        if panel != heading:
            lines += [f"## {panel}", ""]
            heading = panel
        context = command.make_context("adadim " + " ".join(words), ["--help"], resilient_parsing=True)
        pieces = " ".join(command.collect_usage_pieces(context))
        lines += [f"### adadim {' '.join(words)}", "", f"    adadim {' '.join(words)} {pieces}", ""]
        lines += [_plain(command.help or ""), ""]
        rows = [row for one in command.params if (row := _row(one.get_help_record(context)))]
        lines += ["| parameter | what it is |", "| --- | --- |", *rows, ""] if rows else []
    return "\n".join(lines)


def _commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words; commands of a panel together, in the order of the panels."""
    panels: dict[str, list[str]] = {}
    for name, command in group.commands.items():
        if not command.hidden:
            panels.setdefault(getattr(command, "rich_help_panel", None) or "", []).append(name)
    for name in (name for names in panels.values() for name in names):
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from _commands(command, (*before, name))
        else:
            yield (*before, name), command


def _commands_table(group: Any) -> list[str]:
    rows = []
    for words, command in _commands(group):
        name = f"adadim {' '.join(words)}"
        first = _plain(command.help or "").split("\n\n")[0]
        rows.append(f"| [`{name}`](#{name.lower().replace(' ', '-')}) | {' '.join(first.split())} |")
    return ["| command | what it does |", "| --- | --- |", *rows, ""]


def _plain(text: str) -> str:
    """Help as Markdown: rich's marks are gone, and indented lines stay a block of code."""
    return Text.from_markup(text).plain.strip()


def _row(record: tuple[str, str] | None) -> str:
    """A row of a table for what the program says of an argument or an option."""
    if record is None:
        return ""
    cells = (f"`{record[0].replace(' range>', '>')}`", " ".join(record[1].split()))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def http_page() -> str:
    """Markdown with every path of the service, from the description that a running one gives."""
    from adadim import Agent
    from adadim.serve import Service, Settings

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "shop.db")
        with Agent.create(path, context=["returning", "hour"], arm=["price", "rating"]) as agent:
            agent.set_arms({"mug": [0.2, 0.9], "lamp": [0.7, 0.6]})
        with Service(str(path), Settings(port=0)) as service:
            pages = [urllib.request.urlopen(f"{service.url}{page}").read() for page in ("/docs", "/openapi.json")]
            text = pages[0].decode().replace(service.url, URL)
    document = json.loads(pages[1])
    schemas = document["components"]["schemas"]
    parts = dict(re.findall(r"<article class='card'><h2>(.*?)</h2>(.*?)</article>", text, re.DOTALL))
    general = parts.pop("Token and errors")
    statuses = re.findall(r"<p><b>(\d+)</b> (.*?)</p>", general)
    lines = [HTTP, "## Token and errors", "", general.partition("<p><b>")[0], ""]
    lines += ["| status | meaning |", "| --- | --- |", *(f"| {code} | {says} |" for code, says in statuses), ""]
    for heading, body in parts.items():
        method, path = html.unescape(heading).lower().split(" ", 1)
        lines += [f"## {heading}", "", _as_code(body), ""]
        if content := document["paths"][path][method].get("requestBody"):
            schema = content["content"]["application/json"]["schema"]
            lines += _fields(schemas[schema["$ref"].rpartition("/")[2]])
    return "\n".join(lines)


def _as_code(body: str) -> str:
    """HTML in which words between backquotes are code, and paragraphs are paragraphs."""
    body = body.replace("\n\n", "</p><p>").replace("<pre>", "<pre><code>").replace("</pre>", "</code></pre>")
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", body)


def _fields(schema: dict[str, Any]) -> list[str]:
    """A table of the fields of a request."""
    required = schema.get("required", ())
    rows = [
        f"| `{name}` | {_kind(field)} | {'required' if name in required else 'optional'} |"
        for name, field in schema["properties"].items()
    ]
    return ["| field | type | |", "| --- | --- | --- |", *rows, ""]


def _kind(schema: dict[str, Any]) -> str:
    """The type of a field in words."""
    if "anyOf" in schema:
        kinds = [_kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if schema.get("type") == "array":
        return f"list of ({_kind(schema['items'])})" if "items" in schema else "list"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of ({_kind(schema['additionalProperties'])})"
    return str(schema.get("type", "object or list"))
