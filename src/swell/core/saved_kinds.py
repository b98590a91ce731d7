"""The state of a platform's head as the journal's folds hold it: that of a core for each kind of device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from swell.core.kind_admission import KindAdmission
from swell.core.state import Saved, read_saved


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedKind:
    """A core: see `Core.save`."""

    kind: str  #: of its devices; empty: no node has told yet
    head: bytes

    @property
    def saved(self) -> Saved:
        """The core's state, decoded. Raises msgspec.MsgspecError."""
        return read_saved(self.head)


class _Part(msgspec.Struct):
    kind: str
    head: msgspec.Raw


class _Fold(msgspec.Struct, omit_defaults=True):
    kinds: list[_Part]
    admission: KindAdmission | None = None


def read_one_kind(data: bytes) -> Saved:
    """The state of a head that has one kind.

    Raises:
        msgspec.MsgspecError: it is not the state of a head.
        ValueError: it has several kinds.
    """
    (only,) = read_kinds(data)
    return only.saved


def encode_kinds(saved: Iterable[SavedKind], admission: KindAdmission | None = None) -> bytes:
    """`read_kinds` and `read_admission` read it. `admission`: None: any kind is taken."""
    parts = [_Part(one.kind, msgspec.Raw(one.head)) for one in saved]
    fold = _Fold(kinds=parts, admission=admission if admission and admission.is_asked else None)
    return msgspec.json.encode(fold)


def read_admission(data: bytes) -> KindAdmission:
    """Which kinds are taken. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(data, type=_Fold).admission or KindAdmission()


def read_kinds(data: bytes) -> Sequence[SavedKind]:
    """One at least, the first core's first. Raises msgspec.MsgspecError."""
    fold = msgspec.json.decode(data, type=_Fold)
    return tuple(SavedKind(kind=part.kind, head=bytes(part.head)) for part in fold.kinds)
