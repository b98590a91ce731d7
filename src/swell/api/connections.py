"""The sockets that the control API is served on, and the limits of connections.

A connection that says nothing, or half a request, costs a descriptor and some memory for as long as it is
kept. Each must send its requests in time, and there are only so many at once: any number of them leaves room
for the owner's next request.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
from contextlib import suppress
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from swell.api.errors import InvalidOption
from swell.api.identity import PEER
from swell.api.terminal_relay import CONNECTION
from swell.api.unix_socket import BACKLOG
from swell.executors.local.agent.handshakes import Acceptor
from swell.executors.local.terminal import PIECE_BYTES
from swell.wire.peers import peer_of

HOST = "127.0.0.1"  # never a name and never an option: the API is for this machine

#: Seconds that requests under way get when the server stops.
GRACE_S = 2
#: The server's loop never waits for anything as long as this.
LISTENING_S = 10.0

#: A connection must have sent its next request, head and body, so long after it opened or was last answered.
REQUEST_S = 10.0
#: And must have been answered, and have taken the answer, so long after that; of one that goes on and on,
#: such as a checkpoint that a browser loads, what there was of it so far.
ANSWER_S = 60.0

#: Most connections by kind of socket. Any user can open one on the port. Those of the owner's Unix socket and
#: of the one that is shared count together, and so do those of the network, which speak TLS. All of them
#: leave room in the usual limit of 1,024 open files.
MAX_CONNECTIONS = {"unix": 512, "http": 128, "https": 128}
#: Connections taken from the kernel at a time, before those beyond the limit are closed.
ACCEPT_AT_ONCE = 64


class PortHeld(InvalidOption):
    """Another program listens on the port."""


def bind(port: int = 0, option: str = "--port", address: str = HOST) -> socket.socket:
    """A listening socket, by default on loopback; port 0 picks a free one.

    Args:
        option: with which the port was chosen.

    Raises:
        PortHeld, InvalidOption
    """
    if not 0 <= port <= 65535:
        raise InvalidOption(f"{option}: port {port} is not between 0 and 65535; choose another")
    listener = socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # named, so that asyncio sets TCP_NODELAY: without it each answer waits 40 ms for an acknowledgement
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past connections do not count
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortHeld(
                f"port {port} on {address} is used by another program; choose another with "
                f"{option}, or {option} 0 for a free one"
            ) from error
        raise InvalidOption(
            f"cannot listen on port {port} of {address} ({error.strerror}); choose another"
        ) from error
    return listener


class ApiServer:
    """Serves an application on listening sockets until it is stopped."""

    def __init__(self, app: Starlette, *listeners: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            http=LimitedHttp,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="error",  # a stranger who sends what is no HTTP could fill the log with warnings
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        self.started = threading.Event()
        self._server = _OpenedServer(config, self.started)
        self._listeners = listeners
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="swell-api", daemon=True)

    @property
    def port(self) -> int:
        """Port of the one TCP socket. Raises ValueError if there is none."""
        (port,) = (one.getsockname()[1] for one in self._listeners if one.family != socket.AF_UNIX)
        return int(port)

    def listen_on(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Serve on one more socket, from now on. Any thread but the server's own.

        Args:
            context: of connections of the network, which speak TLS.

        Raises TimeoutError if the server does not come to it.
        """
        self._server.add(listener, context)
        self._listeners = (*self._listeners, listener)

    def start(self) -> None:
        """Returns when it answers. Raises what kept it from starting."""
        self._thread.start()
        self.started.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Answer what is under way, then end; returns when it has ended."""
        self._server.should_exit = True
        self._thread.join()
        for listener in self._listeners:
            listener.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=list(self._listeners))
        except BaseException as failure:  # noqa: BLE001 - goes to the caller of start
            self._failure = failure
        finally:
            self.started.set()


class _OpenedServer(uvicorn.Server):
    """Sets an event when it has started, and accepts connections on further listeners later."""

    def __init__(self, config: uvicorn.Config, event: threading.Event) -> None:
        super().__init__(config)
        self._event = event
        self._loop: asyncio.AbstractEventLoop | None = None
        self._acceptors: list[Acceptor] = []

    def add(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        if self._loop is None:
            raise RuntimeError("the server has not started")
        added = self._add(listener) if context is None else self._add_tls(listener, context)
        asyncio.run_coroutine_threadsafe(added, self._loop).result(LISTENING_S)

    def _protocol(self) -> LimitedHttp:
        state = self.lifespan.state
        return LimitedHttp(config=self.config, server_state=self.server_state, app_state=state)

    async def _add(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._protocol, sock=listener, backlog=ACCEPT_AT_ONCE)
        listener.listen(BACKLOG)  # asyncio has set how many are accepted at a time, and this with it
        self.servers.append(server)

    async def _add_tls(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        """Accept connections of the network: few at a time may be about to begin TLS."""
        loop = asyncio.get_running_loop()

        async def begin(connection: socket.socket, _: str) -> None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            with suppress(OSError):
                await loop.connect_accepted_socket(
                    self._protocol,
                    connection,
                    ssl=context,
                    ssl_handshake_timeout=REQUEST_S,
                    ssl_shutdown_timeout=GRACE_S,
                )

        self._acceptors.append(Acceptor(begin))
        self._acceptors[-1].listen(listener)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            await acceptor.close()
        await super().shutdown(sockets=sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=[])
        for listener in sockets or ():
            await self._add(listener)
        self._event.set()


class LimitedHttp(H11Protocol):
    """uvicorn's protocol for one connection, with limits."""

    _answered: RequestResponseCycle | None = None  #: the request that has come and is being answered
    _timer: asyncio.TimerHandle  #: for the request, or else for the answer

    # ------------------------------------------------------------ asyncio.Protocol
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the oldest connection if there are too many."""
        super().connection_made(transport)
        line = transport.get_extra_info("socket")
        self._kind: str = self.scheme or "http"  #: of `MAX_CONNECTIONS`
        if line.family == socket.AF_UNIX:
            self._kind = "unix"
            self.app_state = {**self.app_state, PEER: peer_of(line)[1]}
        self._timer = self.loop.call_later(REQUEST_S, self._time_out)
        self._close_oldest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def hand_over(self, upgrade: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Answer the request by 101: what comes and goes from now on is of another protocol."""
        self._timer.cancel()
        self._unset_keepalive_if_required()
        self.connections.discard(self)
        self.cycle.disconnected = True  # there is no answer besides this one
        reader = asyncio.StreamReader(limit=PIECE_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        writer = asyncio.StreamWriter(self.transport, protocol, reader, self.loop)
        head = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n"
        writer.write(head.encode())
        self.transport.resume_reading()
        return reader, writer

    # ------------------------------------------------------------ uvicorn
    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None:
            cast("dict[str, Any]", self.scope)[CONNECTION] = self
        self._update_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_timer()

    # ------------------------------------------------------------ limits
    def _update_timer(self) -> None:
        cycle = self.cycle
        is_whole = cycle is not None and not cycle.more_body and not cycle.response_complete
        answered = cycle if is_whole else None
        if answered is not self._answered and not self.transport.is_closing():
            self._answered = answered
            self._restart_timer(ANSWER_S if is_whole else REQUEST_S)

    def _restart_timer(self, limit_s: float) -> None:
        self._timer.cancel()
        self._timer = self.loop.call_later(limit_s, self._time_out)

    def _time_out(self) -> None:
        has_taken_all = self.transport.get_write_buffer_size() == 0
        if self._answered is not None and self._answered.response_started and has_taken_all:
            self._restart_timer(ANSWER_S)
        else:
            self.transport.abort()

    def _close_oldest(self) -> None:
        """Beyond the limit, close the connection that has kept us waiting for a request the longest."""
        alike = [
            other
            for other in self.connections
            if isinstance(other, LimitedHttp)
            and not other.transport.is_closing()
            and other._kind == self._kind
        ]
        if len(alike) > MAX_CONNECTIONS[self._kind]:
            oldest = min(alike, key=lambda other: (other._answered is not None, other._timer.when()))
            oldest.transport.abort()
