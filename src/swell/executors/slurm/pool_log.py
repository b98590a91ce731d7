"""A log of the nodes that were idle for others, which `swell simulate --pool` reads."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

#: Times are seconds since 1970.
LOG_FILE, HEADER = "pool.csv", "node,start_s,end_s,devices\n"

log = logging.getLogger("swell.slurm")


class PoolLog:
    """A row for each time that a node was idle, or ran only slices. A minute without a look ends all.

    A row is written at its end, so an agent that is killed writes none of those that are open.
    """

    MOST_GAP_S = 60.0

    def __init__(self, folder: Path, num_devices: int) -> None:
        self._file, self._num_devices = folder / LOG_FILE, num_devices
        self._since_s: dict[str, float] = {}  #: nodes that are idle
        self._seen_s = float("-inf")

    def note(self, there: Collection[str], now_s: float) -> None:
        """What a look shows. `there`: nodes that are idle, or on which slices of this platform run."""
        if now_s > self._seen_s + self.MOST_GAP_S:
            self._end(list(self._since_s), self._seen_s)
        self._end([node for node in self._since_s if node not in there], now_s)
        for node in there:
            self._since_s.setdefault(node, now_s)
        self._seen_s = now_s

    def close(self, now_s: float) -> None:
        """All intervals end now: it is not known what comes."""
        self._end(list(self._since_s), min(now_s, self._seen_s + self.MOST_GAP_S))

    def _end(self, nodes: Collection[str], end_s: float) -> None:
        began = {node: round(self._since_s.pop(node)) for node in sorted(nodes)}
        text = "".join(
            f"{node},{start_s},{round(end_s)},{self._num_devices}\n"
            for node, start_s in began.items()
            if round(end_s) > start_s
        )
        if not text:
            return
        try:
            with self._file.open("a") as file:
                file.write(text if file.tell() else HEADER + text)
        except OSError as error:
            log.warning("cannot write %s (%s): make room on its disk", self._file, error.strerror)
