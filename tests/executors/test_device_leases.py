"""The books on one node of Ray agree with Ray, in any order of answers, whatever others take."""

from __future__ import annotations

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from swell.executors.ray.device_leases import DeviceLeases, Holder, LeaseOrder

DEVICES = tuple(f"n1/{i}" for i in range(4))


class LeasesOfOneNode(RuleBasedStateMachine):
    """Ray does orders one after another; answers come later. Other users take and return units."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = DeviceLeases()
        self.leases.name(DEVICES)
        self.num_others = 0
        self.leased: set[str] = set()  #: as Ray has it
        self.orders: deque[LeaseOrder] = deque()
        self.answers: deque[tuple[str, str]] = deque()
        self.wanted: dict[Holder, tuple[str, ...]] = {}
        self.next_worker = 0
        self.is_silent = False
        self.leases.read(self.num_free)

    @property
    def num_free(self) -> int:
        return len(DEVICES) - self.num_others - len(self.leased)

    # ------------------------------------------------------------ other users
    @precondition(lambda self: self.num_free > 0)
    @rule()
    def another_takes(self) -> None:
        self.num_others += 1

    @precondition(lambda self: self.num_others > 0)
    @rule()
    def another_returns(self) -> None:
        self.num_others -= 1

    # ------------------------------------------------------------ workers
    @rule(data=st.data())
    def want(self, data: st.DataObject) -> None:
        if not self.leases.pool:
            return
        devices = data.draw(st.lists(st.sampled_from(self.leases.pool), min_size=1, max_size=2, unique=True))
        holder = ("job", self.next_worker)
        self.next_worker += 1
        self.wanted[holder] = tuple(devices)
        self.leases.want(holder, devices)

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(sorted(self.wanted)))
        del self.wanted[holder]
        self.leases.drop(holder)

    @rule()
    def lose_host(self) -> None:
        self.wanted.clear()
        self.leases.drop_all()

    # ------------------------------------------------------------ Ray
    @rule()
    def send(self) -> None:
        self.orders.extend(self.leases.take_orders())

    @precondition(lambda self: self.orders)
    @rule()
    def do_one(self) -> None:
        order = self.orders.popleft()
        if order.is_return:
            self.leased.discard(order.device)
            self.answers.append(("returned", order.device))
        elif self.num_free:
            assert order.device not in self.leased
            self.leased.add(order.device)
            self.answers.append(("acquired", order.device))
        else:
            self.answers.append(("taken", order.device))

    @precondition(lambda self: self.answers)
    @rule()
    def answer_one(self) -> None:
        kind, device = self.answers.popleft()
        if kind == "returned":
            self.leases.returned(device)
        elif kind == "acquired":
            self.leases.acquired(device)
        else:
            for holder in self.leases.taken(device):
                del self.wanted[holder]

    @precondition(lambda self: not self.answers)
    @rule()
    def read(self) -> None:
        self.is_silent = False
        self.leases.read(self.num_free)

    @rule()
    def fall_silent(self) -> None:
        self.is_silent = True
        self.leases.silent()

    @rule()
    def replace_bridge(self) -> None:
        """What was said and not done, or done and not answered, is lost with it."""
        self.leases.take_orders()
        self.orders.clear()
        self.answers.clear()
        self.leases.recall(dict.fromkeys(self.leased, ()))

    # ------------------------------------------------------------ laws
    @invariant()
    def what_is_held_is_leased(self) -> None:
        assert self.leases.held <= self.leased

    @invariant()
    def a_worker_starts_on_leased_devices_only(self) -> None:
        for holder, devices in self.wanted.items():
            assert not self.leases.has(holder) or self.leased.issuperset(devices)

    @invariant()
    def without_ray_the_pool_is_what_is_held(self) -> None:
        assert not self.is_silent or self.leases.held.issuperset(self.leases.pool)

    @precondition(lambda self: not self.is_silent)
    @invariant()
    def devices_of_workers_are_in_the_pool(self) -> None:
        assert set(self.leases.pool) >= {d for devices in self.wanted.values() for d in devices}

    def settle(self) -> None:
        self.send()
        while self.orders or self.answers:
            while self.orders:
                self.do_one()
            while self.answers:
                self.answer_one()
            self.send()
        self.read()

    def teardown(self) -> None:
        """In the end the devices of workers are leased, no others are, and the pool is what there is."""
        self.settle()
        used = {device for devices in self.wanted.values() for device in devices}
        assert self.leased == used == self.leases.held
        assert len(self.leases.pool) == len(DEVICES) - self.num_others


TestLeasesOfOneNode = LeasesOfOneNode.TestCase
TestLeasesOfOneNode.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_the_pool_keeps_the_devices_that_it_has() -> None:
    leases = DeviceLeases()
    leases.name(DEVICES)
    leases.read(4)
    leases.want(("job", 0), [DEVICES[3]])
    leases.acquired(DEVICES[3])
    leases.read(1)
    assert list(leases.pool) == [DEVICES[0], DEVICES[3]], "one is held, one is free"
    leases.read(2)
    assert list(leases.pool) == [DEVICES[0], DEVICES[1], DEVICES[3]]


def test_what_an_earlier_agent_has_leased_is_kept_for_its_workers_and_else_returned() -> None:
    leases = DeviceLeases({DEVICES[0]: ("7",), DEVICES[1]: ()})
    leases.want(("job", 3), [DEVICES[0]])
    leases.name(DEVICES)
    assert leases.has(("job", 3)) and leases.gpus_of(("job", 3), [DEVICES[0]]) == ("7",)
    assert leases.take_orders() == [LeaseOrder(DEVICES[1], is_return=True)]


def test_a_device_that_was_returned_stays_in_the_pool_until_another_user_has_it() -> None:
    leases = DeviceLeases()
    leases.name(DEVICES[:1])
    leases.read(1)
    leases.want(("job", 0), DEVICES[:1])
    leases.acquired(DEVICES[0])
    leases.drop(("job", 0))
    assert leases.pool == DEVICES[:1]
    leases.read(0)
    assert leases.pool == DEVICES[:1], "that is older than the answer"
    leases.returned(DEVICES[0])
    assert leases.pool == DEVICES[:1]
    leases.read(0)
    assert leases.pool == ()


def test_without_ray_nothing_can_be_leased_and_what_is_held_stays() -> None:
    leases = DeviceLeases()
    leases.name(DEVICES)
    leases.read(4)
    leases.want(("job", 0), DEVICES[:1])
    leases.acquired(DEVICES[0])
    leases.want(("job", 1), DEVICES[1:2])
    leases.silent()
    assert leases.pool == DEVICES[:1], "what is asked for may never come"
    leases.drop(("job", 0))
    assert leases.pool == (), "and what is given back may not come again"
    leases.read(2)
    assert leases.pool == DEVICES[:2]
