"""`swell submit`, which waits for the verdict."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from swell.cli import job_options as job
from swell.cli.options import Json, State
from swell.cli.output import note, print_json
from swell.cli.verdict import verdict

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView

#: Exit status when a job's trial run failed, and when one was refused.
FAILED = 1
REFUSED = 3

#: Parameters of `submit` that are about the command; the others are fields of a job.
NO_FIELDS = ("words", "no_wait", "state", "json")


def submit(
    context: typer.Context,
    words: job.Words = None,
    script: job.Script = None,
    entry: job.Entry = None,
    name: job.Name = None,
    global_batch: job.GlobalBatch = None,
    steps: job.Steps = None,
    epochs: job.Epochs = None,
    samples: job.Samples = None,
    until: job.Until = None,
    deadline: job.Deadline = None,
    job_class: job.Class = None,
    workers: job.Workers = None,
    devices_per_worker: job.DevicesPerWorker = None,
    elasticity: job.Elasticity = None,
    estimate: job.Estimate = None,
    workdir: job.Workdir = None,
    seed: job.Seed = None,
    tenant: job.Tenant = None,
    stop_on_nan: job.StopOnNan = None,
    on_drift: job.OnDrift = None,
    no_wait: job.NoWait = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Submit a job, and say whether its deadline is promised.

    Waits until the job was tried out. Exit status 1: it failed in its trial run; 3: it was refused.
    """
    from swell.api.client import connect

    given = {name: value for name, value in context.params.items() if name not in NO_FIELDS}
    fields = {name: value for name, value in given.items() if value is not None}
    file = _job_file(words or [], fields)
    with connect(state) as client:
        ids = client.submit_file(file) if file else [client.submit(**fields, args=words or [])]
        views = [_judged(client, job_id, no_wait) for job_id in ids]
        policy = client.cluster().policy
    _tell(views, policy, json)


def _tell(views: list[JobView], policy: str, json: bool) -> None:
    """Ends the program if not all is well."""
    if json:
        print_json(views)
    else:
        for view in views:
            print(verdict(view, policy, time.time()))
    if any(view.phase == "failed" for view in views):
        raise typer.Exit(FAILED)
    if any(view.phase == "rejected" for view in views):
        raise typer.Exit(REFUSED)


def _job_file(words: list[str], fields: dict[str, Any]) -> Path | None:
    """The job file, or None if the job is given by options."""
    if "script" in fields or "entry" in fields:
        return None
    if words and words[0].endswith(".py"):
        raise typer.BadParameter(_as_script(words, fields))
    if len(words) != 1:
        raise typer.BadParameter("give one job file, or --script PATH, or --entry PACKAGE.MODULE:FUNCTION")
    if fields:
        raise typer.BadParameter(
            f"--{_option(min(fields))} and a job file exclude each other; write it into the file"
        )
    return Path(words[0])


def _as_script(words: list[str], fields: dict[str, Any]) -> str:
    """How to submit a script that stands where a job file is expected."""
    script, *arguments = words
    ends = fields.keys() & {"steps", "epochs", "samples"}
    options = [
        f"--{_option(name)}" if value is True else f"--{_option(name)} {shlex.quote(str(value))}"
        for name, value in fields.items()
    ]
    if fields.get("elasticity") != "restart":
        options += [] if "global_batch" in fields else ["--global-batch SAMPLES"]
        options += [] if ends else ["--epochs N"]
    if arguments:
        options.append(f"-- {shlex.join(arguments)}")
    line = " ".join(["swell submit --script", shlex.quote(script), *options])
    return f"{script} is a script, not a job file; submit it with `{line}`"


def _option(field: str) -> str:
    return "class" if field == "job_class" else field.replace("_", "-")


def _judged(client: Client, job_id: str, no_wait: bool) -> JobView:
    from swell.api.client import has_verdict

    view = client.job(job_id)
    if no_wait or has_verdict(view):
        return view
    note(f"{job_id}: waiting for the verdict, it is tried out first")
    return client.wait_for_verdict(job_id)
