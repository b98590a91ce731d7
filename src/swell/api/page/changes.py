"""What open pages show, and its latest changes in sequence: made once for all of them, in one thread."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from anyio import to_thread

from swell import __version__
from swell.api.page.job_rows import (
    HISTORY_S,
    JobRow,
    becomes_overdue,
    changed_fields,
    job_row,
    place_in_table,
    thinned,
)
from swell.api.page.platform_rows import (
    NodeRow,
    StoryRow,
    TenantRow,
    Totals,
    changes_only,
    node_rows,
    story_row,
    tenant_rows,
    totals,
)
from swell.live.board import BoardChanges
from swell.live.platform import Platform
from swell.model.coding import encode
from swell.model.errors import UnknownJob
from swell.model.job import LOSS, Phase
from swell.model.job_query import JobQuery
from swell.model.view import JobView

#: Between two looks. After it a turn of the head is waited for, for `WARNINGS_S` at most.
LEAST_PAUSE_S = 0.5
#: The thread looks on for so long after a page has asked last.
NOBODY_S = 10.0
#: A page that was away for no more changes goes on where it was.
CHANGES_KEPT = 64
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


class ShownPage(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page shows, at one place of the sequence."""

    id: str
    version: str = __version__  #: of the program: the script of a page of another one is not made for this
    now_s: float
    jobs: list[JobRow]  #: those that come first in the table
    num_jobs: int  #: in all
    nodes: tuple[NodeRow, ...]
    tenants: tuple[TenantRow, ...]  #: those that have quotas
    totals: Totals | None
    stories: list[StoryRow]
    capacity: list[tuple[float, int]]


class ShownJob(msgspec.Struct, frozen=True, kw_only=True):
    """What the page of a job is told at each change."""

    version: str = __version__
    now_s: float
    row: JobRow


class PageChange(NamedTuple):
    """What one look has found."""

    content: msgspec.Raw  #: JSON, made once for all pages
    job_ids: frozenset[str]  #: of the jobs that it tells of


class RecentChanges:
    """The latest changes, in sequence; never altered, but for what is remembered in `answers`."""

    def __init__(self, life: str, number: int = 0, kept: tuple[PageChange, ...] = ()) -> None:
        self._life, self._number, self._kept = life, number, kept
        self.answers: dict[tuple[str, str | None], tuple[bytes, bool]] = {}

    @property
    def last_id(self) -> str:
        return f"{self._life}-{self._number}"

    def and_then(self, delta: dict[str, Any]) -> RecentChanges:
        """These, and one more."""
        told = {row.job_id for row in delta.get("stories", ())}
        new = {row.id for row in delta.get("new", ())}
        change = PageChange(
            msgspec.Raw(encode(delta)),
            frozenset({*told, *new, *delta.get("jobs", ()), *delta.get("gone", ())}),
        )
        return RecentChanges(self._life, self._number + 1, (*self._kept, change)[-CHANGES_KEPT:])

    def after(self, last_id: str) -> Sequence[PageChange] | None:
        """None: it is not known what a page of that id has missed."""
        life, _, number = last_id.partition("-")
        if life != self._life or not number.isdecimal():
            return None
        num_missed = self._number - int(number)
        return self._kept[len(self._kept) - num_missed :] if 0 <= num_missed <= len(self._kept) else None


def first_changes() -> RecentChanges:
    """None yet, of a sequence that no page knows."""
    return RecentChanges(secrets.token_hex(4))


