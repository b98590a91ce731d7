"""The API on its sockets, in a thread of the daemon.

A connection that says nothing, or half a request, costs a descriptor and some memory for as long as it is
kept. Each must send its requests in time, and there are only so many at once: any number of them leaves room
for the owner's next request.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from swell.api.errors import InvalidOption
from swell.api.unix_socket import BACKLOG

HOST = "127.0.0.1"  # never a name and never an option: the API is for this machine

#: Seconds that requests under way get when the server stops.
GRACE_S = 2
#: The server's loop never waits for anything as long as this.
LISTENING_S = 10.0
#: The header with the time is brought up to date so often.
TICK_S = 1.0

#: A connection must have sent its next request, head and body, so long after it opened or was last answered.
REQUEST_S = 10.0
#: And must have been answered, and have taken the answer, so long after that; of one that goes on and on,
#: such as a checkpoint that a browser loads, what there was of it so far.
ANSWER_S = 60.0

#: Most connections by kind of socket. Any user can open one on the port. Those of the owner's Unix socket and
#: of the one that is shared count together. All of them leave room in the usual limit of 1,024 open files.
MAX_CONNECTIONS = {socket.AF_UNIX: 512, socket.AF_INET: 128}
#: Connections taken from the kernel at a time, before those beyond the limit are closed.
ACCEPT_AT_ONCE = 64


class PortTaken(InvalidOption):
    """Another program listens on the port."""


def bind(port: int = 0, option: str = "--port", address: str = HOST) -> socket.socket:
    """A listening socket, by default on loopback; port 0 picks a free one.

    Args:
        option: with which the port was chosen.

    Raises:
        PortTaken, InvalidOption
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
            raise PortTaken(
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
            http=BoundedProtocol,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="error",  # a stranger who sends what is no HTTP could fill the log with warnings
            backlog=ACCEPT_AT_ONCE,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        self.started = threading.Event()
        self._server = _Announcing(config, self.started)
        self._listeners = listeners
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="swell-api", daemon=True)

    @property
    def port(self) -> int:
        """Port of the socket that listens on loopback. Raises ValueError if there is none."""
        (port,) = (one.getsockname()[1] for one in self._listeners if one.family == socket.AF_INET)
        return int(port)

    def listen_on(self, listener: socket.socket) -> None:
        """Serve on one more socket, from now on. Any thread but the server's own.

        Raises TimeoutError if the server does not come to it.
        """
        self._server.add(listener)
        self._listeners = (*self._listeners, listener)

    def start(self) -> None:
        """Returns when it answers. Raises what kept it from starting."""
        self._thread.start()
        self.started.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Answer what is under way, then end; returns when it has ended."""
        self._server.end()
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


class _Announcing(uvicorn.Server):
    """Sets events where uvicorn offers only flags to look at, ten times a second."""

    def __init__(self, config: uvicorn.Config, event: threading.Event) -> None:
        super().__init__(config)
        self._event = event
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Any thread but the server's own."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._ending.set)

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_S)

    def add(self, listener: socket.socket) -> None:
        if self._loop is None:
            raise RuntimeError("the server has not started")
        asyncio.run_coroutine_threadsafe(self._add(listener), self._loop).result(LISTENING_S)

    async def _add(self, listener: socket.socket) -> None:
        """Accept connections on one more listener, as `startup` of uvicorn does for its first ones."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._connected, sock=listener, backlog=ACCEPT_AT_ONCE)
        listener.listen(BACKLOG)
        self.servers.append(server)

    def _connected(self) -> asyncio.Protocol:
        return BoundedProtocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # uvicorn has set how many are accepted at a time, and this with it
        self._event.set()


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
        """Close the oldest connection if there are too many."""
        super().connection_made(transport)
        self._family = transport.get_extra_info("socket").family
        self._restart_timer(REQUEST_S)
        self._close_oldest()

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
