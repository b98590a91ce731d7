"""The worker of a session: it runs the command in a terminal of its own, and shows it to who attaches.

It does not depend on who is attached: output goes to the job's log, and its end is kept for the next one.
Lines of JSON go both ways. Who attaches sends `token`, `attach` (any name of its own) and `shown` (bytes of
the output that it has), then `size`, `content` and `is_end`; with `forward` it gets a connection to the port
that the session serves. The session sends `is_terminal` and `shown` first, then `content`, and in the end its
`status`, or `is_replaced`. As `command` it imports the standard library only.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hmac
import json
import os
import pty
import re
import secrets
import signal
import socket
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from swell.executors.local.command import OWN_VARIABLES, become, say_hello
from swell.executors.local.processes.listing import started_by
from swell.executors.local.processes.parent_death import adopt_orphans
from swell.executors.local.processes.strays import end_children
from swell.model.quantities import span
from swell.wire import environ
from swell.wire.lease_end import LeaseWatch
from swell.wire.whole_files import write_whole

#: The file in a job's folder that has `host`, `port` and `token` of its terminal.
ADDRESS_FILE = "terminal"
#: Bytes that are read at a time, those of the output that are kept, and those of a line at most.
PIECE_BYTES, KEPT_BYTES, MOST_LINE_BYTES = 1 << 16, 1 << 16, 1 << 17
#: A session is silent no longer than the first; after the second its line is taken for broken.
SILENT_S, BROKEN_S = 5.0, 15.0
#: Who attaches says who they are, and takes what is shown, within so long; the command waits for the first.
HELLO_S, STALLED_S, FIRST_S = 5.0, 10.0, 10.0
#: What is still on its way when the command has ended is waited for so long.
LAST_OUTPUT_S = 1.0
#: An end is told so long before, or this part of the whole time if that is shorter.
NOTICE_S, NOTICE_SHARE = 300.0, 0.1
LOOK_EVERY_S = 0.2
#: What is shown again begins with a whole line, and asks the terminal nothing: the command got the answer.
UNSHOWN = re.compile(
    rb"\A[^\n]{0,1000}\n|\x1b\[[>=?]?[\d;]*[cn]|\x1b\]\d+;\?(?:\x07|\x1b\\)|\x1bP[+$]q[^\x1b]*\x1b\\"
)


def line_of(**message: Any) -> bytes:
    """The message as it is sent."""
    if "content" in message:
        message["content"] = base64.b64encode(message["content"]).decode()
    return json.dumps(message).encode() + b"\n"


def message_of(line: bytes) -> dict[str, Any]:
    """Raises ValueError: it is none."""
    try:
        message: dict[str, Any] = json.loads(line)
        return message | {"content": base64.b64decode(message.get("content", ""))}
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError("it is JSON of another form") from error


async def pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moved: Callable[[], None] = lambda: None
) -> None:
    """Bytes of a connection, until the reader's side has ended. Raises OSError."""
    while content := await reader.read(PIECE_BYTES):
        moved()
        writer.write(content)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
    else:  # TLS ends in both directions at once
        writer.close()


def run(_entry: str, args: list[str]) -> int:
    """Run the command of a session to its end, and return its exit status."""
    line = say_hello()
    adopt_orphans()
    status = asyncio.run(TerminalSession(args, line).run())
    end_children()
    line.close()
    return status