class PageChanges:
    """Follows the platform while pages ask. Without one it costs nothing.

    The id of an answer is the name of this sequence's life and a number: who asks with one of another life,
    or one that is long gone, gets the whole state.
    """

    def __init__(self, control: Platform, now: Callable[[], float] = time.monotonic) -> None:
        self._control, self._now = control, now
        self._lock = threading.Lock()
        self._turn = 0
        self._rows: dict[str, JobRow] = {}
        #: Open jobs of which the latest plan may say something else: those that wait for longest come first.
        self._unrenewed: dict[str, None] = {}
        self._ended: deque[str] = deque()
        self._stories: deque[StoryRow] = deque(maxlen=MAX_STORIES)
        self._nodes: tuple[NodeRow, ...] = ()
        self._tenants: tuple[TenantRow, ...] = ()
        self._totals: Totals | None = None
        self._capacity: deque[tuple[float, int]] = deque()
        self._looked_s = float("-inf")
        self._num_jobs = self._num_histories = 0
        self._has_begun = False
        self._is_sequel = False  #: changes tell all that is new since the look before
        self._recent = first_changes()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked_s = float("-inf")  #: when a page has, by a steady clock
        self._next_look: Future[None] = Future()
        self._stopped = threading.Event()

    # ------------------------------------------------------------ readers
    def shown(self) -> ShownPage:
        """The present state, with the place in the sequence from which changes go on."""
        with self._lock:
            self._look()
            return self._state()

    def more_jobs(self, first: int) -> list[JobRow]:
        """Those from this place in the table on."""
        with self._lock:
            return sorted(self._rows.values(), key=place_in_table)[first : first + MOST_JOBS]

    def since(self, last_id: str, job_id: str | None = None) -> dict[str, Any]:
        """What a page lacks that has heard all up to this id: changes, or the whole state.

        Args:
            job_id: the page is that of this job, and its state is its row.

        Raises:
            UnknownJob: there is no such job, or none any more.
        """
        if job_id is not None and job_id not in self._rows:
            self._control.job(job_id)
        recent = self._recent
        missed = recent.after(last_id)
        if missed is None:
            shown = self.shown()
            return {"id": shown.id, "state": shown if job_id is None else self._shown_job(job_id)}
        if job_id is None:
            return {"id": recent.last_id, "changes": [one.content for one in missed]}
        if any(job_id in one.job_ids for one in missed):
            return {"id": recent.last_id, "state": self._shown_job(job_id)}
        return {"id": recent.last_id, "changes": []}

    def _shown_job(self, job_id: str) -> ShownJob:
        row, now_s = self._rows.get(job_id), self._control.now_s()
        return ShownJob(now_s=now_s, row=row or job_row(self._control.job(job_id), now_s))

    async def wait(self, last_id: str, job_id: str | None, most_s: float) -> bytes:
        """`since` as JSON, as soon as there is something to tell, or after so long. Raises UnknownJob."""
        until_s = self._now() + most_s
        while True:
            looked, is_late = self._follow(), self._now() >= until_s or self._stopped.is_set()
            if is_late or last_id != self._recent.last_id:
                told = self._recent.answers.get((last_id, job_id))
                if told is None:
                    told = await to_thread.run_sync(self._answer, last_id, job_id)
                content, is_news = told
                if is_news or is_late:
                    return content
            await asyncio.wait({asyncio.wrap_future(looked)}, timeout=until_s - self._now())

    def _answer(self, last_id: str, job_id: str | None) -> tuple[bytes, bool]:
        """`since` as JSON, made once for all that have heard the same, and whether it tells anything."""
        asked, answers = (last_id, job_id), self._recent.answers
        if asked not in answers:
            found = self.since(last_id, job_id)
            told = encode(found), bool(found.get("state") or found.get("changes"))
            if "state" in found:
                return told
            answers[asked] = told
        return answers[asked]

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
            with self._lock:
                pause_s = self._try_to_look()
            with self._starting:
                self._tell_looked()

    def _tell_looked(self) -> None:
        looked, self._next_look = self._next_look, Future()
        looked.set_result(None)

    def _try_to_look(self) -> float:
        """A disk that cannot be read is no reason for the pages to stand still for ever.

        Returns the time until the next look, in seconds.
        """
        try:
            self._look()
        except Exception:
            log.exception("open pages are not kept up to date for %g s", AFTER_FAILURE_S)
            return AFTER_FAILURE_S
        return LEAST_PAUSE_S

    def _look(self) -> None:
        """Bring the state up to date, and say what has changed."""
        now_s, delta, pruned = self._control.now_s(), dict[str, Any](), list[str]()
        is_sequel, self._is_sequel = self._is_sequel, False  # a failure loses what it has found so far
        renewed = list(islice(self._unrenewed, LOOKED_AT_TOGETHER))
        found = self._control.changes(self._turn, renewed)
        if self._has_begun:
            found, pruned = self._with_archived(found)
        else:
            found = self._begin(found)
        self._take_jobs(found, pruned, now_s, delta)
        self._has_begun, self._turn = True, found.turn
        for job_id in renewed:
            del self._unrenewed[job_id]
        if found.has_new_plan:
            self._unrenewed |= dict.fromkeys(row.id for row in self._rows.values() if row.is_open)
        self._take_stories(found, delta)
        if found.views or self._now() - self._looked_s >= WARNINGS_S:
            self._unrenewed |= dict.fromkeys(self._overdue(now_s))
            self._take_cluster(now_s, delta)
        if not is_sequel:
            self._recent = first_changes()
        elif delta:
            self._recent = self._recent.and_then({"now_s": now_s, **delta})
        self._is_sequel = True

    def _begin(self, found: BoardChanges) -> BoardChanges:
        """Return `found` with ended jobs and stories from before a restart, which only the archive has."""
        ended = self._control.jobs(ENDED)
        views = {view.id: view for view in (*ended, *found.views)}
        latest = sorted(views.values(), key=lambda view: view.finished_s or view.submitted_s)
        told = set(found.stories)
        for view in latest[-JOBS_TOLD_OF:]:
            told.update((view.id, story) for story in self._control.stories(view.id))
        in_order = sorted(told, key=lambda one: one[1].at_s)
        return found._replace(views=list(views.values()), stories=in_order)

    def _with_archived(self, found: BoardChanges) -> tuple[BoardChanges, list[str]]:
        """Add jobs that were archived before they were looked at; also returns ids of jobs pruned since."""
        if not (found.archived or found.is_all):
            return found, []
        latest = {view.id: view for view in self._control.jobs(ENDED)}
        missing = {*latest, *self._rows}.difference(view.id for view in found.views)
        if not found.is_all:
            missing.intersection_update(found.archived)
        views, pruned = [latest[job_id] for job_id in missing if job_id in latest], []
        for job_id in missing - latest.keys():
            try:
                views.append(self._control.job(job_id))
            except UnknownJob:
                pruned.append(job_id)
        return found._replace(views=[*found.views, *views]), pruned

    def _take_jobs(self, found: BoardChanges, pruned: list[str], now_s: float, delta: dict[str, Any]) -> None:
        new, changed, gone = [], {}, pruned
        for job_id in pruned:
            if not self._rows.pop(job_id).is_open:
                self._ended.remove(job_id)
        for view in sorted(found.views, key=lambda view: (view.submitted_s, view.id)):
            before = self._rows.get(view.id)
            losses = self._losses(view) if before is None else ()
            row = self._rows[view.id] = job_row(view, now_s, before, losses)
            if before is None or before.phase != row.phase:  # a page may not have had it so far
                new.append(row)
            elif fields := changed_fields(before, row):
                changed[view.id] = fields
            if not row.is_open and (before is None or before.is_open):
                self._ended.append(view.id)
        if len(self._ended) > MAX_ENDED:  # some were read from the archive, later than they ended
            rows = (self._rows[job_id] for job_id in self._ended)
            in_order = sorted(rows, key=lambda row: row.finished_s or row.submitted_s)
            self._ended = deque(row.id for row in in_order)
        while len(self._ended) > MAX_ENDED:
            gone.append(self._ended.popleft())
            del self._rows[gone[-1]]
        parts = {"new": new, "jobs": changed, "gone": gone}
        delta |= {name: part for name, part in parts.items() if part}

    def _overdue(self, now_s: float) -> list[str]:
        """Open jobs whose deadlines have passed without a turn."""
        return [row.id for row in self._rows.values() if becomes_overdue(row, now_s)]

    def _losses(self, view: JobView) -> tuple[float, ...]:
        """Before the first look, of some jobs: to read the history of thousands takes long."""
        if view.loss is None or self._num_histories >= HISTORIES_READ:
            return ()
        self._num_histories += 1
        series = self._control.metrics(view.id, (LOSS,)).series
        return thinned([value for value in series[0].mean if value is not None]) if series else ()

    def _take_stories(self, found: BoardChanges, delta: dict[str, Any]) -> None:
        before = {row.job_id: row.text for row in self._stories}
        told = [
            story_row(job_id, story, row.name if (row := self._rows.get(job_id)) else job_id)
            for job_id, story in changes_only(found.stories, before)[-MAX_STORIES:]
        ]
        if told:
            self._stories.extend(told)
            delta["stories"] = told
        if self._num_jobs != len(self._rows):
            self._num_jobs = delta["num_jobs"] = len(self._rows)

    def _take_cluster(self, now_s: float, delta: dict[str, Any]) -> None:
        cluster, tenants = self._control.cluster(), tenant_rows(self._control.tenant_devices())
        self._looked_s = self._now()
        nodes, line = node_rows(cluster), totals(cluster)
        if nodes != self._nodes:
            self._nodes = delta["nodes"] = nodes
        if tenants != self._tenants:
            self._tenants = delta["tenants"] = tenants
        if line != self._totals:
            self._totals = delta["totals"] = line
        if not self._capacity or self._capacity[-1][1] != cluster.num_devices:
            self._capacity.append((round(now_s, 1), cluster.num_devices))
            delta["capacity"] = self._capacity[-1]
        while len(self._capacity) > 1 and self._capacity[1][0] <= now_s - HISTORY_S:
            self._capacity.popleft()

    def _state(self) -> ShownPage:
        return ShownPage(
            id=self._recent.last_id,
            now_s=self._control.now_s(),
            jobs=sorted(self._rows.values(), key=place_in_table)[:MOST_JOBS],
            num_jobs=len(self._rows),
            nodes=self._nodes,
            tenants=self._tenants,
            totals=self._totals,
            stories=list(self._stories),
            capacity=list(self._capacity),
        )
