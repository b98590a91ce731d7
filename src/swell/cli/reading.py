"""Commands that only read jobs: without a platform they read what its state folder keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from swell.cli.output import warn

if TYPE_CHECKING:
    from swell.api.client import Client


def connect_to_read(state: Path | None) -> Client:
    """Connect to the platform of a state folder; if none is up, read the folder, and say so.

    Raises as `connect`; StateError: the journal cannot be read.
    """
    from swell.api.client import NoPlatform, connect

    try:
        return connect(state)
    except NoPlatform as error:
        from swell.store.folder import StateFolder

        if not StateFolder(state).journal.exists():
            raise
        from swell.api.stored_transport import read_stored  # the scheduler, which clients do without

        client = read_stored(state, error)
        warn(f"{error}; shown is what the state folder keeps")
        return client
