"""The fields of a job as options of `swell submit`: all are optional, for a job file has them too."""

from __future__ import annotations

from typing import Annotated, Any

import typer

#: How a moment is written, in each option that takes one.
MOMENT = "2030-01-31T18:00:00"


def _moment(help_text: str) -> Any:
    """An option that takes a moment: from now on, or of the calendar."""
    return typer.Option(metavar="TIME", help=help_text, show_default=False)


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE.yaml | -- ARGUMENT",
        help="A job file; or, after --script or --entry, the arguments of the script.",
    ),
]
Script = Annotated[str | None, typer.Option(metavar="PATH", help="Path of a Python script.")]
Entry = Annotated[
    str | None,
    typer.Option(metavar="PACKAGE.MODULE:FUNCTION", help="A function, called without arguments."),
]
Name = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the job. Default: that of the script or function.")
]
GlobalBatch = Annotated[
    int | None,
    typer.Option(
        metavar="SAMPLES",
        help="Samples in one optimizer step, over all workers. Not needed for restart jobs.",
    ),
]
Batch = Annotated[
    str | None,
    typer.Option(
        metavar="MIN:MAX",
        help="Range of the samples in one step, from which policies such as pollux choose live.",
    ),
]
BatchPerWorker = Annotated[
    int | None,
    typer.Option(metavar="SAMPLES", help="Samples in one step for each worker, whatever their number."),
]
Steps = Annotated[int | None, typer.Option(metavar="N", help="End after N optimizer steps.")]
Epochs = Annotated[float | None, typer.Option(metavar="N", help="End after N passes over the data.")]
Samples = Annotated[int | None, typer.Option(metavar="N", help="End after N samples.")]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET",
        help="End earlier when a reported metric reaches this value, such as 'accuracy>=0.97'.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Evaluation function by which policies tell how much the job still learns, such as accuracy. "
        "Default: loss.",
    ),
]
MetricGoes = Annotated[
    str | None,
    typer.Option(metavar="WHERE", help="Where learning takes the metric: down (default) or up."),
]
_DEADLINE = _moment(f"When the job must have ended: now+3m or {MOMENT}.")
Deadline = Annotated[str | None, _DEADLINE]
RequiredDeadline = Annotated[str, _DEADLINE]
OtherDeadline = Annotated[
    str | None,
    _moment(f"New deadline: now+3m or {MOMENT}. Default: as submitted; a relative one counts from now."),
]
OrSoft = Annotated[
    bool | None,
    typer.Option(
        "--or-soft",
        help="If the deadline is refused, run as a soft job with it: not promised, but tried.",
    ),
]
AcceptUntil = Annotated[
    str | None,
    _moment(
        "If the deadline is refused, take the earliest one that can be promised, if it is no later than "
        f"TIME: now+10m or {MOMENT}."
    ),
]
Class = Annotated[
    str | None,
    typer.Option(
        "--class",
        metavar="CLASS",
        help="strict (default with a deadline), soft or best_effort (default without one).",
    ),
]
Workers = Annotated[
    str | None, typer.Option(metavar="MIN:MAX", help="Number of workers, or N for exactly N.")
]
DevicesPerWorker = Annotated[
    int | None, typer.Option(metavar="N", help="Devices of each worker: 1, 2, 4, 8, ...")
]
Kind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Kind of the devices that it runs on, as `swell nodes` lists it. Default: the only one.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory limit of all workers on a node together, such as 4GiB."),
]
Elasticity = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="live (default): the script uses swell.train; "
        "restart: it is stopped and started from its own "
        "checkpoints.",
    ),
]
Estimate = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="For restart jobs: expected time on one worker, such as 10m."),
]
Workdir = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Folder the script runs in. Default: the current one.")
]
Code = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="snapshot (default): all workers run the code as it is now; live: each worker "
        "runs it as it is when the worker starts.",
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=VALUE]",
        help="Environment variable of the workers; without a value, it is taken from this "
        "shell. May be repeated.",
    ),
]
Python = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Interpreter of the workers. Default: the platform's."),
]
Image = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Run the workers in a container of this image (Docker or Podman)."),
]
Needs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Path that a host must have to run the workers, such as a data set's. May be repeated.",
    ),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Random seed of the sample order.")]
Tenant = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Team or project that the job belongs to, on a shared cluster."),
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Address that is told of the job by signed POST requests."),
]
On = Annotated[
    str | None,
    typer.Option(
        metavar="EVENT,...",
        help="What the address of --webhook is told: finished, at_risk, missed. Default: all.",
    ),
]
StopOnNan = Annotated[
    bool | None,
    typer.Option(
        "--stop-on-nan",
        help="Fail at the first loss that is NaN or infinite, before the model is updated with it.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Idempotency key: repeated submissions with the same key create one job.",
    ),
]
OnDrift = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="What to do when the workers' replicas differ: heal (default), warn or fail.",
    ),
]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait for the trial run and the admission decision.")
]
