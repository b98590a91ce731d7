"""Connections to the API: each must send its requests in time, and there are only so many at once.

A connection that says nothing, or half a request, costs a descriptor and some memory for as long as it is
kept. With these limits any number of them leaves room for the owner's next request.
"""

from __future__ import annotations

import asyncio
import os
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from swell.api.answers import failure
from swell.api.unix_socket import peer_of

#: A connection must have sent its next request, head and body, so long after it opened or was last answered.
REQUEST_S = 10.0
#: And must have been answered, and have taken the answer, so long after that; of one that goes on and on,
#: such as events of the page, what there was of it so far.
ANSWER_S = 60.0

#: Most connections by kind of socket. Any user can open one on the port. Those of the owner's Unix socket and
#: of the one that is shared count together. All of them leave room in the usual limit of 1,024 open files.
MAX_CONNECTIONS = {socket.AF_UNIX: 512, socket.AF_INET: 128}
#: Connections taken from the kernel at a time, before those beyond the limit are closed.
ACCEPT_AT_ONCE = 64


class ApiConfig(uvicorn.Config):
    """uvicorn's, with the addresses of Unix sockets at which other users of the machine are served."""

    shared_addresses: frozenset[str] = frozenset()


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol for one connection, with limits."""

    waiting_since_s = 0.0  #: when the wait for the request or for the answer began
    _family = socket.AF_UNIX
    _answered: RequestResponseCycle | None = None  #: the request that has come and is being answered
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_answering(self) -> bool:
        """Whether a complete request has arrived and its answer is not complete."""
        return self._answered is not None

    # ------------------------------------------------------------ asyncio.Protocol
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Reject other users of the own Unix socket; close the oldest connection if there are too many."""
        super().connection_made(transport)
        connection: socket.socket = transport.get_extra_info("socket")
        self._family = connection.family
        if self._family == socket.AF_UNIX and not self._is_welcome(connection):
            transport.abort()
            return
        self._restart_timer(REQUEST_S)
        self._close_oldest()

    def _is_welcome(self, connection: socket.socket) -> bool:
        """Whether the user at the other end may connect: the platform's own user and root may.

        At the socket that is shared with other users everybody may: the mode of its file has let them in.
        """
        if isinstance(self.config, ApiConfig) and connection.getsockname() in self.config.shared_addresses:
            return True
        return peer_of(connection).uid in (os.geteuid(), 0)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    # ------------------------------------------------------------ uvicorn
    def handle_events(self) -> None:
        super().handle_events()
        self._note_progress()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note_progress()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is answered as any other wrong request."""
        body = bytes(failure(400, f"{msg} Send HTTP/1.1.").body)
        head = (
            b"HTTP/1.1 400 Bad Request",
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"connection: close",
        )
        self.transport.write(b"\r\n".join((*head, b"", body)))
        self.transport.close()

    # ------------------------------------------------------------ limits
    def _note_progress(self) -> None:
        cycle = self.cycle
        is_whole = cycle is not None and not cycle.more_body and not cycle.response_complete
        answered = cycle if is_whole else None
        if answered is not self._answered and not self.transport.is_closing():
            self._answered = answered
            self._restart_timer(ANSWER_S if is_whole else REQUEST_S)

    def _restart_timer(self, limit_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.waiting_since_s = self.loop.time()
        self._timer = self.loop.call_later(limit_s, self._time_out)

    def _time_out(self) -> None:
        if self._answered is not None and self._answered.response_started and self._has_taken_all:
            self._restart_timer(ANSWER_S)
        else:
            self.transport.abort()

    @property
    def _has_taken_all(self) -> bool:
        return self.transport.get_write_buffer_size() == 0

    def _close_oldest(self) -> None:
        """Beyond the limit, close the connection that has kept us waiting for a request the longest."""
        alike = [
            other
            for other in self.connections
            if isinstance(other, BoundedProtocol)
            and other._family == self._family
            and not other.transport.is_closing()
        ]
        if len(alike) > MAX_CONNECTIONS[self._family]:
            oldest = min(alike, key=lambda other: (other.is_answering, other.waiting_since_s))
            oldest.transport.abort()
