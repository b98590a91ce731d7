"""A state folder that no process works in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from swell.api.errors import ApiError
from swell.executors.local.launch import find_agent
from swell.store.folder import StateFolder
from swell.store.lock import StateLock


@contextmanager
def at_rest(folder: StateFolder) -> Iterator[None]:
    """Nothing starts there meanwhile.

    Raises:
        StateError: a platform uses it.
        ApiError: workers of a killed daemon still run.
    """
    with StateLock(folder.lock):
        if find_agent(folder.path) is not None:
            raise ApiError(f"workers of {folder.path} still run; end them with `swell down`, then try again")
        yield
