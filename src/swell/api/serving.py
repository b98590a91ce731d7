"""The API on its sockets, in a thread of the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Iterable

import uvicorn
from starlette.applications import Starlette

from swell.api.connections import ACCEPT_AT_ONCE, ApiConfig, BoundedProtocol
from swell.api.errors import InvalidOption
from swell.api.unix_socket import BACKLOG

HOST = "127.0.0.1"  # never a name and never an option: the API is for this machine

#: Seconds that requests under way get when the server stops.
GRACE_S = 2
#: The server's loop never waits for anything as long as this.
LISTENING_S = 10.0
#: The header with the time is brought up to date so often.
TICK_S = 1.0


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

    def __init__(
        self, app: Starlette, *listeners: socket.socket, shared_addresses: Iterable[str] = ()
    ) -> None:
        """Args:
        shared_addresses: of the Unix sockets among the listeners at which other users are served.
        """
        config = ApiConfig(
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
        config.shared_addresses = frozenset(shared_addresses)
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
