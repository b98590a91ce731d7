"""Records of gangs: the text in which hosts keep what a controller knows, for the next one.

Hosts read nothing of it but how the gang ended.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swell.executors.gang.gang_protocol import GangRecord
from swell.model.coding import decoder, encode
from swell.model.event import GangEnded, GangSuspended

_decoder: msgspec.json.Decoder[GangRecord] = decoder(GangRecord)
Fields = dict[str, Any]


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
    fields: Fields = msgspec.json.decode(record)
    if "dialogue" not in fields:
        return _decoder.decode(record)
    # An earlier version's.
    renewed = _elastic(fields) if fields["type"] == "ElasticRecord" else _restart(fields)
    gang: GangRecord = msgspec.convert(renewed, GangRecord, strict=False)
    return gang


def _elastic(old: Fields) -> Fields:
    """The batch stood for the configuration, and parts of the formation and the setback were fields."""
    setback = old["setback"]
    setback = {} if setback is None else {**setback, "since_s": 0.0}
    ending = old["ending"]
    if ending is not None and ending.pop("is_over_memory", False):
        setback["is_over_memory"] = True
    membership = old["membership"]
    return {
        **old,
        "type": "ElasticGang",
        "replies": old["dialogue"],
        "membership": {**membership, "configuration": {"global_batch": membership["batch"]}},
        "configuration": {"global_batch": old["batch"]},
        "setback": {**setback, "num_failed_rounds": old["num_failed_rounds"]},
        "formation": {
            "round": old["round"],
            "configuration": {"global_batch": old["round_batch"]},
            "group": old["group"],
            "orders": old["orders"],
        },
    }


def _restart(old: Fields) -> Fields:
    """The tally of steps and the ending were written otherwise."""
    tally = {"steps": old["steps"], "begun_with": old["steps_before"], "is_new": old["is_new"]}
    return {**old, **old["ending"], "type": "RestartGang", "replies": old["dialogue"], "tally": tally}
