"""This worker's line to the agent: one socket, and one thread that listens and says Alive.

What the main thread does is noted by itself and told by that thread, so that those who wait for others can be
told from those who are waited for.

Nothing here happens on import: a zygote imports this module and must keep one thread and no socket.
"""

from __future__ import annotations

import _io
import atexit
import gc
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import msgspec

from swell.train.link.code_paths import line_of, own_frame
from swell.wire import environ, messages
from swell.wire.lease_end import Lease
from swell.wire.lines import NO_MESSAGE, LineBuffer
from swell.wire.messages import Awaited

CONNECT_TIMEOUT_S = 10.0
#: Of a script that knows nothing of Swell.
SEND_TIMEOUT_S = 0.5
#: An agent that gives no answer for so long gives none any more.
ANSWER_TIMEOUT_S = 5.0
_from_agent = msgspec.json.Decoder(messages.FromAgent)


class AgentLine:
    """A connection to the agent, by TCP on this machine, whose network containers have, too.

    Messages are JSON, one a line. Where nothing else is said its methods raise OSError.
    """

    def __init__(self, address: str, token: str, worker: int) -> None:
        """Connect to `host:port`, and say Hello."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = LineBuffer()
        position = int(os.environ.get(environ.POSITION, "0"))
        self.say(messages.Hello(token=token, worker=worker, pid=os.getpid(), position=position))

    def say(self, message: messages.Message) -> None:
        self.socket.sendall(msgspec.json.encode(message) + b"\n")

    def read(self) -> None:
        """Take in what has come, or wait for it."""
        chunk = self.socket.recv(65536)
        if not chunk:
            raise ConnectionError("the agent has closed the line")
        self._received.feed(chunk)

    def heard(self) -> messages.FromAgent | None:
        """The next message of those that were read. Raises what decoders raise, see `lines.NO_MESSAGE`."""
        line = self._received.next_line()
        message: messages.FromAgent | None = None if line is None else _from_agent.decode(line)
        return message

    def hear(self) -> messages.FromAgent:
        """The next message, which is waited for."""
        while (message := self.heard()) is None:
            self.read()
        return message


class ObserverLine:
    """Opened when there is something to say. The script goes on without an agent that does not listen.

    Processes that the script has forked say nothing.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  #: a signal's handler may report while a report is under way
        self._line: AgentLine | None = None
        self.is_over = False  #: nothing is said any more
        os.register_at_fork(after_in_child=self._leave_off)

    def _leave_off(self) -> None:
        """This process is the script's own; another thread of its parent's may have held the lock."""
        self.is_over, self.lock = True, threading.RLock()

    def send(self, message: messages.Message, *, is_question: bool = False) -> messages.FromAgent | None:
        """Say something, and wait for the answer to a question; None: none comes.

        A signal's handler must ask no questions.
        """
        with self.lock:
            try:
                return None if self.is_over else self._say(message, is_question)
            except (OSError, *NO_MESSAGE):
                self.is_over = True
                return None

    def _say(self, message: messages.Message, is_question: bool) -> messages.FromAgent | None:
        if self._line is None:
            names = os.environ
            self._line = AgentLine(names[environ.OBSERVER], names[environ.TOKEN], int(names[environ.WORKER]))
        self._line.socket.settimeout(ANSWER_TIMEOUT_S if is_question else SEND_TIMEOUT_S)
        self._line.say(message)
        return self._line.hear() if is_question else None


#: Also in a step that takes longer, and while this worker waits. Well within the margin after a lease.
LOOK_AT_LEASE_EVERY_S = 0.5

Order = messages.Regroup | messages.Suspend
Request = Order | messages.Prove
#: In the script for so long without a step: tell where.
PLACE_AFTER_S = 1.0
#: More than the longest time between two beats that can be set: the whole process had been stopped.
LONGEST_GAP_S = 120.0


class Superseded(Exception):
    """A newer order came while this one was being carried out."""

    def __init__(self) -> None:
        super().__init__("a newer order came")


