"""`swell run` and `swell attach`: a command with a terminal on devices of the platform."""

from __future__ import annotations

import asyncio
import os
import secrets
import selectors
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import swell
from swell.api.errors import AccessRefused, ApiError
from swell.cli.options import HelpAll, State, with_groups
from swell.cli.output import print_note
from swell.cli.submit import SessionFields
from swell.executors.local.terminal import BROKEN_S, PIECE_BYTES, line_of, message_of, pass_on
from swell.model.errors import InvalidJob, Unavailable, WrongPhase

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView

Command = Annotated[
    list[str], typer.Argument(metavar="-- COMMAND [ARGUMENT...]", help="A program, such as `bash`.")
]
#: Of the environment, for programs that fill the window.
TERMINAL = ("TERM", "COLORTERM", "LANG")


@with_groups
def run(fields: SessionFields, command: Command, state: State = None, help_all: HelpAll = False) -> None:
    """Run a command with a terminal on devices of the platform, and attach to it.

    `~d` at the begin of a line detaches: the session goes on. The exit status is the command's; 7: the
    session was ended at its limit of time.
    """
    from swell.cli.submit import about_option, variables_of

    given = {name: value for name, value in fields.items() if value not in (None, [])}
    own = [name for name in TERMINAL if name in os.environ] if sys.stdin.isatty() else []
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    given["env"] = {**dict.fromkeys(own), **variables_of(given.get("env", []))}
    with swell.connect(state) as client:
        try:
            job_id = str(client.submit(**given, command=command, session=True))
        except InvalidJob as error:
            raise about_option(error, given) from error
        try:
            _await_begin(client, job_id)
        except BaseException as error:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a window that closes may say so twice
            client.cancel(job_id)
            if isinstance(error, KeyboardInterrupt):
                print(f"{job_id}: cancelled", file=sys.stderr)
            raise
    _attach(state, job_id)


def attach(
    job: Annotated[str, typer.Argument(metavar="SESSION", help="Id or name of a session.")],
    port: Annotated[
        bool, typer.Option("--port", help="Only have a port of this machine lead to the session's.")
    ] = False,
    state: State = None,
) -> None:
    """Show the terminal of a session here, or reach the port that it serves.

    `~d` at the begin of a line detaches. Another terminal that shows the session is told, and detached.
    """
    with swell.connect(state) as client:
        view = client.find_job(job)
        if view.fixed is None or not view.fixed.is_session:
            raise WrongPhase(f"job {view.id!r} is no session: `swell logs {view.id}` shows what it prints")
        if port and not view.fixed.port:
            raise WrongPhase(f"session {view.id!r} serves no port; name one with `swell run --port N`")
        _await_begin(client, view.id)
    if port:
        with suppress(KeyboardInterrupt):
            asyncio.run(forward(state, view.id, view.fixed.port))
    else:
        _attach(state, view.id)


def _await_begin(client: Client, job_id: str) -> None:
    """Wait until the session runs, and tell why it waits. Raises WrongPhase: it has ended."""
    told = ""

    def has_begun(view: JobView) -> bool:
        nonlocal told
        is_waiting = view.phase in ("queued", "starting")
        if is_waiting and view.reason != told:
            told = view.reason
            print(f"{job_id}: {told}", file=sys.stderr)
        return not is_waiting

    view = client.wait(job_id, has_begun)
    if view.phase.is_end:
        raise WrongPhase(f"{job_id}: {view.phase}: {view.reason}")


def _attach(state: Path | None, job_id: str) -> None:
    """Exits with the status of the command."""
    from swell.cli.job_verbs import STATUSES

    status = AttachedTerminal(state, job_id).run()
    with swell.connect(state) as client:
        if status is None and not client.job(job_id).phase.is_end:
            print_note(f"{job_id} goes on: `swell attach {job_id}` shows it, `swell cancel {job_id}` ends it")
            return
        view = client.wait(job_id)
    print_note(f"{job_id}: {view.phase}: {view.reason}")
    raise typer.Exit(status if status and view.phase == "failed" else STATUSES.get(view.phase, 0))


# ---------------------------------------------------------------- the terminal in this window
STDIN, STDOUT, STDERR = 0, 1, 2
#: A line that broke is tried again so often, and the end of a session is looked for.
RETRY_S = 0.3
#: What a program may have left on: its screen, mouse, pasting, other keys, a hidden cursor, colours.
RESET = b"\x1b[?47;1000;1002;1003;1006;2004;1l\x1b>\x1b[?25h\x1b[0m\r\n"

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def open_line(state: Path | None, job_id: str, **first: Any) -> Line | None:
    """A line to a session, with this as its first message; None: it has ended. Raises OSError: try again."""
    try:
        with swell.connect(state) as client:  # the daemon may be another one than before
            if client.job(job_id).phase.is_end:
                return None
            address = client.terminal(job_id)
            reader, line = await client.open_terminal(job_id, address)
    except AccessRefused:
        raise
    except (ApiError, Unavailable) as error:
        raise ConnectionError(str(error)) from error
    line.write(line_of(token=address.token, **first))
    return reader, line


