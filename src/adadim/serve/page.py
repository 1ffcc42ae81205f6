"""The pages of the service: the live one, and the one that says how to call it. Both are complete in themselves."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

__all__ = ["Page", "live_page", "reference_page"]

REFERENCE_STYLE = """
.wide { max-width: 780px; }
article { margin-bottom: 12px; }
article h2 { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.card p { margin: 4px 0 6px; font-size: 14px; min-height: 0; }
pre { background: var(--track); padding: 8px 12px; border-radius: 7px; margin: 6px 0; font-size: 13px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
"""


@dataclass(frozen=True)
class Page:
    """HTML, and a policy under which a browser runs only the scripts and styles that are written in it."""

    text: str

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer."""
        scripts, styles = (
            " ".join(f"'{_hash(part)}'" for part in re.findall(rf"<{tag}>(.*?)</{tag}>", self.text, re.DOTALL))
            or "'none'"
            for tag in ("script", "style")
        )
        policy = (
            f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return {"Content-Security-Policy": policy}


def live_page(token_needed: bool) -> Page:
    """The page that shows what the agent does; it asks for the token if one is needed."""
    text = _read()
    return Page(text.replace('data-token="no"', 'data-token="needed"') if token_needed else text)


def reference_page(document: Mapping[str, Any]) -> Page:
    """The paths of an OpenAPI document, with an example of each."""
    style = re.findall(r"<style>.*?</style>", _read(), re.DOTALL)[0]
    style = style.replace("</style>", f"{REFERENCE_STYLE}</style>")
    schemas = document["components"]["schemas"]
    parts = [
        f"<article class='card'><h2>{method.upper()} {escape(path)}</h2>{_operation(operation, schemas)}</article>"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    answers = document["paths"]["/ask"]["post"]["responses"]
    statuses = {status: answer["description"] for status, answer in answers.items() if status != "200"}
    rows = "".join(f"<p><b>{status}</b> {escape(text)}</p>" for status, text in statuses.items())
    return Page(
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>adadim: how to call this service</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<link rel='icon' href='data:,'>{style}</head><body><main class='wide'>"
        "<header><h1>How to call this service</h1><span class='about'>JSON in, JSON out. The same as "
        "<a href='/openapi.json'>OpenAPI</a>; <a href='/'>back to the live page</a>.</span></header>"
        "<article class='card'><h2>Token and errors</h2><p>If the service was started with a token, every call "
        "carries it: <code>Authorization: Bearer TOKEN</code>. A call that is refused changes nothing, and the answer "
        'says why: <code>{"error": "...", "field": "arms.sku-1.3"}</code></p>'
        f"{rows}</article>{''.join(parts)}</main></body></html>"
    )


def _operation(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    text = f"<p>{escape(operation['description'])}</p>"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        text += f"<pre>{escape(json.dumps(_example(body, schemas)))}</pre>"
    answer = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("schema")
    if answer and "$ref" in answer:
        text += f"<p>Answer: {escape(_schema(answer, schemas)['description'])}</p>"
        text += f"<pre>{escape(json.dumps(_example(answer, schemas)))}</pre>"
    return text


def _schema(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return dict(found)


def _example(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """A value that fits a schema."""
    schema = _schema(schema, schemas)
    if "examples" in schema:
        return schema["examples"][0]
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], schemas)
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        parts = {name: _example(part, schemas) for name, part in schema["properties"].items()}
        return {name: part for name, part in parts.items() if part is not None}
    if kind == "object":
        return {"...": _example(schema["additionalProperties"], schemas)}
    if kind == "array":
        return [_example(schema["items"], schemas)]
    return {"number": 0.5, "integer": 3, "string": "..."}.get(str(kind))


def _read() -> str:
    return resources.files("adadim.serve").joinpath("page.html").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