class Link:
    """Messages to the agent from any thread; its orders wait in `order` until they are taken."""

    def __init__(self, address: str, token: str, worker: int) -> None:
        """Connect and say Hello.

        Raises:
            ConnectionError: no agent listens there, or the line was closed (wrong token).
        """
        try:
            self._line = AgentLine(address, token, worker)
        except OSError as error:
            raise ConnectionError(
                f"no agent at {address} ({error}); {environ.AGENT} must name a live one"
            ) from error
        self._sending = threading.Lock()
        self.news = threading.Condition()  #: held while something comes, and to be held by who waits for it
        self._addresses: dict[int, str] = {}
        self._said: set[type[messages.Message]] = set()
        self.order: Request | None = None  #: the newest one not yet taken; read without a lock each step
        self._num_orders = 0  # that have come
        self.is_witness_wanted = False  #: rank 0 is to save, and all to note the step after that
        #: Called by the listening thread: the second with `news` held, before `order` is the new one.
        self.abort: Callable[[int], None] = lambda generation: None
        self.note_order: Callable[[Order], None] = lambda order: None
        self.heartbeat = Heartbeat()
        self.lease = Lease()
        self.welcome = self._await_welcome(address)
        self.verified_steps = self.welcome.verified_steps  #: as the agent said last
        self._line.socket.settimeout(None)
        threading.Thread(target=self._listen, name="swell-link", daemon=True).start()

    def send(self, message: messages.Message) -> None:
        with self._sending:
            self._said.add(type(message))
            try:
                self._line.say(message)
            except OSError:
                exit_now(environ.EXIT_STOPPED)  # the agent is gone, and with it everything

    def has_said(self, kind: type[messages.Message]) -> bool:
        return kind in self._said

    def take_order(self) -> tuple[int, Request]:
        """The newest order, waiting for one if there is none, and how many have come with it."""
        with self.heartbeat.waiting("agent"), self.news:
            self.news.wait_for(lambda: self.order is not None)
            order, self.order = self.order, None
            assert order is not None  # noqa: S101 - the wait above
            return self._num_orders, order

    def await_any(self) -> None:
        """Wait until there is an order, and leave it there."""
        with self.heartbeat.waiting("agent"), self.news:
            self.news.wait_for(lambda: self.order is not None)

    def await_order(self, number: int) -> None:
        """Wait until so many orders have come; the last of them is taken elsewhere."""
        with self.heartbeat.waiting("agent"), self.news:
            self.news.wait_for(lambda: self._num_orders >= number)
            if self._num_orders == number:
                self.order = None

    def address(self, generation: int, is_off: Callable[[], bool]) -> str:
        """Where the store of this generation listens. Raises Superseded if it is off before that is known."""
        with self.news:
            self.news.wait_for(lambda: generation in self._addresses or is_off())
            if is_off():
                raise Superseded
            return self._addresses.pop(generation)

    def pause(self, timeout_s: float, is_off: Callable[[], bool]) -> None:
        """Wait so long, less if what the caller waits for is off: then raise Superseded."""
        with self.news:
            if self.news.wait_for(is_off, timeout_s):
                raise Superseded

    def _await_welcome(self, address: str) -> messages.Welcome:
        try:
            welcome = self._line.hear()
        except OSError as error:
            raise ConnectionError(
                f"the agent at {address} gave no welcome ({error}); {environ.TOKEN} and {environ.WORKER} "
                "must be those that it gave to this worker"
            ) from error
        if not isinstance(welcome, messages.Welcome):
            raise ConnectionError(
                f"the agent at {address} began with {type(welcome).__name__}; it must begin with Welcome"
            )
        return welcome

    def _listen(self) -> None:
        alive_due_s = time.monotonic()
        while True:
            while (message := self._line.heard()) is not None:
                self._receive(message)
            now_s = time.monotonic()
            if now_s >= alive_due_s:
                self.send(self.heartbeat.beat())
                alive_due_s = now_s + self.welcome.heartbeat_s
            self.lease.check()
            wait_s = min(alive_due_s - now_s, LOOK_AT_LEASE_EVERY_S)
            readable, _, _ = select.select([self._line.socket], [], [], wait_s)
            if readable:
                try:
                    self._line.read()
                except OSError:
                    exit_now(environ.EXIT_STOPPED)

    def _receive(self, message: messages.FromAgent) -> None:
        if isinstance(message, messages.Abort):
            self.abort(message.generation)
            return
        with self.news:
            if isinstance(message, messages.Witness):
                self.is_witness_wanted = True
            elif isinstance(message, messages.Verified):
                self.verified_steps = message.steps
            elif isinstance(message, messages.StoreAddress):
                self._addresses[message.generation] = message.address
            elif isinstance(message, Request):
                if isinstance(message, Order):
                    self.note_order(message)
                self.order, self._num_orders = message, self._num_orders + 1
            self.news.notify_all()


