"""The queue of fixed jobs: which starts now, and when others may. Policies plan for what they leave.

Each gets the earliest window that those before it leave (conservative backfill): promised ones, then
sessions, then by what their accounts have used, by class, priority and arrival. Of each account jobs come
first that have waited for too long. One that may be suspended may have more than its tenant's quota until
others need its devices.

References: Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in
    Scheduling the IBM SP2 with Backfilling", IEEE TPDS 2001.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from functools import cached_property, partial
from itertools import accumulate, chain

from swell.core.accounts import OVERDUE_TIMES, waited
from swell.core.bookings import MOST_TRIED, OVERDUE, Bookings, Turn
from swell.core.deadlines import cause, settle
from swell.core.fixed_events import expected_s, terms_of
from swell.core.record import JobRecord
from swell.core.setbacks import Promise
from swell.core.state import HeadState
from swell.core.usable_nodes import node_windows
from swell.model.calendar import CalendarEntry
from swell.model.job import JobClass, Phase
from swell.model.plan import JobPlan, Refusal
from swell.model.quantities import span, told_devices
from swell.model.snapshot import CLASS_CODES
from swell.model.target import NOTHING, Target
from swell.placement.windows import NodeWindows, place_parts

#: The head ends what is still there so long after its limit: that is the agent's to do.
BACKSTOP_S = 5.0
#: Waiting jobs have so many windows that others must leave to them; jobs behind them start where they fit.
MOST_WINDOWS = 10
#: A job that promises keep waiting is tried again after so long, or after a tenth of the time it has waited.
RETRY_S = 60.0


class FixedQueue:
    """One pass over the fixed jobs, and those of bookings, before the policy decides."""

    def __init__(
        self,
        state: HeadState,
        bookings: Bookings,
        refuse: Callable[[JobRecord, Callable[[], Refusal]], None],
    ) -> None:
        self._state, self._now_s, self._gate, self._refuse = state, state.now_s, bookings.gate, refuse
        self._bookings = bookings
        self._left_to: tuple[CalendarEntry, ...] = ()  #: windows of waiting jobs without a promise
        #: By shape and nodes, the shortest time for which there is no room.
        self._no_room: dict[tuple[int, int, bool, frozenset[str]], float] = {}
        self.plans: dict[str, JobPlan] = {}  #: of jobs that are to start, or to make room
        self.due_s = bookings.tend()  #: when the next pass is due, if nothing happens before
        self._jobs = [one for one in state.watchlist("apart") if one.is_apart]

    def run(self) -> None:
        """Reserve devices for what starts now, and decide on deadlines that are asked for."""
        state = self._state
        for record in self._jobs:
            if record.begun_s is not None:
                self._keep_limit(record, record.begun_s)
            elif record.phase is Phase.QUEUED and not _may_start(record):
                state.release(record.id)
        self._owners = frozenset(state.reserved.values())
        self._measure()
        self._note_waits()
        self._lent = self._beyond_quotas()
        for record in self._jobs:
            if record.spec.fixed is not None and (record.phase.holds_devices or _may_start(record)):
                self._decide(record)
        for record in sorted(filter(_may_start, self._jobs), key=self._in_turn):
            if record.phase is Phase.QUEUED and record.backoff.until_s <= self._now_s:
                self._consider(record)
        self._return_to_policies()
        for record in self._jobs:
            is_left = any(state.reserved.get(one) != record.id for one in record.gang.members.devices)
            if record.spec.fixed is not None and is_left:
                state.entries.pop(record.id, None)
                self.plans[record.id] = JobPlan(target=NOTHING, why=lambda: "others need its devices")
        begins_s = (entry.from_s for entry in chain.from_iterable(state.entries.values()))
        self.due_s = min([self.due_s, *(at_s for at_s in begins_s if at_s > self._now_s)])
        state.write_rows()

    def _measure(self) -> None:
        """The calendar is another one."""
        self._windows = node_windows(self._state, self._left_to)
        self._gate.forget()

    def _keep_limit(self, record: JobRecord, begun_s: float) -> None:
        terms = terms_of(record)
        end_s = begun_s + terms.time_s + terms.grace_s + BACKSTOP_S
        if self._now_s < end_s:
            self.due_s = min(self.due_s, end_s)
            return
        record.is_overdue = True
        self._state.extend(record.id, self._now_s + BACKSTOP_S)
        self._state.touch(record)

    # ------------------------------------------------------------ who starts now
    def _consider(self, record: JobRecord) -> None:
        length_s = self._length_s(record)
        if record.id in self._owners and (devices := self._reserved(record)):
            self._plan(record, devices)
        elif record.admission.is_promised and not record.booking:
            self._consider_promised(record, length_s)
        elif over := self._over_quota(record, self._now_s, self._now_s + length_s):
            may_borrow = record.is_suspendable and not self._lacking(math.prod(_shape(record)))
            devices = self._place_now(record, length_s) if may_borrow else ()
            if devices and not self._broken_by(devices, length_s):
                self._begin(record, devices, self._now_s + length_s)
            else:
                self._tell(record, "quota", f"waits: {over}")
        elif record.booking:
            self._consider_booked(record)
        else:
            self._consider_unpromised(record, length_s)

    def _consider_booked(self, record: JobRecord) -> None:
        devices, until_s, why = self._bookings.place(record)
        if devices:
            self._begin(record, devices, until_s)
        else:
            unpromised = "; jobs of a booking get no promise" * (record.job_class is JobClass.STRICT)
            self._tell(record, "booked", f"waits: {why}{unpromised}")

    def _over_quota(self, record: JobRecord, from_s: float, until_s: float) -> str:
        """What stands against it between these times; empty: its tenant may have so many devices then."""
        state, tenant = self._state, record.spec.tenant
        if record.spec.fixed is None or (quota := state.quotas.get(tenant)) is None:
            return ""
        others = [one for one in self._jobs if one.id != record.id and one.spec.tenant == tenant]
        entries = chain.from_iterable(state.entries.get(one.id, ()) for one in others)
        taken = sum(one.num_devices for one in entries if one.from_s < until_s and from_s < one.until_s)
        most = quota.most_devices(state.cluster.num_devices)
        is_over = math.prod(_shape(record)) + taken > most
        return f"its tenant's quota is {told_devices(most)}" if is_over else ""

    def _consider_promised(self, record: JobRecord, length_s: float) -> None:
        """It begins at its window, at the latest; before that if no other promise suffers from it."""
        entries, now_s = self._state.entries.get(record.id, ()), self._now_s
        begin_s = min((entry.from_s for entry in entries), default=now_s)
        if entries and begin_s <= now_s:  # a turn that comes late takes of the allowance
            terms = terms_of(record)
            length_s = max(terms.time_s + terms.grace_s, entries[0].until_s - now_s)
        suspendable = self._bookings.suspendable
        devices = self._place_now(record, length_s, suspendable if begin_s <= now_s else frozenset())
        if devices and (begin_s <= now_s or not self._broken_by(devices, length_s)):
            self._begin(record, devices, now_s + length_s)
            return
        if begin_s <= now_s or not all(entry.node in self._windows.names for entry in entries):
            windows = self._open(record, suspendable)
            begin_s = next(windows.starts_s(length_s, *_shape(record)), math.inf)
            if begin_s < math.inf:
                self._enter(record, _window(record, windows, begin_s, length_s))
        code, why = "promised", "its deadline is promised"
        if begin_s + length_s - self._bookings.allowance_s > (record.deadline_s or math.inf):
            code, why = "at_risk", f"its promise cannot be kept any more: {cause(self._state, record)}"
        self._tell(record, code, f"waits: {why}", begin_s)

    def _consider_unpromised(self, record: JobRecord, length_s: float) -> None:
        is_session = terms_of(record).is_session
        shape = *_shape(record), record.is_suspendable, frozenset(record.ruled_out)
        is_tried = length_s < self._no_room.get(shape, math.inf)
        devices = self._place_now(record, length_s) if is_tried else ()
        if not devices and (is_session or self._lent):
            without = self._bookings.suspendable if is_session else frozenset(self._lent)
            devices = self._place_now(record, length_s, without)
        if not devices:
            self._no_room[shape] = min(length_s, self._no_room.get(shape, math.inf))
            self._find_window(record, length_s)
        elif broken := self._broken_by(devices, length_s):
            self._tell(record, "promises", f"waits: it would break the promise of {broken}")
            waited_s = self._now_s - record.submitted_s
            self.due_s = min(self.due_s, self._now_s + max(RETRY_S, waited_s / 10))
        else:
            num_free = sum(self._state.reserved.get(one) not in self._lent for one in devices)
            asked = num_free, self._now_s + length_s, self._turn(record)
            lacking, before = (0, {}) if is_session else self._gate.needed_before(*asked)
            if lacking:
                self._await_turn(record, len(devices), lacking, before)
            else:
                self._begin(record, devices, self._now_s + length_s)

    def _await_turn(self, record: JobRecord, num_devices: int, lacking: int, before: dict[str, int]) -> None:
        """It begins when enough of the jobs before it are expected to have ended."""
        for other in (others := [self._state.records[job_id] for job_id in before]):
            self._state.latest.write(other)
        ends = sorted((other.status.estimated_finish_s or math.inf, other.id) for other in others)
        num = bisect_left(list(accumulate(before[job_id] for _, job_id in ends)), lacking)
        begin_s = max(ends[num][0], self._now_s) if num < len(ends) else math.inf
        names = ", ".join(job_id for _, job_id in ends[: min(num + 1, 3)]) + " and others" * (num > 2)
        why = f"waits: jobs before it have the {told_devices(num_devices)} that it needs"
        self._tell(record, "turn", f"{why}{names and ': '}{names}", begin_s)

    def _find_window(self, record: JobRecord, length_s: float) -> None:
        """The earliest one that those before it leave; no job behind it may delay it."""
        begin_s, whose, (num_parts, num_devices) = math.inf, "", _shape(record)
        if len(self._left_to) < MOST_WINDOWS:
            windows = self._open(record)
            begin_s = next(windows.starts_s(length_s, num_parts, num_devices), math.inf)
        if self._now_s < begin_s < math.inf:
            self.due_s, whose = min(self.due_s, begin_s), self._whose(record, begin_s)
            self._left_to += _window(record, windows, begin_s, length_s)
            self._windows = node_windows(self._state, self._left_to)
        needed = told_devices(num_devices) + (f" on each of {num_parts} nodes" if num_parts > 1 else "")
        self._tell(record, "waiting", f"waits: it needs {needed}{whose}", begin_s)

    def _whose(self, record: JobRecord, at_s: float) -> str:
        """Who has devices until about then."""
        others = [one for one in chain.from_iterable(self._state.entries.values()) if one.owner != record.id]
        if not others:
            return ""
        entry = min(others, key=lambda one: abs(one.until_s - at_s))
        left_s = max(entry.until_s - self._now_s, 0.0)
        return f", which {_told_owner(self._state, entry.owner)} has for {span(left_s)} at most"

    # ------------------------------------------------------------ where it starts
    def _length_s(self, record: JobRecord) -> float:
        fixed = record.spec.fixed
        return 0.0 if fixed is None else self._bookings.allowance_s + fixed.time_s + fixed.grace_s

    def _open(self, record: JobRecord, without: frozenset[str] = frozenset()) -> NodeWindows:
        """What is free of the nodes that the job may have, without what these jobs have, and itself."""
        state, closed = self._state, set(record.ruled_out)
        is_other = bool(without) or record.id in state.entries
        windows = node_windows(state, self._left_to, {record.id, *without}) if is_other else self._windows
        if not record.is_suspendable:  # devices that are reclaimed at any second are not for it
            closed |= state.cluster.borrowed
        return windows.without_nodes(closed) if closed else windows

    def _place_now(
        self, record: JobRecord, length_s: float, without: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Devices that it may have for so long from now on; empty if there are too few."""
        windows = self._open(record, without)
        if not windows.fits(self._now_s, length_s, *_shape(record)):
            return ()
        nodes, room = self._state.open_nodes(without), windows.room(self._now_s, self._now_s + length_s)
        return place_parts(nodes.in_order, room, self._ranks, *_shape(record))

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """Rank of each held device: that of jobs that are to keep theirs is high, so that few move."""
        state = self._state
        holders = [state.records[job_id] for job_id in state.index.held if job_id in state.records]
        ranked = enumerate(sorted(holders, key=_keeps), 1)
        ranks = {device: rank for rank, record in ranked for device in record.gang.held}
        return {**dict.fromkeys(state.unknown.owner, len(holders) + 1), **ranks}

    def _reserved(self, record: JobRecord) -> tuple[str, ...]:
        """Its devices, in rank order; none if some are gone, or are to be left."""
        state, devices = self._state, tuple(self._state.reserved_for(record))
        names = {state.cluster.node_of[device] for device in devices}
        is_whole = len(devices) == list(state.reserved.values()).count(record.id)
        if devices and is_whole and names.isdisjoint(state.warned):
            return devices
        if devices or not is_whole:
            state.release(record.id)
        return ()

    def _broken_by(self, devices: tuple[str, ...], length_s: float) -> str:
        """Names of jobs whose promises would be weaker without these devices from now on."""
        owned = [device for device in devices if device not in self._state.cluster.borrowed_devices]
        entries = self._state.entries_of("", owned, self._now_s + length_s)
        return ", ".join(self._gate.broken_by(entries)[:3])

    def _begin(self, record: JobRecord, devices: tuple[str, ...], until_s: float) -> None:
        self._state.occupy(record.id, devices, until_s)
        self._measure()
        self._plan(record, devices)

    def _plan(self, record: JobRecord, devices: tuple[str, ...]) -> None:
        why = f"starts on {told_devices(len(devices))}"
        self._tell(record, "starting", why, self._now_s)
        self.plans[record.id] = JobPlan(target=Target(devices=devices), why=lambda: why)

    # ------------------------------------------------------------ promises
    def _decide(self, record: JobRecord) -> None:
        """Promise the deadline that is asked for, or refuse it, as its owner wants it to go on then."""
        is_promised = self._gate.makes_promises and not record.booking
        while record.ended is None and record.is_undecided:
            deadline_s, length_s = record.planned_deadline_s or math.inf, self._length_s(record)
            before = self._state.entries.get(record.id)
            window = self._first_window(record, deadline_s, length_s) if is_promised else ()
            end_s = max((entry.until_s for entry in window), default=math.inf)
            if end_s <= deadline_s or not is_promised:
                self._accept(record, window)
                return
            if before is not None:
                self._enter(record, before)
            needed, takes = told_devices(math.prod(_shape(record))), span(length_s)
            text = f"its deadline in {span(deadline_s - self._now_s)} cannot be kept: it may take {takes}"
            offer_s = None if math.isinf(end_s) else self._now_s + math.ceil(end_s - self._now_s)
            text = f"{text}, and {needed} are not free for so long before then"
            refusals = {0: Refusal(earliest_deadline_s=offer_s, text=text)}
            if not settle(self._state, [record.id], refusals):
                self._refuse(record, partial(refusals.__getitem__, 0))

    def _accept(self, record: JobRecord, window: tuple[CalendarEntry, ...]) -> None:
        record.accept(Promise(made_s=self._now_s, margin_share=0.0) if window else None)
        self._state.touch(record)
        if window:
            by = f"it ends in {span(window[0].until_s - self._now_s)} at the latest"
            self._state.tell(record, "promised", f"is promised its deadline; {by}")
            self._enter(record, window)

    def _first_window(
        self, record: JobRecord, deadline_s: float, length_s: float
    ) -> tuple[CalendarEntry, ...]:
        """The earliest in which no promise is weaker; of one that runs, its own. Empty: there is none.

        An earlier window of its own is taken out of the calendar.
        """
        if record.phase.holds_devices or record.id in self._owners:
            return self._state.entries.get(record.id, ())
        if self._state.entries.pop(record.id, None) is not None:
            self._measure()
        windows, shape = self._open(record, self._bookings.suspendable), _shape(record)
        tried = {*windows.at_s.tolist(), *self._gate.moments_s(), deadline_s - length_s}
        for begin_s in sorted(at_s for at_s in tried if self._now_s <= at_s < math.inf)[:MOST_TRIED]:
            end_s = begin_s + length_s
            if windows.fits(begin_s, length_s, *shape) and not self._over_quota(record, begin_s, end_s):
                window = _window(record, windows, begin_s, length_s)
                if not self._gate.broken_by(window):
                    return window
        return ()

    def _enter(self, record: JobRecord, window: tuple[CalendarEntry, ...]) -> None:
        """It has this window in the calendar from now on, or goes on in the one that it has."""
        self._state.entries[record.id] = window
        self._measure()

    def _tell(self, record: JobRecord, code: str, text: str, begin_s: float = math.inf) -> None:
        """Why it has what it has; and when it is expected to end, if it begins then."""
        status, is_known = record.status, record.spec.fixed is not None and begin_s < math.inf
        before = status.reason, status.estimated_finish_s
        status.estimated_finish_s = begin_s + expected_s(record) if is_known else None
        if status.reason_code != code:
            self._state.explain(record, code, text)
        status.reason = text
        if before != (text, status.estimated_finish_s):
            self._state.touch(record)

    def _in_turn(self, record: JobRecord) -> tuple[bool, float, bool, Turn]:
        """Promised ones by their windows, sessions, then in turn."""
        fixed, is_promised = record.spec.fixed, record.admission.is_promised
        entries = self._state.entries.get(record.id, ()) if is_promised else ()
        return (
            not (is_promised or record.booking),
            min((entry.from_s for entry in entries), default=0.0),
            not (fixed and fixed.is_session),
            self._turn(record),
        )

    def _turn(self, record: JobRecord) -> Turn:
        """By what accounts have used, aged ones, class, priority, arrival; the overdue one first."""
        is_young, (code, priority, submitted_s, job_id) = record.id not in self._aged, _rank(record)
        level = OVERDUE if record.id == self._overdue else self._levels.get(record.account, 0.0)
        return (level, is_young, code * is_young, priority * is_young, submitted_s, job_id)

    def _note_waits(self) -> None:
        """Which jobs wait for too long."""
        state = self._state
        waits = [one for one in self._jobs if one.phase is Phase.QUEUED] if state.half_life_s else []
        times = {one.id: waited(one, self._now_s, state.weights) for one in waits}
        self._levels = state.accounts.levels(self._now_s, state.half_life_s, state.weights)
        self._aged = {job_id for job_id, num in times.items() if num >= 1.0}
        late = [job_id for job_id, num in times.items() if num >= OVERDUE_TIMES]
        self._overdue = max(late, key=times.__getitem__, default="")

    # ------------------------------------------------------------ what quotas leave is lent
    def _beyond_quotas(self) -> list[str]:
        """Running fixed jobs without which their tenants are within quotas, those first that began last."""
        state, beyond = self._state, []
        running = [one for one in self._jobs if one.phase.holds_devices]
        for tenant, quota in state.quotas.items():
            own = [one for one in running if one.spec.tenant == tenant]
            over = sum(len(one.gang.held) for one in own) - quota.most_devices(state.cluster.num_devices)
            for one in sorted(own, key=lambda one: (-one.commanded.launched_s, one.id)):
                if over > 0 and one.is_suspendable:
                    beyond.append(one.id)
                    over -= len(one.gang.held)
        return beyond

    def _lacking(self, num_absent: int = 0) -> int:
        """Devices that the first waiting job within its quota lacks without these, be it for its trial run.

        Fixed jobs do not count: they get what is lent when it is their turn.
        """
        state, held = self._state, Counter[str]()
        free = len(state.devices - state.index.owner.keys()) - num_absent
        for job_id, devices in state.index.held.items():
            if (record := state.records.get(job_id)) is not None:
                held[record.spec.tenant] += len(devices)
                is_elastic = job_id in state.table and not record.admission.is_promised
                free += max(len(devices) - math.prod(_shape(record)), 0) if is_elastic else 0
        claimed = {
            name: quota.most_devices(state.cluster.num_devices) for name, quota in state.quotas.items()
        }
        waiting = [
            (one.submitted_s, one.id, math.prod(_shape(one)))
            for one in state.records.values()
            if one.phase is Phase.QUEUED
            and not (
                one.is_apart or one.is_cancelled or one.is_set_aside or one.backoff.until_s > self._now_s
            )
            and held[tenant := one.spec.tenant] + math.prod(_shape(one)) <= claimed.get(tenant, math.inf)
        ]
        return max(min(waiting)[2] - free, 0) if waiting else 0

    def _return_to_policies(self) -> None:
        """End jobs that have what is lent, as far as another tenant's job lacks it."""
        lacking = self._lacking() if self._lent else 0
        sizes = {job_id: len(self._state.index.held.get(job_id, ())) for job_id in self._lent}
        for job_id, num in sizes.items() if lacking <= sum(sizes.values()) else ():
            if lacking > 0:
                self._state.release(job_id)
                lacking -= num


