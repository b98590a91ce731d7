"""The options of `swell node`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Join = Annotated[
    str,
    typer.Option(
        metavar="HEAD[:PORT],...",
        help="Address of the platform, as `swell up --listen` printed it; behind a comma that of the machine "
        "which takes over if the head is lost.",
        show_default=False,
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File with a join token of the platform, mode 0600.")
]
Name = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Name of this node; no two nodes have the same. Default: host name."),
]
Devices = Annotated[
    str,
    typer.Option(
        metavar="DEVICES",
        help="auto, cpu, cpu:N, cuda, cuda:N, or paced devices: paced:DEVICES@SAMPLES_PER_S.",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="What the devices are called that jobs ask for with --kind. Devices of one kind must be "
        "alike: a job may be on any of them. Default: what they are, such as cpu or cuda:NVIDIA H200.",
    ),
]
Cores = Annotated[
    float, typer.Option(metavar="N", help="Cores of this machine that all workers share; 0: all.")
]
CpuShares = Annotated[
    str,
    typer.Option(
        metavar="MODE",
        help="What a job's CPU share means: weight (others get what it does not use), quota (a hard "
        "limit) or off.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address of this machine at which workers of other nodes reach its own. Default: the one "
        "that the head sees.",
    ),
]
Borrowed = Annotated[bool, typer.Option("--borrowed", help="This machine may be reclaimed at any second.")]
Grace = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Time from SIGTERM until this machine is gone, such as 30s: workers move away meanwhile. "
        "0s: they are killed at once. A second SIGTERM, and Ctrl-C, end it at once.",
    ),
]
Leave = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Join nothing: have the `swell node` that runs here leave within this time, such as 30s. "
        "Workers move away meanwhile.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="State folder of this node. Default: that of a platform with `-node` behind its name.",
    ),
]
