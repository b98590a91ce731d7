"""Tables given with a log: borrowed nodes, when each is idle, of a machine that lends them; and bookings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray
from swell.model.booking import Booking
from swell.model.errors import InvalidInput
from swell.model.event import AnyEvent, BookingMade, NodeJoined, NodeLost, NodeWarned
from swell.model.node import Node
from swell.sim.traces.entry import InvalidLine
from swell.sim.traces.record import Source
from swell.sim.traces.table import Row, TableFormat, column, count, needed_column, number, text

HOUR_S = 3600.0


#: Times from here on are seconds since 1970, and the log begins with the first of them.
CALENDAR_S = 1e9
#: In the column `end_s`: still idle when the log ends.
STILL_IDLE = -1.0


class NodeInterval(NamedTuple):
    """A node is idle from `start_s` until its owner wants it back."""

    node: str
    start_s: float
    end_s: float  #: inf: still idle when the log ends
    num_devices: int = 1


@dataclass(frozen=True)
class Pool:
    """Idle intervals; those of one node do not overlap. The simulated world knows them, the head does not.

    References: Liu et al., "BFTrainer", 2021, section 2.1.
    """

    intervals: Sequence[NodeInterval]
    source: str  #: of what log they are, for people
    kind: str = ""  #: of all devices
    warning_s: float = 0.0  #: so long before a node leaves the head hears of it

    @cached_property
    def num_devices(self) -> int:
        """Devices of all its nodes, as if they were idle at the same time, each with its most devices."""
        most: dict[str, int] = {}
        for one in self.intervals:
            most[one.node] = max(one.num_devices, most.get(one.node, 0))
        return sum(most.values())

    @property
    def last_s(self) -> float:
        """When the last node leaves; inf if one never does."""
        return max(one.end_s for one in self.intervals)

    def within(self, from_s: float, until_s: float) -> Pool:
        """This part of the log, with `from_s` as time 0. Every node that is idle at the end leaves then."""
        parts = (
            one._replace(start_s=max(one.start_s, from_s) - from_s, end_s=min(one.end_s, until_s) - from_s)
            for one in self.intervals
            if one.start_s < until_s and one.end_s > from_s
        )
        source = f"{self.source} from {from_s:g} s to {until_s:g} s"
        return replace(self, intervals=tuple(parts), source=source)

    def of_nodes(self, names: Iterable[str]) -> Pool:
        """Only these nodes."""
        wanted = frozenset(names)
        intervals = tuple(one for one in self.intervals if one.node in wanted)
        return replace(self, intervals=intervals, source=f"{self.source} ({len(wanted)} nodes)")

    def changes(self) -> list[AnyEvent]:
        """When each node joins and leaves, by time, and when the head is warned of that. Those of one moment
        reach the head in one batch.

        At one moment nodes leave before others join, so that the order of rows makes no difference.
        """
        changes: list[tuple[float, int, str, AnyEvent]] = []
        for one in self.intervals:
            joined = NodeJoined(at_s=one.start_s, node=_borrowed(one, self.kind))
            changes.append((one.start_s, 1, one.node, joined))
            if math.isfinite(one.end_s):
                changes.append((one.end_s, 0, one.node, NodeLost(at_s=one.end_s, name=one.node)))
                if self.warning_s > 0.0:
                    warned_s = max(one.start_s, one.end_s - self.warning_s)
                    why = "its owner wants it back"
                    warned = NodeWarned(at_s=warned_s, name=one.node, until_s=one.end_s, why=why)
                    changes.append((warned_s, 2, one.node, warned))
        changes.sort(key=lambda change: change[:3])
        return [event for _, _, _, event in changes]

    def node_s(self, from_s: float, until_s: float) -> float:
        """Node-seconds that are idle in this time (Eq. 17, in seconds)."""
        return float(self._lengths_s(from_s, until_s).sum())

    def device_s(self, from_s: float, until_s: float) -> float:
        """Device-seconds that are idle in this time."""
        return float(self._lengths_s(from_s, until_s) @ self._columns[2])

    def equivalent_nodes(self, from_s: float, until_s: float) -> float:
        """Nodes that would give as much if they were there all the time (Eq. 18); 0 for no time."""
        return self.node_s(from_s, until_s) / (until_s - from_s) if until_s > from_s else 0.0

    def _lengths_s(self, from_s: float, until_s: float) -> FloatArray:
        starts_s, ends_s, _ = self._columns
        lengths_s: FloatArray = np.minimum(ends_s, until_s) - np.maximum(starts_s, from_s)
        return np.maximum(lengths_s, 0.0)

    @cached_property
    def _columns(self) -> FloatArray:
        """(3, n) starts, ends, devices."""
        rows = [(one.start_s, one.end_s, one.num_devices) for one in self.intervals]
        return np.array(rows, dtype=np.float64).reshape(-1, 3).T


def _borrowed(interval: NodeInterval, kind: str) -> Node:
    name = interval.node
    devices = tuple(f"{name}.{device}" for device in range(interval.num_devices))
    return Node(name=name, devices=devices, kind=kind, is_borrowed=True)


#: Rows of a log of idle nodes, in any order.
POOL = TableFormat(
    name="pool",
    title="idle nodes",
    columns={
        "node": needed_column("node", parse=text),
        "start_s": needed_column("start_s", parse=number),
        "end_s": needed_column("end_s", parse=number),
        "num_devices": column("devices", parse=count),
    },
)


def read_pool(file: Path) -> Pool:
    """Read `node,start_s,end_s[,devices]`, rows in any order, packed or not.

    `end_s` is -1 where a node was still idle when the log ended. Times are seconds since the beginning of the
    log, or since 1970. Each node has one device, unless the column `devices` says otherwise.

    Raises:
        InvalidInput: a row breaks a rule, idle intervals of one node overlap, or there is no interval.
    """
    numbered = list(POOL.rows(Source(file), _interval))
    if not numbered:
        raise InvalidInput(f"{file} holds no idle interval; add rows of node,start_s,end_s")
    _check_overlap(file, numbered)
    intervals = [interval for _, interval in numbered]
    begin_s = min(interval.start_s for interval in intervals)
    if begin_s >= CALENDAR_S:
        intervals = [
            one._replace(start_s=one.start_s - begin_s, end_s=one.end_s - begin_s) for one in intervals
        ]
    return Pool(tuple(intervals), str(file))


def read_names(file: Path) -> tuple[str, ...]:
    """Names of nodes, one a line. Raises InvalidInput if there is none."""
    names = tuple(line.strip() for _, line in Source(file).lines())
    if not names:
        raise InvalidInput(f"{file} names no node; write one name a line")
    return names


def _interval(row: Row) -> NodeInterval:
    """Raises InvalidLine."""
    node, start_s, end_s, num_devices = row["node"], row["start_s"], row["end_s"], row.get("num_devices")
    if None in (node, start_s, end_s):
        raise InvalidLine("a cell is blank; each row is about a node, and has two finite numbers of seconds")
    if start_s < 0.0:
        raise InvalidLine(f"start_s is {start_s:g}; a log begins at 0 s")
    end_s = math.inf if end_s == STILL_IDLE else end_s
    if not end_s > start_s:
        raise InvalidLine(
            f"node {node!r} is idle from {start_s:g} s to {end_s:g} s; an interval ends after its "
            f"start, or with {STILL_IDLE:g} if the node was still idle"
        )
    if num_devices is not None and num_devices < 1:
        raise InvalidLine(f"devices is {num_devices}; a node has 1 at least")
    return NodeInterval(node, start_s, end_s, num_devices or 1)


def _check_overlap(file: Path, numbered: list[tuple[int, NodeInterval]]) -> None:
    ordered = sorted(numbered, key=lambda entry: (entry[1].node, entry[1].start_s, entry[0]))
    for (first, one), (second, other) in pairwise(ordered):
        if one.node == other.node and other.start_s < one.end_s:
            raise InvalidInput(
                f"{file}, line {max(first, second)}: node {one.node!r} is idle twice at "
                f"{other.start_s:g} s, see line {min(first, second)}; idle intervals of one node may not "
                "overlap: join the two rows or correct one"
            )


#: Seconds are those since the first submission of the log.
BOOKINGS = TableFormat(
    name="bookings",
    title="bookings",
    columns={
        "id": needed_column("id", parse=text),
        "begin_s": needed_column("begin_s", parse=number),
        "end_s": needed_column("end_s", parse=number),
        "num_devices": column("num_devices", "devices", parse=count),
        "node": column("node", parse=text),
        "made_s": column("made_s", parse=number),
    },
)


def read_bookings(file: Path) -> list[BookingMade]:
    """Each booking when it is asked for: at the beginning, unless the column `made_s` says otherwise.

    Rows of one id are times of one booking. One with a node and without a number is of all its devices.

    Raises:
        InvalidInput: a row breaks a rule.
    """
    rows: dict[str, list[Row]] = {}
    for _, row in BOOKINGS.rows(Source(file), _checked):
        rows.setdefault(row["id"], []).append(row)
    made = []
    for name, own in rows.items():
        booking = Booking(
            id=name,
            num_devices=own[0].get("num_devices") or 0,
            node=own[0].get("node") or "",
            times_s=tuple(sorted((row["begin_s"], row["end_s"]) for row in own)),
        )
        made.append(BookingMade(at_s=own[0].get("made_s") or 0.0, booking=booking))
    return made


def _checked(row: Row) -> Row:
    if None in (row["id"], row["begin_s"], row["end_s"]) or row["begin_s"] >= row["end_s"]:
        raise InvalidLine("a booking has an id, and ends after its begin")
    if not row.get("num_devices") and not row.get("node"):
        raise InvalidLine("a booking is of a number of devices, or of a node")
    return row
