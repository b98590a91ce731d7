"""`swell promise`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from swell.api.admission_status import is_change_refused
from swell.cli import job_options as job
from swell.cli.options import JobName, Json, State
from swell.cli.output import note, print_json
from swell.cli.resolve import find_job
from swell.cli.submit import REFUSED
from swell.cli.verdict import change_refused, verdict

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView


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
        view = decided(client, view)
        if json:
            print_json(view)
        else:
            tell_answers(client, [view])
    exit_if_refused([view])


def tell_answers(client: Client, views: Iterable[JobView]) -> None:
    """Print whether each job is promised the deadline that was asked for."""
    cluster = client.cluster()
    for view in views:
        if _is_refused(view):
            print(change_refused(view, cluster.now_s))
        else:
            print(verdict(view, cluster.policy, cluster.now_s))


def exit_if_refused(views: Iterable[JobView]) -> None:
    """Exit with status 3 if a deadline that was asked for is refused."""
    if any(map(_is_refused, views)):
        raise typer.Exit(REFUSED)


def _is_refused(view: JobView) -> bool:
    return is_change_refused(view) and not view.phase.is_end


def decided(client: Client, view: JobView) -> JobView:
    """The job after the decision; a held job waits for none, for it is made when the job is resumed."""
    if view.asked_deadline_s is None or view.is_held:
        return view
    note(f"{view.id}: waiting for its trial run and the admission decision")
    return client.wait(view.id, lambda job: job.asked_deadline_s is None or job.phase.is_end or job.is_held)
