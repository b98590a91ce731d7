"""`swell standby`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from swell.api.errors import InvalidOption

Listen = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS[:PORT]",
        help="Address of this machine at which the head copies its state; default port 7070.",
        show_default=False,
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder for the copy. Default: that of a platform with `-standby` behind its name.",
    ),
]


def standby(listen: Listen, state: State = None) -> None:
    """Keep a copy of a platform's state on this machine, in the foreground until Ctrl-C or SIGTERM.

    When the head's machine is lost: end this command, then `swell restore FOLDER` and `swell up` here.
    """
    from swell.executors.remote.host_address import InvalidAddress
    from swell.standby.process import StandbyUnusable, serve

    try:
        serve(standby_folder(state), listen)
    except InvalidAddress as error:
        raise InvalidOption(f"--listen {listen}: {error}") from error
    except StandbyUnusable as error:
        raise InvalidOption(str(error)) from error


def standby_folder(state: Path | None) -> Path:
    """Folder of a standby. `state`: as it was chosen."""
    from swell.store.folder import default_path

    own = default_path(os.environ)
    return own.with_name(f"{own.name}-standby") if state is None else state.expanduser().absolute()
