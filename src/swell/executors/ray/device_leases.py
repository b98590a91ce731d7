"""The devices of one node of Ray: which of them are leased, for which workers, and which are the pool's.

One unit of a resource of Ray is one device. Which unit it is is Ray's affair: a device of Swell is a slot of
the node. The pool has the slots that are leased, and as many others as Ray has free units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

#: A worker of a run.
Holder = tuple[str, int]


class LeaseState(Enum):
    FREE = auto()
    ASKED = auto()  #: Ray has not answered
    HELD = auto()
    RETURNING = auto()  #: Ray has not confirmed it


@dataclass(frozen=True, slots=True)
class LeaseOrder:
    """Request to Ray to acquire or return a device. Requests are made in order."""

    device: str
    is_return: bool  #: else it is to be acquired


@dataclass(slots=True)
class _Slot:
    state: LeaseState = LeaseState.FREE
    holders: set[Holder] = field(default_factory=set)
    gpus: tuple[str, ...] = ()


class DeviceLeases:
    """Pure: orders are taken by `take_orders`."""

    def __init__(self, held: Mapping[str, tuple[str, ...]] = {}) -> None:
        """`held`: devices that are leased already, with the GPUs of each."""
        self._slots: dict[str, _Slot] = {d: _Slot(LeaseState.HELD, gpus=gpus) for d, gpus in held.items()}
        self._names: tuple[str, ...] = ()
        self._num_free = 0
        self._is_silent = False  #: Ray has told nothing for long
        self._orders: list[LeaseOrder] = []
        self.pool: tuple[str, ...] = ()  #: the devices that may be used, in the order of their slots

    @property
    def held(self) -> frozenset[str]:
        """Devices that are leased for certain."""
        return frozenset(name for name, slot in self._slots.items() if slot.state is LeaseState.HELD)

    @property
    def is_idle(self) -> bool:
        """Whether no device is leased, asked for or being given back."""
        return all(slot.state is LeaseState.FREE for slot in self._slots.values())

    def take_orders(self) -> list[LeaseOrder]:
        orders, self._orders = self._orders, []
        return orders

    # ------------------------------------------------------------ workers
    def name(self, devices: Iterable[str]) -> None:
        """All slots of the node. What is held for no worker is given back."""
        self._names = tuple(devices)
        for device in self._names:
            self._slots.setdefault(device, _Slot())
        for device, slot in self._slots.items():
            if slot.state is LeaseState.HELD and not slot.holders:
                self._give_back(device, slot)
        self._measure()

    def want(self, holder: Holder, devices: Iterable[str]) -> None:
        """A worker is to be started on these. It may be once `has` says so."""
        for device in devices:
            slot = self._slots.setdefault(device, _Slot())
            slot.holders.add(holder)
            if slot.state is LeaseState.FREE:
                self._ask(device, slot)
        self._measure()

    def has(self, holder: Holder) -> bool:
        """Whether all devices of this worker are leased."""
        return all(s.state is LeaseState.HELD for s in self._slots.values() if holder in s.holders)

    def gpus_of(self, holder: Holder, devices: Iterable[str]) -> tuple[str, ...]:
        """The GPUs that its devices are."""
        return tuple(gpu for device in devices for gpu in self._slots[device].gpus)

    def drop(self, holder: Holder) -> None:
        """The worker is gone, or will not be started."""
        for device, slot in self._slots.items():
            if holder not in slot.holders:
                continue
            slot.holders.discard(holder)
            if not slot.holders and slot.state in (LeaseState.HELD, LeaseState.ASKED):
                self._give_back(device, slot)
        self._measure()

    def drop_all(self) -> None:
        """No worker is left on the node."""
        for holder in sorted({holder for slot in self._slots.values() for holder in slot.holders}):
            self.drop(holder)

    # ------------------------------------------------------------ what Ray says
    def acquired(self, device: str, gpus: tuple[str, ...] = ()) -> set[Holder]:
        """It is leased. Returns the workers that it was asked for."""
        slot = self._slots.get(device)
        if slot is None or slot.state is not LeaseState.ASKED:
            return set()  # it is being given back
        slot.state, slot.gpus = LeaseState.HELD, gpus
        self._num_free = max(0, self._num_free - 1)
        self._measure()
        return set(slot.holders)

    def taken(self, device: str) -> set[Holder]:
        """Another user of Ray has it. Returns the workers that it was asked for, which have it no longer."""
        slot = self._slots.get(device)
        if slot is None or slot.state is not LeaseState.ASKED:
            return set()
        losers, slot.holders, slot.state = slot.holders, set(), LeaseState.FREE
        self._num_free = 0
        for holder in sorted(losers):
            self.drop(holder)
        self._measure()
        return losers

    def returned(self, device: str) -> None:
        """It is Ray's again; a worker that wants it meanwhile has to have it leased again."""
        slot = self._slots.get(device)
        if slot is None or slot.state is not LeaseState.RETURNING:
            return
        slot.state, slot.gpus = LeaseState.FREE, ()
        self._num_free += 1
        if slot.holders:
            self._ask(device, slot)
        self._measure()

    def read(self, num_free: int) -> None:
        """So many units are free, as of a time after all that Ray has answered."""
        self._is_silent = False
        if not any(s.state in (LeaseState.ASKED, LeaseState.RETURNING) for s in self._slots.values()):
            self._num_free = num_free
        self._measure()

    def silent(self) -> None:
        """Nothing can be leased until the next read. What is held stays held."""
        self._num_free, self._is_silent = 0, True
        self._measure()

    def recall(self, held: Mapping[str, tuple[str, ...]]) -> None:
        """Ray has leased these, and no others, to us. Orders that were not answered are void."""
        self._orders.clear()
        for device in sorted(held.keys() - self._slots.keys()):
            self._slots[device] = _Slot()
        for device, slot in self._slots.items():
            if device in held:
                slot.state, slot.gpus = LeaseState.HELD, held[device]
                if not slot.holders:
                    self._give_back(device, slot)
            else:
                slot.state, slot.gpus = LeaseState.FREE, ()
                if slot.holders:
                    self._ask(device, slot)
        self._measure()

    # ------------------------------------------------------------ inside
    def _ask(self, device: str, slot: _Slot) -> None:
        slot.state = LeaseState.ASKED
        self._orders.append(LeaseOrder(device, is_return=False))

    def _give_back(self, device: str, slot: _Slot) -> None:
        slot.state = LeaseState.RETURNING
        self._orders.append(LeaseOrder(device, is_return=True))

    def _measure(self) -> None:
        """Slots that are in the pool stay there as long as there are free units."""
        bound = {name for name, slot in self._slots.items() if slot.state is not LeaseState.FREE}
        free = [name for name in self._names if name not in bound]
        free.sort(key=lambda name: name not in self.pool)
        chosen = self.held if self._is_silent else bound.union(free[: self._num_free])
        self.pool = tuple(name for name in self._names if name in chosen)
