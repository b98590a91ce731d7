"""`swell prioritize`."""

from __future__ import annotations

from swell.cli.job_options import RequiredPriority
from swell.cli.options import JobNames, Json, State
from swell.cli.output import print_json


def prioritize(jobs: JobNames, priority: RequiredPriority, state: State = None, json: Json = False) -> None:
    """Give jobs another priority.

    Promises that were given are kept. Jobs that hold devices may have to give them up to those whose
    priority is higher now: they are saved, and go on later.
    """
    from swell.api.client import connect
    from swell.cli.groups import find_jobs

    with connect(state) as client:
        found = [view for view in find_jobs(client, jobs) if not (view.group in jobs and view.phase.is_end)]
        views = [client.change_priority(view.id, priority) for view in found]
    if json:
        print_json(views)
        return
    for view in views:
        print(f"{view.id}: has priority {view.priority} among {view.job_class} jobs")
