"""Where hosts join: connections are few, small and short until they have shown a token.

Everyone in the network can open one. What they may take is bounded, and the oldest gives way to the next.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec

from swell.executors.local.agent.options import PlatformSettings
from swell.executors.local.lines import MAX_LINE_BYTES, LineLink
from swell.executors.rate_limited_log import RateLimitedLog
from swell.executors.remote.certificate import controller_context
from swell.executors.remote.join_tokens import TokenList, revoked
from swell.executors.remote.machine_line import MachineLine
from swell.executors.remote.opening import JOIN_PROTOCOL, Join, JoinAccepted, JoinRefused, why_not_understood
from swell.model.lengths import span
from swell.wire.lines import NO_MESSAGE

#: From the connection to the end of the first line, TLS and all.
OPENING_S = 10.0
FIRST_LINE_BYTES = 4096
#: At most so many connections may be about to.
MAX_UNIDENTIFIED = 128
#: For the other side to agree that the line is closed.
SHUTDOWN_S = 5.0
BACKLOG = 1024
#: When the process has no descriptor left for another connection.
ACCEPT_AGAIN_S = 1.0

log = logging.getLogger("swell.hosts")


class JoinListener:
    """Hands over each line whose host has shown a token that is in force and speaks this protocol."""

    def __init__(
        self,
        certificate: Path,
        tokens: TokenList,
        version: str,
        joined: Callable[[MachineLine, Join], None],
        why_not: Callable[[Join], JoinRefused | None] = lambda join: None,
        settings: PlatformSettings | None = None,
        mark: str = "",
    ) -> None:
        """`joined` sets `heard` and `closed` of the line. `why_not`: asked before, of who has a token.

        `settings` and `mark`: told to hosts that join.

        Raises:
            UnusableCertificate: see `certificate.py`.
        """
        self._context = controller_context(certificate)
        self._tokens, self._version = tokens, version
        self._joined, self._why_not = joined, why_not
        self._accepted = JoinAccepted(protocol=JOIN_PROTOCOL, version=version, settings=settings, mark=mark)
        self._unidentified: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._lines: dict[MachineLine, str] = {}  #: of hosts, with the names of their tokens
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._refusals, self._deafness = RateLimitedLog(), RateLimitedLog()
        self._num_refused = 0

    async def listen(self, host: str, port: int = 0) -> int:
        """Returns the number of the port; 0 picks a free one. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        listener.setblocking(False)
        self._listening = listener
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))
        chosen: int = listener.getsockname()[1]
        return chosen

    async def close(self) -> None:
        """No host can join any longer; lines of those that have joined stay."""
        tasks = [*self._unidentified, *([self._accepting] if self._accepting is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()  # as a task does that had begun to accept

    def revoke(self, token: str) -> None:
        """The token opens nothing any longer; lines that it has opened are closed.

        Raises:
            TokenListError: there is no such token.
            OSError: see `TokenList.revoke`. Its lines are closed all the same.
        """
        try:
            self._tokens.revoke(token)
        finally:
            for line, name in self._lines.items():
                if name == token:
                    line.refuse(revoked(token))

    # ------------------------------------------------------------ connections
    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError as error:
                    self._tell_deaf(error)
                    await asyncio.sleep(ACCEPT_AGAIN_S)
                    continue
                task = loop.create_task(self._identify(connection))
                self._unidentified[task] = None
                task.add_done_callback(lambda task: self._unidentified.pop(task, None))
                if len(self._unidentified) > MAX_UNIDENTIFIED:
                    next(iter(self._unidentified)).cancel("too many at once")
                await asyncio.sleep(0)  # where many wait, `sock_accept` lets no other task run

    async def _identify(self, connection: socket.socket) -> None:
        """Returns once the line is known, refused or gone."""
        address = _name_of(connection)
        limit = asyncio.timeout(OPENING_S)
        line = _UnidentifiedLine(self._decide, limit)
        try:
            async with limit:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: line, connection, ssl=self._context, ssl_shutdown_timeout=SHUTDOWN_S
                )
                await line.is_decided.wait()
        except TimeoutError:
            why = f"no join message came within {span(OPENING_S)}; that is the limit here: try again"
            line.refuse(why, is_final=False)
            self._tell(address, "it did not say in time who it is")
        except asyncio.CancelledError as error:
            line.refuse("too many hosts join at once; the oldest has to wait: try again", is_final=False)
            self._tell(address, str(error) or "no host can join any longer")
        except ssl.SSLError as error:
            self._tell(address, f"it does not speak TLS 1.3 ({error.reason})")
        except OSError as error:
            self._tell(address, str(error))
        if line.why_closed and not line.is_known:
            self._tell(address, line.why_closed)

    # ------------------------------------------------------------ first lines
    def _decide(self, line: _UnidentifiedLine, text: bytes) -> None:
        if line.task.cancelling():
            return  # it has to wait, or came too late, and hears that next
        try:
            join = msgspec.json.decode(text, type=Join)
        except NO_MESSAGE:
            line.refuse("the first line is no join message; hosts begin with one: join with `swell`")
            return
        why = self._tokens.why_refused(join.token, join.secret) or why_not_understood(join, self._version)
        refused = JoinRefused(why=why) if why else self._why_not(join)
        if refused is not None:
            line.refuse(refused.why, is_final=refused.is_final)
            return
        self._keep(line)
        line.received.max_line_bytes = MAX_LINE_BYTES
        self._lines = {known: token for known, token in self._lines.items() if known.is_open}
        self._lines[line] = join.token
        line.send(self._accepted)
        self._joined(line, join)

    def _keep(self, line: _UnidentifiedLine) -> None:
        """Its task has not heard of it yet: nothing may end it, since that would close the line."""
        line.is_known = True
        self._unidentified.pop(line.task, None)
        line.limit.reschedule(None)

    def _tell(self, address: str, why: str) -> None:
        self._num_refused += 1
        if self._refusals.take():
            log.warning("refused %s: %s; %d since the start", address, why, self._num_refused)

    def _tell_deaf(self, error: OSError) -> None:
        if self._deafness.take():
            log.warning("no host can join: connections cannot be accepted: %s; trying again", error)


class _UnidentifiedLine(MachineLine):
    """Decided about by its first line, which is short."""

    def __init__(self, decide: Callable[[_UnidentifiedLine, bytes], None], limit: asyncio.Timeout) -> None:
        """Made by the task that identifies it."""
        super().__init__(self._hear_first, self._forget, max_line_bytes=FIRST_LINE_BYTES)
        self._decide, self.limit = decide, limit
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - see above
        self.task = task
        self.is_decided = asyncio.Event()
        self.is_known = False

    def _hear_first(self, link: LineLink, text: bytes) -> None:
        self.closed = None
        self._decide(self, text)
        self.is_decided.set()

    def _forget(self, link: LineLink) -> None:
        self.is_decided.set()


def _name_of(connection: socket.socket) -> str:
    try:
        host, port, *_ = connection.getpeername()
    except OSError:
        return "a connection that is gone"
    return f"{host}:{port}"
