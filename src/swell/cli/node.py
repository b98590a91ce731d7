"""`swell node`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from swell.api.errors import InvalidOption
from swell.cli import node_options as option
from swell.cli.options import seconds

if TYPE_CHECKING:
    from swell.executors.local.limits.limiter import CoreSharing


def node(
    join: option.Join = "",
    token_file: option.TokenFile = None,
    name: option.Name = None,
    devices: option.Devices = "auto",
    kind: option.Kind = None,
    cores: option.Cores = 0.0,
    cpu_shares: option.CpuShares = "weight",
    advertise: option.Advertise = None,
    borrowed: option.Borrowed = False,
    grace: option.Grace = "0s",
    leave: option.Leave = None,
    state: option.State = None,
) -> None:
    """Let this machine run workers of a platform, in the foreground until Ctrl-C or SIGTERM.

    It joins again whenever the line breaks. Workers train on meanwhile, for as long as the lease of this
    machine lasts (by default 30 s).
    """
    from swell.executors.local.processes.strays import HOST_MODULE

    folder = host_folder(state)
    if leave is not None:
        _leave(folder, seconds("leave", leave))
        return
    if not join or token_file is None:
        raise InvalidOption(
            "--join and --token-file are both needed to join a platform: `swell up --listen` prints them"
        )
    sharing = _sharing(cores, cpu_shares)
    words = ["--state", str(folder.resolve()), "--join", join, "--token-file", str(token_file)]
    words += ["--devices", devices, *sharing.words, "--grace", f"{seconds('grace', grace):g}"]
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


def _sharing(cores: float, cpu_shares: str) -> CoreSharing:
    """Raises InvalidOption."""
    from swell.executors.local.limits.limiter import CoreSharing
    from swell.model.share_mode import ShareMode

    try:
        return CoreSharing(cores or None, ShareMode(cpu_shares))
    except ValueError as error:
        modes = ", ".join(ShareMode)
        raise InvalidOption(f"--cpu-shares {cpu_shares}: choose from {modes}") from error
