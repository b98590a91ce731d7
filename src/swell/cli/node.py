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
            metavar="HEAD[:PORT]",
            help="Address of the platform, as `swell up --listen` printed it.",
            show_default=False,
        ),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with a join token of the platform, mode 0600.",
            show_default=False,
        ),
    ] = None,
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
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="What the devices are called that jobs ask for with --kind. Devices of one kind must be "
            "alike: a job may be on any of them. Default: what they are, such as cpu or cuda:NVIDIA H200.",
            show_default=False,
        ),
    ] = None,
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
    grace: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Time from SIGTERM until this machine is gone, such as 30s: workers move away meanwhile. "
            "0s: they are killed at once. A second SIGTERM, and Ctrl-C, end it at once.",
        ),
    ] = "0s",
    leave: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Join nothing: have the `swell node` that runs here leave within this time, such as 30s. "
            "Workers move away meanwhile.",
            show_default=False,
        ),
    ] = None,
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
    machine lasts (by default 30 s).
    """
    from swell.executors.local.processes.strays import HOST_MODULE

    folder = host_folder(state)
    if leave is not None:
        _leave(folder, _seconds("--leave", leave))
        return
    if not join or token_file is None:
        raise InvalidOption(
            "--join and --token-file are both needed to join a platform: `swell up --listen` prints them"
        )
    sharing = _sharing(cores, cpu_shares)
    words = ["--state", str(folder.resolve()), "--join", join, "--token-file", str(token_file)]
    words += ["--devices", devices, *sharing.words, "--grace", f"{_seconds('--grace', grace):g}"]
    words += ["--advertise", advertise] if advertise is not None else []
    words += ["--kind", kind] if kind is not None else []
    words += [*(["--name", name] if name is not None else []), *(["--borrowed"] if borrowed else [])]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", HOST_MODULE, *words])  # noqa: S606


def host_folder(state: Path | None) -> Path:
    """State folder of a host. `state`: as it was chosen."""
    from swell.store.folder import default_path

    own = default_path(os.environ)
    return own.with_name(f"{own.name}-node") if state is None else state.expanduser()


def _leave(folder: Path, within_s: float) -> None:
    """Raises InvalidOption."""
    from swell.api.durations import format_duration
    from swell.executors.node.withdrawal import NoHostProcess, order_leave

    try:
        order_leave(folder, within_s)
    except NoHostProcess as error:
        raise InvalidOption(f"--leave: {error}") from error
    except OSError as error:
        raise InvalidOption(
            f"--leave: the host process cannot be told ({error.strerror}); it belongs to another user, "
            "or the disk is full: send it SIGTERM instead, which kills its workers"
        ) from error
    print(f"this host leaves within {format_duration(within_s)}, sooner if its workers have moved away")


def _seconds(option: str, text: str) -> float:
    """Raises InvalidOption."""
    from swell.api.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidOption(f"{option}: {error}") from error


def _sharing(cores: float, cpu_shares: str) -> CoreSharing:
    """Raises InvalidOption."""
    from swell.executors.local.limits.limiter import CoreSharing
    from swell.model.share_mode import ShareMode

    try:
        return CoreSharing(cores or None, ShareMode(cpu_shares))
    except ValueError as error:
        modes = ", ".join(ShareMode)
        raise InvalidOption(f"--cpu-shares {cpu_shares}: choose from {modes}") from error
