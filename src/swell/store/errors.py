"""What can be wrong with a state folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swell.model.errors import Unwritable


class StateError(RuntimeError):
    """The state folder cannot be used; the text names the file, the rule and the remedy.

    Args:
        what: the file and the rule.
        remedy: may be shown apart from it, or another one in its place; empty: `what` names it.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}: {remedy}" if remedy else what)
        self.what, self.remedy = what, remedy


class StateUnwritable(StateError, Unwritable):
    """The database cannot be written now: its disk is full, its folder is read-only, or it is locked."""


class StateHeld(StateError):
    """Another daemon holds the state folder."""


class DamagedState(StateError):
    """The database cannot be read."""


class UnknownFormat(StateError):
    """Another version of Swell has written the database."""


def remedy(journal: Path) -> str:
    """What to do about a journal that is damaged or lost."""
    import msgspec  # every command knows the errors, and few need the remedy

    state = journal.parent
    try:
        options = msgspec.json.decode((state / "options.json").read_bytes(), type=dict[str, Any])
        copies = options.get("backup_to", "")
    except (OSError, msgspec.MsgspecError):
        copies = ""
    if copies:
        way = f"`swell restore {copies} --state {state}` goes back to the newest copy there"
    else:
        way = f"`swell restore COPY --state {state}` goes back to a copy that `swell admin backup` made"
    return f"{way}; checkpoints and logs in {state / 'jobs'} are not touched by that"
