"""The options of `swell node`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from swell.api.errors import InvalidOption
from swell.cli.options import seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """What a host process is started with."""

    join: Annotated[
        str,
        typer.Option(
            metavar="HEAD[:PORT]",
            help="Address of the platform, as `swell up --listen` printed it.",
            show_default=False,
        ),
    ] = ""
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with a join token of the platform, mode 0600.")
    ] = None
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of this node; no two nodes have the same. Default: host name."
        ),
    ] = None
    devices: Annotated[
        str,
        typer.Option(
            metavar="DEVICES",
            help="auto, cpu, cpu:N, cuda, cuda:N, or paced devices: paced:DEVICES@SAMPLES_PER_S. Behind it "
            "the islands in which they are joined closer, the outermost first: /4/2 for two sockets with "
            "two switches each. Default: what NVML tells of GPUs, else none.",
        ),
    ] = "auto"
    rack: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Rack in which this machine stands: a job gets machines of one rack if it can. Default: "
            "rack0, as for a platform's own machine that names none.",
        ),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="What the devices are called that jobs ask for with --kind. Devices of one kind must be "
            "alike: a job may be on any of them. Default: what they are, such as cpu or cuda:NVIDIA H200.",
        ),
    ] = None
    cores: Annotated[
        float, typer.Option(metavar="N", help="Cores of this machine that all workers share; 0: all.")
    ] = 0.0
    cpu_shares: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="What a job's CPU share means: weight (others get what it does not use), quota (a hard "
            "limit) or off.",
        ),
    ] = "weight"
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of this machine at which workers of other nodes reach its own. Default: the one "
            "that the head sees.",
        ),
    ] = None
    borrowed: Annotated[
        bool, typer.Option("--borrowed", help="This machine may be reclaimed at any second.")
    ] = False
    grace: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Time from SIGTERM until this machine is gone, such as 30s: workers move away meanwhile. "
            "0s: they are killed at once. A second SIGTERM, and Ctrl-C, end it at once.",
        ),
    ] = "0s"

    def words(self) -> Iterator[str]:
        """The command line of the process. Raises InvalidOption, InvalidInput."""
        from swell.executors.local.limits.limiter import CoreSharing
        from swell.model.share_mode import ShareMode

        if not self.join or self.token_file is None:
            raise InvalidOption(
                "--join and --token-file are both needed to join a platform: `swell up --listen` prints them"
            )
        try:
            mode = ShareMode(self.cpu_shares)
        except ValueError as error:
            modes = ", ".join(ShareMode)
            raise InvalidOption(f"--cpu-shares {self.cpu_shares}: choose from {modes}") from error
        yield from CoreSharing(self.cores or None, mode).words
        yield from ("--grace", f"{seconds('grace', self.grace):g}")
        for name in ("join", "token_file", "devices", "advertise", "kind", "name", "rack"):
            if (value := getattr(self, name)) is not None:
                yield from (f"--{name.replace('_', '-')}", str(value))
        yield from ["--borrowed"] if self.borrowed else []


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
