"""What a head and its standby say to each other: each message of the head is answered before the next one."""

from __future__ import annotations

import msgspec

from swell.store.statements import Statement

#: Raised when a head and a standby of two versions would not understand each other.
STANDBY_PROTOCOL = 1


class StandbyMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Packed; see `framed_line.py`."""


class CopyOpened(StandbyMessage, frozen=True, kw_only=True):
    """The first words of a head."""

    protocol: int
    version: str  #: of Swell, for people
    token: str  #: its name
    secret: str  #: in hexadecimal digits
    reign: int  #: see `executors.remote.head_term`


class FileCopied(StandbyMessage, frozen=True, kw_only=True):
    """A file of the head's state folder, as it is now."""

    name: str  #: relative to that folder
    content: bytes | None  #: None: there is no such file any longer


class JournalPart(StandbyMessage, frozen=True, kw_only=True):
    """The next bytes of the journal as it was when this line began."""

    content: bytes


class JournalEnded(StandbyMessage, frozen=True, kw_only=True):
    """That was all of it: it takes the place of the former copy. Files beside `files` are gone."""

    files: list[str]


class ChangesMade(StandbyMessage, frozen=True, kw_only=True):
    """Transactions of the journal since, in order; none: the head is there."""

    transactions: list[list[Statement]]


class MessageTaken(StandbyMessage, frozen=True, kw_only=True):
    """All of the message is on the standby's disk."""


class CopyRefused(StandbyMessage, frozen=True, kw_only=True):
    """It is not, and the line is closed."""

    why: str


ToStandby = FileCopied | JournalPart | JournalEnded | ChangesMade
FromStandby = MessageTaken | CopyRefused
