"""The options of `swell simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from swell.model.job import AfterRefusal

Trace = Annotated[Path, typer.Argument(metavar="TRACE", help="Log of jobs; may be gzipped (.gz).")]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="NODESxDEVICES",
        help="Equal nodes: 16x8 means 128 devices. Not needed with --pool.",
        show_default=False,
    ),
]
Policy = Annotated[
    str, typer.Option(metavar="NAME,...", help="Policies to compare, one row of the table each.")
]
Profiles = Annotated[
    str,
    typer.Option(metavar="FOLDER|NAME", help="Folder of throughput tables MODEL.csv, or a built-in set."),
]
ResizeCost = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Cost of resizes: changed (resized jobs pay ElasticFlow's amounts), "
        "everyone (all jobs pay at every event, as in its simulator), profile (as "
        "measured live), delay:SECONDS (of starts and growths), none, or a number of seconds.",
    ),
]
Noise = Annotated[
    float,
    typer.Option(metavar="S", help="True rates differ from the profile by a factor exp(S x normal)."),
]
ProfileError = Annotated[
    float,
    typer.Option(
        metavar="S",
        help="Rates measured in trial runs differ from the true ones by a factor exp(S x normal).",
    ),
]
BetweenSteps = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION/STEPS",
        help="Each job makes no step for so long after every so many, as one that evaluates: 2s/500. "
        "Default: never.",
        show_default=False,
    ),
]
NodeMtbf = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Mean time between failures of a node. Default: nodes never fail."),
]
NodeMttr = Annotated[str, typer.Option(metavar="DURATION", help="Mean time until a failed node is back.")]
Pool = Annotated[
    Path | None,
    typer.Option(
        metavar="INTERVALS.csv",
        help="Borrow nodes while this log says that they are idle: rows of node,start_s,end_s[,devices] "
        "in any order, end_s -1 for a node that was still idle; may be gzipped (.gz).",
        show_default=False,
    ),
]
PoolNodes = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Only these nodes of the pool; one name a line.", show_default=False),
]
PoolWindow = Annotated[
    str | None,
    typer.Option(
        metavar="FROM:UNTIL",
        help="Only this part of the pool's log, in its seconds. The first job is submitted at FROM, "
        "and all nodes leave at UNTIL. Default: from its beginning, without an end.",
        show_default=False,
    ),
]
PoolWarning = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Say so long before a node of the pool leaves that it will: its jobs move in time. "
        "Default: there is no warning.",
        show_default=False,
    ),
]
FaultRates = Annotated[
    str,
    typer.Option(
        metavar="WHAT=SHARE,...",
        help="Shares of trial runs (trial), launches (launch), resizes (resize) and suspensions "
        "(suspend) that fail, of resizes and suspensions that lose a worker (loss), and of starts that "
        "give a warning (warning).",
    ),
]
Buggy = Annotated[float, typer.Option(metavar="SHARE", help="Share of jobs that crash early.")]
Cancelled = Annotated[float, typer.Option(metavar="SHARE", help="Share of jobs that their users cancel.")]
Refused = Annotated[
    AfterRefusal,
    typer.Option(
        help="What becomes of strict jobs that are refused: they end, or run as soft jobs with their "
        "deadlines, as with `swell submit --or-soft`."
    ),
]
Quota = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TENANT=DEVICES|SHARE",
        help="Most devices that jobs of a tenant hold together: ana=8, or ben=25% of those there are; "
        "may be repeated. Default: any number.",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Scheduler setting; may be repeated."),
]
Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="OUT", help="Write the figures as JSON to this file; - prints them."),
]
Jobs = Annotated[
    Path | None,
    typer.Option(
        "--jobs",
        metavar="OUT.csv",
        help="Write one line for each job: outcome, devices, starts, pauses; the offer if refused.",
    ),
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FOLDER", help="Write pictures to this folder.")]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="REPORT.html",
        help="Write a report that a browser opens: one file, with figures, charts and all jobs.",
    ),
]
Stories = Annotated[
    Path | None,
    typer.Option(
        "--stories",
        metavar="FOLDER",
        help="Write the reasons of all decisions, for `swell explain --run`, and all that gangs did, for "
        "`swell audit`.",
    ),
]
Bound = Annotated[
    bool,
    typer.Option(
        "--bound",
        help="Also compute an upper bound: no schedule meets more "
        "deadlines, even if it knows all jobs in advance.",
    ),
]
Timing = Annotated[
    bool,
    typer.Option("--timing", help="Also show the time that decisions took, which differs from run to run."),
]
