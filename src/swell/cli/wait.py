"""`swell wait`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import JobNames, Json, State, seconds
from swell.cli.output import note, print_json
from swell.cli.verdict import verdict

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView

#: Exit status by outcome, the gravest first.
STATUSES = {"failed": 1, "rejected": 3, "cancelled": 4, "ended-early": 6}
#: Exit status when the jobs have not ended in time, as that of timeout(1).
TIMED_OUT = 124
#: Seconds between two looks at the jobs.
LOOK_EVERY_S = 0.5


def wait(
    jobs: JobNames,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Give up after this time, such as 2h. Default: wait for ever."),
    ] = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Wait until jobs have ended. Exit status 0: all succeeded.

    1: one failed; 3: one was refused; 4: one was cancelled; 6: one ended early, before its end condition
    was met; the first of these that is so. 124: some had not ended after --timeout.
    """
    from swell.api.client import connect
    from swell.cli.groups import find_jobs

    give_up_s = time.monotonic() + (float("inf") if timeout is None else seconds("timeout", timeout))
    with connect(state) as client:
        ids = [view.id for view in find_jobs(client, jobs)]
        views = _await(client, dict.fromkeys(ids), give_up_s, json)
    if json:
        print_json(views)
    is_late = not all(view.phase.is_end for view in views)
    ends = {view.phase for view in views}
    if status := TIMED_OUT if is_late else next((STATUSES[end] for end in STATUSES if end in ends), 0):
        raise typer.Exit(status)


def _await(client: Client, ended: dict[str, JobView | None], give_up_s: float, json: bool) -> list[JobView]:
    """Jobs as they are once all have ended, or it is time to give up; each end is told as it comes."""
    told_held = set[str]()
    while True:
        views = [ended[job_id] or client.job(job_id) for job_id in ended]
        for view in views:
            if view.phase.is_end and ended[view.id] is None:
                ended[view.id] = view
                if not json:
                    print(verdict(view, "", 0.0), flush=True)
            elif view.is_held and view.id not in told_held:
                told_held.add(view.id)
                note(f"{view.id}: {view.reason}")
        if all(ended.values()) or time.monotonic() >= give_up_s:
            return views
        time.sleep(min(LOOK_EVERY_S, max(0.0, give_up_s - time.monotonic())))
