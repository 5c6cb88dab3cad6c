"""Connections on which no whole request arrives in time are closed, so that nobody can collect open ones."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_FOR_A_REQUEST = 5.0  # from this very computer


class ImpatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, which waits forever for the rest of a request."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_a_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_a_request()

    def _expect_a_request(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(SECONDS_FOR_A_REQUEST, self._lose_patience)

    def _lose_patience(self) -> None:
        being_answered = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if not being_answered:  # an answer may take its time
            self.transport.close()
