"""A machine joins a controller on another one: a gang trains there, through partitions, kills and freezes.

Leases are short here. What is shown of a real partition is that nothing is given up sooner than the lease and
the margin after it; the laws of `test_leases.py` and `test_host_door.py` show it of everything else.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from tests.chaos.machines.fleet import is_fork
from tests.eventually import PATIENCE_S
from tests.executors.agents import CALL
from tests.executors.puppets import make_spec
from tests.machines.namespaces import HOME, STATE, Machine, Network, why_not
from tests.machines.site import IMPORTABLE

from swell.executors.leases import LeaseTimes
from swell.executors.local.processes.listing import list_processes
from swell.executors.node.options import NodeOptions
from swell.model.command import LaunchGang
from swell.model.event import AnyEvent, GangEnded, GangStarted, StepsReported, WorkersLost
from swell.model.target import Configuration, Target

pytestmark = pytest.mark.slow

TIMES = LeaseTimes(lease_s=4.0, margin_s=2.0)
CHECKPOINT_INTERVAL_S = 1.0
PORT, TOKEN_FILE = 7070, f"{HOME}/join-token"


class Output:
    """What a program prints, line by line, with when it came."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._new: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._new.put(line.rstrip("\n"))

    def await_line(self, is_it: Callable[[str], bool], within_s: float = PATIENCE_S) -> str:
        """The next one for which that is so, of those that were not waited for."""
        deadline_s = time.monotonic() + within_s
        while True:
            try:
                line = self._new.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"it did not come; came: {self.lines[-20:]}") from None
            self.lines.append(line)
            if is_it(line):
                return line

    def has(self, text: str) -> bool:
        """Whether a line with it has come by now."""
        while not self._new.empty():
            self.lines.append(self._new.get())
        return any(text in line for line in self.lines)


class HeadMachine:
    """`tests.machines.head` on a machine; hosts have workers that need no torch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.start()

    def start(self) -> None:
        words = ("-m", "tests.machines.head", f"{self.machine.address}:{PORT}")
        self.process = self.machine.popen(
            sys.executable,
            *words,
            str(TIMES.lease_s),
            str(TIMES.margin_s),
            str(CHECKPOINT_INTERVAL_S),
            *(CALL, "msgspec"),
            env=IMPORTABLE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.output = Output(self.process)
        self.token = self.output.await_line(lambda line: " token " in line).split()[2]

    def await_word(self, word: str, within_s: float = PATIENCE_S, host: str = "n1") -> float:
        """`joined`, `offered` or `lost`; when it was said."""
        return float(self.output.await_line(lambda line: f" {word} {host}" in line, within_s).split()[0])

    def await_event(self, kind: type[msgspec.Struct], within_s: float = PATIENCE_S) -> AnyEvent:
        def read(line: str) -> AnyEvent | None:
            _, word, text = line.split(maxsplit=2)
            return msgspec.json.decode(text, type=AnyEvent) if word == "event" else None

        line = self.output.await_line(lambda line: isinstance(read(line), kind), within_s)
        event = read(line)
        assert event is not None
        return event

    def launch(self, *args: str, generation: int = 1) -> None:
        """On both devices of the host."""
        spec = make_spec(workdir=HOME, entry=__file__, args=args)
        where = Target(devices=("n1/0", "n1/1"), configuration=Configuration())
        command = LaunchGang(
            job_id="job-1", generation=generation, target=where, spec=spec, total_steps=10**6
        )
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(command).decode() + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class HostMachine:
    """`swell node` on a machine."""

    def __init__(self, machine: Machine, head: Machine, name: str = "n1") -> None:
        self.machine, self._head, self._name = machine, head, name

    def start(self, token: str) -> None:
        path = self.machine.outside(TOKEN_FILE)
        path.touch(mode=0o600)
        path.write_text(token)
        join = f"{self._head.address}:{PORT}"
        options = NodeOptions(join=join, token_file=TOKEN_FILE, name=self._name, devices="paced:2@400")
        self.process = self.machine.popen(
            *options.command(Path(STATE)),
            env=IMPORTABLE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.output = Output(self.process)

    @property
    def pid(self) -> int:
        """Of the host process itself; `process` has brought it into its namespaces."""
        (pid,) = (found.pid for found in list_processes() if found.parent == self.process.pid)
        return pid

    def workers(self) -> list[int]:
        """Pids of live processes that are forks of the zygote."""
        return [pid for pid in self.machine.pids() if is_fork(pid)]

    def await_no_worker(self) -> float:
        """When none was left, by this process's clock."""
        deadline_s = time.monotonic() + PATIENCE_S
        while workers := self.workers():
            for pid in workers:
                assert has_ended(pid, deadline_s - time.monotonic())
        return time.monotonic()


