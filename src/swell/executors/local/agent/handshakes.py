"""Connections that have not yet identified themselves: few, short of memory, not for long.

Any user of the machine can open one to the agent, anyone in the network one to the port for hosts. What they
may take is bounded, and the oldest gives way to the next.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from swell.executors.limited_log import LimitedLog
from swell.executors.local.lines import MAX_LINE_BYTES, LineLink
from swell.model.quantities import span
from swell.wire.lines import NO_MESSAGE

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
First = TypeVar("First")


class Acceptor:
    """Accepts connections, of which few at a time may be about to identify themselves."""

    def __init__(self, greet: Callable[[socket.socket, str], Coroutine[None, None, None]]) -> None:
        """`greet`: returns once the connection, from this address, is identified, refused or gone."""
        self._greet = greet
        self.unidentified: dict[asyncio.Task[None], None] = {}  #: the oldest first
        self._accepting: list[asyncio.Task[None]] = []
        self._deafness = LimitedLog(log.warning)

    def listen(self, listener: socket.socket) -> None:
        """Accept from now on what connects to this socket, and close it in the end."""
        listener.setblocking(False)
        self._accepting.append(asyncio.get_running_loop().create_task(self._accept(listener)))

    async def close(self) -> None:
        """Accept nothing any longer, and give up what is about to identify itself."""
        tasks = [*self.unidentified, *self._accepting]
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
                    self._deafness("connections cannot be accepted: %s; trying again", error)
                    await asyncio.sleep(ACCEPT_AGAIN_S)
                    continue
                task = loop.create_task(self._greet(connection, f"{address[0]}:{address[1]}"))
                self.unidentified[task] = None
                task.add_done_callback(lambda task: self.unidentified.pop(task, None))
                if len(self.unidentified) > MAX_UNIDENTIFIED:
                    oldest = next(iter(self.unidentified))
                    del self.unidentified[oldest]
                    oldest.cancel("too many at once")
                await asyncio.sleep(0)  # where many wait, `sock_accept` lets no other task run


class Handshakes(Generic[First]):
    """Hands over each connection together with its first message."""

    def __init__(
        self,
        decode: Callable[[bytes], First],
        admit: Callable[[LineLink, First], bool],
        context: ssl.SSLContext | None = None,
        no_message: str = "its first line is no message",
    ) -> None:
        """
        Args:
            admit: takes the connection over, or refuses it; False: its token is wrong.
            context: for other machines, which speak TLS; None: for processes of this one.
            no_message: what one hears whose first line is none.
        """
        self._decode, self._admit, self._context, self._no_message = decode, admit, context, no_message
        self._acceptor, self._refusals = Acceptor(self._greet), LimitedLog(log.warning)
        self.close = self._acceptor.close
        self._num_refused = 0

    async def listen(self, host: str, port: int = 0) -> int:
        """Return the number of the port; 0 picks a free one. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._acceptor.listen(listener)
        await asyncio.sleep(0)  # it has begun, and closes the listener when it ends
        chosen: int = listener.getsockname()[1]
        return chosen

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
            self._acceptor.unidentified.pop(greeting, None)  # nothing may end the line until it goes on
            limit.reschedule(None)
            line.received.max_line_bytes = MAX_LINE_BYTES
            try:
                first = self._decode(text)
            except NO_MESSAGE:
                line.refuse(self._no_message)
                return
            if not self._admit(line, first):
                line.refuse("wrong token")

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
        self._refusals("refused %s: %s; %d since the start", address, why, self._num_refused)
