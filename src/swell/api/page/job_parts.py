"""Parts of a job's page that the server alone renders: as the page is loaded, and again as they change."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from swell.api import job_words
from swell.api.page.job_files import read_checkpoints
from swell.api.page.job_rows import JobRow
from swell.api.page.platform_rows import changes_only
from swell.api.page.state_option import state_option
from swell.api.resubmission import is_undone
from swell.live.platform import Platform
from swell.model.errors import UnknownJob
from swell.model.event import JobSubmitted
from swell.model.job import Phase
from swell.model.view import JobView
from swell.web.templating import render

#: Ids of elements, and names of the templates of what is in them.
REASON, STORY = "why", "story"
UNTOLD = (REASON, "promise", "resizes", "checkpoints", "actions", "facts")
PARTS = (*UNTOLD, STORY)
#: Those that change without a turn of the head: how long a size is held, what is on disk, CPU time.
UNSEEN = ("resizes", "checkpoints", "facts")
#: They are rendered no more often than this. A reason alone changes with each plan: that can wait.
RENDER_PAUSE_S, REASON_PAUSE_S = 1.0, 3.0
#: Those are renewed so often while the job is open; its story, for what is told of webhooks, so often.
RENEW_EVERY_S, REREAD_EVERY_S = 15.0, 60.0

#: What is told of a job's past at most, the newest.
MOST_STORIES = 300


class JobParts:
    """Reads what these parts tell of one job."""

    def __init__(self, control: Platform, job_id: str) -> None:
        """Raises UnknownJob."""
        self._control = control
        self._job_dir = control.log_dir(job_id)
        self._submitted = _submission(control, job_id)
        self._policy = control.cluster().policy
        self._constants = {
            "quoted_id": shlex.quote(job_id),
            "state_option": state_option(self._job_dir.parent.parent),
            "job_dir": str(self._job_dir),
        }

    def values(
        self, view: JobView, row: JobRow, may_change: bool, names: Iterable[str] = PARTS
    ) -> dict[str, Any]:
        """That the templates of these parts need.

        Args:
            may_change: whether who looks may change the job.
        """
        found: dict[str, Any] = {"view": view, "row": row, "may_change": may_change, **self._constants}
        for name in names:
            found |= self._values(name, view, row, may_change)
        return found

    def _values(self, name: str, view: JobView, row: JobRow, may_change: bool) -> dict[str, Any]:
        match name:
            case "promise":
                said = job_words.promise_words(view, self._policy, row.standing)
                moments = job_words.promise_moments(view)
                if view.phase is Phase.REJECTED:  # an offer that is a moment passes; as words it is a length
                    moments.pop(job_words.OFFERED, None)
                return {"promise": said, "promise_moments": moments}
            case "story":
                return self._story(view.id)
            case "resizes":
                return {"resizes": job_words.resize_rows(view), "resize_totals": job_words.totals(view)}
            case "checkpoints":
                newest, number = read_checkpoints(self._job_dir)
                return {"checkpoints": newest, "num_checkpoints": number}
            case "actions":
                return {"is_undone": is_undone(view)}
            case "facts":
                return self._facts(view, may_change)
            case _:
                return {}

    def _facts(self, view: JobView, may_change: bool) -> dict[str, Any]:
        told = [("id", view.id), *job_words.facts(view), ("elasticity", str(view.elasticity))]
        if self._submitted is not None:  # else it ended under a version that did not keep this
            told += job_words.submission_facts(self._submitted, may_change)
        return {"facts": told, "moments": job_words.moments(view, self._control.now_s())}

    def _story(self, job_id: str) -> dict[str, Any]:
        told = changes_only((job_id, story) for story in self._control.stories(job_id))
        stories = [story for _, story in told]
        return {
            "stories": list(reversed(stories[-MOST_STORIES:])),
            "num_older_stories": max(0, len(stories) - MOST_STORIES),
        }


class RenderedParts:
    """What open pages have of them."""

    def __init__(self, parts: JobParts) -> None:
        self._parts = parts
        self._html: dict[bool, dict[str, str]] = {}  #: by whether the page may change the job, and by id
        self._due: set[str] = set()
        self._rendered_s: float | None = None  #: when some of them were
        self._renewed_s = self._reread_s = 0.0  #: when those that change unseen were

    def touch(self, names: Iterable[str] = UNTOLD) -> None:
        """These may be others now."""
        self._due.update(names)

    def whole(self, view: JobView, row: JobRow, may_change: bool) -> Mapping[str, str]:
        """HTML by the id of its element."""
        if may_change not in self._html:
            self._html[may_change] = self._fresh(view, row, may_change, PARTS)
        return self._html[may_change]

    def look(self, view: JobView, row: JobRow, now_s: float) -> dict[bool, dict[str, str]]:
        """Those that have changed, by whether the page may change the job.

        Args:
            now_s: by a steady clock.
        """
        if self._rendered_s is None:  # `whole` has no clock: it was a moment ago
            self._rendered_s, self._renewed_s, self._reread_s = now_s - REASON_PAUSE_S, now_s, now_s
        if row.is_open:
            self._renew(now_s)
        pause_s = REASON_PAUSE_S if self._due == {REASON} else RENDER_PAUSE_S
        if not self._due or now_s - self._rendered_s < pause_s:
            return {}
        due, self._due, self._rendered_s = self._due, set(), now_s
        return {may_change: self._news(view, row, may_change, due) for may_change in self._html}

    def _renew(self, now_s: float) -> None:
        if now_s - self._renewed_s > RENEW_EVERY_S:
            self.touch(UNSEEN)
            self._renewed_s = now_s
        if now_s - self._reread_s > REREAD_EVERY_S:
            self.touch((STORY,))
            self._reread_s = now_s

    def _news(self, view: JobView, row: JobRow, may_change: bool, names: Iterable[str]) -> dict[str, str]:
        before = self._html[may_change]
        fresh = self._fresh(view, row, may_change, names)
        self._html[may_change] = before | fresh
        return {name: text for name, text in fresh.items() if text != before[name]}

    def _fresh(self, view: JobView, row: JobRow, may_change: bool, names: Iterable[str]) -> dict[str, str]:
        values = self._parts.values(view, row, may_change, names)
        return {name: render(f"job/{name}.html", values) for name in names}


def _submission(control: Platform, job_id: str) -> JobSubmitted | None:
    try:
        return control.submission(job_id)
    except UnknownJob:
        return None
