"""`swell retry` and `swell continue`."""

from __future__ import annotations

from typing import Annotated

import typer

from swell.cli import job_options as job
from swell.cli.options import Json, State
from swell.cli.output import warn
from swell.cli.resolve import find_job
from swell.cli.submit import tell_verdicts

Jobs = Annotated[
    list[str],
    typer.Argument(metavar="JOB", help="Id, the beginning of one, or a name: then the newest of that name."),
]
Deadline = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="now+3m, 2030-01-31T18:00:00. Default: as submitted; one given as now+3m counts from now on.",
    ),
]


def retry(
    jobs: Jobs,
    deadline: Deadline = None,
    no_wait: job.NoWait = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Submit failed, cancelled or refused jobs again, each as a new job that begins at step 0."""
    from swell.api.client import connect

    with connect(state) as client:
        ended = [find_job(client, name).id for name in jobs]
        ids = [client.retry(job_id, deadline=deadline) for job_id in ended]
        tell_verdicts(client, ids, no_wait, json)


def go_on(
    jobs: Jobs,
    deadline: Deadline = None,
    no_wait: job.NoWait = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Submit failed or cancelled jobs again, each as a new job that goes on from the old one's checkpoint.

    A restart job has its checkpoints in its own folder: for it this is the same as retry.
    """
    from swell.api.client import connect

    with connect(state) as client:
        ended = [find_job(client, name) for name in jobs]
        ids = [client.continue_job(view.id, deadline=deadline) for view in ended]
        for view in ended:
            if view.elasticity == "restart":
                warn(
                    f"{view.id} is a restart job: its script goes on from its own checkpoint, if it finds one"
                )
        tell_verdicts(client, ids, no_wait, json)
