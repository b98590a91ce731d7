"""Nodes of one kind of device in a simulated cluster that has several."""

from __future__ import annotations

import msgspec

from swell.model.errors import InvalidInput
from swell.model.names import ANY, KIND_RULE, is_kind
from swell.model.quantities import as_number

#: The fastest kind is at most so many times as fast as the slowest.
MOST_SPEED = 1e6


class KindNodes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Equal nodes, and how fast their devices are."""

    kind: str
    nodes: int
    devices_per_node: int
    speed: float = 1.0  #: rate of a job on them / that of its profile

    @property
    def num_devices(self) -> int:
        return self.nodes * self.devices_per_node

    def __str__(self) -> str:
        speed = "" if self.speed == 1.0 else f"*{self.speed:g}"
        return f"{self.kind}={self.nodes}x{self.devices_per_node}{speed}"


def parse_kinds(text: str) -> tuple[KindNodes, ...]:
    """Kinds of `a100=4x8*2.5,v100=2x8`. Raises InvalidInput."""
    found = tuple(_parse_one(word.strip(), text) for word in text.split(","))
    for kind in found:
        if sum(other.kind == kind.kind for other in found) > 1:
            raise InvalidInput(
                f"--cluster is {text!r}; kind {kind.kind!r} stands there twice, name each once"
            )
    return found


def _parse_one(word: str, text: str) -> KindNodes:
    kind, _, shape = word.partition("=")
    numbers, has_speed, speed = shape.partition("*")
    parts = numbers.split("x")
    if not shape or len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise InvalidInput(
            f"--cluster is {text!r}; write KIND=NODESxDEVICES for each kind, with its speed behind it if "
            "that is not 1, such as a100=4x8*2.5,v100=2x8"
        )
    if not is_kind(kind) or kind == ANY:
        raise InvalidInput(f"--cluster names a kind {kind!r}; a kind has {KIND_RULE}, and is not `{ANY}`")
    nodes, devices = map(int, parts)
    if not nodes or not devices:
        raise InvalidInput(f"--cluster gives kind {kind!r} {numbers}, which has no devices; leave it out")
    return KindNodes(
        kind=kind, nodes=nodes, devices_per_node=devices, speed=_speed(kind, speed) if has_speed else 1.0
    )


def _speed(kind: str, text: str) -> float:
    speed = as_number(text)
    if not 1.0 / MOST_SPEED <= speed <= MOST_SPEED:
        raise InvalidInput(
            f"--cluster gives kind {kind!r} the speed {text!r}; write a number above 0, such as "
            f"{kind}=4x8*2.5"
        )
    return speed
