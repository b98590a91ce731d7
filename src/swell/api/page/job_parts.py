"""Parts of a job's page that the server alone renders: as the page is loaded, and again as they change."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from swell.api import words
from swell.api.page.job_files import read_checkpoints
from swell.api.page.job_rows import JobRow
from swell.api.page.platform_rows import changes_only
from swell.api.resubmission import is_undone
from swell.live.platform import Platform
from swell.model.errors import UnknownJob
from swell.model.event import JobSubmitted
from swell.model.job import Phase
from swell.model.view import JobView, Story
from swell.store.folder import StateFolder
from swell.web.templating import render

#: Ids of elements, and names of the templates of what is in them.
PARTS = ("why", "promise", "resizes", "checkpoints", "actions", "facts", "story")

#: What is told of a job's past at most, the newest.
MOST_STORIES = 300


def part_values(control: Platform, view: JobView, row: JobRow, may_change: bool) -> dict[str, Any]:
    """That the templates of these parts need. Raises UnknownJob.

    Args:
        may_change: whether who looks may change the job.
    """
    job_dir = control.log_dir(view.id)
    newest, num_checkpoints = read_checkpoints(job_dir)
    stories = changes_only((view.id, story) for story in control.stories(view.id))
    return {
        "view": view,
        "row": row,
        "may_change": may_change,
        "quoted_id": shlex.quote(view.id),
        "state_option": _state_option(job_dir.parent.parent),
        "job_dir": str(job_dir),
        "promise": words.promise_words(view, control.cluster().policy, row.standing),
        "promise_moments": _promise_moments(view),
        "resizes": words.resize_rows(view),
        "resize_totals": words.totals(view),
        "checkpoints": newest,
        "num_checkpoints": num_checkpoints,
        "is_undone": is_undone(view),
        "facts": _facts(control, view, may_change),
        "moments": words.moments(view, control.now_s()),
        "stories": _newest(stories),
        "num_older_stories": max(0, len(stories) - MOST_STORIES),
    }


def rendered_parts(values: dict[str, Any]) -> dict[str, str]:
    """HTML of these parts by the id of the element."""
    return {name: render(f"job/{name}.html", values) for name in PARTS}


def _state_option(folder: Path) -> str:
    """`--state` and this folder, after a space; nothing for the one that commands take by themselves."""
    return "" if folder == StateFolder().path else f" --state {shlex.quote(str(folder))}"


def _promise_moments(view: JobView) -> dict[str, float]:
    """Without an offer that is a moment, which passes: as words it is a length of time."""
    moments = words.promise_moments(view)
    if view.phase is Phase.REJECTED:
        moments.pop(words.OFFERED, None)
    return moments


def _facts(control: Platform, view: JobView, may_change: bool) -> list[tuple[str, str]]:
    told = [("id", view.id), *words.facts(view), ("elasticity", str(view.elasticity))]
    submitted = _submission(control, view.id)
    return told if submitted is None else told + words.submission_facts(submitted, may_change)


def _newest(stories: list[tuple[str, Story]]) -> list[Story]:
    return [story for _, story in reversed(stories[-MOST_STORIES:])]


def _submission(control: Platform, job_id: str) -> JobSubmitted | None:
    """None: it ended under a version that did not keep this."""
    try:
        return control.submission(job_id)
    except UnknownJob:
        return None
