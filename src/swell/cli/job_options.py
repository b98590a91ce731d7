"""The fields of a job as options of `swell submit`: all are optional, for a job file has them too."""

from __future__ import annotations

from typing import Annotated

import typer

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
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Default: the script's or function's.")]
GlobalBatch = Annotated[
    int | None,
    typer.Option(
        metavar="SAMPLES",
        help="Samples in one optimizer step, over all workers. Not needed for restart jobs.",
    ),
]
Steps = Annotated[int | None, typer.Option(metavar="N", help="End after so many optimizer steps.")]
Epochs = Annotated[float | None, typer.Option(metavar="N", help="End after so many passes over the data.")]
Samples = Annotated[int | None, typer.Option(metavar="N", help="End after so many samples.")]
Until = Annotated[str | None, typer.Option(metavar="TARGET", help="End sooner, as 'accuracy>=0.97'.")]
Deadline = Annotated[str | None, typer.Option(metavar="TIME", help="now+3m, 2030-01-31T18:00:00.")]
Class = Annotated[
    str | None,
    typer.Option(
        "--class", metavar="CLASS", help="strict (default with a deadline), soft, best_effort (without)."
    ),
]
Workers = Annotated[str | None, typer.Option(metavar="MIN:MAX", help="Or N for exactly N.")]
DevicesPerWorker = Annotated[int | None, typer.Option(metavar="N", help="1, 2, 4, 8, ...")]
Elasticity = Annotated[str | None, typer.Option(metavar="KIND", help="live (default) or restart.")]
Estimate = Annotated[
    str | None, typer.Option(metavar="DURATION", help="restart jobs: time on one worker, as 10m.")
]
Workdir = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Folder the script runs in. Default: this one.")
]
Code = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="snapshot (default): all workers run the code as it is now; live: as it is when they start.",
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=VALUE]",
        help="Set an environment variable of the workers, by default as it is here; may be repeated.",
    ),
]
Python = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Interpreter of the workers. Default: the platform's."),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Order of the samples.")]
Tenant = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="On whose behalf, where a cluster is shared: a team, a project."),
]
StopOnNan = Annotated[
    bool | None,
    typer.Option("--stop-on-nan", help="Fail at the first loss that is NaN, before it spoils the model."),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Idempotency key: however often it is submitted with this key, there is one job.",
    ),
]
OnDrift = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="Where the workers' replicas differ: heal (default), warn or fail.",
    ),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the trial run and the verdict.")]
