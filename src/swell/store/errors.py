"""What can be wrong with a state folder."""

from __future__ import annotations

from pathlib import Path


class StateError(RuntimeError):
    """The state folder cannot be used; the text names the file, the rule and the remedy."""


class StateLocked(StateError):
    """Another daemon holds the state folder."""


class NewerState(StateError):
    """The state folder was written by a later version of Swell."""


class DamagedState(StateError):
    """The database cannot be read."""


def remedy(journal: Path) -> str:
    """What to do about a journal that is damaged or lost."""
    where = f"--state {journal.parent}"
    return (
        f"`swell doctor {where}` tells what is left, `swell doctor --salvage {where}` makes a new journal of "
        f"that, and `swell restore FILE {where}` goes back to a copy that `swell backup` made"
    )
