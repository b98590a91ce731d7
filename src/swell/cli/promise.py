"""`swell promise`."""

from __future__ import annotations

import typer

from swell.api.admission_status import is_change_refused
from swell.cli import job_options as job
from swell.cli.options import JobName, Json, State
from swell.cli.output import note, print_json
from swell.cli.resolve import find_job
from swell.cli.submit import REFUSED
from swell.cli.verdict import change_refused, verdict


def promise(
    job_name: JobName,
    deadline: job.RequiredDeadline,
    accept_until: job.AcceptUntil = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Ask for another deadline of a job that runs or waits: earlier, later, or its first.

    If it cannot be promised, the job keeps what it has, and the exit status is 3.
    """
    from swell.api.client import connect

    with connect(state) as client:
        view = client.promise(find_job(client, job_name).id, deadline=deadline, accept_until=accept_until)
        if view.asked_deadline_s is not None:
            note(f"{view.id}: waiting for its trial run and the admission decision")
            view = client.wait(view.id, lambda job: job.asked_deadline_s is None or job.phase.is_end)
        cluster = client.cluster()
    is_refused = is_change_refused(view) and not view.phase.is_end
    if json:
        print_json(view)
    elif is_refused:
        print(change_refused(view, cluster.now_s))
    else:
        print(verdict(view, cluster.policy, cluster.now_s))
    if is_refused:
        raise typer.Exit(REFUSED)
