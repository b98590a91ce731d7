"""Workers start on leased devices only, and the controller sees the pool that Ray leaves it."""

from __future__ import annotations

import signal
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest
from tests.executors.puppets import make_spec

from swell.executors.exit_status import NOT_LEASED
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.gang.kept_worker import KeptWorker
from swell.executors.hosts import messages as h
from swell.executors.ray import leasing_owner
from swell.executors.ray import messages as r
from swell.executors.ray.leasing_owner import LeasingOwner
from swell.executors.ray.reported_nodes import OTHERS, UNANSWERED
from swell.model.event import AnyEvent, NodeCleared, NodeLost, NodeWarned
from swell.model.node import Node
from swell.wire.messages import Suspend

DEVICES = ("n1/0", "n1/1")
RUN = "job"


@dataclass
class Machines:
    """The controller at the one end, a host and a bridge at the other."""

    heard: list[h.FromHost] = field(default_factory=list)
    told: list[h.ToHost] = field(default_factory=list)
    orders: list[r.ToBridge] = field(default_factory=list)
    events: list[AnyEvent] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    host: h.NodeHost | None = None
    gang: set[int] = field(default_factory=set)
    kills_at_offer: bool = False

    def __post_init__(self) -> None:
        self.owner = LeasingOwner(self, self.orders.append, self.dead.append, lambda name: name == "n1")

    # ------------------------------------------------------------ the controller
    def await_hosts(self, names: Collection[str]) -> None: ...

    def join_host(self, name: str, host: h.NodeHost, machine: str) -> None:
        self.host = host

    def lose_host(self, name: str, why: str) -> None:
        self.lost.append(name)

    def hear(self, host: str, message: h.FromHost) -> None:
        """The others of a gang are killed as soon as one of them is lost."""
        self.heard.append(message)
        if isinstance(message, h.WorkerExited) or self.kills_at_offer:
            gang, self.gang = self.gang, set()
            for worker in gang - {exited for exited, _ in self.exits}:
                assert self.host is not None
                self.host.tell(h.SignalWorker(run=RUN, worker=worker, signal=signal.SIGKILL))

    def report(self, event: AnyEvent) -> None:
        self.events.append(event)

    # ------------------------------------------------------------ the host
    @property
    def is_reached(self) -> bool:
        return True

    def tell(self, message: h.ToHost) -> None:
        self.told.append(message)

    def join(self, *kept: h.RunKept, num_free: int = 2) -> None:
        self.read(num_free)
        self.owner.join_host("n1", self, "machine")
        for run in kept:
            self.owner.hear("n1", run)
        bindings = dict.fromkeys(DEVICES, DeviceBinding(torch_device="cpu", kind="cpu"))
        node = Node(name="n1", devices=DEVICES, kind="cpu")
        self.owner.hear("n1", h.DevicesOffered(devices=bindings, num_cores=2, nodes=(node,)))

    def start(self, worker: int, *devices: str) -> None:
        assert self.host is not None
        self.host.tell(h.StartWorker(run=RUN, worker=worker, devices=devices, environ={"A": "b"}))

    def exit(self, worker: int) -> None:
        self.owner.hear("n1", h.WorkerExited(run=RUN, worker=worker, status=0, log_tail=""))

    # ------------------------------------------------------------ Ray
    def read(self, num_free: int | None, *, is_leaving: bool = False, id: str = "a") -> None:
        node = r.RayNode(
            name="n1", id=id, num_devices=2, num_free=num_free, rack="z", is_leaving=is_leaving, leaves_s=None
        )
        self.owner.read(r.NodesRead(nodes=(node,)))

    def acquire(self, device: str, *gpus: str) -> None:
        self.owner.acquired(r.DeviceAcquired(node="n1", device=device, gpus=gpus))

    @property
    def exits(self) -> list[tuple[int, int]]:
        """Worker and status of each that has ended, as the controller was told."""
        exits = [message for message in self.heard if isinstance(message, h.WorkerExited)]
        return [(exited.worker, exited.status) for exited in exits]

    @property
    def pools(self) -> list[tuple[str, ...]]:
        """As the controller was told."""
        offers = [message for message in self.heard if isinstance(message, h.DevicesOffered)]
        return [tuple(device for node in offer.nodes for device in node.devices) for offer in offers]


def test_a_worker_waits_for_its_lease_and_is_told_all_in_order_and_sees_its_gpu() -> None:
    m = Machines()
    m.join()
    m.start(0, "n1/1")
    said = h.TellWorker(run=RUN, worker=0, message=Suspend(generation=1))
    assert m.host is not None
    m.host.tell(said)
    assert m.told == [] and m.orders == [r.AcquireDevice(node="n1", device="n1/1")]
    m.acquire("n1/1", "6")
    environ = {"A": "b", "CUDA_VISIBLE_DEVICES": "6"}
    assert m.told == [
        h.StartWorker(run=RUN, worker=0, devices=("n1/1",), environ=environ),
        said,
    ]