_opened: list[Link] = []  #: at most one: a process is one worker


def open_link() -> Link:
    """The line to the agent named in the environment; the same one on every call."""
    if not _opened:
        names = os.environ
        _opened.append(Link(names[environ.AGENT], names[environ.TOKEN], int(names[environ.WORKER])))
    return _opened[0]


def exit_now(status: int) -> NoReturn:
    """End this process with its logs written, from any thread, without waiting for any."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # the reader of a log is gone, or the script closed it: no reader is left to tell
    os._exit(status)


class Heartbeat:
    """Written by one thread, read by another; each field is replaced whole."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Called in the thread that runs the script."""
        self.generation = 0  #: the latest Regroup taken up
        self._clock = clock
        self._lost_s = 0.0  #: time in which nothing of this process ran
        self._beat_s = clock()
        self._thread = threading.get_ident()
        self.steps = 0  #: finished since the job began
        self._doing: tuple[Awaited, float] = ("", clock())

    @contextmanager
    def waiting(self, awaited: Awaited) -> Iterator[None]:
        """Nothing of the script runs within it."""
        before = self.turn_to(awaited)
        try:
            yield
        finally:
            self.turn_to(before)

    def turn_to(self, awaited: Awaited) -> Awaited:
        """Note that this is waited for from now on, or nothing. Returns what was before.

        As `waiting`, without a generator, of which each step would make one.
        """
        before, _ = self._doing
        self._doing = (awaited, self._clock() - self._lost_s)
        return before

    def note_steps(self, steps: int) -> None:
        """Training has got so far; from here on the script works on the next step."""
        self.steps = steps
        self._doing = (self._doing[0], self._clock() - self._lost_s)

    def beat(self) -> messages.Alive:
        gap_s = self._clock() - self._beat_s
        self._beat_s += gap_s
        if gap_s > LONGEST_GAP_S:  # a worker that was to come to a collective could not
            self._lost_s += gap_s
        awaited, since_s = self._doing
        for_s, place = max(0.0, self._clock() - self._lost_s - since_s), ""
        if not awaited and for_s >= PLACE_AFTER_S:
            innermost = sys._current_frames().get(self._thread)
            if shown := own_frame(innermost) or innermost:  # the innermost line that is the user's own
                place = f"{line_of(shown)} in {shown.f_code.co_name}"
        return messages.Alive(
            generation=self.generation,
            steps=self.steps,
            awaits=awaited,
            for_s=for_s,
            place=place,
        )


#: Writers of curves, of torch, tensorboardX and others, which keep events in memory. They are no files.
_WRITERS = "SummaryWriter"


def close_script() -> None:
    """Call what the script has registered for its end, and write what it has not written of open files.

    An interpreter does that when it ends. Its teardown is left out: it can crash while other threads run.
    """
    _flush()  # before what may take long
    atexit._run_exitfuncs()
    _flush()


def _flush() -> None:
    """Write what open files, and writers of curves, keep in memory."""
    files = [
        thing
        for thing in gc.get_objects()
        if issubclass(type(thing), _io._IOBase) or type(thing).__name__ == _WRITERS
    ]
    for file in files:
        try:
            file.flush()
        except ValueError:
            pass  # it is closed
        except Exception as error:  # noqa: BLE001 - of the script's own code; others are to be written
            sys.stderr.write(f"{file!r} was not written to its end: {error!r}\n")
