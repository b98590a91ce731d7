"""Connections that have not yet identified themselves: few, short of memory, not for long.

Any user of the machine can open one to the agent, anyone in the network one to the port for hosts. What they
may take is bounded, and the oldest gives way to the next.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from swell.executors.limited_log import LimitedLog
from swell.executors.local.lines import MAX_LINE_BYTES, LineLink
from swell.model.quantities import span

#: From the connection to the end of the first line, TLS and all; and how short that line has to be.
HELLO_S = 10.0
FIRST_LINE_BYTES = 4096
#: At most so many connections may be about to.
MAX_UNIDENTIFIED = 128
#: For the other side to agree that the line is closed.
SHUTDOWN_S = 5.0
BACKLOG = 1024
#: When the process has no descriptor left for another connection.
ACCEPT_AGAIN_S = 1.0

log = logging.getLogger("swell.agent")


class Handshakes:
    """Hands over each connection together with its first line: `identify` refuses it, or takes it over."""

    def __init__(
        self, identify: Callable[[LineLink, bytes], None], context: ssl.SSLContext | None = None
    ) -> None:
        """`context`: for other machines, which speak TLS; None: for processes of this one."""
        self._identify, self._context = identify, context
        self._unidentified: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._accepting: asyncio.Task[None] | None = None
        self._refusals, self._deafness = LimitedLog(), LimitedLog()
        self._num_refused = 0

    async def listen(self, host: str, port: int = 0) -> int:
        """Return the number of the port; 0 picks a free one. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        listener.setblocking(False)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))
        await asyncio.sleep(0)  # it has begun, and closes the listener when it ends
        chosen: int = listener.getsockname()[1]
        return chosen

    async def close(self) -> None:
        """No connection is accepted any longer; those that were taken over stay."""
        tasks = [*self._unidentified, *([self._accepting] if self._accepting is not None else [])]
        for task in tasks:
            task.cancel("nothing can connect any longer")
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    connection, address = await loop.sock_accept(listener)
                except OSError as error:
                    if self._deafness.take():
                        log.warning("connections cannot be accepted: %s; trying again", error)
                    await asyncio.sleep(ACCEPT_AGAIN_S)
                    continue
                task = loop.create_task(self._greet(connection, f"{address[0]}:{address[1]}"))
                self._unidentified[task] = None
                task.add_done_callback(lambda task: self._unidentified.pop(task, None))
                if len(self._unidentified) > MAX_UNIDENTIFIED:
                    oldest = next(iter(self._unidentified))
                    del self._unidentified[oldest]
                    oldest.cancel("too many at once")
                await asyncio.sleep(0)  # where many wait, `sock_accept` lets no other task run

    async def _greet(self, connection: socket.socket, address: str) -> None:
        """Returns once the line is taken over, refused or gone."""
        loop, greeting = asyncio.get_running_loop(), asyncio.current_task()
        assert greeting is not None  # noqa: S101 - it is called in a task
        limit, is_decided = asyncio.timeout(HELLO_S), asyncio.Event()

        def hear_first(line: LineLink, text: bytes) -> None:
            line.closed = None
            is_decided.set()
            if greeting.cancelling():
                return  # it has to wait, or came too late, and hears that next
            self._unidentified.pop(greeting, None)  # it goes on later: nothing may end the line until then
            limit.reschedule(None)
            line.received.max_line_bytes = MAX_LINE_BYTES
            self._identify(line, text)

        line = LineLink(hear_first, lambda _: is_decided.set(), max_line_bytes=FIRST_LINE_BYTES)
        shutdown_s = None if self._context is None else SHUTDOWN_S
        try:
            async with limit:
                await loop.connect_accepted_socket(
                    lambda: line, connection, ssl=self._context, ssl_shutdown_timeout=shutdown_s
                )
                await is_decided.wait()
        except TimeoutError:
            line.refuse(f"it did not say within {span(HELLO_S)} who it is: try again", is_final=False)
            self._tell(address, "it did not say in time who it is")
        except asyncio.CancelledError as error:
            line.refuse("too many connect at once, and the oldest has to wait: try again", is_final=False)
            self._tell(address, str(error))
        except ssl.SSLError as error:
            self._tell(address, f"it does not speak TLS 1.3 ({error.reason})")
        except OSError as error:
            self._tell(address, str(error))
        else:
            if line.why_closed:
                self._tell(address, line.why_closed)

    def _tell(self, address: str, why: str) -> None:
        self._num_refused += 1
        if self._refusals.take():
            log.warning("refused %s: %s; %d since the start", address, why, self._num_refused)
