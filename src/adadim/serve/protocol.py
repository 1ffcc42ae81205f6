"""HTTP/1.1 of uvicorn, with a limit on the time that the head of a request may take."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from adadim.serve.refusals import refusal_body

__all__ = ["protocol"]


def protocol(patience: float) -> type[H11Protocol]:
    """A protocol that closes connections on which no complete head of a request comes within `patience` seconds.

    uvicorn waits for ever for the first request, and stops its clock as soon as a byte of a later one arrives: clients
    that send a byte now and then could hold all connections.
    """

    class TimedProtocol(H11Protocol):
        waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            # Between two requests uvicorn's own clock runs, which the first byte stops.
            if self.waiting is None and (self.cycle is None or self.cycle.response_complete):
                self._wait()
            super().data_received(data)

        def handle_events(self) -> None:
            super().handle_events()
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, "this is no HTTP/1.1 request, or its head is too long")

        def _wait(self) -> None:
            self.waiting = self.loop.call_later(patience, self._give_up)

        def _stop_waiting(self) -> None:
            if self.waiting is not None:
                self.waiting.cancel()
                self.waiting = None

        def _give_up(self) -> None:
            if not self.transport.is_closing():
                self._refuse(408, f"no complete request within {patience:g} seconds")

        def _refuse(self, status: int, reason: str) -> None:
            body = refusal_body(reason)
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                for event in (h11.Response(status_code=status, headers=headers), h11.Data(body), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    return TimedProtocol