def test_a_device_is_given_back_as_soon_as_its_worker_is_gone() -> None:
    m = Machines()
    m.join()
    m.start(0, "n1/0")
    m.acquire("n1/0")
    m.orders.clear()
    m.exit(0)
    assert m.orders == [r.ReturnDevice(node="n1", device="n1/0")]
    assert isinstance(m.heard[-1], h.WorkerExited), "the controller hears it first"
    assert m.pools == [DEVICES], "it can be leased again"


def test_a_race_that_is_lost_is_told_after_the_smaller_pool() -> None:
    m = Machines()
    m.join()
    m.start(0, "n1/0")
    m.start(1, "n1/1")
    m.acquire("n1/0")
    m.owner.taken(r.DeviceTaken(node="n1", device="n1/1"))
    assert m.pools == [DEVICES, ("n1/0",)]
    assert isinstance(m.heard[-2], h.DevicesOffered)
    exited = m.heard[-1]
    assert isinstance(exited, h.WorkerExited) and (exited.worker, exited.status) == (1, NOT_LEASED)
    assert "another user of Ray has taken device n1/1" in exited.log_tail
    m.read(1)
    assert m.pools[-1] == DEVICES, "it is free again"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_is_ended_while_it_waits_was_never_there(how: signal.Signals) -> None:
    m = Machines()
    m.join()
    m.start(0, "n1/0")
    assert m.host is not None
    m.host.tell(h.SignalWorker(run=RUN, worker=0, signal=how))
    assert m.told == [] and m.exits == [(0, -how)]
    assert m.orders[-1] == r.ReturnDevice(node="n1", device="n1/0")


@pytest.mark.parametrize("kills_at_offer", [False, True])
def test_each_worker_of_a_gang_that_loses_a_race_ends_once(kills_at_offer: bool) -> None:
    """The controller kills the others while it is still told of the first one."""
    m = Machines()
    m.join()
    for worker in (0, 1, 2):
        m.start(worker, "n1/0")
    m.gang, m.kills_at_offer = {0, 1, 2}, kills_at_offer
    m.owner.taken(r.DeviceTaken(node="n1", device="n1/0"))
    assert sorted(worker for worker, _ in m.exits) == [0, 1, 2]
    assert m.told == [], "none of them was ever on the host"


def test_a_gang_that_waits_while_ray_falls_silent_is_called_off_once(monkeypatch: pytest.MonkeyPatch) -> None:
    m = Machines()
    m.join()
    m.start(0, "n1/0")
    m.start(1, "n1/1")
    m.gang = {0, 1}
    monkeypatch.setattr(leasing_owner, "SILENT_S", 0.0)
    m.owner.tick()
    assert m.pools == [DEVICES, ()], "the devices have left before"
    assert sorted(worker for worker, _ in m.exits) == [0, 1]


def test_while_ray_is_silent_a_start_is_answered_at_once_and_a_held_device_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    m = Machines()
    m.join()
    m.start(0, "n1/0")
    m.acquire("n1/0")
    with monkeypatch.context() as patched:
        patched.setattr(leasing_owner, "SILENT_S", 0.0)
        m.owner.tick()
    assert m.pools[-1:] == [("n1/0",)]
    m.start(1, "n1/1")
    assert m.exits == [(1, NOT_LEASED)]
    m.start(2, "n1/0")
    assert len(m.told) == 2 and len(m.exits) == 1
    m.exit(0)
    m.exit(2)
    assert m.pools[-1:] == [()], "what was given back cannot be leased again"
    m.read(2)
    assert m.pools[-1] == DEVICES


def test_devices_that_others_have_are_not_offered_and_the_rack_is_rays() -> None:
    m = Machines()
    m.join(num_free=1)
    assert m.pools == [("n1/0",)]
    [offer] = m.heard
    assert (
        isinstance(offer, h.DevicesOffered) and offer.nodes[0].rack == "z" and set(offer.devices) == {"n1/0"}
    )
    m.read(0)
    m.read(None)
    m.read(2)
    assert m.pools == [("n1/0",), (), DEVICES]


def test_leases_of_an_earlier_agent_stay_with_the_workers_that_live() -> None:
    m = Machines()
    m.owner.connected(r.Connected(address="10.0.0.1", held={"n1/0": (), "n1/1": ()}))
    order = h.OpenRun(run="trial:job", job_id=RUN, spec=make_spec(), is_trial=True)
    kept = h.RunKept(
        order=order, first_worker=4, checkpoint_dir="", record=None, workers=(KeptWorker(number=3),)
    )
    m.join(kept, num_free=0)
    assert m.orders == [] and m.pools == [DEVICES], "which of them it is on is not on record"
    m.owner.hear("n1", h.WorkerExited(run="trial:job", worker=3, status=-9, log_tail=""))
    assert {order.device for order in m.orders if isinstance(order, r.ReturnDevice)} == set(DEVICES)


