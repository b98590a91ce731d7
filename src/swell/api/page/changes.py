"""What open pages show, and what of it has changed: made once for all of them, in one thread."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import Any

import msgspec
from anyio import to_thread

from swell import __version__
from swell.api.page.rows import (
    HISTORY_S,
    JobRow,
    StoryRow,
    TenantRow,
    Totals,
    becomes_overdue,
    changes_only,
    job_row,
    place_in_table,
    tenant_rows,
    thinned,
    totals,
)
from swell.live.board import BoardChanges
from swell.live.platform import Platform
from swell.model.booking import Booking
from swell.model.coding import encode
from swell.model.errors import UnknownJob
from swell.model.job import LOSS, Phase
from swell.model.job_query import JobQuery
from swell.model.view import JobView, LostNode, NodeView, Story

#: Between two looks. After it a turn of the head is waited for, for `WARNINGS_S` at most.
LEAST_PAUSE_S = 0.5
#: A page that asks is told of more steps, and what follows from them, after so long; of all else at once.
PROGRESS_S = 2.5
#: What more steps change of a row.
PROGRESS = ("steps", "done", "loss", "spark", "expected_s")
#: The thread looks on for so long after a page has asked last.
NOBODY_S = 10.0
#: Jobs that have left the table and are still known: a page that missed more of them gets the whole state.
GONE_KEPT = 1000
#: Ended jobs and stories that a page shows.
MAX_ENDED = 60
MAX_STORIES = 60
#: After each new plan so many jobs that it did not change are looked at in a tick: estimates of thousands
#: of waiting jobs are renewed one part after another.
LOOKED_AT_TOGETHER = 400
#: A page is given so many jobs at first, and as many each time that it asks for more.
MOST_JOBS = 1000
#: Jobs whose stories of before a restart are shown.
JOBS_TOLD_OF = 16
#: Jobs whose spark lines begin with the history of their losses.
HISTORIES_READ = 64
#: The platform's warnings need looks at the disk, and are looked at so often.
WARNINGS_S = 2.0
#: After a failure the platform is left alone for so long.
AFTER_FAILURE_S = 10.0

log = logging.getLogger("swell.page")

ENDED = JobQuery(phases=frozenset(phase for phase in Phase if phase.is_end), limit=MAX_ENDED)


class PageUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a page shows, or what of it is another since the page was told last. Left out: as before."""

    id: str
    now_s: float
    version: str = ""  #: of the program, if this is all: the script of another one is not made for it
    jobs: list[JobRow] = []
    gone: list[str] = []  #: ids of jobs that are no longer there
    num_jobs: int | None = None  #: in all
    stories: list[StoryRow] = []  #: further ones
    nodes: tuple[NodeView, ...] | None = None
    lost_nodes: tuple[LostNode, ...] | None = None
    bookings: tuple[Booking, ...] | None = None
    tenants: tuple[TenantRow, ...] | None = None  #: those that have quotas, or have used some
    totals: Totals | None = None
    capacity: tuple[tuple[float, int], ...] | None = None  #: devices from each time on


