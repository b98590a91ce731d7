"""`swell accept-differences`."""

from __future__ import annotations

from typing import Annotated

import typer

from swell.api.job_words import told_findings
from swell.cli.options import JobName, Json, State
from swell.cli.output import print_json
from swell.cli.resolve import find_job
from swell.model.counted import told_workers


def accept_differences(
    job: JobName,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Findings of its trial run, as `swell show` names them."),
    ],
    state: State = None,
    json: Json = False,
) -> None:
    """Accept findings of a job's trial run, so that they do not limit its number of workers."""
    from swell.api.client import connect

    with connect(state) as client:
        view = client.accept_differences(find_job(client, job).id, names)
    if json:
        print_json(view)
    elif view.held_by:
        print(
            f"{view.id}: still limited to {told_workers(view.least_workers)} by {' and '.join(view.held_by)}"
        )
        print("\n".join(f"  {line}" for line in told_findings(view)))
    else:
        print(f"{view.id}: may have more workers, as its policy decides")
