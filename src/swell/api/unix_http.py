"""An HTTP client on a Unix socket, for calls that come one after the other."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import h11

#: Bytes that are read at a time.
CHUNK_BYTES = 1 << 16

Headers = Mapping[str, str]


class HttpAnswer(NamedTuple):
    """What came back, whole."""

    status: int
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class UnixHttp:
    """Connections to one socket; each is used by one call at a time, and kept for the next ones.

    Calls may come from any thread.
    """

    def __init__(self, address: str, headers: Headers, check: Callable[[socket.socket], None]) -> None:
        """Args:
        headers: of every request.
        check: looks at each new connection before anything is sent on it, and raises what is wrong with it.
        """
        self._address, self._check = address, check
        self._headers = {"Host": "localhost", **headers}
        self._idle: list[_Connection] = []

    def request(
        self, method: str, target: str, headers: Headers, content: bytes | None, within_s: float
    ) -> HttpAnswer:
        """Raises TimeoutError: it has not gone on for that time; OSError: there was no whole answer."""
        connection = self._usable(within_s)
        try:
            answer = connection.ask(method, target, {**self._headers, **headers}, content)
        except h11.ProtocolError as error:
            connection.close()
            raise ConnectionError(str(error)) from error
        except BaseException:
            connection.close()
            raise
        if connection.is_reusable():
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _usable(self, within_s: float) -> _Connection:
        """One that the server has not closed meanwhile, or a new one."""
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if not connection.has_news():
                    connection.socket.settimeout(within_s)
                    return connection
                connection.close()
        return self._connected(within_s)

    def _connected(self, within_s: float) -> _Connection:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(within_s)
            made.connect(self._address)
            self._check(made)
        except BaseException:
            made.close()
            raise
        return _Connection(made)


class _Connection:
    """One connection of a client."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._http = h11.Connection(h11.CLIENT)

    def ask(self, method: str, target: str, headers: Headers, content: bytes | None) -> HttpAnswer:
        """Raises OSError, h11.ProtocolError."""
        lines = list(headers.items())
        if content is not None:
            lines.append(("Content-Length", str(len(content))))
        request = h11.Request(method=method, target=target, headers=lines)
        parts = [self._http.send(one) for one in (request, h11.Data(data=content or b""), h11.EndOfMessage())]
        # A server that refuses a request before it is whole says why in its answer.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(b"".join(filter(None, parts)))
        return self._answer()

    def _answer(self) -> HttpAnswer:
        status, parts = 0, list[bytes]()
        while not isinstance(event := self._next(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                parts.append(bytes(event.data))
            elif not isinstance(event, h11.InformationalResponse):
                raise ConnectionError("the connection was closed")
        return HttpAnswer(status, b"".join(parts))

    def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(self.socket.recv(CHUNK_BYTES))
        return event

    def has_news(self) -> bool:
        """Between two calls that can only be its end."""
        looker = select.poll()
        looker.register(self.socket, select.POLLIN)
        return bool(looker.poll(0))

    def is_reusable(self) -> bool:
        """Whether another request may follow; the connection is ready for it then."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        self.socket.close()
