"""`swell node`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from swell.api.errors import InvalidOption
from swell.cli.node_options import HostOptions, Leave, State
from swell.cli.option_groups import with_groups
from swell.cli.options import seconds


@with_groups
def node(options: HostOptions, leave: Leave = None, state: State = None) -> None:
    """Let this machine run workers of a platform, in the foreground until Ctrl-C or SIGTERM.

    It joins again whenever the line breaks. Workers train on meanwhile, for as long as the lease of this
    machine lasts (by default 30 s).
    """
    from swell.executors.local.processes.strays import HOST_MODULE

    folder = host_folder(state)
    if leave is not None:
        _leave(folder, seconds("leave", leave))
        return
    words = ["--state", str(folder.resolve()), *options.words()]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", HOST_MODULE, *words])  # noqa: S606


def host_folder(state: Path | None) -> Path:
    """State folder of a host. `state`: as it was chosen."""
    from swell.store.folder import default_path

    own = default_path(os.environ)
    return own.with_name(f"{own.name}-node") if state is None else state.expanduser()


def _leave(folder: Path, within_s: float) -> None:
    """Raises InvalidOption."""
    from swell.executors.node.withdrawal import NoHostProcess, order_leave
    from swell.model.lengths import span

    try:
        order_leave(folder, within_s)
    except NoHostProcess as error:
        raise InvalidOption(f"--leave: {error}") from error
    except OSError as error:
        raise InvalidOption(
            f"--leave: the host process cannot be told ({error.strerror}); it belongs to another user, "
            "or the disk is full: send it SIGTERM instead, which kills its workers"
        ) from error
    print(f"this host leaves within {span(within_s)}, sooner if its workers have moved away")
