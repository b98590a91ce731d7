"""How much a host may say at once, and which numbers: the one place where this is looked at.

Texts are cut, since what a script prints or raises gets into them. A number that cannot be, or a list that is
too long, is an error of the host, and the message is not heard. A whole message has at most 4 MiB before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, TypeVar, cast

import msgspec

from swell.executors.hosts.messages import DevicesOffered, OwnerWarned, RunPortFound
from swell.model.islands import InvalidIslands, checked
from swell.model.kind import RULE, is_kind
from swell.wire.metric_names import MOST_METRICS

#: Characters. What a host sends of a traceback or of a log has fewer.
MOST_TEXT = 10_000
#: Of a warning to the owner of a job, and of its topic: they stand in each view of the job.
MOST_WARNING, MOST_TOPIC = 4_000, 100
#: What a host cannot do, for people: so many texts, of so many characters.
MOST_LACKS, MOST_LACK = 20, 500
#: A rack, an address, what torch or CUDA calls a device.
PLAIN = re.compile(r"[A-Za-z0-9 ._:@/+%-]{0,100}")
#: Of a list or a map.
MOST_ENTRIES = 10_000
MOST_DEVICES = 1_000
#: Floats hold all whole numbers below.
MOST_NUMBER = 1 << 53

#: Numbers of these may be negative.
SIGNED = {"status"}
#: What scripts measure: any number, NaN too, by names of which the gang keeps some and tells of the others.
MEASURED = {"loss", "metrics", "values", "curves", "shares"}
#: The controller's own words; see `claims`.
SEALED = {"order", "record", "end"}

Said = TypeVar("Said", bound=msgspec.Struct)


class OutOfBounds(ValueError):
    """The message cannot be heard; the text says why."""


def bounded(message: Said) -> Said:
    """The message with its texts cut. Raises OutOfBounds."""
    cut: msgspec.Struct = message
    if isinstance(message, DevicesOffered):
        _check_offer(message)
        cut = _with_short_lacks(message)
    elif isinstance(message, RunPortFound):
        _check_plain("address", message.address)
    elif isinstance(message, OwnerWarned):
        text, about = message.message[:MOST_WARNING], message.about[:MOST_TOPIC]
        cut = msgspec.structs.replace(message, message=text, about=about)
    return cast(Said, _of_struct(cut))


def _of_struct(value: Said) -> Said:
    news: dict[str, Any] | None = None
    for name in value.__struct_fields__:
        if name not in SEALED:
            part = getattr(value, name)
            if (cut := _of_part(name, part)) is not part:
                news = {**(news or {}), name: cut}
    return value if news is None else msgspec.structs.replace(value, **news)


def _of_part(name: str, part: Any) -> Any:
    """The very same, if nothing is to be cut. Most parts are numbers, and these are as they should be."""
    kind = type(part)
    if kind is int or kind is float:
        if not 0 <= part < MOST_NUMBER:
            _check_odd(name, part)
        return part
    if kind is str:
        return part if len(part) <= MOST_TEXT else part[:MOST_TEXT]
    if kind is dict:
        return _of_map(name, part)
    if kind is list or kind is tuple:
        return _of_list(name, part)
    return _of_struct(part) if isinstance(part, msgspec.Struct) else part


def _of_map(name: str, part: dict[Any, Any]) -> dict[Any, Any]:
    if name in MEASURED:
        return _of_measured(part)
    _check_length(name, part)
    for key, item in part.items():
        if _of_part(name, key) is not key or _of_part(name, item) is not item:
            return {_of_part(name, key): _of_part(name, item) for key, item in part.items()}
    return part


def _of_measured(part: dict[str, Any]) -> dict[str, Any]:
    """One more than are kept, so that it is told."""
    if len(part) <= MOST_METRICS and all(len(name) <= MOST_TEXT for name in part):
        return part
    return {name[:MOST_TEXT]: value for name, value in islice(part.items(), MOST_METRICS + 1)}


def _of_list(name: str, part: Any) -> Any:
    _check_length(name, part)
    news = [_of_part(name, item) for item in part]
    return part if all(new is old for new, old in zip(news, part, strict=True)) else type(part)(news)


def _check_length(name: str, part: Mapping[Any, Any] | list[Any] | tuple[Any, ...]) -> None:
    if len(part) > MOST_ENTRIES:
        raise OutOfBounds(f"{name} has {len(part)} entries; a list in a message has at most {MOST_ENTRIES}")


def _check_odd(name: str, number: float) -> None:
    """Raise OutOfBounds for a number that is NaN, negative or very large, unless this field may have it."""
    if name in MEASURED or (name in SIGNED and -MOST_NUMBER < number < 0):
        return
    least = "-2**53" if name in SIGNED else "0"
    raise OutOfBounds(f"{name} is {str(number)[:40]}; a number in a message is from {least} to 2**53")


def _check_plain(name: str, text: str | None) -> None:
    if text is not None and not PLAIN.fullmatch(text):
        raise OutOfBounds(f"{name} is {text[:100]!r}; it has at most 100 letters, digits and . _ : @ / + % -")


def _check_offer(offered: DevicesOffered) -> None:
    """Whether nodes and devices are its own `HostDoor` looks at."""
    if len(offered.devices) > MOST_DEVICES:
        raise OutOfBounds(f"it offers {len(offered.devices)} devices; a host has at most {MOST_DEVICES}")
    for binding in offered.devices.values():
        _check_plain("device", binding.torch_device)
        _check_plain("device", binding.cuda)
    for node in offered.nodes:
        _check_plain("rack", node.rack)
        _check_plain("address", node.address)
        if not is_kind(node.kind):
            raise OutOfBounds(f"its devices are of kind {node.kind[:80]!r}; a kind has {RULE}")
        try:
            checked(node.islands, len(node.devices))
        except InvalidIslands as error:
            raise OutOfBounds(str(error)[:200]) from error


def _with_short_lacks(offered: DevicesOffered) -> DevicesOffered:
    nodes = tuple(
        msgspec.structs.replace(node, lacks=tuple(lack[:MOST_LACK] for lack in node.lacks[:MOST_LACKS]))
        for node in offered.nodes
    )
    return msgspec.structs.replace(offered, nodes=nodes)
