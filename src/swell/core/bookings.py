"""Bookings, and whether the promises of a policy would be kept without the devices of these or other jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.core.core_settings import CoreSettings
from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.core.usable_nodes import node_windows
from swell.model.booking import Booking, BookingRefusal
from swell.model.calendar import CalendarEntry
from swell.model.job import JobClass
from swell.model.plan import SAME_TIME_S, PromiseOutlook
from swell.model.quantities import relative, told_devices
from swell.model.snapshot import STRICT, DeviceCalendar, Snapshot
from swell.placement.windows import NodeWindows, place_parts
from swell.policies.policy import Policy

#: Use of its account, whether it has not waited for too long, class, minus priority, arrival, id: the lowest
#: is served first.
Turn = tuple[float, bool, int, int, float, str]
#: In the place of the use of its account, of a job that is overdue.
OVERDUE = -1.0


class PromiseGate:
    """Asks the policy about absences in addition to those that its calendar has.

    Args:
        see: the snapshot that the policy would be shown now.
    """

    def __init__(self, policy: Policy, see: Callable[[], Snapshot]) -> None:
        self._policy, self._see = policy, see
        self.makes_promises = policy.makes_promises
        #: Devices that jobs before this turn, and any later one, need; what is left; their smallest sizes.
        self._refused = math.inf, 0, dict[str, int]()
        self.forget()

    def forget(self) -> None:
        """Devices are reserved, or the calendar is another one, since it was last asked."""
        self._seen: tuple[Snapshot, PromiseOutlook | None] | None = None

    @property
    def _now(self) -> tuple[Snapshot, PromiseOutlook | None]:
        if self._seen is None:
            snapshot = self._see()
            self._seen = snapshot, self._outlook(snapshot)
        return self._seen

    def _outlook(self, snapshot: Snapshot) -> PromiseOutlook | None:
        return self._policy.outlook(snapshot) if snapshot.is_promised.any() else None

    def broken_by(self, absences: Sequence[CalendarEntry]) -> list[str]:
        """Ids of the jobs whose promises would be weaker without these owned devices."""
        snapshot, now = self._now
        then = None if now is None else self._outlook(_without(snapshot, absences))
        if now is None or then is None:
            return []
        return [snapshot.job_ids[row] for row in then.weaker_than(now).tolist()]

    def moments_s(self) -> list[float]:
        """When there may be more room: promised jobs have ended, or a change of theirs is done."""
        snapshot, now = self._now
        if now is None:
            return []
        changing = now.rows[snapshot.is_pinned[now.rows]]
        done_s = snapshot.now_s + snapshot.idle_s[changing] + SAME_TIME_S
        return [*snapshot.deadline_s[now.rows].tolist(), *done_s.tolist()]

    def needed_before(self, num_devices: int, until_s: float, turn: Turn) -> tuple[int, dict[str, int]]:
        """How many devices jobs without a promise that come before this turn lack, and their smallest sizes.

        Args:
            num_devices: that would be absent from now until then.
            turn: the lowest is asked about first.
        """
        num_refused, left, before = self._refused
        if num_devices >= num_refused:
            return num_devices - left, before
        snapshot, _ = self._now
        absent = CalendarEntry("job", "", "", num_devices, snapshot.now_s, until_s)
        then = self._outlook(_without(snapshot, [absent]))
        left, before = snapshot.num_devices - (0 if then is None else then.num_devices), {}
        options = snapshot.options
        columns = *_turns(snapshot), snapshot.submitted_s
        is_before = (options.num > 0) & ~snapshot.is_promised & (snapshot.job_class != STRICT)
        rows = is_before.nonzero()[0].tolist()
        for *other, row in sorted((*(of[row] for of in columns), snapshot.job_ids[row], row) for row in rows):
            smallest = int(options.devices[options.starts[row]])
            if tuple(other) < turn and smallest <= left:
                left -= smallest
                before[other[-1]] = smallest
        if num_devices > left:
            self._refused = num_devices, left, before
        return max(num_devices - left, 0), before


def _turns(snapshot: Snapshot) -> tuple[FloatArray, BoolArray, IntArray, IntArray]:
    """(J,) what comes before its arrival in each job's turn."""
    fair, num = snapshot.fair, snapshot.num_jobs
    is_young = np.ones(num, dtype=bool) if fair is None else ~fair.is_aged
    level = fair.level[fair.account] if fair is not None and fair.are_several else np.zeros(num)
    if fair is not None and fair.overdue is not None:
        level[fair.overdue] = OVERDUE
    return level, is_young, snapshot.job_class * is_young, -snapshot.priority * is_young


