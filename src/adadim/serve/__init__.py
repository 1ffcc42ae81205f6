"""The service: an agent behind HTTP, with a page to watch it, and a client.

``adadim serve shop.db`` starts it. The server needs FastAPI and uvicorn (``pip install 'adadim[serve]'``); the client
needs neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adadim.serve.client import Answer, AnswerSlate, Client
from adadim.serve.settings import Settings

__all__ = ["Answer", "AnswerSlate", "Client", "Service", "Settings"]

if TYPE_CHECKING:
    from adadim.serve.server import Service
else:  # imported when first asked for: a program that only calls a service needs no FastAPI

    def __getattr__(name):
        if name != "Service":
            raise AttributeError(f"module 'adadim.serve' has no attribute {name!r}")
        try:
            from adadim.serve.server import Service
        except ModuleNotFoundError as error:
            raise ImportError(
                "the service needs FastAPI and uvicorn; install them with: pip install 'adadim[serve]'"
            ) from error
        return Service
