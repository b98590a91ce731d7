"""The door for hosts: who is let in, and that no host is given up while workers run there."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.fake_lines import FakeLine, carry, fake_lines
from tests.executors.puppets import make_spec

from swell.executors.controller.controller import Controller
from swell.executors.gang import host_messages as h
from swell.executors.gang.host_messages import SaidInTerm
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.leases import UNRECORDED, LeaseAsked, LeaseTimes
from swell.executors.local.agent.door import DoorError
from swell.executors.node.terms import HostTerms, TermHost
from swell.executors.remote.host_door import SILENT, HostDoor, JoinedHost
from swell.executors.remote.join_tokens import TOKENS_FILE
from swell.executors.remote.joining import JOIN_PROTOCOL, PYTHON, Join
from swell.executors.remote.listening_door import LEASES_FILE, open_leases
from swell.model.node import Node
from swell.wire import messages as m

TICK_S, KILL_S = 0.1, 0.2
TIMES = LeaseTimes(lease_s=3.0, margin_s=0.5)
NAME, JOB, SPEC = "n1", "job-7", make_spec()


class FakeController(Controller):
    """As far as hosts come and go."""

    hosts: dict[str, JoinedHost] = {}  # type: ignore[assignment]

    def __init__(self) -> None:
        self.hosts = {}
        self.lost: list[str] = []
        self.awaited: set[str] = set()
        self.heard: list[h.FromHost] = []
        self.when_lost: Callable[[], None] = lambda: None

    def await_hosts(self, names: Collection[str]) -> None:
        self.awaited |= set(names)

    def join_host(
        self, name: str, tell: Callable[[h.ToHost], None], is_reached: Callable[[], bool] = lambda: True
    ) -> None:
        assert name not in self.hosts, "it was lost before"
        self.hosts[name] = tell.__self__  # type: ignore[attr-defined]

    def lose_host(self, name: str, why: str) -> None:
        assert name in self.hosts or name in self.awaited
        self.hosts.pop(name, None)
        self.awaited.discard(name)
        self.lost.append(why)
        if name != UNRECORDED:
            self.when_lost()

    def handle_host_message(self, host: str, message: h.FromHost) -> None:
        assert host in self.hosts
        self.heard.append(message)


@dataclass
class FakeInside:
    """Has a worker from the first word of the controller on, until it is killed or sees the end itself."""

    host: FakeHostProcess
    answer: Callable[[h.FromHost], None]
    term: int
    has_worker: bool = False
    offers: bool = True
    killed_s: float | None = None
    fails: bool = False  #: when it is looked after
    orders: list[h.OpenRun] = field(default_factory=list)

    def present(self) -> None:
        if self.offers:
            self.answer(h.DevicesOffered(devices={}, num_cores=1))

    def tell(self, message: h.ToHost) -> None:
        assert isinstance(message, h.OpenRun | h.CloseRun) and self.killed_s is None
        assert message.run == str(self.term), "what was said in another term is dropped"
        if isinstance(message, h.CloseRun):
            return
        self.orders.append(message)
        self.has_worker = True
        self.answer(h.RunOpened(run=message.run, first_worker=0))

    def tick(self) -> None:
        if self.fails:
            raise RuntimeError("a fault")

    def kill(self) -> None:
        self.killed_s = self.host.now_s()

    @property
    def is_gone(self) -> bool:
        return self.killed_s is not None and self.host.now_s() >= self.killed_s + KILL_S

    def pass_time(self) -> None:
        if self.is_gone or self.host.now_s() >= self.host.shown_end_s:
            self.has_worker = False


class FakeHostProcess:
    """The real `HostTerms`; its term is on a disk that outlives it."""

    def __init__(self, now_s: Callable[[], float], disk: list[int], session: str, machine: str = "m") -> None:
        self.now_s, self._disk = now_s, disk
        self.join = Join(
            protocol=JOIN_PROTOCOL, version="1", host=NAME, machine=machine, token="t", session=session
        )
        self.insides: list[FakeInside] = []
        self.shown_end_s = float("-inf")
        self.is_frozen = False
        self.terms = HostTerms(session, self._begin_term, self._new_inside, now_s, self._show_end)

    def _begin_term(self) -> int:
        self._disk.append(self._disk[-1] + 1)
        return self._disk[-1]

    def _new_inside(self, answer: Callable[[h.FromHost], None]) -> TermHost:
        assert not any(inside.has_worker for inside in self.insides), "workers of the former term are gone"
        self.insides.append(FakeInside(self, answer, self._disk[-1]))
        return cast(TermHost, self.insides[-1])

    def _show_end(self, end_s: float) -> None:
        self.shown_end_s = end_s

    def tick(self) -> None:
        for inside in self.insides:
            inside.pass_time()
        if not self.is_frozen:
            self.terms.tick()


@dataclass
class World:
    """One host and one controller, each of which may be replaced, and a line that may be cut."""

    folder: Path
    time_s: float = 100.0
    disk: list[int] = field(default_factory=lambda: [0])
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    is_up: bool = True
    line: FakeLine | None = None

    def __post_init__(self) -> None:
        self.start_controller()
        self.host = self.new_host()

    def start_controller(self) -> None:
        self.cut()
        self.controller = FakeController()
        leases = open_leases(self.folder, TIMES, lambda: self.time_s)
        self.door = HostDoor(self.controller, leases, f"c{next(self.numbers)}")
        self.controller.when_lost = self.check_none_runs

    def new_host(self, machine: str = "m") -> FakeHostProcess:
        return FakeHostProcess(lambda: self.time_s, self.disk, f"h{next(self.numbers)}", machine)

    def restart_host(self) -> None:
        """The kernel ends the workers with it."""
        self.cut()
        self.host = self.new_host()

    # ------------------------------------------------------------ the line
    def connect(self) -> None:
        if self.line is not None or not self.is_up or self.door.why_not(self.host.join) is not None:
            return
        self.line, there = fake_lines()
        self.door.joined(there.as_line, self.host.join)
        self.host.terms.attach(self.line.as_line)

    def cut(self) -> None:
        if self.line is not None:
            self.line.break_off()
            self.line.other.break_off()
            carry(self.line)
            self.line = None

    def cut_or_mend(self) -> None:
        self.is_up = not self.is_up
        if not self.is_up:
            self.cut()

    def carry(self) -> None:
        if self.line is not None and not self.host.is_frozen:
            carry(self.line)
            if not self.line.is_open:
                self.line = None

    # ------------------------------------------------------------ time
    def pass_time(self, time_s: float, until: Callable[[], bool] = lambda: False) -> None:
        for _ in range(round(time_s / TICK_S)):
            if until():
                return
            self.time_s += TICK_S
            self.connect()
            self.carry()
            self.host.tick()
            self.carry()
            self.door.tick()
            self.carry()
            self.check_settled()

    def work(self) -> None:
        """The controller has a worker started."""
        if (host := self.controller.hosts.get(NAME)) is not None:
            host.tell(h.OpenRun(run=str(host.term), job_id=JOB, spec=SPEC))
            self.carry()

    def settle(self) -> None:
        if not self.is_up:
            self.cut_or_mend()
        self.host.is_frozen = False
        self.pass_time(3 * TIMES.wait_s)

    # ------------------------------------------------------------ what holds
    @property
    def running(self) -> set[int]:
        """Terms in which workers run now."""
        return {inside.term for inside in self.host.insides if inside.has_worker}

    def check_none_runs(self) -> None:
        """When a host is lost, in the term in which the controller had it."""
        assert not self.running, "it was lost while a worker ran"

    def check_settled(self) -> None:
        held = {host.term for host in self.controller.hosts.values()}
        if not self.door._awaited:
            assert self.running <= held, "a worker runs of which the controller knows nothing"

    def is_joined(self) -> bool:
        return NAME in self.controller.hosts


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.pass_time(1.0)
    assert made.is_joined() and isinstance(made.controller.heard[0], h.DevicesOffered)
    made.work()
    assert made.running == {1}
    return made


# ---------------------------------------------------------------- laws
@given(st.integers(0, 2**32))
def test_a_host_is_given_up_when_no_worker_runs_there_and_comes_back(seed: int) -> None:
    chance = random.Random(seed)
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        events: list[Callable[[], object]] = [
            lambda: world.pass_time(chance.choice([0.1, 1.0, TIMES.lease_s, TIMES.wait_s])),
            lambda: world.pass_time(chance.uniform(0, 1)),
            world.work,
            world.work,
            world.cut_or_mend,
            world.cut,
            world.restart_host,
            world.start_controller,
            lambda: setattr(world.host, "is_frozen", not world.host.is_frozen),
        ]
        for _ in range(40):
            chance.choice(events)()
        world.settle()
        world.work()
        assert world.is_joined() and not world.door._awaited
        assert world.running == {world.host.terms.term}
        assert world.disk == sorted(set(world.disk)), "no number twice"


# ---------------------------------------------------------------- lines and leases
def test_a_line_that_breaks_for_longer_costs_the_workers_and_later_the_host(world: World) -> None:
    world.cut_or_mend()
    begun_s = world.time_s
    world.pass_time(TIMES.wait_s + 1.0, until=lambda: not world.running)
    assert TIMES.lease_s - 1.0 < world.time_s - begun_s < TIMES.lease_s + 2 * KILL_S
    assert world.is_joined()
    world.pass_time(TIMES.wait_s + 1.0, until=lambda: not world.is_joined())
    assert world.time_s - begun_s <= TIMES.wait_s + TICK_S
    world.cut_or_mend()
    world.pass_time(1.0)
    assert world.is_joined() and world.host.terms.term == 2


def test_a_host_that_is_removed_leaves_and_is_not_let_in_before_it_starts_again(world: World) -> None:
    world.door.remove(NAME)
    world.pass_time(1.0)
    assert world.host.terms.is_over and world.host.terms.is_removed and not world.is_joined()
    refused = world.door.why_not(world.host.join)
    assert refused is not None and refused.is_final and "was removed from the platform" in refused.why
    world.restart_host()
    world.pass_time(1.0)
    assert world.is_joined()


def test_a_host_without_a_line_that_another_witness_has_for_dead_is_lost_at_once(world: World) -> None:
    world.cut_or_mend()
    world.restart_host()
    for _ in range(2):
        world.door.give_up(NAME, "Ray takes its node for dead")
    assert len(world.controller.lost) == 1 and "for dead" in world.controller.lost[0]
    world.cut_or_mend()
    world.pass_time(1.0)
    assert world.is_joined() and world.controller.hosts[NAME].term == 2
    world.pass_time(2 * TIMES.wait_s)
    assert world.is_joined() and len(world.controller.lost) == 1


def test_an_end_of_the_platform_ends_the_workers(world: World) -> None:
    world.door.begin_to_close()
    world.pass_time(1.0, until=lambda: not world.door.has_to_wait)
    assert not world.door.has_to_wait and world.running == set()
    world.pass_time(2 * TIMES.wait_s)
    assert not world.is_joined(), "it gets no other lease"


# ---------------------------------------------------------------- the records
def test_no_lease_is_granted_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    world = World(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("swell.executors.remote.listening_door.write_whole", full)
        world.pass_time(5.0)
        assert not world.is_joined() and not world.host.terms.has_lease
    assert "No space left on device" in caplog.text
    world.pass_time(2.0)
    assert world.is_joined()


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_controller_that_finds_no_records_waits_for_what_hosts_may_run(
    world: World, caplog: pytest.LogCaptureFixture, is_cut_off: bool
) -> None:
    """Whether they come to it or not: their names are lost, too."""
    if is_cut_off:
        world.cut_or_mend()
    (world.folder / TOKENS_FILE).write_text("{}")
    if is_cut_off:
        (world.folder / LEASES_FILE).write_text("[{")  # as a disk that is mended leaves it
    else:
        (world.folder / LEASES_FILE).unlink()
    world.start_controller()
    begun_s = world.time_s
    assert world.door._awaited and len(world.controller.awaited) == 1
    assert "cannot be read (" in caplog.text and "and hosts may have had leases: waiting" in caplog.text
    world.pass_time(1.0)
    world.start_controller()  # which begins to wait again
    world.pass_time(2 * TIMES.wait_s, until=lambda: not world.door._awaited)
    assert world.time_s - begun_s == pytest.approx(TIMES.wait_s + 1.0, abs=2 * TICK_S)
    assert world.running == (set() if is_cut_off else {1}) and UNRECORDED not in world.controller.awaited
    assert world.is_joined() is not is_cut_off
    world.start_controller()
    world.pass_time(TIMES.lease_s / 2)
    assert not world.door._awaited, "it is in the records now"


# ---------------------------------------------------------------- names
def test_another_machine_cannot_have_the_name_before_the_first_one_is_given_up(world: World) -> None:
    twin = world.new_host("other").join
    refused = world.door.why_not(twin)
    assert refused is not None and refused.is_final and "'n1' is another machine" in refused.why
    world.cut_or_mend()
    refused = world.door.why_not(twin)
    assert refused is not None and not refused.is_final
    world.pass_time(TIMES.wait_s + 1.0)
    assert world.door.why_not(twin) is None


def test_a_copied_state_folder_is_told(world: World) -> None:
    refused = world.door.why_not(world.new_host().join)
    assert refused is not None and not refused.is_final
    assert "has a line from another process with the same state folder" in refused.why
    world.cut()
    assert world.door.why_not(world.new_host().join) is None, "it was started again"


def test_a_host_that_is_gone_is_forgotten_once_no_worker_can_run_there(world: World) -> None:
    world.cut_or_mend()
    world.pass_time(TIMES.lease_s)
    world.door.remove(NAME)
    assert NAME.encode() in (world.folder / LEASES_FILE).read_bytes()
    world.pass_time(TIMES.wait_s)
    assert not world.is_joined()
    world.door.remove(NAME)
    assert (world.folder / LEASES_FILE).read_bytes() == b"[]"
    with pytest.raises(DoorError):
        world.door.remove(NAME)
    world.restart_host()
    world.cut_or_mend()
    world.pass_time(1.0)
    assert world.is_joined(), "in a term that no host has had before"


# ---------------------------------------------------------------- versions
def test_another_python_is_refused_by_name(world: World) -> None:
    refused = world.door.why_not(msgspec.structs.replace(world.host.join, python="3.0"))
    assert refused is not None and refused.is_final
    needed = f"has Python 3.0, this platform has Python {PYTHON}; workers of one job need the same version"
    assert needed in refused.why and f"install Python {PYTHON} on the host" in refused.why
    assert world.door.why_not(msgspec.structs.replace(world.host.join, python=PYTHON)) is None


def test_another_torch_is_refused_by_name(world: World) -> None:
    door = HostDoor(world.controller, open_leases(world.folder, TIMES, lambda: world.time_s), "c", "2.9")
    assert door.why_not(msgspec.structs.replace(world.host.join, torch="2.9")) is None
    refused = door.why_not(msgspec.structs.replace(world.host.join, torch="2.8"))
    assert refused is not None and refused.is_final
    assert "has torch 2.8, this platform has torch 2.9; workers of one job need the same" in refused.why


# ---------------------------------------------------------------- what is odd
NODE = Node(name=NAME, devices=(), kind="cpu")


def offer_of(world: World) -> Node:
    offer = [message for message in world.controller.heard if isinstance(message, h.DevicesOffered)][-1]
    return offer.nodes[0]


def test_a_host_whose_process_is_stopped_does_not_answer_though_it_has_a_line(world: World) -> None:
    offered = h.DevicesOffered(devices={}, num_cores=1, nodes=(NODE,))
    world.host.terms.stream.say(SaidInTerm(term=1, message=offered))
    world.pass_time(0.2)
    assert offer_of(world) == NODE
    world.host.is_frozen = True
    world.pass_time(TIMES.lease_s * 0.6)
    assert offer_of(world).lacks == (SILENT,) and world.line is not None
    world.host.is_frozen = False
    world.pass_time(TIMES.lease_s * 0.2)
    assert offer_of(world) == NODE and world.running == {1}


CPU = DeviceBinding(torch_device="cpu", kind="cpu")


@pytest.mark.parametrize(
    "attack",
    [
        {"nodes": (msgspec.structs.replace(NODE, name="node0"),)},
        {"nodes": (NODE, msgspec.structs.replace(NODE, name="n2"))},
        {"nodes": tuple(msgspec.structs.replace(NODE, name=f"n{number}") for number in range(3000))},
        {"devices": {"node0/0": CPU}},
        {"devices": {f"n1/{number}": CPU for number in range(3000)}},
        {"nodes": (msgspec.structs.replace(NODE, rack="\x1b]0;rack\x07"),)},
        {"nodes": (msgspec.structs.replace(NODE, kind="cpu\nforged line"),)},
        {"nodes": (msgspec.structs.replace(NODE, cores=-1.0),)},
        {"nodes": (msgspec.structs.replace(NODE, islands=((9,),)),)},
        {"devices": {"n1/0": msgspec.structs.replace(CPU, pace_per_s=0.0)}},
        {"num_cores": -5},
    ],
)
def test_a_host_offers_no_node_but_its_own(world: World, attack: dict[str, Any]) -> None:
    honest = h.DevicesOffered(devices={}, num_cores=1, nodes=(NODE,))
    assert said(world, msgspec.structs.replace(honest, **attack)) == []
    assert said(world, honest) == [honest]


# ---------------------------------------------------------------- messages
def said(world: World, *messages: h.FromHost) -> list[h.FromHost]:
    """What the controller hears when the host says this in its present term."""
    world.controller.heard.clear()
    for message in messages:
        world.host.terms.stream.say(SaidInTerm(term=world.host.terms.term, message=message))
    world.carry()
    return list(world.controller.heard)


def test_what_a_host_says_to_have_kept_is_believed_if_an_earlier_controller_had_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """By that it could claim the gang of any job, and its files."""
    (order,) = world.host.insides[-1].orders
    order = msgspec.structs.replace(order, run=order.job_id)
    kept = h.RunKept(order=order, opened=h.RunOpened(run=order.run, first_worker=0), gang=None)
    assert said(world, kept) == []
    assert "refused host n1: it says what it has kept, and no earlier agent gave it" in caplog.text
    world.start_controller()
    world.pass_time(1.0)
    assert world.host.terms.term == 1 and said(world, kept) == [kept]
    world.restart_host()
    world.pass_time(1.0)
    assert world.host.terms.term == 2 and said(world, kept) == []


def test_a_host_whose_processes_cannot_be_looked_after_says_so_once_and_keeps_its_lease(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.host.insides[-1].fails = True
    world.pass_time(2 * TIMES.wait_s)
    assert world.is_joined() and world.controller.lost == [] and world.running == {1}
    told = [record for record in caplog.records if "cannot be looked after" in record.message]
    assert len(told) == 1
    world.door.remove(NAME)
    world.pass_time(1.0)
    assert world.host.terms.is_over and not world.running


def test_signs_of_life_come_together(world: World) -> None:
    inside, heard = world.host.insides[-1], world.controller.heard
    heard.clear()
    for worker in (0, 1):
        inside.answer(h.WorkerSaid(run="1", worker=worker, message=m.Alive(steps=7)))
    world.pass_time(0.5)
    assert heard == [h.WorkersAlive(runs={"1": {0: m.Alive(steps=7), 1: m.Alive(steps=7)}})]


def test_nonsense_closes_the_line_and_nothing_else(world: World) -> None:
    world.host.terms.stream.say(LeaseAsked(term=1, asked_s=0.0))
    world.carry()
    assert world.line is None and world.is_joined()
    world.pass_time(1.0)
    assert world.line is not None and world.running == {1}


def test_what_could_not_be_written_is_written_before_the_next_lease(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("swell.executors.remote.listening_door.write_whole", full)
        world.cut_or_mend()
        world.pass_time(2 * TIMES.wait_s)
    assert not world.is_joined() and b'"is_over":false' in (world.folder / LEASES_FILE).read_bytes()
    world.cut_or_mend()
    world.pass_time(2.0)
    assert world.is_joined()
    assert b'"term":2' in (world.folder / LEASES_FILE).read_bytes()
