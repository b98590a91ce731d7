"""The state of a platform's head as the journal's folds hold it: that of a core for each kind of device."""

from __future__ import annotations

import msgspec

from swell.core.kinds import KindAdmission
from swell.core.state import Saved, read_saved


class SavedKind(msgspec.Struct, kw_only=True):
    """A core: see `Core.save`."""

    kind: str  #: of its devices; empty: no node has told yet
    head: msgspec.Raw

    @property
    def saved(self) -> Saved:
        """The core's state, decoded. Raises msgspec.MsgspecError."""
        return read_saved(bytes(self.head))


class SavedPlatform(msgspec.Struct, kw_only=True):
    """See `PlatformCore.save`."""

    kinds: list[SavedKind]  #: one at least, the first core's first
    admission: KindAdmission = msgspec.field(default_factory=KindAdmission)


def read_platform(data: bytes) -> SavedPlatform:
    """Raises msgspec.MsgspecError."""
    return msgspec.json.decode(data, type=SavedPlatform)


def read_one_kind(data: bytes) -> Saved:
    """The state of a head that has one kind.

    Raises:
        msgspec.MsgspecError: it is not the state of a head.
        ValueError: it has several kinds.
    """
    (only,) = read_platform(data).kinds
    return only.saved
