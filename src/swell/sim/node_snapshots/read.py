"""A pool from snapshots that a scheduler's own commands have printed, again and again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.model.errors import InvalidInput
from swell.sim.node_snapshots.bslots import BSLOTS
from swell.sim.node_snapshots.moments import of_file, of_line
from swell.sim.node_snapshots.nodelist import NODELIST
from swell.sim.node_snapshots.pbsnodes import PBS_JSON, PBSNODES
from swell.sim.node_snapshots.sinfo import SINFO
from swell.sim.node_snapshots.slurm_json import SLURM_JSON
from swell.sim.node_snapshots.snapshot import IdleNodes, Lines, MalformedSnapshot
from swell.sim.pool import IdleInterval, Pool
from swell.sim.traces.source import Source

TEXT_READERS = (SINFO, BSLOTS, PBSNODES, NODELIST)
JSON_READERS = (SLURM_JSON, PBS_JSON)
#: A node that is idle in fewer snapshots in a row is between two jobs.
LEAST_SNAPSHOTS = 2


class _Snapshot(NamedTuple):
    at_s: float  #: since 1970
    idle: IdleNodes


def are_snapshots(path: Path) -> bool:
    """Whether a pool is read from snapshots: a folder of them, or a file that is like one."""
    if path.is_dir():
        return True
    lines = [*_some(Source(path).lines(), 3)]
    text = lines[0][1].lstrip() if lines else ""
    if text.startswith("{") or of_line(text) is not None:
        return True
    return bool(lines) and any(reader.is_like(lines) for reader in TEXT_READERS)


def pool_of_snapshots(path: Path) -> Pool:
    """A node is idle from the first snapshot that shows it as idle to the first that does not, or to the end.

    A node that is idle in one snapshot alone is between two jobs, and is left out. Time 0 is the first
    snapshot.

    Raises:
        InvalidInput: a line breaks a rule of its format, two snapshots are of one time, or there are fewer
            than two.

    References: Liu et al., "BFTrainer", 2021, section 2.1: `bslots` every 10 s.
    """
    files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    taken = sorted((one for file in files for one in _taken(file)), key=lambda one: one.at_s)
    if len(taken) < LEAST_SNAPSHOTS:
        raise InvalidInput(
            f"{path} holds {len(taken)} snapshots; take them again and again, each with its time, for "
            "example every 10 s"
        )
    for one, other in pairwise(taken):
        if one.at_s == other.at_s:
            raise InvalidInput(
                f"{path}: two snapshots are of the same time, {one.at_s:g}; write the time before each, or "
                "in the names of files"
            )
    intervals = tuple(_intervals(taken))
    if not intervals:
        raise InvalidInput(f"{path}: no node is idle in {LEAST_SNAPSHOTS} snapshots in a row")
    return Pool(intervals, f"{path} ({len(taken)} snapshots)")


def _intervals(taken: list[_Snapshot]) -> Iterator[IdleInterval]:
    begun: dict[str, int] = {}  #: node -> number of the snapshot since which it is idle
    for at, one in enumerate([*taken, _Snapshot(math.inf, {})]):
        for node in sorted(begun.keys() - one.idle.keys()):
            since = begun.pop(node)
            if at - since >= LEAST_SNAPSHOTS:
                first = taken[since]
                yield IdleInterval(
                    node, first.at_s - taken[0].at_s, one.at_s - taken[0].at_s, first.idle[node]
                )
        for node in one.idle:
            begun.setdefault(node, at)


def _taken(file: Path) -> Iterator[_Snapshot]:
    """The snapshots of a file. Raises InvalidInput."""
    lines = list(Source(file).lines())
    try:
        if lines and lines[0][1].lstrip().startswith("{"):
            yield _from_json(file, "\n".join(text for _, text in lines))
            return
        for at_s, part in _parts(lines):
            yield _Snapshot(of_file(file) if at_s is None else at_s, _from_text(part))
    except MalformedSnapshot as error:
        raise InvalidInput(f"{file}, line {error.line}: {error}") from error


def _parts(lines: Lines) -> Iterator[tuple[float | None, Lines]]:
    """What stands after each time; without any, the whole."""
    at_s, part = None, list[tuple[int, str]]()
    for number, text in lines:
        moment = of_line(text)
        if moment is None:
            part.append((number, text))
            continue
        if part and at_s is None:
            raise MalformedSnapshot(
                number, "is a time, and the snapshot before it has none; begin each with its time"
            )
        if at_s is not None:
            yield at_s, part
        at_s, part = moment, []
    if part or at_s is not None:
        yield at_s, part


def _from_text(part: Lines) -> IdleNodes:
    """An empty snapshot has no idle node: some commands print nothing then."""
    if not part:
        return {}
    for reader in TEXT_READERS:
        if reader.is_like(part):
            return reader.read(part)
    if part[0][1].lower().startswith("job id"):
        raise MalformedSnapshot(
            part[0][0], "qstat lists jobs and names no idle nodes; take snapshots with `pbsnodes -a`"
        )
    known = ", ".join(reader.name for reader in (*TEXT_READERS, *JSON_READERS))
    raise MalformedSnapshot(part[0][0], f"begins no snapshot that can be read; take it with one of {known}")


def _from_json(file: Path, text: str) -> _Snapshot:
    try:
        told = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise MalformedSnapshot(1, f"is no JSON ({error}); a file of JSON holds one snapshot") from error
    for reader in JSON_READERS:
        if reader.is_like(told):
            at_s = reader.moment_s(told)
            return _Snapshot(of_file(file) if at_s is None else at_s, reader.read(told))
    names = " or ".join(reader.name for reader in JSON_READERS)
    raise MalformedSnapshot(1, f"is JSON, but no list of nodes; take the snapshot with {names}")


def _some(lines: Iterator[tuple[int, str]], num: int) -> Iterator[tuple[int, str]]:
    for _ in range(num):
        if (line := next(lines, None)) is None:
            return
        yield line
