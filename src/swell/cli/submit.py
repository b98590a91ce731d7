"""`swell submit`, which waits for the verdict."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swell.cli.clock import moment
from swell.cli.options import Json, State
from swell.cli.output import note, print_json

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView

#: Exit status when a job's trial run failed, and when one was refused.
FAILED = 1
REFUSED = 3


def submit(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.yaml | -- ARGUMENT...]",
            help="A job file; or, after --script or --entry, the arguments of the script.",
        ),
    ] = None,
    script: Annotated[str | None, typer.Option(metavar="PATH", help="Path of a Python script.")] = None,
    entry: Annotated[
        str | None,
        typer.Option(metavar="PACKAGE.MODULE:FUNCTION", help="A function, called without arguments."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Default: the script's or function's.")
    ] = None,
    global_batch: Annotated[
        int | None, typer.Option(metavar="SAMPLES", help="Samples in one optimizer step, over all workers.")
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="End after so many optimizer steps.")] = None,
    epochs: Annotated[
        float | None, typer.Option(metavar="N", help="End after so many passes over the data.")
    ] = None,
    samples: Annotated[int | None, typer.Option(metavar="N", help="End after so many samples.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TARGET", help="End sooner, as 'accuracy>=0.97'.")
    ] = None,
    deadline: Annotated[str | None, typer.Option(metavar="TIME", help="now+3m, 2030-01-31T18:00:00.")] = None,
    job_class: Annotated[
        str | None,
        typer.Option(
            "--class", metavar="CLASS", help="strict (default with a deadline), soft, best_effort (without)."
        ),
    ] = None,
    workers: Annotated[str | None, typer.Option(metavar="MIN:MAX", help="Or N for exactly N.")] = None,
    devices_per_worker: Annotated[int | None, typer.Option(metavar="N", help="1, 2, 4, 8, ...")] = None,
    elasticity: Annotated[str | None, typer.Option(metavar="KIND", help="live (default) or restart.")] = None,
    estimate: Annotated[
        str | None, typer.Option(metavar="DURATION", help="restart jobs: time on one worker, as 10m.")
    ] = None,
    workdir: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder the script runs in. Default: this one.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Order of the samples.")] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until a strict job is promised or refused.")
    ] = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Submit a job, and say whether its deadline is promised. Exit status 3: it was refused."""
    given = {
        "script": script, "entry": entry, "name": name, "global_batch": global_batch, "steps": steps,
        "epochs": epochs, "samples": samples, "until": until, "deadline": deadline, "job_class": job_class,
        "workers": workers, "devices_per_worker": devices_per_worker, "elasticity": elasticity,
        "estimate": estimate, "workdir": workdir, "seed": seed,
    }  # fmt: skip
    fields = {name: value for name, value in given.items() if value is not None}
    from swell.api.client import connect

    file = _job_file(words or [], fields)
    with connect(state) as client:
        ids = client.submit_file(file) if file else [client.submit(**fields, args=words or [])]
        views = [_judged(client, job_id, no_wait) for job_id in ids]
    if json:
        print_json(views)
    else:
        for view in views:
            print(verdict(view, time.time()))
    if any(view.phase == "failed" for view in views):
        raise typer.Exit(FAILED)
    if any(view.phase == "rejected" for view in views):
        raise typer.Exit(REFUSED)


def _job_file(words: list[str], fields: dict[str, Any]) -> Path | None:
    """The job file, or None if the job is given by options."""
    if "script" in fields or "entry" in fields:
        return None
    if len(words) != 1:
        raise typer.BadParameter("give one job file, or --script PATH, or --entry PACKAGE.MODULE:FUNCTION")
    if fields:
        raise typer.BadParameter(
            f"--{min(fields).replace('_', '-')} and a job file exclude each other; write it into the file"
        )
    return Path(words[0])


def _judged(client: Client, job_id: str, no_wait: bool) -> JobView:
    from swell.api.client import has_verdict

    view = client.job(job_id)
    if no_wait or has_verdict(view):
        return view
    note(f"{job_id}: waiting for the verdict, it is measured first")
    return client.wait(job_id, has_verdict)


def verdict(view: JobView, now_s: float) -> str:
    """What became of a submission, in one to three lines."""
    if view.phase == "rejected":
        return _refusal(view, now_s)
    if view.phase == "failed":
        return _failure(view)
    expected = (
        f", expected to finish at {moment(view.estimated_finish_s, now_s)}"
        if view.estimated_finish_s is not None
        else ""
    )
    if view.is_promised and view.deadline_s is not None:
        return f"{view.id}: promised to finish by {moment(view.deadline_s, now_s)}{expected}"
    return f"{view.id}: {view.phase}, {view.job_class}{expected}"


def _failure(view: JobView) -> str:
    """The last line of a traceback says what went wrong."""
    said = view.message.strip().splitlines() or [view.reason]
    return f"{view.id}: failed: {said[-1]}\n  see `swell show {view.id}`"


def _refusal(view: JobView, now_s: float) -> str:
    from swell.api.durations import format_duration

    text = f"{view.id}: refused: {view.reason}"
    if view.counter_offer_s is None:
        return text
    # Said as a length of time, the offer does not grow old while it is read; a second for the way there.
    offer = format_duration(math.ceil(view.counter_offer_s - view.submitted_s) + 1)
    return (
        f"{text}\nearliest deadline that can be promised: {moment(view.counter_offer_s, now_s)}; "
        f"submit again with\n  --deadline now+{offer}"
    )
