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


class NewerState(StateError):
    """The state folder was written by a later version of Swell."""


class DamagedState(StateError):
    """The database cannot be read."""


def remedy(journal: Path) -> str:
    """What to do about a journal that is damaged or lost."""
    return f"`swell doctor --state {journal.parent}` tells what is left, {way_back(journal)}"


def way_back(journal: Path) -> str:
    """The same for those who know what is left."""
    where = f"--state {journal.parent}"
    return (
        f"`swell doctor --salvage {where}` makes a new journal of what can be read, and `swell restore FILE "
        f"{where}` goes back to a copy that `swell backup` made"
    )
