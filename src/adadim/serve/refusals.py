"""A request that is refused: a status, a reason, and the field that is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse

__all__ = ["Refusal", "field_name", "refusal_body"]

LONGEST = 500  # characters of a reason or of the name of a field


class Refusal(HTTPException):
    """Why a request is not served.

    Parameters
    ----------
    status : int
        Status of HTTP, 4xx or 503.
    reason : str
        One sentence.
    field : str, optional
        Where in the request, e.g. ``arms.sku-1.3``.
    headers : dict, optional
        Headers of the answer.
    """

    def __init__(
        self, status: int, reason: str, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, detail=_cut(reason), headers=dict(headers or {}))
        self.field = None if field is None else _cut(field)

    def response(self) -> JSONResponse:
        """The answer to the client."""
        return JSONResponse(
            json.loads(refusal_body(str(self.detail), self.field)), self.status_code, dict(self.headers or {})
        )


def refusal_body(reason: str, field: str | None = None) -> bytes:
    """The JSON of every error.

    Examples
    --------
    >>> refusal_body("must be a finite number", "reward")
    b'{"error": "must be a finite number", "field": "reward"}'
    """
    return json.dumps({"error": reason, "field": field}).encode()


def field_name(location: Iterable[Any]) -> str | None:
    """Where in a request something is, as text.

    Examples
    --------
    >>> field_name(("body", "arms", "sku-1", 3)), field_name(("body",))
    ('arms.sku-1.3', None)
    """
    steps = list(location)
    if steps and steps[0] in ("body", "query", "path", "header"):
        steps = steps[1:]
    text = ".".join(str(step) for step in steps if step != "[key]")
    return text.encode("utf-8", "replace").decode() or None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