def has_ended(pid: int, within_s: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], max(0.0, within_s))[0])
    finally:
        os.close(descriptor)


Machines = tuple[HeadMachine, HostMachine]


@contextmanager
def joined_machines() -> Iterator[Machines]:
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(2) as network:
        head = HeadMachine(network[0])
        host = HostMachine(network[1], network[0])
        host.start(head.token)
        head.await_word("offered")
        yield head, host


@pytest.fixture
def machines() -> Iterator[Machines]:
    with joined_machines() as machines:
        yield machines


def train(head: HeadMachine) -> None:
    """A gang of two workers on the host, which makes steps."""
    head.launch("steps=1000000")
    started = head.await_event(GangStarted)
    assert isinstance(started, GangStarted) and len(started.pids) == 2
    head.await_event(StepsReported)


class Lives:
    """Of machines of their own, all at once: they wait for ends of leases mostly."""

    bodies: ClassVar[dict[str, Callable[[Machines], None]]] = {}  #: by the name of the test

    def __init__(self, names: Iterable[str]) -> None:
        """All train before the first one goes on, so that no start takes processors from what is timed."""
        with ExitStack() as stack:
            machines = {name: stack.enter_context(joined_machines()) for name in names}
            for head, _ in machines.values():
                train(head)
            with ThreadPoolExecutor(len(machines)) as pool:
                self._lived = {name: pool.submit(self.bodies[name], its) for name, its in machines.items()}

    def check(self, name: str) -> None:
        self._lived[name].result()


@pytest.fixture(scope="module")
def lives(request: pytest.FixtureRequest) -> Lives:
    """Of those tests that are run."""
    return Lives([item.name for item in request.session.items if item.name in Lives.bodies])


def at_once(test: Callable[[Machines], None]) -> Callable[[Lives], None]:
    """A test of machines that train, which runs beside all others that are marked so."""
    name = test.__name__
    Lives.bodies[name] = test

    def check(lives: Lives) -> None:
        lives.check(name)

    check.__name__, check.__doc__ = name, test.__doc__
    return check


@at_once
def test_a_gang_trains_on_a_machine_that_joined_through_a_short_partition(
    machines: Machines,
) -> None:
    head, host = machines
    workers = host.workers()
    assert len(workers) == 2
    host.machine.partition()
    time.sleep(TIMES.lease_s / 3)  # the length of the partition is what is tried
    host.machine.heal()
    for _ in range(5):
        head.await_event(StepsReported)
    assert host.workers() == workers
    assert not head.output.has(" lost n") and not head.output.has(WorkersLost.__name__)


@at_once
def test_a_long_partition_ends_the_workers_before_the_controller_gives_the_host_up(
    machines: Machines,
) -> None:
    head, host = machines
    host.machine.partition()
    cut_s = time.monotonic()
    none_left_s = host.await_no_worker()
    assert none_left_s - cut_s <= TIMES.lease_s + TIMES.margin_s
    assert not head.output.has(" lost n"), "the workers are gone, and it waits for the margin"
    head.await_word("lost")
    head.await_event(GangEnded)
    host.machine.heal()
    head.await_word("offered")
    head.launch("steps=1000000", generation=2)
    head.await_event(StepsReported)


@at_once
def test_workers_of_a_host_process_that_is_stopped_are_gone_before_their_devices_are_given_away(
    machines: Machines,
) -> None:
    """The machine goes on, and so would they."""
    head, host = machines
    os.kill(host.pid, signal.SIGSTOP)
    stopped_s = time.monotonic()
    none_left_s = host.await_no_worker()
    assert TIMES.lease_s / 2 < none_left_s - stopped_s < TIMES.lease_s + TIMES.margin_s
    assert not head.output.has(" lost n"), "the workers are gone, and it waits for the margin"
    head.await_word("lost")
    os.kill(host.pid, signal.SIGCONT)
    head.await_word("offered")
    head.launch("steps=1000000", generation=2)
    head.await_event(StepsReported)


def test_another_controller_takes_the_gang_over_and_its_workers_train_on(
    machines: Machines,
) -> None:
    head, host = machines
    train(head)
    workers = host.workers()
    head.kill()
    begun_s = time.monotonic()
    head.start()
    head.await_word("offered")
    print(f"{time.monotonic() - begun_s:.2f} s from the kill until the next controller has the host")
    for _ in range(3):
        head.await_event(StepsReported)
    assert host.workers() == workers and len(workers) == 2
    assert not head.output.has(" lost n") and not head.output.has(WorkersLost.__name__)
