"""The head of a platform: a core for each kind of device, and each event to the cores that it is about."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from swell.core.accounts import told_shares
from swell.core.core import Core
from swell.core.explanations import TurnChanges
from swell.core.gang import UnknownGangEvent
from swell.core.kinds import KindAdmission, SavedKind, SavedPlatform, choose, named_kinds, read_platform
from swell.core.record import JobRecord
from swell.core.setbacks import NodeLossCounts
from swell.core.slow_devices import slow_devices
from swell.core.usable_nodes import together
from swell.model.booking import Booking, BookingRefusal
from swell.model.calendar import Calendar
from swell.model.cluster import Cluster
from swell.model.coding import encode_by_fields
from swell.model.command import AnyCommand, WakeAt
from swell.model.event import (
    AnyEvent,
    BookingMade,
    ClockStepped,
    DrainRequested,
    Event,
    EventSetAside,
    GangFound,
    JobEvent,
    JobSubmitted,
    KindAllowed,
    NodeCleared,
    NodeJoined,
    NodeLost,
    NodeTested,
    NodeWarned,
    Opened,
    PlanFailed,
    QuotasSet,
    Woke,
)
from swell.model.job_query import place as place_in_lists
from swell.model.names import ANY
from swell.model.node import Node
from swell.model.options import Domain
from swell.model.quota import Claims, Quotas
from swell.model.throughput import JobThroughput
from swell.model.usage import UNTESTED, AccountShare, SlowDevice
from swell.model.view import JobView, Story

#: Of the core that has what no kind was named for.
FIRST = 0
#: Lost nodes, and events that were set aside, that are remembered.
NUM_REMEMBERED = 20
#: About all kinds.
OF_PLATFORM = (Opened, DrainRequested, ClockStepped, QuotasSet)

#: Of a batch, by core.
Parts = defaultdict[int, list[AnyEvent]]


class Fault(NamedTuple):
    """What an error of the head is about."""

    culprit: AnyEvent | str | None = None  #: an event, or the id of a job; None: no single one
    kind: str = ""  #: of the devices whose part of the batch was being handled


class KnownNode(NamedTuple):
    """A node that is there, or away while its host is kept."""

    place: int  #: of its core
    devices: tuple[str, ...]


class PlatformCore:
    """Handles batches as a `Core` does: no clock, thread, lock, socket or random state.

    A core has the nodes of one kind and the jobs that run on it, and knows nothing of the others. So no gang
    spans two kinds, and what holds for a core holds for each kind.

    The first core takes the kind of the first node of a kind that no job has named before. As long as there
    is no other core and no job has named a kind, it takes that of a node of another kind as well, if no
    other node is there. Nodes of a new kind that nobody has allowed wait aside; see `KindAdmission`.

    A job that names several kinds is given to the core of one of them, once the other events of the batch
    are handled, and stays there.

    Args:
        new_core: makes a core that knows nothing yet.
    """

    def __init__(self, new_core: Callable[[], Core]) -> None:
        self._new_core = new_core
        self._clear()

    def _clear(self) -> None:
        self._kinds = [""]  #: of the cores; empty: no node has told yet
        self._cores = [self._new_core()]
        self._admission = KindAdmission()
        self._nodes: dict[str, KnownNode] = {}
        self._job_places: dict[str, int] = {}  #: of jobs that are not the first core's
        self._lost_nodes: dict[str, NodeLost] = {}  #: by name, the latest last: that were lost for a cause
        self._set_aside: list[EventSetAside] = []  #: the latest last
        self._latest: list[Core] = []  #: that had a part of the latest batch
        self._wake_s: float | None = None  #: that the world was asked for last, and has not told yet
        self._merged = Cluster()
        #: Of this batch: jobs whose kind is to be chosen, and what else is told of each.
        self._arriving: dict[str, tuple[JobSubmitted, list[AnyEvent]]] = {}
        self._begun: dict[int, None] = {}  #: places of cores that had a part of this batch
        self.fault = Fault()  #: what the error is about that the latest batch has ended in

    def sibling(self) -> PlatformCore:
        """Make a core of the same platform that knows nothing yet."""
        return PlatformCore(self._new_core)

    def become(self, other: PlatformCore) -> None:
        """Take over all that another core knows; that one is of no use any more."""
        vars(self).update(vars(other))

    # ------------------------------------------------------------ the turn
    def handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Let each core handle its part of the batch.

        Raises whatever a core does, and then the cores are amid it.
        """
        self._begun = {}
        return self.handle_more(batch)

    def handle_more(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Go on with a batch that has begun, and ended in an error."""
        parts: Parts = defaultdict(list)
        self.fault = Fault()
        for event in batch:
            try:
                for place, told in self._addressed(event, parts):
                    parts[place].append(told)
            except Exception:
                self.fault = Fault(event)
                raise
            if isinstance(event, Woke):
                self._wake_s = None
        commands: list[AnyCommand] = []
        for place in sorted(parts):
            commands += self._part(place, parts[place])
        arriving, self._arriving = self._arriving, {}
        for submitted, others in arriving.values():
            commands += self._enter(submitted, others)
        self._latest = [self._cores[place] for place in sorted(self._begun)]
        if self._job_places:
            for record in chain.from_iterable(core.state.ended for core in self._latest):
                self._job_places.pop(record.id, None)
        return [*(one for one in commands if not isinstance(one, WakeAt)), *self._wake()]

    def _part(self, place: int, events: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Let a core handle events of this batch."""
        core = self._cores[place]
        handle = core.handle_more if place in self._begun else core.handle
        self._begun[place] = None
        try:
            return handle(events)
        except Exception:
            self.fault = Fault(core.state.culprit, self._kinds[place])
            raise

    def _wake(self) -> list[WakeAt]:
        """The world has one timer: it is asked for the earliest that a core waits for."""
        due_s = self._earliest_s()
        if due_s is None or due_s == self._wake_s:
            return []
        self._wake_s = due_s
        return [WakeAt(at_s=due_s)]

    def _earliest_s(self) -> float | None:
        return min((core.state.wake_s for core in self._cores if core.state.wake_s is not None), default=None)

    # ------------------------------------------------------------ whose event it is
    def _addressed(self, event: AnyEvent, parts: Parts) -> Iterable[tuple[int, AnyEvent]]:
        """Places of the cores that are to hear of the event, and what each is told.

        Args:
            parts: of this batch, what cores have yet to handle before it.
        """
        if isinstance(event, JobSubmitted):
            if self._is_to_choose(event):
                self._arriving[event.job_id] = event, []
                return []
            return [(self._place_of_job(event, parts), event)]
        if isinstance(event, JobEvent):
            if self._arriving and event.job_id in self._arriving:
                self._arriving[event.job_id][1].append(event)
                return []
            return [(place, event) for place in self._places_that_know(event)]
        if isinstance(event, NodeJoined):
            return self._joined(event, parts)
        if isinstance(event, EventSetAside):
            if event not in self._set_aside:
                self._set_aside = [*self._set_aside, event][-NUM_REMEMBERED:]
            if event.job_id in self._arriving:
                self._arriving[event.job_id][1].append(event)
                return []
            return [(self._job_places.get(event.job_id, FIRST), event)]
        if isinstance(event, PlanFailed):
            return [(self._kinds.index(event.kind) if event.kind in self._kinds else FIRST, event)]
        if isinstance(event, KindAllowed):
            taken = self._admission.allow(event.kind)
            joined = (NodeJoined(at_s=event.at_s, node=node) for node in taken)
            return [told for one in joined for told in self._joined(one, parts)]
        if isinstance(event, Opened) and event.kinds is not None:
            self._admission.begin(event.kinds)
        if isinstance(event, NodeLost | NodeWarned | NodeTested | NodeCleared):
            return [(self._place_of_node(event), event)]
        if isinstance(event, Woke):
            return [(place, event) for place in self._due(event.at_s)]
        if isinstance(event, BookingMade):
            return [(self._place_of_booking(event.booking), event)]
        return [(place, event) for place in range(len(self._cores))]

    def _place_of_job(self, event: JobSubmitted, parts: Parts) -> int:
        kind = event.spec.kind
        if event.spec.kinds and event.job_id in self._job_places:
            return self._job_places[event.job_id]
        place = self._place_of(kind, parts) if kind else place_without_kind(self._kinds)
        if place != FIRST:
            self._job_places[event.job_id] = place
        return place

    def _place_of_booking(self, booking: Booking) -> int:
        of_node = self._nodes[booking.node].place if booking.node in self._nodes else FIRST
        return self._kinds.index(booking.kind) if booking.kind in self._kinds else of_node

    def _places_that_know(self, event: JobEvent) -> Iterable[int]:
        """Indices of the cores that an event about a job concerns.

        An event about a job that no core knows goes to the first core, which ignores it as stale.
        """
        own = self._job_places.get(event.job_id, FIRST)
        if len(self._cores) == 1 or not isinstance(event, UnknownGangEvent):
            return (own,)
        places = {place for place, core in enumerate(self._cores) if event.job_id in core.state.unknown.gangs}
        if isinstance(event, GangFound):  # its devices are in use, whichever job the journal takes it for
            held = set(event.devices)
            places |= {node.place for node in self._nodes.values() if held.intersection(node.devices)}
        return sorted(places | {own})

    def _joined(self, event: NodeJoined, parts: Parts) -> Iterator[tuple[int, AnyEvent]]:
        """A node that comes back as one of another kind is lost to the core that had it."""
        node = event.node
        before = self._nodes.get(node.name)
        is_first_kind = not self._kinds[FIRST]  # which is taken, and so is each that jobs may have by now
        if not (is_first_kind or node.kind in self._kinds or self._admission.takes(node.kind)):
            lost = self._admission.put_aside(event)
            self._note_lost(lost)
            yield FIRST if before is None else before.place, lost
            return
        self._lost_nodes.pop(node.name, None)
        self._admission.aside.pop(node.name, None)
        place = self._place_of_joined(node, parts)
        self._nodes[node.name] = KnownNode(place, node.devices)
        if before is not None and before.place != place:
            yield before.place, NodeLost(at_s=event.at_s, name=node.name)
        yield place, event

    def _place_of_joined(self, node: Node, parts: Parts) -> int:
        if node.kind not in self._kinds and self._may_name_first(node, parts):
            self._kinds[FIRST] = node.kind
            self._cores[FIRST].be_of_kind(node.kind)
            self._cores[FIRST].show_all()
        return self._place_of(node.kind, parts)

    def _may_name_first(self, node: Node, parts: Parts) -> bool:
        """Whether the first core has no kind; or is the only one, has no other node, and no job has named its
        kind.
        """
        if not self._kinds[FIRST]:
            return True
        if len(self._cores) > 1:
            return False
        submitted = (event.spec for event in parts.get(FIRST, ()) if isinstance(event, JobSubmitted))
        known = (record.spec for record in self._cores[FIRST].state.records.values())
        is_named = any(spec.kind for spec in chain(submitted, known))
        return not is_named and not self._nodes.keys() - {node.name}

    def _place_of(self, kind: str, parts: Parts) -> int:
        """Return the index of the core of a kind; makes a new core if there is none yet.

        A new core gets the events about the whole platform that the first core has yet to handle.
        """
        if kind not in self._kinds:
            parts[len(self._cores)] += [one for one in parts.get(FIRST, ()) if isinstance(one, OF_PLATFORM)]
            self._kinds.append(kind)
            self._cores.append(self._new_core())
            self._cores[-1].begin_beside(self._cores[FIRST])
            self._cores[-1].be_of_kind(kind)
            if not self._kinds[FIRST]:
                self._cores[FIRST].be_of_kind("")
                parts[FIRST] += []  # its jobs wait for another reason from now on
        return self._kinds.index(kind)

    # ------------------------------------------------------------ jobs that name several kinds
    def _is_to_choose(self, event: JobSubmitted) -> bool:
        """Whether the job names several kinds, and was not submitted before."""
        spec, own = event.spec, self._job_places.get(event.job_id, FIRST)
        if not spec.kinds or spec.kind or event.job_id in self._cores[own].state.records:
            return False
        return event.job_id not in self._arriving

    def _enter(self, submitted: JobSubmitted, others: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Choose the kind of a job that names several; `others`: what else the batch tells of it."""
        spec, job_id = submitted.spec, submitted.job_id
        if kinds := named_kinds(spec.kinds, self.kinds):
            loads = {kind: self._cores[self._kinds.index(kind)].usage for kind in kinds}
            kind = choose(kinds, spec, loads, self.domain.sizes)
        else:  # no node has come yet, or the kinds that it names are only about to
            kind = "" if ANY in spec.kinds else spec.kinds[0]
        parts: Parts = defaultdict(list)
        place = self._place_of(kind, parts) if kind else place_without_kind(self._kinds)
        if place != FIRST:
            self._job_places[job_id] = place
        chosen = msgspec.structs.replace(spec, kind=kind)
        return self._part(place, [msgspec.structs.replace(submitted, spec=chosen), *others])

    def _note_lost(self, event: NodeLost) -> None:
        """Keep that and why, if that is told, for those who ask for the node; of the latest ones only."""
        if event.cause:
            self._lost_nodes.pop(event.name, None)
            self._lost_nodes[event.name] = event
            while len(self._lost_nodes) > NUM_REMEMBERED:
                del self._lost_nodes[next(iter(self._lost_nodes))]

    def _place_of_node(self, event: NodeLost | NodeWarned | NodeTested | NodeCleared) -> int:
        known = self._nodes.get(event.name)
        if isinstance(event, NodeLost):
            self._admission.aside.pop(event.name, None)
            self._note_lost(event)
        if isinstance(event, NodeLost) and not event.is_host_kept:
            self._nodes.pop(event.name, None)
        return FIRST if known is None else known.place

    def _due(self, now_s: float) -> Sequence[int]:
        """Cores that asked to be woken by now; all, if none did."""
        due = [
            place
            for place, core in enumerate(self._cores)
            if core.state.wake_s is not None and core.state.wake_s <= now_s
        ]
        return due or range(len(self._cores))

    def _by_kind(self) -> Iterator[tuple[str, Core]]:
        return zip(self._kinds, self._cores, strict=True)

    # ------------------------------------------------------------ what others may see
    @property
    def kinds(self) -> tuple[str, ...]:
        """That nodes have had, or jobs have named; the first core's first."""
        return tuple(filter(None, self._kinds))

    @property
    def now_s(self) -> float:
        return max(core.state.now_s for core in self._cores)

    @property
    def calendar(self) -> Calendar:
        return self._cores[FIRST].state.calendar

    @property
    def cluster(self) -> Cluster:
        """The nodes that are there; the very same as long as none comes or goes."""
        if len(self._cores) == 1:
            return self._cores[FIRST].state.cluster
        nodes = tuple(chain.from_iterable(core.state.cluster.nodes for core in self._cores))
        if nodes != self._merged.nodes:
            self._merged = Cluster(nodes)
        return self._merged

    @property
    def away(self) -> frozenset[str]:
        """Names of nodes that are not there, and may come back as they were."""
        return frozenset(self._nodes.keys() - {node.name for node in self.cluster.nodes})

    @property
    def warned(self) -> dict[str, NodeWarned]:
        """Warnings of the nodes that get no more work, by name of the node."""
        return {name: together(said) for core in self._cores for name, said in core.state.warned.items()}

    @property
    def untested(self) -> list[Node]:
        """Nodes that have joined, and get no jobs until they are tested."""
        warned = chain.from_iterable(core.state.warned.items() for core in self._cores)
        names = {name for name, causes in warned if any(cause.why == UNTESTED for cause in causes)}
        return [node for node in self.cluster.nodes if node.name in names] if names else []

    @property
    def suspects(self) -> dict[str, str]:
        """Nodes that are likely to be ill, by the jobs that failed there, and why; see `note_failure`."""
        return {name: why for core in self._cores for name, why in core.state.suspects.items()}

    @property
    def slow_devices(self) -> list[SlowDevice]:
        """Devices that are slower than others of their kind."""
        return [device for core in self._cores for device in slow_devices(core.state)]

    @property
    def tests(self) -> dict[str, NodeTested]:
        """The latest test of each node, by name."""
        return {name: test for core in self._cores for name, test in core.state.tests.items()}

    @property
    def ends_s(self) -> dict[str, float]:
        """When nodes of the cluster end for good, by name; only those whose end is known."""
        known = ((core.state.cluster, core.state.ends_s) for core in self._cores)
        return {
            name: at_s for nodes, ends_s in known for name, at_s in ends_s.items() if nodes.has_node(name)
        }

    @property
    def lost_nodes(self) -> Sequence[NodeLost]:
        """The latest nodes that were lost for a cause, the first lost first."""
        return tuple(self._lost_nodes.values())

    @property
    def reclaims(self) -> NodeLossCounts:
        """Those of borrowed nodes of all kinds; later changes do not show in it."""
        return NodeLossCounts.together((core.state.losses.borrowed for core in self._cores), self.now_s)

    @property
    def domain(self) -> Domain:
        """See `Core.domain`."""
        return self._cores[FIRST].domain

    @property
    def makes_promises(self) -> bool:
        """See `Core.makes_promises`."""
        return self._cores[FIRST].makes_promises

    @property
    def quotas(self) -> Quotas:
        """Quotas by tenant; each holds for every kind of device by itself."""
        return self._cores[FIRST].state.quotas

    @property
    def claims(self) -> Claims:
        """Quotas and weights by tenant."""
        return Claims(self.quotas, self._cores[FIRST].state.weights)

    @property
    def account_shares(self) -> tuple[AccountShare, ...]:
        """See `told_shares`."""
        used_s: Counter[str] = Counter()
        for state in (core.state for core in self._cores):
            used_s.update(state.accounts.used_s(state.now_s, state.half_life_s) if state.half_life_s else {})
        return told_shares(used_s, self.claims.weights)

    @property
    def num_stale(self) -> int:
        return sum(core.state.num_stale for core in self._cores)

    @property
    def set_aside(self) -> Sequence[EventSetAside]:
        """The latest events that were set aside, the first first."""
        return tuple(self._set_aside)

    @property
    def failed_plans(self) -> tuple[int, PlanFailed | None]:
        """How many plans in a row have ended in an error, and the latest of them.

        Of several kinds of device it is the one with the most.
        """
        last = max((core.state.last_plan for core in self._cores), key=lambda one: one.num_failed)
        return last.num_failed, last.failed

    @property
    def ignored(self) -> Sequence[Event]:
        """Events of the latest batch of which nothing came."""
        return [event for core in self._latest for event in core.state.ignored]

    @property
    def is_idle(self) -> bool:
        """No job holds a device."""
        return not any(core.state.index.owner or core.state.unknown.gangs for core in self._cores)

    @property
    def unknown_owner(self) -> dict[str, str]:
        """Device -> the job whose gang holds it, of gangs that the journal does not explain."""
        return {device: job for core in self._cores for device, job in core.state.unknown.owner.items()}

    @property
    def bookings(self) -> list[Booking]:
        """Those that have not passed."""
        return [one for core in self._cores for one in core.state.bookings.values()]

    def weigh_booking(self, booking: Booking) -> BookingRefusal | None:
        """See `Core.weigh_booking`."""
        return self._cores[self._place_of_booking(booking)].weigh_booking(booking)

    @property
    def is_draining(self) -> bool:
        return self._cores[FIRST].state.is_draining

    def views(self) -> list[JobView]:
        """Jobs that have not ended, oldest first."""
        views = [view for kind, core in self._by_kind() for view in _of_kind(core.views(), kind)]
        return views if len(self._cores) == 1 else sorted(views, key=place_in_lists)

    def throughput(self, job_id: str) -> JobThroughput | None:
        """See `Core.throughput`."""
        place = self._job_places.get(job_id, FIRST)
        found = self._cores[place].throughput(job_id)
        return None if found is None else msgspec.structs.replace(found, kind=self._kinds[place])

    def changes(self) -> list[TurnChanges]:
        """What became of open jobs since this was last asked, by core; the first time, of all."""
        return [_changes_of_kind(core.changes(), kind) for kind, core in self._by_kind()]

    def ended_views(self, with_offers: bool = True) -> list[JobView]:
        """See `Core.ended_views`."""
        told = ((kind, core) for kind, core in self._by_kind() if core in self._latest)
        return [view for kind, core in told for view in _of_kind(core.ended_views(with_offers), kind)]

    def stories(self) -> list[tuple[str, Story]]:
        """See `Core.stories`."""
        return [told for core in self._latest for told in core.stories()]

    # ------------------------------------------------------------ recovery
    def holders(self) -> list[JobRecord]:
        """Jobs whose gangs should be there, with all that the head knows of them; only to be read."""
        records = chain.from_iterable(core.state.records.values() for core in self._cores)
        return [record for record in records if record.phase.holds_devices]

    def unknown_gangs(self) -> dict[str, int]:
        """Gangs that the journal does not explain: job -> generation of the command to end."""
        found = (gang for core in self._cores for gang in core.state.unknown.gangs.values())
        return {gang.job_id: gang.generation for gang in found}

    def save(self) -> bytes:
        """All that the head remembers, for a fold of the journal; `read_platform` reads it."""
        kinds = [SavedKind(kind=kind, head=msgspec.Raw(core.save())) for kind, core in self._by_kind()]
        saved = SavedPlatform(
            kinds=kinds, admission=self._admission, lost_nodes=self._lost_nodes, set_aside=self._set_aside
        )
        return encode_by_fields(saved)  # what was set aside may hold numbers that are none

    def load(self, data: bytes) -> None:
        """Go on as what `save` has returned."""
        self._clear()
        platform = read_platform(data)
        saved, self._admission = platform.kinds, platform.admission
        self._lost_nodes, self._set_aside = platform.lost_nodes, platform.set_aside
        self._kinds = [one.kind for one in saved]
        self._cores = [self._new_core() for _ in saved]
        for place, (core, one) in enumerate(zip(self._cores, saved, strict=True)):
            core.load(bytes(one.head))
            if one.kind or len(saved) > 1:
                core.be_of_kind(one.kind)
            there = {node.name: node.devices for node in core.state.cluster.nodes}
            known = {**core.state.away, **there}
            self._nodes |= {name: KnownNode(place, devices) for name, devices in known.items()}
            self._job_places |= {job_id: place for job_id in core.state.records if place != FIRST}
        self._wake_s = self._earliest_s()

    def under_way(self) -> list[AnyCommand]:
        """See `Core.under_way`."""
        commands = [command for core in self._cores for command in core.under_way()]
        wakes = [] if self._wake_s is None else [WakeAt(at_s=self._wake_s)]
        return [*(command for command in commands if not isinstance(command, WakeAt)), *wakes]


def place_without_kind(kinds: Sequence[str]) -> int:
    """Index of the core that gets a job which names no kind, among cores of these kinds.

    Such a job is submitted while one kind at most is known, so it is of that one: see `live/job_checks.py`.
    """
    return 1 if len(kinds) == 2 and not kinds[FIRST] else FIRST


def _changes_of_kind(changes: TurnChanges, kind: str) -> TurnChanges:
    jobs = [one._replace(view=msgspec.structs.replace(one.view, kind=kind)) for one in changes.jobs]
    return changes._replace(jobs=jobs, kind=kind)


def _of_kind(views: Iterable[JobView], kind: str) -> list[JobView]:
    return [msgspec.structs.replace(view, kind=kind) for view in views]
