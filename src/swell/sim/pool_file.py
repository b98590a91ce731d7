"""Logs of idle nodes: a CSV with a row for each time that a node was idle."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from swell.model.errors import InvalidInput
from swell.sim.pool import IdleInterval, Pool
from swell.sim.traces.source import Source

NEEDED = ("node", "start_s", "end_s")
DEVICES = "devices"
#: Times from here on are seconds since 1970, and the log begins with the first of them.
CALENDAR_S = 1e9
#: In the column `end_s`: still idle when the log ends.
STILL_IDLE = -1.0


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


def _interval(file: Path, number: int, text: str, columns: Mapping[str, int]) -> IdleInterval:
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
    return IdleInterval(cell("node"), start_s, end_s, int(devices))


def _seconds(text: str, name: str, fail: Callable[[str], InvalidInput]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise fail(f"{name} is {text!r}; write a finite number of seconds")
    return value


def _check_overlap(file: Path, numbered: list[tuple[int, IdleInterval]]) -> None:
    ordered = sorted(numbered, key=lambda entry: (entry[1].node, entry[1].start_s, entry[0]))
    for (first, one), (second, other) in _same_node(ordered):
        if other.start_s < one.end_s:
            raise InvalidInput(
                f"{file}, line {max(first, second)}: node {one.node!r} is idle twice at "
                f"{other.start_s:g} s, see line {min(first, second)}; idle intervals of one node may not "
                "overlap: join the two rows or correct one"
            )


def _same_node(
    ordered: list[tuple[int, IdleInterval]],
) -> Iterator[tuple[tuple[int, IdleInterval], tuple[int, IdleInterval]]]:
    return (pair for pair in pairwise(ordered) if pair[0][1].node == pair[1][1].node)
