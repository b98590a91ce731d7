"""`swell retry` and `swell continue`."""

from __future__ import annotations

from typing import Annotated

import typer

from swell.cli import job_options as job
from swell.cli.options import JobNames, Json, State
from swell.cli.output import warn
from swell.cli.submit import tell_verdicts

Kind = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="Kind of the devices that it runs on. Default: as submitted."),
]


def retry(
    jobs: JobNames,
    deadline: job.OtherDeadline = None,
    kind: Kind = None,
    no_wait: job.NoWait = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Submit jobs again that failed, ended early, were refused or stopped, each as a new job from step 0."""
    from swell.api.client import connect
    from swell.cli.groups import find_undone

    with connect(state) as client:
        ended = find_undone(client, jobs)
        ids = [client.retry(view.id, deadline=deadline, kind=kind) for view in ended]
        tell_verdicts(client, ids, no_wait, json)


def go_on(
    jobs: JobNames,
    deadline: job.OtherDeadline = None,
    kind: Kind = None,
    no_wait: job.NoWait = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Submit jobs again that failed, ended early or were stopped, each from its last checkpoint.

    For restart jobs this is the same as retry, because their scripts keep their own checkpoints.
    """
    from swell.api.client import connect
    from swell.cli.groups import find_undone

    with connect(state) as client:
        ended = find_undone(client, jobs)
        ids = [client.continue_job(view.id, deadline=deadline, kind=kind) for view in ended]
        for view in ended:
            if view.elasticity == "restart":
                warn(
                    f"{view.id} is a restart job: its script continues from its own "
                    "checkpoint, if it finds one"
                )
        tell_verdicts(client, ids, no_wait, json)
