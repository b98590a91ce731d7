"""What the bridge makes of Ray: hosts on all nodes, leases that outlive it, and what it tells of nodes."""

from __future__ import annotations

from typing import TypeVar

from tests.executors.fake_ray import FakeRay

from swell.executors.ray import messages as r
from swell.executors.ray.bridge import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    SETTLED_AFTER_S,
    STEADY_S,
    TAKEN_AFTER_S,
    Bridge,
)
from swell.executors.ray.options import DeviceResource, RayOptions

Said = TypeVar("Said", bound=r.RayMessage)
NOW_S = 1.8e9


class Talk:
    """A bridge, and what it has said."""

    def __init__(self, ray: FakeRay, resource: str = "CPU", removed: tuple[str, ...] = ()) -> None:
        self.said: list[r.FromBridge] = []
        options = RayOptions(resource=DeviceResource(name=resource))
        self.bridge = Bridge(ray, "p1", options, self.said.append, lambda: NOW_S)
        self.now_s = 0.0
        assert self.bridge.connect()
        self.bridge.start_hosts(r.StartHosts(join="10.0.0.1:7070", token="t", removed=removed))
        self.step()

    def step(self, after_s: float = 0.1) -> None:
        self.now_s += after_s
        self.bridge.step(self.now_s)

    def acquire(self, device: str) -> None:
        self.bridge.acquire(r.AcquireDevice(node=device.split("/")[0], device=device), self.now_s)

    def give_back(self, device: str) -> None:
        self.bridge.give_back(r.ReturnDevice(node=device.split("/")[0], device=device), self.now_s)

    def latest(self, kind: type[Said]) -> Said:
        return next(message for message in reversed(self.said) if isinstance(message, kind))

    def node(self, name: str) -> r.RayNode:
        return next(node for node in self.latest(r.NodesRead).nodes if node.name == name)


def test_each_node_with_devices_has_a_host_and_a_name_of_its_own() -> None:
    ray = FakeRay()
    ray.add("10.9.0.1", 4, labels={"ray.io/market-type": "spot", "ray.io/availability-zone": "z2"})
    ray.add("10.9.0.1", 2)
    ray.add("node0", 1, labels={"kind": "a100"})
    ray.add("head", 0)
    talk = Talk(ray)
    orders = {order.name: order for order in ray.started.values()}
    assert set(orders) == {"10-9-0-1", "10-9-0-1-000002", "ray-node0"}
    assert orders["10-9-0-1"].devices == "cpu:4" and orders["10-9-0-1"].is_borrowed
    assert orders["ray-node0"].devices == "cpu:1" and not orders["ray-node0"].is_borrowed
    assert (orders["ray-node0"].kind, orders["10-9-0-1"].kind) == ("a100", "")
    assert talk.node("10-9-0-1").rack == "z2"


def test_gpus_are_devices_where_there_are_any() -> None:
    ray = FakeRay(resource="GPU", gpus={"n1/0": ("3",)})
    ray.add("n1", 8)
    talk = Talk(ray, "auto")
    assert next(iter(ray.started.values())).devices == "cuda:8"
    talk.acquire("n1/0")
    assert talk.latest(r.DeviceAcquired).gpus == ("3",)


def test_a_lease_is_told_at_once_and_the_free_devices_once_that_is_settled() -> None:
    ray = FakeRay()
    ray.add("n1", 2)
    talk = Talk(ray)
    assert talk.node("n1").num_free == 2
    talk.acquire("n1/0")
    assert talk.latest(r.DeviceAcquired).device == "n1/0"
    talk.step()
    assert talk.node("n1").num_free is None, "what Ray tells may be older than the lease"
    talk.step(SETTLED_AFTER_S)
    assert talk.node("n1").num_free == 1
    talk.give_back("n1/0")
    assert talk.latest(r.DeviceReturned).device == "n1/0" and not ray.reserved
    talk.step()
    talk.step(SETTLED_AFTER_S)
    assert talk.node("n1").num_free == 2


def test_a_device_that_another_user_has_is_taken_and_nothing_waits_for_it() -> None:
    ray = FakeRay()
    node_id = ray.add("n1", 1)
    talk = Talk(ray)
    ray.others[node_id] = 1
    talk.acquire("n1/0")
    talk.step()
    assert not any(isinstance(message, r.DeviceTaken) for message in talk.said), "Ray may still be about to"
    talk.step(TAKEN_AFTER_S)
    assert talk.latest(r.DeviceTaken).device == "n1/0" and not ray.waiting
    ray.others[node_id] = 0
    talk.acquire("n1/0")
    assert talk.latest(r.DeviceAcquired).device == "n1/0"


