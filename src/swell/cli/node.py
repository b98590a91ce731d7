"""`swell node`: this machine as one of a platform."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from swell.api.errors import InvalidOption
from swell.cli.options import declared_options, seconds, with_groups
from swell.executors.node.options import NodeOptions
from swell.model.quantities import span

Host = Annotated[dict[str, Any], declared_options(NodeOptions)]
Leave = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Join nothing: have the `swell node` that runs here leave within this time, such as 30s. "
        "Workers move away meanwhile.",
    ),
]
NodeState = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="State folder of this node. Default: that of a platform with `-node` behind its name.",
    ),
]


@with_groups
def node(options: Host, leave: Leave = None, state: NodeState = None) -> None:
    """Let this machine run workers of a platform, in the foreground until Ctrl-C or SIGTERM.

    It joins again whenever the line breaks. Workers train on meanwhile, for as long as the lease of this
    machine lasts (by default 30 s).
    """
    folder = host_folder(state)
    if leave is not None:
        _leave(folder, seconds("leave", leave))
        return
    if not options.get("join") or not options.get("token_file"):
        raise InvalidOption(
            "--join and --token-file are both needed to join a platform: `swell up --listen` prints them"
        )
    sys.stdout.flush()
    os.execv(sys.executable, NodeOptions(**options).command(folder))  # noqa: S606


def host_folder(state: Path | None) -> Path:
    """State folder of a host. `state`: as it was chosen."""
    from swell.store.folder import default_path

    own = default_path(os.environ)
    return own.with_name(f"{own.name}-node") if state is None else state.expanduser().absolute()


def _leave(folder: Path, within_s: float) -> None:
    """Raises InvalidOption."""
    from swell.executors.node.state import HostStateError
    from swell.executors.node.withdrawal import order_leave

    try:
        order_leave(folder, within_s)
    except HostStateError as error:
        raise InvalidOption(f"--leave: {error}") from error
    except OSError as error:
        raise InvalidOption(
            f"--leave: the host process cannot be told ({error.strerror}); it belongs to another user, "
            "or the disk is full: send it SIGTERM instead, which kills its workers"
        ) from error
    print(f"this host leaves within {span(within_s)}, sooner if its workers have moved away")