class AttachedTerminal:
    """Made for one session; `run` returns when it has ended, or when it is shown here no longer."""

    def __init__(self, state: Path | None, job_id: str) -> None:
        self._state, self._job_id = state, job_id
        self._name, self._shown = secrets.token_hex(8), 0
        self._line: asyncio.StreamWriter | None = None  #: once the session has answered on it
        self._is_raw, self._is_at_begin, self._is_escaped = False, True, False  #: of a line; behind its `~`
        self._saved = termios.tcgetattr(STDIN) if os.isatty(STDIN) else None

    def run(self) -> int | None:
        """The status of the command; None: the session goes on, or its end is not known."""
        selector = selectors.SelectSelector()  # unlike others it takes files, which stdin may be
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            return runner.run(self._run())

    async def _run(self) -> int | None:
        loop = asyncio.get_running_loop()
        self._left, self._answered = asyncio.Event(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._left.set)
        loop.add_signal_handler(signal.SIGWINCH, lambda: self._send(size=self._size()))
        holding, typing = asyncio.ensure_future(self._hold()), asyncio.ensure_future(self._type())
        ends: list[asyncio.Future[Any]] = [holding, asyncio.ensure_future(self._left.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return holding.result() if holding.done() else None
        finally:
            holding.cancel()
            typing.cancel()
            if self._is_raw and self._left.is_set():
                _write(RESET)
            if self._saved is not None:
                termios.tcsetattr(STDIN, termios.TCSADRAIN, self._saved)

    def _size(self) -> tuple[int, int] | None:
        return None if self._saved is None else termios.tcgetwinsize(STDIN)

    def _send(self, **message: Any) -> None:
        if self._line is not None:
            self._line.write(line_of(**message))

    # ------------------------------------------------------------ what is shown
    async def _hold(self) -> int | None:
        """Show the session until it has ended; a line that breaks is followed by another."""
        is_told = False
        while True:
            with suppress(OSError, TimeoutError, ValueError):
                opened = await open_line(self._state, self._job_id, attach=self._name, shown=self._shown)
                if opened is None:
                    return None
                try:
                    return await self._show(*opened)
                finally:
                    self._line = None
                    self._answered.clear()
                    opened[1].close()
            if self._shown and not is_told:
                is_told = True
                _print_note("the line broke, and is tried again; ~d detaches")
            await asyncio.sleep(RETRY_S)

    async def _show(self, reader: asyncio.StreamReader, line: asyncio.StreamWriter) -> int:
        """Raises OSError, TimeoutError: the line has broken."""
        while text := await asyncio.wait_for(reader.readline(), BROKEN_S):
            message = message_of(text)
            self._shown = message.get("shown", self._shown + len(message["content"]))
            if message.get("is_terminal") and self._saved is not None and not self._is_raw:
                self._is_raw = True
                tty.setraw(STDIN, termios.TCSADRAIN)
            _write(message["content"])
            if "is_terminal" in message:
                self._line = line
                self._send(size=self._size())
                self._answered.set()
            elif "is_replaced" in message:
                _print_note("another terminal has attached to the session")
                self._left.set()
            elif "status" in message:
                return int(message["status"])
        raise ConnectionError("the line has ended")

    # ------------------------------------------------------------ what is typed
    async def _type(self) -> None:
        loop, content = asyncio.get_running_loop(), b"-"
        await self._answered.wait()
        while content:
            ready = loop.create_future()
            loop.add_reader(STDIN, ready.set_result, None)
            await ready
            loop.remove_reader(STDIN)
            content = b""
            with suppress(OSError):  # the window is gone
                content = os.read(STDIN, PIECE_BYTES)
            if not self._is_raw:  # nothing is lost while a line is tried again
                await self._answered.wait()
            self._send(
                content=bytes(self._without_escapes(content)) if self._is_raw else content, is_end=not content
            )
            if self._line is not None:
                with suppress(OSError):
                    await self._line.drain()

    def _without_escapes(self, content: bytes) -> Iterator[int]:
        """`~d` at the begin of a line detaches; `~~` there is a `~`."""
        for byte in content:
            if self._is_escaped and byte == ord("d"):
                self._left.set()
                return
            if self._is_escaped and byte != ord("~"):
                yield ord("~")
            is_held = self._is_at_begin and not self._is_escaped and byte == ord("~")
            self._is_at_begin, self._is_escaped = byte in b"\r\n" or is_held, is_held
            if not is_held:
                yield byte


def _write(content: bytes) -> None:
    while content:
        content = content[os.write(STDOUT, content) :]


def _print_note(text: str) -> None:
    os.write(STDERR, f"\r\n[swell] {text}\r\n".encode())


async def forward(state: Path | None, job_id: str, port: int) -> None:
    """Have a port of this machine lead to the one that the session serves, until the session ends.

    It is the same one if it is free, which it is not on the session's own node.
    """

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            if (opened := await open_line(state, job_id, forward=True)) is not None:
                await asyncio.gather(pass_on(reader, opened[1]), pass_on(opened[0], writer))
                opened[1].close()
        writer.close()

    try:
        server = await asyncio.start_server(lead, "127.0.0.1", port)
    except OSError:
        server = await asyncio.start_server(lead, "127.0.0.1", 0)
    found = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{found} leads to port {port} of {job_id}, until Ctrl-C", flush=True)
    with swell.connect(state) as client:
        while not (await asyncio.to_thread(client.job, job_id)).phase.is_end:
            await asyncio.sleep(RETRY_S)