def _without(snapshot: Snapshot, absences: Sequence[CalendarEntry]) -> Snapshot:
    """The snapshot of a platform without these devices while they are absent."""
    now_s = snapshot.now_s
    going = [(one.from_s, -one.num_devices) for one in absences if one.from_s > now_s]
    coming = [(one.until_s, one.num_devices) for one in absences if one.until_s < math.inf]
    changes = tuple(sorted(chain(snapshot.calendar.of_owned, going, coming)))
    calendar = DeviceCalendar(snapshot.calendar.next_end_s, changes)
    num_gone = sum(one.num_devices for one in absences if one.from_s <= now_s)
    return replace(snapshot, num_devices=snapshot.num_devices - num_gone, calendar=calendar)


#: What a launch, or the end of a gang, takes beside the wait for others that leave.
ALLOWANCE_S = 10.0
#: Times that are tried for a booking, and for a promised window.
MOST_TRIED = 200


class Bookings:
    """Keeps the devices of bookings free of other jobs, and places those of their owners."""

    def __init__(self, state: HeadState, settings: CoreSettings, gate: PromiseGate) -> None:
        self._state, self._now_s, self.gate = state, state.now_s, gate
        #: Within so long others have left devices, and a launch is done, or a gang has ended.
        self.allowance_s = ALLOWANCE_S + min(state.costs.most_wait_s, settings.yield_s)

    @property
    def suspendable(self) -> frozenset[str]:
        """Fixed jobs whose devices count as free for bookings, sessions and promised jobs."""
        return frozenset(one.id for one in self._state.watchlist("apart") if one.is_suspendable)

    def _times_s(self, booking: Booking) -> list[tuple[float, float]]:
        """Begin and end of each time that has not passed, in head time."""
        offset_s = self._state.calendar.offset_s
        times_s = ((begin_s - offset_s, end_s - offset_s) for begin_s, end_s in booking.times_s)
        return [(begin_s, end_s) for begin_s, end_s in times_s if end_s > self._now_s]

    def tend(self) -> float:
        """Reserve what is booked now, or soon, and release the rest. Returns when something changes next."""
        state = self._state
        for booking in [one for one in state.bookings.values() if not self._times_s(one)]:
            del state.bookings[booking.id]
        for owner, entries in list(state.entries.items()):
            if owner not in state.bookings and any(entry.what == "booking" for entry in entries):
                state.release(owner)
        due_s = min(map(self._tend_one, state.bookings.values()), default=math.inf)
        for record in state.watchlist("apart"):
            known = state.bookings.get(record.booking)
            is_in_force = known is not None and self._times_s(known)[0][0] <= self._now_s
            if record.booking and (known is None or (record.phase.holds_devices and not is_in_force)):
                self._leave(record)
        return due_s

    def _tend_one(self, booking: Booking) -> float:
        state, (begin_s, end_s) = self._state, self._times_s(booking)[0]
        names = {node.name for node in state.cluster.nodes if node.name not in state.warned}
        entries = state.entries.get(booking.id, ())
        num_there = sum(one.num_devices for one in entries if one.node in names and one.until_s == end_s)
        if not entries or (not booking.node and num_there < booking.num_devices):  # a node is gone, or back
            windows = self._windows(booking)
            state.entries[booking.id] = tuple(self._entries(booking, 0.0, windows, is_made=True))
        from_s = begin_s - self.allowance_s
        holders = [state.records[job_id] for job_id in self.suspendable & state.index.held.keys()]
        longest_s = max((one.spec.fixed.grace_s for one in holders if one.spec.fixed), default=0.0)
        if from_s - longest_s <= self._now_s:
            self._reserve(booking, end_s, of_suspendable=from_s > self._now_s)
        else:
            state.unreserve(booking.id)
        moments_s = from_s - longest_s, from_s, begin_s, end_s
        return min(at_s for at_s in moments_s if at_s > self._now_s)

    def _leave(self, record: JobRecord) -> None:
        """Its booking is over: it goes on as any other job."""
        record.booking = ""
        if record.spec.fixed is None:
            self._state.release(record.id)
            is_undecided = record.job_class is JobClass.STRICT and not record.admission.is_decided
            if record.phase.holds_devices and is_undecided:  # it began without a promise
                record.admission.job_class, record.admission.is_decided = JobClass.SOFT, True
        self._state.relearn(record)
        self._state.touch(record)

    def _reserve(self, booking: Booking, end_s: float, *, of_suspendable: bool) -> None:
        """The devices that it lacks: of its nodes before others, free ones before those that jobs have.

        Args:
            of_suspendable: only those of jobs that are ended for it, which takes them their grace.
        """
        state, entries = self._state, self._state.entries[booking.id]
        current = [entry for entry in entries if entry.until_s == end_s]
        names = {entry.node for entry in current}
        own = self._owners(booking)
        num_lacking = sum(entry.num_devices for entry in current)
        num_lacking -= sum(owner in own for owner in state.reserved.values())
        free = [
            (node.name not in names, device in state.reserved, device in state.index.owner, device)
            for node in state.open_nodes(self.suspendable).in_order
            for device in node.devices
            if booking.node in ("", node.name)
        ]
        found = sorted(free, key=lambda one: one[:3])[: max(num_lacking, 0)]
        if devices := [device for _, is_reserved, _, device in found if is_reserved or not of_suspendable]:
            state.reserve(booking.id, devices)

    def _windows(self, booking: Booking) -> NodeWindows:
        return node_windows(self._state, (), self._owners(booking) | self.suspendable)

    def _owners(self, booking: Booking) -> set[str]:
        """Ids of the booking and of its jobs, whose its devices are."""
        return {booking.id, *(one.id for one in self._state.watchlist("apart") if one.booking == booking.id)}

    def _entries(
        self, booking: Booking, shift_s: float, windows: NodeWindows, is_made: bool = False
    ) -> list[CalendarEntry]:
        """What it takes of each node if its times are moved by so much; empty if that is not free.

        Args:
            is_made: it was entered before: it takes what there is.
        """
        entries = list[CalendarEntry]()
        widths = {node.name: len(node.devices) for node in self._state.cluster.nodes}
        for begin_s, end_s in self._times_s(booking):
            when = max(begin_s + shift_s - self.allowance_s, self._now_s), end_s + shift_s
            taken = windows.spread(*when, booking.num_devices)
            if booking.node:
                is_free = is_made or windows.room(*when).get(booking.node) == widths.get(booking.node)
                taken = {booking.node: widths.get(booking.node, 0)} if is_free else {}
            if not is_made and sum(taken.values()) < max(booking.num_devices, 1):
                return []
            entries += [CalendarEntry("booking", booking.id, *of, *when) for of in taken.items()]
        return entries

    # ------------------------------------------------------------ whether it can be
    def weigh(self, booking: Booking) -> BookingRefusal | None:
        """Why it cannot be made, and from when on it could; None: it can."""
        times_s, there = self._times_s(booking), [node.name for node in self._state.cluster.nodes]
        if booking.node not in ("", *there):
            text = f"there is no node {booking.node!r}; nodes are {', '.join(there)}"
            return BookingRefusal(text=text, earliest_s=None)
        if len(times_s) < len(booking.times_s):
            return BookingRefusal(text="its time has passed", earliest_s=None)
        windows, first_s = self._windows(booking), times_s[0][0]
        if not (objection := self._objection(booking, 0.0, windows)):
            return None
        moments_s = {*(windows.at_s + self.allowance_s).tolist(), *self.gate.moments_s()}
        begin_s = booking.times_s[0][0]
        later_s = {at_s - first_s + begin_s for at_s in moments_s if first_s < at_s < math.inf}
        begins_s = sorted({math.ceil(at_s) for at_s in later_s})[:MOST_TRIED]
        free_s = (one for one in begins_s if not self._objection(booking, one - begin_s, windows))
        return BookingRefusal(text=objection, earliest_s=next(free_s, None))

    def _objection(self, booking: Booking, shift_s: float, windows: NodeWindows) -> str:
        entries, state = self._entries(booking, shift_s, windows), self._state
        if not entries:
            what = f"node {booking.node} is" if booking.node else f"{told_devices(booking.num_devices)} are"
            begin_s, end_s = self._times_s(booking)[0]
            others = [
                owner
                for owner, known in state.entries.items()
                if any(one.from_s < end_s and begin_s - self.allowance_s < one.until_s for one in known)
            ]
            why = f": {', '.join(others[:3])} may still have devices" if others else ""
            return f"{what} not free then{why}"
        broken = self.gate.broken_by([one for one in entries if one.node not in state.cluster.borrowed])
        return f"it would break the promise of {', '.join(broken[:3])}" if broken else ""

    # ------------------------------------------------------------ jobs in a booking
    def place(self, record: JobRecord) -> tuple[tuple[str, ...], float, str]:
        """Devices for a job of a booking that waits, and until when; else why it waits."""
        state, spec, booking = self._state, record.spec, self._state.bookings[record.booking]
        begin_s, end_s = self._times_s(booking)[0]
        if begin_s > self._now_s:
            return (), end_s, f"booking {booking.id} begins {relative(begin_s - self._now_s)}"
        length_s = 0.0 if spec.fixed is None else spec.fixed.time_s + spec.fixed.grace_s
        if self._now_s + length_s > end_s:
            return (), end_s, f"booking {booking.id} ends before its limit would"
        busy = f"other jobs have the devices of booking {booking.id}"
        free = {device for device, owner in state.reserved.items() if owner == booking.id}
        nodes = [node.only(free) for node in state.cluster.in_order]
        room = {node.name: len(node.devices) for node in nodes}
        place = partial(place_parts, nodes, room, dict.fromkeys(state.index.owner, 1))
        if spec.fixed is not None:
            return place(spec.min_workers, spec.devices_per_worker), self._now_s + length_s, busy
        sizes = state.sizes_on(record, len(free))
        num = int(sizes[-1]) if len(sizes) else spec.min_workers
        return place(1, num * spec.devices_per_worker) or place(num, spec.devices_per_worker), end_s, busy
