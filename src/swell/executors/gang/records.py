"""Records of gangs: the text in which hosts keep what a controller knows, for the next one.

Hosts read nothing of it but how the gang ended.
"""

from __future__ import annotations

import msgspec

from swell.executors.gang.gang_protocol import GangRecord
from swell.model.coding import decoder, encode
from swell.model.event import GangEnded, GangSuspended

_decoder: msgspec.json.Decoder[GangRecord] = decoder(GangRecord)


class _KeptEnd(msgspec.Struct, frozen=True):
    end: GangEnded | GangSuspended | None = None


class _EndOfGang(msgspec.Struct, frozen=True):
    replies: _KeptEnd = _KeptEnd()


_end_decoder: msgspec.json.Decoder[_EndOfGang] = decoder(_EndOfGang)


def write_record(gang: GangRecord) -> msgspec.Raw:
    """Return the record of a gang as it is now."""
    return msgspec.Raw(encode(gang))


def end_in(record: msgspec.Raw) -> GangEnded | GangSuspended | None:
    """Return how the gang of a record ended; None: it has not. Raises msgspec.MsgspecError."""
    return _end_decoder.decode(record).replies.end


def read_record(record: msgspec.Raw) -> GangRecord:
    """Return the gang of a record. Raises msgspec.MsgspecError."""
    return _decoder.decode(record)
