"""What can be wrong with a state folder."""

from __future__ import annotations

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