def test_a_lease_that_ray_has_forgotten_and_given_away_costs_the_worker() -> None:
    m = Machines()
    m.join()
    m.start(0, "n1/0")
    m.acquire("n1/0")
    m.orders.clear()
    m.owner.connected(r.Connected(address="10.0.0.1", held={}))
    assert m.orders == [r.AcquireDevice(node="n1", device="n1/0")]
    m.owner.taken(r.DeviceTaken(node="n1", device="n1/0"))
    assert m.told[-1] == h.SignalWorker(run=RUN, worker=0, signal=signal.SIGKILL)


def test_a_drain_is_a_warning_and_its_end_clears_it() -> None:
    m = Machines()
    m.join()
    m.read(2, is_leaving=True)
    m.read(1, is_leaving=True)
    m.read(2)
    assert [type(event) for event in m.events] == [NodeWarned, NodeCleared]


def test_a_drain_that_begins_or_ends_while_others_have_the_node_is_told_when_it_is_back() -> None:
    m = Machines()
    m.join()
    m.read(0, is_leaving=True)
    assert not m.events
    m.read(2, is_leaving=True)
    m.read(0, is_leaving=True)
    m.read(0)
    assert [type(event) for event in m.events] == [NodeWarned]
    m.read(1)
    assert [type(event) for event in m.events] == [NodeWarned, NodeCleared]


def test_a_node_that_ray_has_no_longer_or_has_anew_is_dead() -> None:
    m = Machines()
    m.join()
    m.read(2)
    m.owner.read(r.NodesRead(nodes=()))
    m.read(2, id="b")
    assert m.dead == ["n1", "n1"]
    m.start(0, "n1/0")
    m.owner.lose_host("n1", "dead")
    assert m.lost == ["n1"] and m.orders[-1] == r.ReturnDevice(node="n1", device="n1/0")


def test_a_machine_that_is_not_rays_has_its_devices_without_leases() -> None:
    m = Machines()
    m.owner.join_host("by-hand", m, "another")
    assert m.host is m, "the controller has it as it is"
    devices = {"by-hand/0": DeviceBinding(torch_device="cpu", kind="cpu")}
    node = Node(name="by-hand", devices=("by-hand/0",), kind="cpu")
    offered = h.DevicesOffered(devices=devices, num_cores=1, nodes=(node,))
    m.owner.hear("by-hand", offered)
    assert m.heard == [offered]
    m.read(2)
    assert m.dead == [], "it is no matter to it which nodes Ray has"
    m.owner.host_ended(r.HostEnded(node="by-hand", why="a node of Ray has its name"))
    assert m.events == []
    m.owner.lose_host("by-hand", "gone")
    assert m.lost == ["by-hand"] and m.orders == []


def test_nodes_that_are_gone_are_forgotten_once_they_owe_nothing() -> None:
    m = Machines()
    m.join()
    m.start(0, "n1/0")
    m.acquire("n1/0")
    assert m.owner.node_ids("n1") == ["a"] and m.owner.node_ids("n2") == []
    m.owner.lose_host("n1", "dead")
    m.owner.read(r.NodesRead(nodes=()))
    m.owner.connected(r.Connected(address="10.0.0.1", held={"n1/0": ()}))
    assert m.orders[-1] == r.ReturnDevice(node="n1", device="n1/0"), "its lease is known until it is returned"
    m.owner.returned(r.DeviceReturned(node="n1", device="n1/0"))
    m.owner.read(r.NodesRead(nodes=()))
    m.orders.clear()
    m.owner.connected(r.Connected(address="10.0.0.1", held={}))
    assert m.orders == [] and m.owner.node_ids("n1") == []


def test_why_the_host_of_a_node_does_not_start_is_told_once() -> None:
    m = Machines()
    m.read(2)
    for _ in range(2):
        m.owner.host_ended(r.HostEnded(node="n1", why="this node has no Swell"))
    (lost,) = m.events
    assert isinstance(lost, NodeLost) and lost.name == "n1"
    assert lost.cause == "its host ended: this node has no Swell; it is started again"
    m.join()
    m.owner.host_ended(r.HostEnded(node="n1", why="this node has no Swell"))
    assert m.events == [lost], "while it has a line the door tells what becomes of it"


def test_why_a_node_has_no_devices_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    m = Machines()
    m.join()
    m.read(0)
    assert m.heard[-1] == h.DevicesOffered(devices={}, num_cores=2, why_none=OTHERS)
    m.read(2)
    monkeypatch.setattr(leasing_owner, "SILENT_S", 0.0)
    m.owner.tick()
    assert m.heard[-1] == h.DevicesOffered(devices={}, num_cores=2, why_none=UNANSWERED)