class TerminalSession:
    """A command, its terminal, and the one who is attached to it."""

    def __init__(self, command: list[str], agent: socket.socket) -> None:
        self._agent = agent
        self._command, self._order = command, json.loads(os.environ[environ.SESSION])
        self._is_terminal, self._token = self._order["is_terminal"], secrets.token_hex(16)
        self._kept, self._shown = b"", 0  #: the end of the output, and how much there was
        self._line: asyncio.StreamWriter | None = None  #: of who is attached
        self._attached, self._has_begun = "", asyncio.Event()
        self._used_s = self._began_s = time.monotonic()
        self._told_ends_s = set[float]()
        self._status: int | None = None  #: in place of the command's, once it is told to end

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[int] = loop.create_future()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        loop.add_signal_handler(signal.SIGTERM, self._end, environ.EXIT_STOPPED)
        self._agent.setblocking(False)
        loop.add_reader(self._agent, self._hear_agent)
        child = await self._open()
        address = {"host": os.environ[environ.ADDRESS], "token": self._token}
        server = await asyncio.start_server(self._serve, address["host"], 0, limit=MOST_LINE_BYTES)
        address["port"] = server.sockets[0].getsockname()[1]
        write_whole(Path(self._order["address_path"]), json.dumps(address).encode(), mode=0o640)
        with suppress(TimeoutError):  # so that the first who attaches misses nothing
            await asyncio.wait_for(self._has_begun.wait(), FIRST_S)
        if self._status is not None:
            return self._status
        self._start(*child)
        output, watch = asyncio.create_task(self._pass_output()), asyncio.create_task(self._watch())
        status = await self._exited
        await asyncio.wait({output}, timeout=LAST_OUTPUT_S)
        watch.cancel()
        status = status if self._status is None else self._status
        await self._say(status=status)
        if self._line is not None:
            self._line.close()
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(self._line.wait_closed(), LAST_OUTPUT_S)
        return status

    # ------------------------------------------------------------ the command
    async def _open(self) -> tuple[int, int]:
        """Open the command's terminal or pipes. Returns its input and its output."""
        loop = asyncio.get_running_loop()
        reading, output = pty.openpty() if self._is_terminal else os.pipe()
        given, writing = (output, os.dup(reading)) if self._is_terminal else os.pipe()
        self._terminal, self._output = reading, asyncio.StreamReader()
        read = asyncio.StreamReaderProtocol(self._output)
        await loop.connect_read_pipe(lambda: read, os.fdopen(reading, "rb", 0))
        made = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(writing, "wb", 0))
        self._input = asyncio.StreamWriter(*made, None, loop)
        return given, output

    def _start(self, given: int, output: int) -> None:
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.setsid()
            if self._is_terminal:  # Ctrl-C is a signal for who has a terminal
                fcntl.ioctl(output, termios.TIOCSCTTY, 0)
            for number, end in enumerate((given, output, output)):
                os.dup2(end, number)
            for name in (environ.SESSION, *OWN_VARIABLES):
                os.environ.pop(name, None)
            become(self._command, parent, set())
        for descriptor in {given, output}:
            os.close(descriptor)

    def _reap(self) -> None:
        """Wait for children that have ended: the command, and what it has left behind."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._pid and not self._exited.done():
                    status = os.waitstatus_to_exitcode(found[1])
                    self._exited.set_result(status if status >= 0 else 128 - status)

    def _end(self, status: int) -> None:
        """End all that runs here; the session has this status then. A shell obeys SIGHUP, and no SIGTERM."""
        self._status = status
        self._has_begun.set()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
            self._signal_all(number)
        asyncio.get_running_loop().call_later(self._order["grace_s"], self._signal_all, signal.SIGKILL)

    def _signal_all(self, number: int) -> None:
        for pid in started_by([os.getpid()]):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    # ------------------------------------------------------------ output
    async def _pass_output(self) -> None:
        with suppress(OSError):  # which is the end of a terminal
            while content := await self._output.read(PIECE_BYTES):
                self._use()
                await self._show(content)

    async def _show(self, content: bytes) -> None:
        """To the log, to who is attached, who is waited for, and to who attaches next."""
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        self._kept = (self._kept + content)[-KEPT_BYTES:]
        self._shown += len(content)
        await self._say(content=content)

    async def _say(self, **message: Any) -> None:
        """Who does not take it is not attached any more."""
        if (line := self._line) is not None:
            line.write(line_of(**message))
            try:
                await asyncio.wait_for(line.drain(), STALLED_S)
            except (OSError, TimeoutError):
                line.transport.abort()

    # ------------------------------------------------------------ lines
    async def _serve(self, reader: asyncio.StreamReader, line: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, ValueError):  # it is gone, or nothing serves the port
            first = message_of(await asyncio.wait_for(reader.readline(), HELLO_S))
            if not hmac.compare_digest(str(first.get("token")).encode(), self._token.encode()):
                pass
            elif first.get("forward"):
                served, to_served = await asyncio.open_connection("localhost", self._order["port"])
                try:
                    await asyncio.gather(pass_on(reader, to_served, self._use), pass_on(served, line))
                finally:
                    to_served.close()
            else:
                self._attach(line, first)
                while (text := await reader.readline()) and self._line is line:
                    await self._hear(message_of(text))
        self._line = None if self._line is line else self._line
        line.close()

    def _attach(self, line: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        if self._line is not None:
            self._line.write(line_of(is_replaced=True))
            self._line.close()
        content = self._kept[max(0, len(self._kept) + asked["shown"] - self._shown) :]
        if self._attached != asked["attach"]:  # else its line had broken
            is_cut = self._shown > len(self._kept)
            content = UNSHOWN.sub(b"", self._kept if is_cut else b"\n" + self._kept)
        self._line, self._attached = line, asked["attach"]
        line.write(line_of(is_terminal=self._is_terminal, shown=self._shown, content=content))
        self._has_begun.set()
        if self._is_terminal:  # a program that fills the window draws it once more
            with suppress(OSError):
                os.killpg(os.tcgetpgrp(self._terminal), signal.SIGWINCH)

    async def _hear(self, message: dict[str, Any]) -> None:
        self._use()
        if message.get("size") and self._is_terminal:
            termios.tcsetwinsize(self._terminal, message["size"])
        self._input.write(message["content"])
        await self._input.drain()
        if message.get("is_end") and not self._is_terminal:
            self._input.close()

    # ------------------------------------------------------------ ends
    def _hear_agent(self) -> None:
        """It says one thing only: that the devices were used."""
        with suppress(OSError):
            if self._agent.recv(PIECE_BYTES):
                self._use()
                return
        asyncio.get_running_loop().remove_reader(self._agent)

    def _use(self) -> None:
        self._used_s = time.monotonic()

    async def _watch(self) -> None:
        """Show that the session is there, and end it when it has been idle for too long."""
        idle_s, time_s = self._order["idle_s"] or float("inf"), self._order["time_s"]
        lease = LeaseWatch(os.environ[environ.LEASE]) if environ.LEASE in os.environ else None
        due_s, every_s = 0.0, min(SILENT_S, min(idle_s, time_s) * NOTICE_SHARE / 2)
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if lease is not None and lease.is_over:
                self._signal_all(signal.SIGKILL)
            if time.monotonic() < due_s:
                continue
            due_s = time.monotonic() + every_s
            await self._say()
            if self._status is not None:
                continue
            await self._tell_end(self._began_s + time_s, time_s, "its time is over then")
            await self._tell_end(self._used_s + idle_s, idle_s, "it is idle")
            if time.monotonic() >= self._used_s + idle_s:
                await self._show(
                    f"\r\n[swell] the session was idle for {span(idle_s)}, and ends\r\n".encode()
                )
                self._end(environ.EXIT_IDLE)

    async def _tell_end(self, end_s: float, whole_s: float, why: str) -> None:
        """Tell of an end that is near, once."""
        left_s = end_s - time.monotonic()
        if 0 < left_s <= min(NOTICE_S, whole_s * NOTICE_SHARE) and end_s not in self._told_ends_s:
            self._told_ends_s.add(end_s)
            await self._show(f"\r\n\x07[swell] the session ends in {span(left_s)}: {why}\r\n".encode())
