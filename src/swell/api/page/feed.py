"""What all open pages show, and its changes in sequence: made once for all of them, in one thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from swell.api.control import Control
from swell.api.page.event_ring import EventRing
from swell.api.page.rows import (
    JobRow,
    NodeRow,
    StoryRow,
    Totals,
    changed_fields,
    job_row,
    node_rows,
    story_row,
    totals,
)
from swell.live.board import BoardChanges
from swell.model.job import Phase
from swell.model.job_query import JobQuery

#: A page hears of something that happened after no more than this, and the time that it takes to say it.
TICK_S = 0.5
#: Ended jobs and stories that a page shows.
MAX_ENDED = 60
MAX_STORIES = 60
#: After each new plan so many jobs that it did not change are looked at in a tick: estimates of thousands
#: of waiting jobs are renewed one part after another.
LOOKED_AT_TOGETHER = 400
#: The platform's warnings need looks at the disk, and are looked at so often.
WARNINGS_S = 2.0

ENDED = JobQuery(phases=frozenset(phase for phase in Phase if phase.is_end), limit=MAX_ENDED)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page shows, at one place of the sequence."""

    id: str
    now_s: float
    jobs: list[JobRow]
    nodes: tuple[NodeRow, ...]
    totals: Totals | None
    stories: list[StoryRow]
    capacity: list[tuple[float, int]]


class PageFeed:
    """Follows the platform while pages are open. Without one it costs nothing."""

    def __init__(self, control: Control, now: Callable[[], float] = time.monotonic) -> None:
        self._control, self._now = control, now
        self._lock = threading.Lock()
        self._turn = 0
        self._rows: dict[str, JobRow] = {}
        self._unrenewed: list[str] = []  #: open jobs of which the latest plan may say something else
        self._ended: deque[str] = deque()
        self._stories: deque[StoryRow] = deque(maxlen=MAX_STORIES)
        self._nodes: tuple[NodeRow, ...] = ()
        self._totals: Totals | None = None
        self._capacity: list[tuple[float, int]] = []
        self._looked_s = float("-inf")
        self._has_begun = False
        self.ring = EventRing(self._all)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------ readers
    def shown(self) -> Shown:
        """The present state, with the place in the sequence from which events go on."""
        with self._lock:
            self._look()
            return self._state()

    def follow(self) -> None:
        """From now on events are made for as long as somebody reads them."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="swell-page", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End all streams."""
        self._stopped.set()
        self.ring.close()

    # ------------------------------------------------------------ the thread
    def _run(self) -> None:
        while not self._stopped.wait(TICK_S):
            with self._lock:
                if not self.ring.has_readers:
                    self._thread = None
                    return
                self._look()

    def _look(self) -> None:
        """Bring the state up to date, and say what has changed."""
        if not self._has_begun:
            self._begin()
        now_s, delta = self._control.now_s(), dict[str, Any]()
        found = self._control.changes(self._turn, self._to_renew())
        self._turn = found.turn
        self._take_jobs(found, now_s, delta)
        if found.has_new_plan:
            self._unrenewed = [row.id for row in self._rows.values() if row.is_open]
        self._take_stories(found, delta)
        if found.views or self._now() - self._looked_s >= WARNINGS_S:
            self._take_cluster(now_s, delta)
        if delta:
            self.ring.publish({"now_s": now_s, **delta})

    def _begin(self) -> None:
        """Ended jobs come from the archive, too."""
        self._has_begun = True
        now_s = self._control.now_s()
        for view in self._control.jobs(ENDED):
            self._rows[view.id] = job_row(view, now_s)
            self._ended.append(view.id)

    def _to_renew(self) -> list[str]:
        part, self._unrenewed = self._unrenewed[:LOOKED_AT_TOGETHER], self._unrenewed[LOOKED_AT_TOGETHER:]
        return part

    def _take_jobs(self, found: BoardChanges, now_s: float, delta: dict[str, Any]) -> None:
        new, changed, gone = [], {}, []
        for view in sorted(found.views, key=lambda view: (view.submitted_s, view.id)):
            before = self._rows.get(view.id)
            row = self._rows[view.id] = job_row(view, now_s, before)
            if before is None:
                new.append(row)
            elif fields := changed_fields(before, row):
                changed[view.id] = fields
            if not row.is_open and (before is None or before.is_open):
                self._ended.append(view.id)
        while len(self._ended) > MAX_ENDED:
            gone.append(self._ended.popleft())
            del self._rows[gone[-1]]
        parts = {"new": new, "jobs": changed, "gone": gone}
        delta |= {name: part for name, part in parts.items() if part}

    def _take_stories(self, found: BoardChanges, delta: dict[str, Any]) -> None:
        told = [
            story_row(job_id, story, row.name if (row := self._rows.get(job_id)) else job_id)
            for job_id, story in found.stories[-MAX_STORIES:]
        ]
        if told:
            self._stories.extend(told)
            delta["stories"] = told

    def _take_cluster(self, now_s: float, delta: dict[str, Any]) -> None:
        cluster = self._control.cluster()
        self._looked_s = self._now()
        nodes, line = node_rows(cluster), totals(cluster)
        if nodes != self._nodes:
            self._nodes = delta["nodes"] = nodes
        if line != self._totals:
            self._totals = delta["totals"] = line
        if not self._capacity or self._capacity[-1][1] != cluster.num_devices:
            self._capacity.append((round(now_s, 1), cluster.num_devices))
            delta["capacity"] = self._capacity[-1]

    def _all(self) -> Shown:
        """For a page that has missed events."""
        with self._lock:
            return self._state()

    def _state(self) -> Shown:
        return Shown(
            id=self.ring.last_id,
            now_s=self._control.now_s(),
            jobs=list(self._rows.values()),
            nodes=self._nodes,
            totals=self._totals,
            stories=list(self._stories),
            capacity=list(self._capacity),
        )
