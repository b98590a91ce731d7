"""What can be wrong with a state folder."""

from __future__ import annotations

from pathlib import Path

from swell.model.errors import Unwritable


class StateError(RuntimeError):
    """The state folder cannot be used; the text names the file, the rule and the remedy."""


class StateUnwritable(StateError, Unwritable):
    """The database cannot be written now: its disk is full, its folder is read-only, or it is locked."""


class StateLocked(StateError):
    """Another daemon holds the state folder."""


class OtherVersion(StateError):
    """The state folder was written by another version of Swell."""


class DamagedState(StateError):
    """The database cannot be read."""


def remedy(journal: Path) -> str:
    """What to do about a journal that is damaged or lost."""
    return (
        f"`swell restore COPY --state {journal.parent}` goes back to a copy that `swell backup` made; "
        f"checkpoints and logs in {journal.parent / 'jobs'} are not touched by that"
    )