class PageChanges:
    """Follows the platform while pages ask. Without one it costs nothing.

    What is shown has the number of the look that has found it. The id of an answer is the name of this
    sequence of looks and the number of the latest: who asks with it is told of all with a higher number, and
    who asks with the id of another sequence, or of long ago, of all.
    """

    def __init__(self, control: Platform, now: Callable[[], float] = time.monotonic) -> None:
        self._control, self._now = control, now
        self._lock = threading.Lock()
        self._life, self._number, self._turn = secrets.token_hex(4), 0, 0
        self._event_number = 0  #: of the latest look that has found more than progress
        self._rows: dict[str, JobRow] = {}
        self._stories: deque[tuple[int, StoryRow]] = deque(maxlen=MAX_STORIES)
        self._parts: dict[str, Any] = {"capacity": ()}
        #: Number of the look that has found the latest of a job, or of a part.
        self._found: dict[str, int] = {}
        self._found_parts: dict[str, int] = {}
        self._gone: tuple[tuple[int, str], ...] = ()  #: a job, and the look that has missed it
        #: Open jobs of which the latest plan may say something else: those that wait for longest come first.
        self._unrenewed: dict[str, None] = {}
        self._has_begun = False
        self._looked_s = float("-inf")
        self._num_histories = 0
        self._answers: dict[tuple[str, str | None], bytes] = {}  #: since the latest look that found something
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked_s = float("-inf")  #: when a page has, by a steady clock
        self._next_look: Future[None] = Future()
        self._waited_for: Future[None] | None = None
        self._waiting: asyncio.Future[None]
        self._stopped = threading.Event()

    # ------------------------------------------------------------ readers
    @property
    def last_id(self) -> str:
        """Id of what is shown now."""
        return f"{self._life}-{self._number}"

    def shown(self) -> PageUpdate:
        """All that is shown, as it is now."""
        with self._lock:
            self._update()
            return self._since(-1, None)

    def more_jobs(self, first: int) -> list[JobRow]:
        """Those from this place in the table on."""
        with self._lock:
            return self._in_order()[first : first + MOST_JOBS]

    def since(self, last_id: str, job_id: str | None = None) -> PageUpdate:
        """What a page lacks that has heard all up to this id.

        Args:
            job_id: the page is that of this job, and is told of nothing else.

        Raises:
            UnknownJob: there is no such job, or none any more.
        """
        if job_id is not None and job_id not in self._rows:
            self._control.job(job_id)
        number = self._known(last_id)
        with self._lock:
            if number < 0:
                self._update()
            return self._since(number, job_id)

    def _known(self, last_id: str) -> int:
        """Number of the look that this id is of; -1 if it is not known what has changed since."""
        life, _, number = last_id.partition("-")
        if life != self._life or not number.isdecimal() or int(number) > self._number:
            return -1
        is_all_known = len(self._gone) < GONE_KEPT or self._gone[0][0] <= int(number)
        return int(number) if is_all_known else -1

    def _since(self, number: int, job_id: str | None) -> PageUpdate:
        told = PageUpdate(
            id=self.last_id, now_s=self._control.now_s(), version=__version__ if number < 0 else ""
        )
        if job_id is not None:
            row = self._rows.get(job_id) or job_row(self._control.job(job_id), told.now_s)
            is_news = number < 0 or self._is_found_after(number, job_id)
            return msgspec.structs.replace(told, jobs=[row] if is_news else [])
        parts = {name: part for name, part in self._parts.items() if self._found_parts.get(name, 0) > number}
        stories = [row for at, row in self._stories if at > number]
        if number < 0:
            return msgspec.structs.replace(told, jobs=self._in_order()[:MOST_JOBS], stories=stories, **parts)
        jobs = [self._rows[name] for name, at in self._found.items() if at > number and name in self._rows]
        gone = [name for at, name in self._gone if at > number and name not in self._rows]
        return msgspec.structs.replace(told, jobs=jobs, gone=gone, stories=stories, **parts)

    def _in_order(self) -> list[JobRow]:
        return sorted(self._rows.values(), key=place_in_table)

    async def wait(self, last_id: str, job_id: str | None, most_s: float) -> bytes:
        """`since` as JSON, as soon as there is something to tell, or after so long. Raises UnknownJob."""
        asked_s = self._now()
        until_s = asked_s + most_s
        while True:
            looked, now_s = self._follow(), self._now()
            is_late = now_s >= until_s or self._stopped.is_set()
            if is_late or self._has_news(last_id, job_id, now_s - asked_s >= PROGRESS_S):
                known = self._answers.get((last_id, job_id))
                return await to_thread.run_sync(self._answer, last_id, job_id) if known is None else known
            if self._waited_for is not looked:  # all that wait share one: each of its own is woken by itself
                self._waited_for, self._waiting = looked, asyncio.wrap_future(looked)
            await asyncio.wait({self._waiting}, timeout=until_s - now_s)

    def _has_news(self, last_id: str, job_id: str | None, is_progress_enough: bool) -> bool:
        if last_id == self.last_id:
            return False
        number = self._known(last_id)
        if number >= 0 and self._event_number <= number and not is_progress_enough:
            return False
        return number < 0 or job_id is None or self._is_found_after(number, job_id)

    def _is_found_after(self, number: int, job_id: str) -> bool:
        if job_id in self._rows:
            return self._found.get(job_id, 0) > number
        return any(name == job_id and at > number for at, name in self._gone)

    def _answer(self, last_id: str, job_id: str | None) -> bytes:
        """`since` as JSON, made once for all pages that have heard the same."""
        answers, told = self._answers, self.since(last_id, job_id)
        content = encode(told)
        return content if told.version else answers.setdefault((last_id, job_id), content)

    def stop(self) -> None:
        """Answer who waits."""
        self._stopped.set()
        with self._starting:
            self._tell_looked()

    # ------------------------------------------------------------ the thread
    def _follow(self) -> Future[None]:
        """Have the thread look on. The future is done at the end of the next look."""
        with self._starting:
            self._asked_s = self._now()
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="swell-page", daemon=True)
                self._thread.start()
            return self._next_look

    def _run(self) -> None:
        pause_s = LEAST_PAUSE_S
        while not self._stopped.wait(pause_s):
            if not self._unrenewed:
                self._control.wait_for_news(self._turn, WARNINGS_S)
            with self._starting:
                if self._now() - self._asked_s > NOBODY_S:
                    self._thread = None
                    return
            pause_s = self._try_to_update()
            with self._starting:
                self._tell_looked()

    def _tell_looked(self) -> None:
        looked, self._next_look = self._next_look, Future()
        looked.set_result(None)

    def _try_to_update(self) -> float:
        """A disk that cannot be read is no reason for the pages to stand still for ever.

        Returns the time until the next look, in seconds.
        """
        try:
            with self._lock:
                self._update()
        except Exception:
            log.exception("open pages are not kept up to date for %g s", AFTER_FAILURE_S)
            return AFTER_FAILURE_S
        return LEAST_PAUSE_S

    def _update(self) -> None:
        """Bring what is shown up to date. All is read before anything is changed: a failure loses nothing."""
        now_s = self._control.now_s()
        is_time = self._now() - self._looked_s >= WARNINGS_S
        renewed = list(islice(self._unrenewed, LOOKED_AT_TOGETHER))
        overdue = [row.id for row in self._rows.values() if becomes_overdue(row, now_s)] if is_time else []
        found = self._control.changes(self._turn, [*renewed, *overdue])
        views, gone = self._views(found)
        rows = self._changed_rows(views, now_s)
        stories = self._new_stories(found, views, rows)
        parts = self._new_parts(now_s) if found.views or is_time else {}
        self._turn, self._has_begun = found.turn, True
        for job_id in renewed:
            del self._unrenewed[job_id]
        self._apply(rows, gone, stories, parts)
        if found.has_new_plan:
            self._unrenewed |= dict.fromkeys(row.id for row in self._rows.values() if row.is_open)
        if parts:
            self._looked_s = self._now()

    def _views(self, found: BoardChanges) -> tuple[dict[str, JobView], set[str]]:
        """Views of the jobs that have changed, and ids of those that are gone.

        Ended jobs are in the archive, and so is all from before a restart.
        """
        views, gone = {view.id: view for view in found.views}, set[str]()
        if self._has_begun and not (found.archived or found.is_all):
            return views, gone
        latest = {view.id: view for view in self._control.jobs(ENDED)}
        missing = set(found.archived)
        if found.is_all or not self._has_begun:
            views = latest | views
            missing = self._rows.keys() - views.keys()
        for job_id in missing - views.keys():
            try:
                views[job_id] = latest.get(job_id) or self._control.job(job_id)
            except UnknownJob:
                gone.add(job_id)
        return views, gone & self._rows.keys()

    def _changed_rows(self, views: Mapping[str, JobView], now_s: float) -> dict[str, JobRow]:
        rows = {}
        for view in sorted(views.values(), key=lambda view: (view.submitted_s, view.id)):
            before = self._rows.get(view.id)
            row = job_row(view, now_s, before, self._losses(view) if before is None else ())
            if row != before:
                rows[view.id] = row
        return rows

    def _losses(self, view: JobView) -> tuple[float, ...]:
        """Before the first look, of some jobs: to read the history of thousands takes long."""
        if view.loss is None or self._num_histories >= HISTORIES_READ:
            return ()
        series = self._control.metrics(view.id, (LOSS,)).series
        self._num_histories += 1
        return thinned([value for value in series[0].mean if value is not None]) if series else ()

    def _new_stories(
        self, found: BoardChanges, views: Mapping[str, JobView], rows: Mapping[str, JobRow]
    ) -> list[StoryRow]:
        """Also those of before a restart, which only the archive has."""
        told: list[tuple[str, Story]] = list(found.stories)
        if not self._has_begun:
            latest = sorted(views.values(), key=lambda view: view.finished_s or view.submitted_s)
            archived = [
                (view.id, story)
                for view in latest[-JOBS_TOLD_OF:]
                for story in self._control.stories(view.id)
            ]
            told = sorted(dict.fromkeys([*archived, *told]), key=lambda one: one[1].at_s)
        before = {row.job_id: row.text for _, row in self._stories}
        names = {row.id: row.name for row in (*self._rows.values(), *rows.values())}
        return [
            StoryRow(at_s=int(story.at_s), job_id=job_id, job=names.get(job_id, job_id), text=story.text)
            for job_id, story in changes_only(told, before)[-MAX_STORIES:]
        ]

    def _new_parts(self, now_s: float) -> dict[str, Any]:
        cluster = self._control.cluster()
        capacity = self._parts["capacity"]
        if not capacity or capacity[-1][1] != cluster.num_devices:
            capacity = (*capacity, (round(now_s, 1), cluster.num_devices))
        while len(capacity) > 1 and capacity[1][0] <= now_s - HISTORY_S:
            capacity = capacity[1:]
        return {
            "nodes": tuple(cluster.nodes),
            "lost_nodes": tuple(cluster.lost_nodes),
            "bookings": cluster.bookings,
            "tenants": tenant_rows(self._control.tenant_devices(), cluster.accounts),
            "totals": totals(cluster),
            "capacity": capacity,
        }

    def _apply(
        self, rows: Mapping[str, JobRow], pruned: set[str], stories: list[StoryRow], parts: Mapping[str, Any]
    ) -> None:
        """Put what a look has found in place, under its number if that is anything.

        Args:
            rows: new ones, and others than before.
            pruned: ids of jobs that are gone.
            parts: of `PageUpdate`.
        """
        number, gone = self._number + 1, set(pruned)
        is_progress = all(_is_progress(self._rows.get(name), row) for name, row in rows.items())
        self._rows |= rows
        ended = [row for row in self._rows.values() if not row.is_open and row.id not in gone]
        if len(ended) > MAX_ENDED:
            ended.sort(key=lambda row: row.finished_s or row.submitted_s)
            gone.update(row.id for row in ended[:-MAX_ENDED])
        for job_id in gone:
            del self._rows[job_id]
            self._found.pop(job_id, None)
        self._gone = (*self._gone, *((number, job_id) for job_id in gone))[-GONE_KEPT:]
        news = {*rows, *(row.job_id for row in stories)} - gone
        self._found |= dict.fromkeys(news, number)
        self._stories.extend((number, row) for row in stories)
        parts = {**parts, "num_jobs": len(self._rows)}
        changed = {name: part for name, part in parts.items() if part != self._parts.get(name)}
        self._parts |= changed
        self._found_parts |= dict.fromkeys(changed, number)
        if stories or gone or changed or not is_progress:
            self._event_number = number
        if news or gone or changed:
            self._number, self._answers = number, {}


def _is_progress(before: JobRow | None, after: JobRow) -> bool:
    """Whether nothing but steps, and what follows from them, is another."""
    if before is None:
        return False
    progress = {name: getattr(after, name) for name in PROGRESS}
    return msgspec.structs.replace(before, **progress) == after