def told_reserved(state: HeadState) -> str:
    """Who has devices that policies do not plan for, as clauses: the two that have most; empty: none."""
    owners = Counter(state.reserved.values()).most_common(2)
    return " and ".join(f"{_told_owner(state, owner)} has {told_devices(num)}" for owner, num in owners)


def _told_owner(state: HeadState, owner: str) -> str:
    other = state.records.get(owner)
    fixed, user = other and other.spec.fixed, f" of {other.user}" if other and other.user else ""
    what = "the session" if fixed and fixed.is_session else "job" if other else "booking"
    return f"{what}{user} {owner}"


def _rank(record: JobRecord) -> tuple[int, int, float, str]:
    return CLASS_CODES[record.job_class], -record.spec.priority, record.submitted_s, record.id


def _keeps(record: JobRecord) -> tuple[bool, bool, int, int, float, str]:
    """Those that have more than they need, and those that nothing is promised to, give devices up first."""
    code, priority, submitted_s, job_id = _rank(record)
    is_small = record.num_workers <= record.spec.min_workers
    return is_small, record.admission.is_promised, -code, -priority, -submitted_s, job_id


def _may_start(record: JobRecord) -> bool:
    is_known = record.spec.fixed is not None or record.progress.total_steps is not None
    return is_known and record.ended is None and not (record.is_cancelled or record.is_set_aside)


def _shape(record: JobRecord) -> tuple[int, int]:
    """Parts, and devices of each."""
    return record.spec.min_workers, record.spec.devices_per_worker


def _window(
    record: JobRecord, windows: NodeWindows, begin_s: float, length_s: float
) -> tuple[CalendarEntry, ...]:
    """What the job takes of nodes from then on, where it has room."""
    of_nodes, when = windows.parts(begin_s, length_s, *_shape(record)), (begin_s, begin_s + length_s)
    return tuple(CalendarEntry("job", record.id, *of, *when) for of in of_nodes.items())
