"""`swell admin replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from swell.cli.options import Json, State
from swell.cli.output import print_json

if TYPE_CHECKING:
    from swell.live.recovery import Replay


def replay(state: State = None, json: Json = False) -> None:
    """Check that the journal leads to the same commands again.

    A fresh scheduler handles the recorded batches, and its commands are compared with the recorded ones.
    The platform may be running. Exit status 1: there is a difference.
    """
    from swell.store.errors import StateError
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    if not folder.journal.exists():
        raise StateError(f"there is no journal in state folder {folder.path}; choose another with --state")
    from swell.assemble import replay_journal

    found = replay_journal(folder.path)
    if json:
        print_json(found)
    else:
        print(_said(found))
    if not found.is_equal:
        raise typer.Exit(1)


def _said(found: Replay) -> str:
    if found.num_batches == 0:
        return "nothing to compare: the journal holds one state and no batches since, as after `swell down`"
    end = "all equal" if found.is_equal else f"batch {found.first_difference} leads to other commands now"
    return (
        f"{found.num_batches} batches since the last fold, {found.num_commands} commands, "
        f"{found.num_compared} batches compared: {end}"
    )
