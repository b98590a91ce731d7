"""Borrowed nodes of a simulated world: when each is idle, from the log of a machine that lends them."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray
from swell.model.errors import InvalidInput
from swell.model.event import AnyEvent, NodeJoined, NodeLost, NodeWarned
from swell.model.node import Node
from swell.sim.traces.source import Source

HOUR_S = 3600.0


NEEDED = ("node", "start_s", "end_s")
DEVICES = "devices"
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


class KeptDevices:
    """Devices that jobs hold after their nodes were reclaimed, summed over time."""

    def __init__(self) -> None:
        self.device_s = 0.0
        self._now_s, self._num = 0.0, 0

    def note(self, now_s: float, num: int) -> None:
        """So many from now on."""
        self.device_s += (now_s - self._now_s) * self._num
        self._now_s, self._num = now_s, num


def _borrowed(interval: NodeInterval, kind: str) -> Node:
    name = interval.node
    devices = tuple(f"{name}.{device}" for device in range(interval.num_devices))
    return Node(name=name, devices=devices, kind=kind, is_borrowed=True)


def read_pool(file: Path) -> Pool:
    """Read `node,start_s,end_s[,devices]`, rows in any order, packed or not.

    `end_s` is -1 where a node was still idle when the log ended. Times are seconds since the beginning of the
    log, or since 1970. Each node has one device, unless the column `devices` says otherwise.

    Raises:
        InvalidInput: a row breaks a rule, idle intervals of one node overlap, or there is no interval.
    """
    lines = Source(file).lines()
    columns = _columns(file, next(lines, (1, ""))[1])
    numbered = [(number, _interval(file, number, text, columns)) for number, text in lines]
    if not numbered:
        raise InvalidInput(f"{file} holds no idle interval; add rows of {','.join(NEEDED)}")
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
    names = tuple(text.strip() for _, text in Source(file).lines())
    if not names:
        raise InvalidInput(f"{file} names no node; write one name a line")
    return names


def _columns(file: Path, heading: str) -> Mapping[str, int]:
    """Column name -> position."""
    columns = {name.strip(): at for at, name in enumerate(_cells(heading))}
    if missing := [name for name in NEEDED if name not in columns]:
        raise InvalidInput(
            f"{file}, line 1: there is no column {missing[0]!r}; a log of idle nodes begins with the line "
            f"{','.join(NEEDED)}, and {DEVICES} is optional"
        )
    return columns


def _cells(text: str) -> list[str]:
    return next(csv.reader([text]), [])


def _interval(file: Path, number: int, text: str, columns: Mapping[str, int]) -> NodeInterval:
    def cell(name: str) -> str:
        return cells[columns[name]].strip()

    def fail(rule: str) -> InvalidInput:
        return InvalidInput(f"{file}, line {number}: {rule}")

    cells = _cells(text)
    if len(cells) <= max(columns.values()):
        raise fail(f"has {len(cells)} columns, and the first line has {len(columns)}; correct one of the two")
    if not cell("node"):
        raise fail("names no node; each row is about one")
    start_s, end_s = (_seconds(cell(name), name, fail) for name in ("start_s", "end_s"))
    if start_s < 0.0:
        raise fail(f"start_s is {start_s:g}; times are seconds since the beginning of the log, 0 at least")
    if end_s == STILL_IDLE:
        end_s = math.inf
    if not end_s > start_s:
        raise fail(
            f"node {cell('node')!r} is idle from {start_s:g} s to {end_s:g} s; an interval ends after its "
            f"start, or with {STILL_IDLE:g} if the node was still idle"
        )
    devices = cell(DEVICES) if DEVICES in columns else "1"
    if not devices.isdecimal() or int(devices) < 1:
        raise fail(f"{DEVICES} is {devices!r}; a node has a whole number of devices, 1 at least")
    return NodeInterval(cell("node"), start_s, end_s, int(devices))


def _seconds(text: str, name: str, fail: Callable[[str], InvalidInput]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise fail(f"{name} is {text!r}; write a finite number of seconds")
    return value


def _check_overlap(file: Path, numbered: list[tuple[int, NodeInterval]]) -> None:
    ordered = sorted(numbered, key=lambda entry: (entry[1].node, entry[1].start_s, entry[0]))
    for (first, one), (second, other) in pairwise(ordered):
        if one.node == other.node and other.start_s < one.end_s:
            raise InvalidInput(
                f"{file}, line {max(first, second)}: node {one.node!r} is idle twice at "
                f"{other.start_s:g} s, see line {min(first, second)}; idle intervals of one node may not "
                "overlap: join the two rows or correct one"
            )
