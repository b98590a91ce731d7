"""The options of `swell up`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from swell.cli.engine_options import about_engines, show_options_of_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What is said of a platform when it is started; None: nothing."""

    devices: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICES",
            help="auto, cpu, cpu:N, cuda, cuda:N, or paced devices, which train for real at "
            "a fixed speed: paced:DEVICES@SAMPLES_PER_S, "
            "paced:NODESxDEVICES@SAMPLES_PER_S, paced:RACKSxNODESxDEVICES@SAMPLES_PER_S; none: other "
            "machines bring all. Behind it the islands in which a node's devices are joined closer, such as "
            "/4/2. Default: previous value, else auto.",
        ),
    ] = None
    rack: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            hidden=True,
            help="Rack in which this machine stands: a job gets machines of one rack if it can. Default: "
            "previous value, else rack0, as for a machine that joins and names none; '': the default.",
        ),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Scheduling policy. Default: previous value, else unified."),
    ] = None
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Control API port on 127.0.0.1; 0 picks a free one. Default: no port, only "
            "the Unix socket in the state folder.",
        ),
    ] = None
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Port for Prometheus, on 127.0.0.1: GET /metrics, with the token in `metrics-token` of the "
            "state folder; 0 picks a free one. Default: none.",
        ),
    ] = None
    metrics_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            hidden=True,
            help="IP address of this machine at which --metrics-port is, for a Prometheus that is not on it: "
            "0.0.0.0 for all of them. Metrics and their token go unencrypted. Default: 127.0.0.1.",
        ),
    ] = None
    preload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Module to import once for all workers before they start; may be repeated. "
            "Default: previous value; '': none.",
        ),
    ] = None
    cores: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Cores of this machine that all workers share; with more devices than cores, by CPU share. "
            "Default: previous value, else all; 0: all.",
        ),
    ] = None
    cpu_shares: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            hidden=True,
            help="What a job's CPU share means: weight (others get what it does not use), quota (a hard "
            "limit) or off. Default: previous value, else weight.",
        ),
    ] = None
    containers: Annotated[
        str | None,
        typer.Option(
            metavar="PROGRAM",
            help="What runs jobs that name an image: docker, podman, auto (Docker, else Podman) or off. "
            "Default: previous value, else auto.",
        ),
    ] = None
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS[:PORT]",
            help="Let other machines join at this address of this one (`swell node`); default port 7070. "
            "Default: previous value, else none can join; '': none.",
        ),
    ] = None
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            hidden=True,
            help="IP address of this machine at which workers of other nodes reach its own. Default: "
            "previous value, else the address of --listen if that is one IP address; '': the default.",
        ),
    ] = None
    backup_to: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Copy the state to this folder at an interval; on another machine's disk it survives the "
            "loss of this one (`swell restore FOLDER`). Default: previous value, else no copies; '': none.",
        ),
    ] = None
    backup_every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            hidden=True,
            help="Time between two copies of --backup-to. Default: previous value, else 10m; '': 10m.",
        ),
    ] = None
    share: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Serve other users of this machine (`swell admin users`) at a socket in this folder, which "
            "is for members of the folder's group. Default: previous value, else none; '': none.",
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(metavar="ENGINE", is_eager=True, callback=show_options_of_engine, help=about_engines()),
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting, such as ready_s=300 (a wrong name prints all); "
            "may be repeated. Other settings keep their previous values; '' resets all.",
        ),
    ] = None


Foreground = Annotated[
    bool,
    typer.Option("--foreground", help="Run in the foreground until Ctrl-C instead of in the background."),
]
