"""The API on a socket, in a thread beside the head."""

from __future__ import annotations

import errno
import socket
import threading

import uvicorn
from fastapi import FastAPI

from swell.api.errors import InvalidOption

HOST = "127.0.0.1"  # never a name and never an option: the API is for this machine

#: Seconds that requests under way get when the server stops.
GRACE_S = 2


class PortTaken(InvalidOption):
    """Another program listens on the port."""


def bind(port: int = 0) -> socket.socket:
    """A listening socket on loopback; port 0: any that is free.

    Raises:
        PortTaken, InvalidOption
    """
    if not 0 <= port <= 65535:
        raise InvalidOption(f"port {port} is not between 0 and 65535; choose one that is")
    listener = socket.socket(
        socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # named, so that asyncio sets TCP_NODELAY: without it each answer waits 40 ms for an acknowledgement
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past connections do not count
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"port {port} on {HOST} is taken by another program; choose another with --port, "
                "or leave it out for any that is free"
            ) from error
        raise InvalidOption(f"cannot listen on port {port} ({error.strerror}); choose another") from error
    return listener


class ApiServer:
    """Serves an application until it is stopped."""

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        self.started = threading.Event()
        self._server = _Announcing(config, self.started)
        self._listener = listener
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="swell-api", daemon=True)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

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
        self._listener.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        except BaseException as failure:  # noqa: BLE001 - goes to whoever called start
            self._failure = failure
        finally:
            self.started.set()


class _Announcing(uvicorn.Server):
    """Sets an event where uvicorn offers only a flag to look at."""

    def __init__(self, config: uvicorn.Config, event: threading.Event) -> None:
        super().__init__(config)
        self._event = event

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._event.set()
