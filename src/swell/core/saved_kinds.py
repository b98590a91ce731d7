"""The state of a platform's head as the journal's folds hold it: that of a core for each kind of device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from swell.core.kind_admission import KindAdmission
from swell.core.kind_choice import KindSpeeds
from swell.core.state import Saved, read_saved
from swell.model.cluster import Cluster


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
    speeds: KindSpeeds | None = None


class _Admission(msgspec.Struct):
    admission: KindAdmission | None = None


class _Speeds(msgspec.Struct):
    speeds: KindSpeeds | None = None


class _OldFold(msgspec.Struct):
    """A fold of a version that had one kind of device: the state of its only core, without the kind."""

    cluster: Cluster = Cluster()
    kinds: list[_Part] | msgspec.UnsetType = msgspec.UNSET


def read_one_kind(data: bytes) -> Saved:
    """The state of a head that has one kind.

    Raises:
        msgspec.MsgspecError: it is not the state of a head.
        ValueError: it has several kinds.
    """
    (only,) = read_kinds(data)
    return only.saved


def encode_kinds(
    saved: Iterable[SavedKind], admission: KindAdmission | None = None, speeds: KindSpeeds | None = None
) -> bytes:
    """`read_kinds`, `read_admission` and `read_speeds` read it. `admission`: None: any kind is taken."""
    parts = [_Part(one.kind, msgspec.Raw(one.head)) for one in saved]
    is_known = speeds is not None and bool(speeds.measured)
    fold = _Fold(
        kinds=parts,
        admission=admission if admission and admission.is_asked else None,
        speeds=speeds if is_known else None,
    )
    return msgspec.json.encode(fold)


def read_admission(data: bytes) -> KindAdmission:
    """Which kinds are taken. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(data, type=_Admission).admission or KindAdmission()


def read_speeds(data: bytes) -> KindSpeeds:
    """Speeds of scripts on the kinds. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(data, type=_Speeds).speeds or KindSpeeds()


def read_kinds(data: bytes) -> Sequence[SavedKind]:
    """One at least, the first core's first. Raises msgspec.MsgspecError."""
    fold = msgspec.json.decode(data, type=_OldFold)
    if fold.kinds is msgspec.UNSET:
        kind = fold.cluster.nodes[0].kind if fold.cluster.nodes else ""
        return (SavedKind(kind=kind, head=data),)
    return tuple(SavedKind(kind=part.kind, head=bytes(part.head)) for part in fold.kinds)
