"""`swell node`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.errors import InvalidOption

if TYPE_CHECKING:
    from swell.executors.local.limits.limiter import CoreSharing


def node(
    join: Annotated[
        str,
        typer.Option(
            metavar="HEAD[:PORT]", help="Address of the platform, as `swell up --listen` printed it."
        ),
    ],
    token_file: Annotated[
        Path, typer.Option(metavar="FILE", help="File with a join token of the platform, mode 0600.")
    ],
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of this node; no two nodes have the same. Default: host name.",
            show_default=False,
        ),
    ] = None,
    devices: Annotated[
        str,
        typer.Option(
            metavar="DEVICES",
            help="auto, cpu, cpu:N, cuda, cuda:N, or paced devices: paced:DEVICES@SAMPLES_PER_S.",
        ),
    ] = "auto",
    cores: Annotated[
        float,
        typer.Option(metavar="N", help="Cores of this machine that all workers share; 0: all."),
    ] = 0.0,
    cpu_shares: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="What a job's CPU share means: weight (others get what it does not use), quota (a hard "
            "limit) or off.",
        ),
    ] = "weight",
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of this machine at which workers of other nodes reach its own. Default: the one "
            "that the head sees.",
            show_default=False,
        ),
    ] = None,
    borrowed: Annotated[
        bool, typer.Option("--borrowed", help="This machine may be reclaimed at any second.")
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="State folder of this node. Default: that of a platform with `-node` behind its name.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Let this machine run workers of a platform, in the foreground until Ctrl-C or SIGTERM.

    It joins again whenever the line breaks. Workers train on meanwhile, for as long as the lease of this
    machine lasts (30 s).
    """
    from swell.executors.local.processes.strays import HOST_MODULE
    from swell.store.folder import default_path

    sharing = _sharing(cores, cpu_shares)
    own = default_path(os.environ)
    folder = own.with_name(f"{own.name}-node") if state is None else state.expanduser()
    words = ["--state", str(folder.resolve()), "--join", join, "--token-file", str(token_file)]
    words += ["--devices", devices, *sharing.words]
    words += ["--advertise", advertise] if advertise is not None else []
    words += [*(["--name", name] if name is not None else []), *(["--borrowed"] if borrowed else [])]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", HOST_MODULE, *words])  # noqa: S606


def _sharing(cores: float, cpu_shares: str) -> CoreSharing:
    """Raises InvalidOption."""
    from swell.executors.local.limits.limiter import CoreSharing
    from swell.model.share_mode import ShareMode

    try:
        return CoreSharing(cores or None, ShareMode(cpu_shares))
    except ValueError as error:
        modes = ", ".join(ShareMode)
        raise InvalidOption(f"--cpu-shares {cpu_shares}: choose from {modes}") from error
