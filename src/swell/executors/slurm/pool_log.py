"""A log of the nodes that were idle for others, which `swell simulate --pool` reads."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from swell.executors.slices.pool import IDLE_STATES
from swell.executors.slices.port import ClusterNode
from swell.wire.whole_files import write_whole

LOG_FILE, OPEN_FILE = "pool.csv", "pool-open.json"
HEADER = "node,start_s,end_s,devices\n"
#: Between two times that open intervals are kept, for an agent that is killed.
KEEP_EVERY_S = 30.0

log = logging.getLogger("swell.slurm")


class OpenIntervals(msgspec.Struct, kw_only=True):
    """Intervals that have not ended, by node. Times are seconds since 1970."""

    origin_s: float  #: time 0 of the log
    seen_s: float  #: of the last look
    start_s: dict[str, float] = {}


class PoolLog:
    """A row for each time that a node was idle, or ran only slices. A minute without a look ends all."""

    MOST_GAP_S = 60.0

    def __init__(self, folder: Path, num_devices: int) -> None:
        self._folder, self._num_devices = folder, num_devices
        self._open: OpenIntervals | None = None
        self._kept_s = float("-inf")
        self._is_told = False

    def note(self, nodes: Iterable[ClusterNode], own: Collection[str], now_s: float) -> None:
        """What a look shows. `own`: nodes on which slices of this platform run."""
        there = {node.name for node in nodes if node.state in IDLE_STATES or node.name in own}
        try:
            self._note(there, now_s)
        except OSError as error:
            if not self._is_told:
                self._is_told = True
                log.warning("cannot write %s (%s): make room on its disk", self._folder, error.strerror)

    def _note(self, there: Collection[str], now_s: float) -> None:
        found = self._open = self._open or self._read(now_s)
        if now_s > found.seen_s + self.MOST_GAP_S:
            self._end(list(found.start_s), found.seen_s)
        self._end([node for node in found.start_s if node not in there], now_s)
        for node in there:
            found.start_s.setdefault(node, now_s)
        found.seen_s = now_s
        if now_s >= self._kept_s + KEEP_EVERY_S:
            self._kept_s = now_s
            self._keep(found)

    def close(self, now_s: float) -> None:
        """All intervals end now: it is not known what comes."""
        found = self._open
        if found is None:
            return
        try:
            self._end(list(found.start_s), min(now_s, found.seen_s + self.MOST_GAP_S))
            self._keep(found)
        except OSError as error:
            log.warning("cannot write %s (%s): make room on its disk", self._folder, error.strerror)

    def _end(self, nodes: Collection[str], end_s: float) -> None:
        found = self._open
        assert found is not None  # noqa: S101 - see `_note`
        rows = [(node, found.start_s.pop(node)) for node in sorted(nodes)]
        text = "".join(
            f"{node},{start_s - found.origin_s:.0f},{end_s - found.origin_s:.0f},{self._num_devices}\n"
            for node, start_s in rows
            if round(end_s - found.origin_s) > round(start_s - found.origin_s)
        )
        if text:  # the open ones first: a kill between the two loses a row, and writes none twice
            self._keep(found)
            with (self._folder / LOG_FILE).open("a") as file:
                file.write(text if file.tell() else HEADER + text)

    def _keep(self, found: OpenIntervals) -> None:
        write_whole(self._folder / OPEN_FILE, msgspec.json.encode(found))

    def _read(self, now_s: float) -> OpenIntervals:
        """What an agent before has left."""
        try:
            return msgspec.json.decode((self._folder / OPEN_FILE).read_bytes(), type=OpenIntervals)
        except (OSError, msgspec.MsgspecError):
            return OpenIntervals(origin_s=now_s, seen_s=now_s)