def test_a_lease_that_is_called_off_while_it_is_asked_for_leaves_nothing() -> None:
    ray = FakeRay()
    node_id = ray.add("n1", 1)
    ray.others[node_id] = 1
    talk = Talk(ray)
    talk.acquire("n1/0")
    talk.give_back("n1/0")
    ray.others[node_id] = 0
    talk.step()
    assert not ray.reserved and not ray.waiting
    assert not any(isinstance(message, r.DeviceAcquired) for message in talk.said)


def test_a_device_that_is_asked_for_twice_is_reserved_once() -> None:
    ray = FakeRay()
    node_id = ray.add("n1", 2)
    ray.others[node_id] = 2
    talk = Talk(ray)
    talk.acquire("n1/0")
    talk.acquire("n1/0")
    assert len(ray.waiting) == 1
    talk.step(TAKEN_AFTER_S)
    taken = [message for message in talk.said if isinstance(message, r.DeviceTaken)]
    assert len(taken) == 1 and not ray.waiting and not ray.reserved


def test_the_next_bridge_finds_leases_and_hosts_and_begins_none_twice() -> None:
    ray = FakeRay()
    ray.add("n1", 2)
    first = Talk(ray)
    first.acquire("n1/1")
    actors = set(ray.started)
    second = Talk(ray)
    assert second.latest(r.Connected).held == {"n1/1": ()}
    assert set(ray.started) == actors
    second.give_back("n1/1")
    assert not ray.reserved


def test_another_platform_keeps_what_it_has() -> None:
    ray = FakeRay()
    node_id = ray.add("n1", 2)
    ray.reserve("swell:p2:n1/0:ab", node_id, "CPU")
    talk = Talk(ray)
    assert talk.latest(r.Connected).held == {} and talk.node("n1").num_free == 1
    talk.acquire("n1/0")
    talk.bridge.return_all()
    assert list(ray.reserved) == ["swell:p2:n1/0:ab"] and not ray.started


def test_a_host_that_ends_is_started_again_unless_it_was_told_to_end() -> None:
    ray = FakeRay()
    ray.add("n1", 1)
    talk = Talk(ray)
    [actor] = ray.started
    ray.ended[actor] = "it has torch 1"
    talk.step()
    assert talk.latest(r.HostEnded) == r.HostEnded(node="n1", why="it has torch 1") and not ray.started
    talk.step()
    assert not ray.started, "not at once"
    talk.step(10.0)
    assert list(ray.started) == [actor]
    ray.ended[actor] = ""
    talk.step()
    talk.step(1000.0)
    assert not ray.started


def test_a_host_that_ran_for_long_is_started_again_soon() -> None:
    ray = FakeRay()
    ray.add("n1", 1)
    talk = Talk(ray)
    [actor] = ray.started
    for _ in range(6):
        ray.ended[actor] = "refused"
        talk.step()
        talk.step(LONGEST_PAUSE_S)
    talk.step(STEADY_S)
    ray.ended[actor] = "killed"
    talk.step()
    talk.step(FIRST_PAUSE_S)
    assert list(ray.started) == [actor]


def test_a_host_that_was_removed_stays_away_from_its_node_and_bridges_to_come() -> None:
    ray = FakeRay()
    node_id = ray.add("n1", 1)
    removed = r.StartHosts(join="10.0.0.1:7070", token="t", removed=(node_id,))
    talk = Talk(ray)
    [actor] = ray.started
    talk.bridge.start_hosts(removed)
    talk.step()
    assert list(ray.started) == [actor], "it is the door that tells it to leave"
    ray.ended[actor] = "as it was told, with an error at that"
    talk.step()
    talk.step(LONGEST_PAUSE_S)
    assert not ray.started
    following = Talk(ray, removed=(node_id,))
    following.step(LONGEST_PAUSE_S)
    assert not ray.started
    del ray.seen[node_id]
    ray.add("n1", 1)
    following.step()
    assert len(ray.started) == 1, "another node of that name gets one"


def test_a_node_that_dies_and_comes_back_is_another_one_of_its_name() -> None:
    ray = FakeRay()
    node_id = ray.add("n1", 1)
    talk = Talk(ray)
    del ray.seen[node_id]
    talk.step()
    assert talk.latest(r.NodesRead).nodes == () and not ray.watched
    talk.acquire("n1/0")
    assert talk.latest(r.DeviceTaken).device == "n1/0"
    again = ray.add("n1", 1)
    ray.change(again)
    talk.step()
    assert talk.node("n1").id == again != "" and len(ray.started) == 2


def test_a_drain_is_told_with_its_end_and_begins_no_host() -> None:
    ray = FakeRay()
    node_id = ray.add("n1", 1)
    talk = Talk(ray)
    ray.change(node_id, is_draining=True, leaves_at_s=NOW_S + 30)
    ray.add("n2", 1, is_draining=True)
    talk.step()
    assert talk.node("n1").is_leaving and talk.node("n1").leaves_s == 30
    assert talk.node("n2").leaves_s is None
    assert [order.name for order in ray.started.values()] == ["n1"]
