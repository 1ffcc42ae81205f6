"""Settings of a service: its address, its token, and limits on what clients send."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from adadim.core.checks import check_fields, integer, not_negative, positive
from adadim.errors import FileError, InvalidTypeError, InvalidValueError

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Addresses that only programs on the same machine reach."""

TOKEN_VARIABLE = "ADADIM_TOKEN"
LONGEST_TOKEN = 10_000  # characters of the file that it is in
SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Settings:
    """Settings of a service.

    Parameters
    ----------
    host : str
        Address it listens on. Without a token only a loopback address (127.0.0.1, ::1 or localhost) is allowed.
    port : int
        Port it listens on; 0 takes a free one.
    token : str, optional
        What every call must carry as ``Authorization: Bearer TOKEN``.
    largest_body : int
        Bytes of a request.
    most_arms : int
        Arms, or rewards of a batch, in one request.
    rate : float
        Requests per second from one address, on average; 0: no limit.
    burst : int
        Requests that may come at once before the rate counts.
    request_timeout : float
        Seconds that a client has for sending a request.

    Examples
    --------
    >>> Settings(host="0.0.0.0")
    Traceback (most recent call last):
    adadim.errors.InvalidValueError: host must be 127.0.0.1, ::1 or localhost without a token, got '0.0.0.0'; ...
    """

    host: str = "127.0.0.1"
    port: Annotated[int, partial(integer, least=0, most=65535)] = 8000
    token: str | None = field(default=None, repr=False)
    largest_body: Annotated[int, partial(integer, meaning="bytes of a request")] = 2 * 2**20
    most_arms: Annotated[int, partial(integer, meaning="arms in one request")] = 2000
    rate: Annotated[float, not_negative] = 1000.0
    burst: Annotated[int, partial(integer, meaning="requests at once")] = 2000
    request_timeout: Annotated[float, partial(positive, meaning="seconds for sending a request")] = 10.0

    def __post_init__(self) -> None:
        if not isinstance(self.host, str):
            raise InvalidTypeError(f"host must be a string, got {self.host!r}")
        check_fields(self)
        if self.token is None and self.host not in LOOPBACK:
            raise InvalidValueError(
                f"host must be {', '.join(LOOPBACK[:-1])} or {LOOPBACK[-1]} without a token, got {self.host!r}; give a "
                f"token with --token-file or in {TOKEN_VARIABLE}"
            )
        if self.token is not None:
            _check_token(self.token)


def find_token(file: Path | None) -> str | None:
    """The token in a file, or else that in the environment; None if there is neither."""
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE)
        return None if token is None else _check_token(token.strip(), TOKEN_VARIABLE)
    try:
        with file.open(encoding="utf-8") as opened:  # a pipe will do; a device without end would not
            text = opened.read(LONGEST_TOKEN + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"the token file {file} cannot be read: {error}") from error
    if len(text) > LONGEST_TOKEN:
        raise FileError(f"the token file {file} must have at most {LONGEST_TOKEN} characters")
    return _check_token(text.strip(), f"the token in {file}")


def _check_token(token: str, name: str = "token") -> str:
    # The value itself is never shown.
    if not isinstance(token, str) or len(token) < SHORTEST_TOKEN:
        raise InvalidValueError(
            f"{name} must have at least {SHORTEST_TOKEN} characters; make one with: "
            'python -c "import secrets; print(secrets.token_urlsafe())"'
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidValueError(f"{name} must be ASCII characters without spaces")
    return token
