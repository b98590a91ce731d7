"""The daemon's end: an executor that talks to the agent from a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import secrets
import selectors
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from swell.executors.controller import protocol
from swell.executors.engine import Engine, LocalEngine
from swell.executors.local.agent.address import AgentAddress
from swell.executors.local.agent.options import LOOPBACK, NUM_WORDS_OF_UP, AgentOptions
from swell.executors.local.devices import LocalNode
from swell.executors.local.launch import AgentError, find_agent, start_agent, stop_agent
from swell.executors.local.processes.listing import is_stopped
from swell.executors.retransmission import ReceivedNumbers, RetransmissionQueue
from swell.model.coding import decoder
from swell.model.command import AnyCommand, WakeAt
from swell.model.event import AnyEvent, RunningWork
from swell.model.retry import retry_pause_s
from swell.model.usage import DeviceReading
from swell.wire.lines import LineBuffer

log = logging.getLogger("swell.link")

CONNECT_S = 5.0
#: A lost line is found again at once; one that cannot be is tried again after this, and then less often.
RETRY_S, LONGEST_RETRY_S = 0.05, 5.0
FIND_S = 20.0
#: Hosts tell every ten seconds what their devices do.
READINGS_COUNT_FOR_S = 35.0

_decode: Callable[[bytes], protocol.FromAgent] = decoder(protocol.FromAgent).decode


class LocalExecutor:
    """Real processes on this machine. Thread-safe; nothing but `start`, `close` and `shut_down` waits.

    Commands that the agent has not taken, and events that are not in the journal, are said again on the next
    line. Where that leads to another agent, what is to be commanded there is for its owner to say.
    """

    def __init__(
        self, options: AgentOptions, nodes: Sequence[LocalNode], engine: Engine | None = None
    ) -> None:
        """`options`: for a new agent. `engine`: what brings hosts; None: those that join by hand."""
        engine = engine or LocalEngine()
        self._options = msgspec.structs.replace(
            options,
            state_dir=options.state_dir.resolve(),
            kinds=tuple(sorted({local.node.kind for local in nodes})),
            engine=engine.encoded(),
            door=engine.door_at(options.listen),
        )
        self._bindings = {name: binding for node in nodes for name, binding in node.bindings.items()}
        self._session = secrets.token_hex(8)
        self._deliver: Callable[[AnyEvent], None] = lambda event: None
        self._replaced: Callable[[RunningWork], None] = lambda work: None
        self._lock = threading.Lock()  #: of what follows
        self._untaken: RetransmissionQueue[protocol.ExecutorCommand] = RetransmissionQueue()
        self._heard = ReceivedNumbers()  #: of the agent, which is named by its `boot_id`
        self._num_delivered = self._num_before_last_call = 0  #: events, now and at the last `acknowledge`
        self._work: RunningWork | None = None  #: that was found with the present agent
        self._is_followed = True  #: commands are for that agent, and not for one before
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._to_send: deque[msgspec.Struct] = deque()  #: beside commands
        self._readings: dict[str, tuple[float, DeviceReading]] = {}  #: by device, and when it came
        self._wanted: protocol.DevicesWanted | None = None  #: what was said last
        self._socket: socket.socket | None = None
        self._received = LineBuffer()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    # ------------------------------------------------------------ any thread
    def start(
        self, deliver: Callable[[AnyEvent], None], replaced: Callable[[RunningWork], None] = lambda work: None
    ) -> RunningWork:
        """Begin, or adopt what runs, and tell what that is.

        Args:
            deliver: is called with events, which have CLOCK_BOOTTIME as `at_s`: the agent, which stamps them,
                outlives daemons and dies with the boot.
            replaced: is called with what another agent runs that has taken the place of a killed one. It is
                sent no command before `perform_again`, and nothing that it says is delivered.

        Raises:
            AgentError: no agent could be started.
        """
        self._deliver, self._replaced = deliver, replaced
        self._options.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        address = find_agent(self._options.state_dir)
        if address is not None and is_stopped(address.pid):  # its workers cannot be adopted before it goes on
            raise AgentError(
                f"the agent (pid {address.pid}) was stopped by a signal and does not answer: "
                f"`kill -CONT {address.pid}` lets it go on, `swell down --force` ends it"
            )
        work = self._find_agent()
        self._thread = threading.Thread(target=self._run, name="swell-link", daemon=True)
        self._thread.start()
        return work

    def perform_again(self, commands: Iterable[AnyCommand], work: RunningWork) -> None:
        """Perform these, which are all that were not answered, in place of those that were not taken.

        No effect if another agent has come since, with other work.
        """
        with self._lock:
            if work is not self._work:
                return
            self._untaken.acknowledge(self._untaken.num_added)  # each gets another number
            for command in commands:
                self._untaken.add(of_executor(command))
            self._is_followed = True
        self._wake()

    def perform(self, command: AnyCommand) -> None:
        """Begin it; what comes of it is delivered. Waits for nothing."""
        with self._lock:
            self._untaken.add(of_executor(command))
        self._wake()

    def remove_host(self, name: str) -> None:
        """Have a host that has joined end its workers and leave. Waits for nothing."""
        with self._lock:
            self._send(protocol.RemoveHost(name=name))

    def test_node(self, name: str, devices: Sequence[str]) -> None:
        """Have the devices of a node tested on its host. Waits for nothing."""
        with self._lock:
            self._send(protocol.TestDevices(node=name, devices=tuple(devices)))

    def want_devices(self, num: int) -> None:
        """Say how many devices open jobs could use together. Waits for nothing."""
        with self._lock:
            self._wanted = protocol.DevicesWanted(num=num)
            self._send(self._wanted)

    def device_readings(self) -> dict[str, DeviceReading]:
        """What devices do, by their ids, of those of which it was told lately."""
        least_s = time.monotonic() - READINGS_COUNT_FOR_S
        with self._lock:
            return {name: reading for name, (at_s, reading) in self._readings.items() if at_s >= least_s}

    def acknowledge(self) -> None:
        """All that was delivered and handled so far is in the journal.

        What was delivered since the call before may still wait to be handled: it is acknowledged with the
        next call.
        """
        with self._lock:
            number, self._num_before_last_call = self._num_before_last_call, self._num_delivered
            if self._heard.acknowledge(number):
                self._send(protocol.Acknowledge(number=number))

    def close(self) -> None:
        """Let go of the agent: it and its workers live on, until another executor adopts them."""
        self._closing.set()
        self._wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def shut_down(self) -> None:
        """End every process, and wait until all are gone.

        Raises:
            AgentError: some would not go.
        """
        self.close()
        stop_agent(self._options.state_dir)
        if self._process is not None:
            self._process.wait()

    # ------------------------------------------------------------ the thread
    def _run(self) -> None:
        num_failures, told = 0, ""
        while not self._closing.is_set():
            began_s = time.monotonic()
            try:
                if self._socket is None:
                    self._find_agent()
                self._converse()
            except (OSError, AgentError, msgspec.DecodeError) as error:
                if time.monotonic() > began_s + LONGEST_RETRY_S:  # there was a line meanwhile
                    num_failures, told = 0, ""
                if str(error) != told and not self._closing.is_set():
                    log.warning("lost the agent (%s); looking for it", told := str(error))
                self._hang_up()
                if num_failures:
                    self._closing.wait(retry_pause_s(num_failures, RETRY_S, LONGEST_RETRY_S))
                num_failures += 1
        with contextlib.suppress(OSError, BlockingIOError):  # the last orders, if anybody listens
            self._send_all()

    def _converse(self) -> None:
        """Until the line breaks, or this executor closes."""
        assert self._socket is not None  # noqa: S101 - the caller connected
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            self._hear_all()  # what came with the inventory
            while not self._closing.is_set():
                self._send_all()
                ready = {key.fileobj for key, _ in selector.select()}
                if self._wake_read in ready:
                    self._wake_read.recv(4096)
                if self._socket in ready:
                    self._receive()
                self._hear_all()

    def _send_all(self) -> None:
        """Send all that waits; what a line that breaks has not taken stays for the next one."""
        while self._socket is not None:
            with self._lock:
                command = self._untaken.take_next() if self._is_followed else None
                if command is None and not self._to_send:
                    return
                message = (
                    self._to_send[0]
                    if command is None
                    else protocol.Perform(number=command[0], command=command[1])
                )
            self._socket.sendall(msgspec.json.encode(message) + b"\n")
            if command is None:
                with self._lock:
                    self._to_send.popleft()

    def _hear_all(self) -> None:
        while self._is_followed and (line := self._received.next_line()) is not None:
            self._handle_agent_message(line)

    def _handle_agent_message(self, line: bytes) -> None:
        message = _decode(line)
        with self._lock:
            if isinstance(message, protocol.Performed):
                self._untaken.acknowledge(message.number)
            is_news = isinstance(message, protocol.EventTold) and self._heard.take_number(message.number)
            if isinstance(message, protocol.DevicesRead):
                now_s = time.monotonic()
                self._readings |= {name: (now_s, reading) for name, reading in message.readings.items()}
        if isinstance(message, protocol.EventTold) and is_news:
            self._deliver(message.event)
            with self._lock:
                self._num_delivered = message.number

    # ------------------------------------------------------------ finding the agent
    def _find_agent(self) -> RunningWork:
        """Tries for a while: an agent that was just killed may still look alive. Raises AgentError."""
        deadline_s = time.monotonic() + FIND_S
        while True:
            try:
                return self._connect()
            except OSError as error:
                self._hang_up()
                if time.monotonic() > deadline_s or self._closing.is_set():
                    raise AgentError(
                        f"the agent does not answer ({error}); see {self._options.state_dir / 'agent.log'}; "
                        "`swell down --force` ends it"
                    ) from error
                self._closing.wait(RETRY_S)

    def _connect(self) -> RunningWork:
        """Connect to the agent that runs, or to a new one. Queue again what may have been lost."""
        address = find_agent(self._options.state_dir)
        if address is None:
            if self._process is not None:
                self._process.wait()
            self._process, address = start_agent(self._options)
        if address.fixed not in ((), self._options.fixed):  # empty: of a version that does not tell
            words = " ".join(address.fixed[:NUM_WORDS_OF_UP])
            raise AgentError(
                "the agent of a killed platform still runs, and was started with other options: `swell up "
                f"{words}`, with the devices and the --engine of before, adopts it and its workers, and "
                "`swell down` ends them"
            )
        inventory = self._attach(address)
        with self._lock:
            is_first = not self._heard.sender
            if is_other := self._heard.begin_sender(inventory.boot_id):
                self._num_delivered = self._num_before_last_call = 0
                self._work, self._is_followed = inventory.work, is_first
            self._untaken.acknowledge(inventory.num_performed)
            self._untaken.begin_line()
            # What the line before may have lost, apart from commands: it may have taken them in vain.
            self._to_send = deque(one for one in self._to_send if isinstance(one, protocol.RemoveHost))
            if self._wanted is not None:
                self._to_send.append(self._wanted)
            if number := self._heard.num_acknowledged:
                self._to_send.append(protocol.Acknowledge(number=number))
        if is_other and not is_first:
            self._replaced(inventory.work)
        return inventory.work

    def _attach(self, address: AgentAddress) -> protocol.Inventory:
        self._received = LineBuffer()
        self._socket = socket.create_connection((LOOPBACK, address.port), timeout=CONNECT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        devices = protocol.BindDevices(bindings=self._bindings)
        hello = protocol.Attach(token=address.token, session=self._session)
        self._socket.sendall(b"%s\n" * 2 % tuple(map(msgspec.json.encode, (hello, devices))))
        inventory = self._first_answer()
        if not isinstance(inventory, protocol.Inventory):
            raise AgentError(f"the agent began with {type(inventory).__name__}; it must begin with Inventory")
        if inventory.protocol != protocol.PROTOCOL:
            raise AgentError(
                f"the agent that still runs (pid {address.pid}) is of another version of Swell: it speaks "
                f"protocol {inventory.protocol}, this one {protocol.PROTOCOL}; `swell down --force` ends it, "
                "and `swell up` lets its jobs go on from their checkpoints"
            )
        self._socket.settimeout(None)
        return inventory

    def _first_answer(self) -> protocol.FromAgent:
        """An agent that does not know yet what runs says so, every second."""
        told: tuple[str, ...] = ()
        while True:
            while (line := self._received.next_line()) is None:
                self._receive()
            answer = _decode(line)
            if not isinstance(answer, protocol.Gathering):
                return answer
            if self._closing.is_set():
                raise ConnectionAbortedError("it waits for hosts, and this platform closes")
            if answer.hosts and answer.hosts != told:
                log.info("the agent waits for hosts that may still run workers: %s", ", ".join(answer.hosts))
                told = answer.hosts

    def _receive(self) -> None:
        assert self._socket is not None  # noqa: S101 - called while connected
        chunk = self._socket.recv(65536)
        if not chunk:
            raise ConnectionResetError("the agent closed the line")
        self._received.feed(chunk)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: msgspec.Struct) -> None:
        """Under the lock. Where something waits to be sent, the thread that sends is awake already."""
        self._to_send.append(message)
        if len(self._to_send) == 1:
            self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it is awake already
            self._wake_write.send(b"!")


def of_executor(command: AnyCommand) -> protocol.ExecutorCommand:
    """The same command. Raises TypeError: it is none for an executor."""
    if isinstance(command, WakeAt):
        raise TypeError("time is not an executor's affair: WakeAt is for the world's clock")
    return command
