"""A machine with devices. Hosts, which are to start soon, import it without the numpy of `cluster`."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from itertools import accumulate, compress

import msgspec

#: Of machines for which none was named.
DEFAULT_RACK = "rack0"
#: Groups of a node's devices that are joined by faster links than the node as a whole: sizes of each level,
#: from the outermost level in; a node without any has no level. `4/2` says of 8 devices that there are two
#: islands of 4, each of two islands of 2; `3+5` that the first 3 are one island and the other 5 another. The
#: devices of an island are neighbours in the order of the devices.
Islands = tuple[tuple[int, ...], ...]
ISLANDS_FORM = "numbers of devices, the outermost level first, such as 4/2 or 3+5"
MANY_LEVELS = 8


#: In the kind of MIG instances, which are slices of GPUs: `cuda:NVIDIA H200 MIG 1g.18gb`, as NVML names them.
SLICES = " MIG "


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A machine. Its devices are alike."""

    name: str
    devices: tuple[str, ...]  #: ids, unique in the cluster
    kind: str  #: `cpu`, `cuda:NVIDIA H200`, `paced@200`: curves are measured per kind
    rack: str = DEFAULT_RACK
    is_borrowed: bool = False  #: may be reclaimed at any second
    cores: float | None = None  #: that the workers on its devices share; None: each device has its own
    address: str = ""  #: from which its host joined, for people; empty: not known, or the platform's machine
    lacks: tuple[str, ...] = ()  #: what its host cannot do, and what is odd about it, for people
    islands: Islands = ()  #: groups of its devices that are joined by faster links; none: all are alike

    @property
    def can_sum(self) -> bool:
        """Whether its devices can sum gradients: NCCL does not support MIG instances."""
        return SLICES not in self.kind

    @property
    def has_gpus(self) -> bool:
        """Whether its devices are GPUs, by the name that they have of themselves."""
        return self.kind.startswith("cuda:")

    @property
    def num_whole(self) -> int:
        """Devices in use at which each worker still has a core of its own; one at least."""
        num = len(self.devices)
        return num if self.cores is None else min(num, max(1, math.floor(self.cores)))

    def only(self, kept: Container[str]) -> Node:
        """This node with those of its devices alone."""
        is_kept = [device in kept for device in self.devices]
        devices = tuple(compress(self.devices, is_kept))
        islands = remaining(self.islands, is_kept) if self.islands else ()
        return msgspec.structs.replace(self, devices=devices, islands=islands)


class InvalidIslands(ValueError):
    """No node can have such islands; the text names the rule."""


def parse_islands(text: str, num_devices: int) -> Islands:
    """Islands of a node with so many devices. A single number is the size of all islands of its level.

    A level that divides nothing, as one island of all devices, is left out.

    Raises:
        InvalidIslands: the text has another form, or the sizes do not fit.
    """
    levels = checked(tuple(_level(text, one, num_devices) for one in text.split("/")), num_devices)
    return telling(levels, num_devices)


def telling(islands: Islands, num_devices: int) -> Islands:
    """The levels that say something: not those of single devices, nor those that repeat another one."""
    told: list[tuple[int, ...]] = []
    for sizes in islands:
        if max(sizes) > 1 and sizes != (told[-1] if told else (num_devices,)):
            told.append(sizes)
    return tuple(told)


def _level(text: str, level: str, num_devices: int) -> tuple[int, ...]:
    words = level.split("+")
    if not all(word.isascii() and word.isdecimal() and len(word) < 10 and int(word) for word in words):
        raise InvalidIslands(f"islands {text!r}: write {ISLANDS_FORM}")
    sizes = tuple(map(int, words))
    if len(sizes) > 1:
        return sizes
    if num_devices % sizes[0]:
        raise InvalidIslands(
            f"islands {text!r}: {num_devices} devices are no whole number of islands of {sizes[0]}; choose a "
            f"divisor of {num_devices}, or write the size of each island, such as 3+5"
        )
    return sizes * (num_devices // sizes[0])


def checked(islands: Islands, num_devices: int) -> Islands:
    """The same islands. Raises InvalidIslands: a node with so many devices cannot have these."""
    if len(islands) > MANY_LEVELS:
        raise InvalidIslands(f"{len(islands)} levels of islands; at most {MANY_LEVELS} are allowed")
    outer = {num_devices}
    for sizes in islands:
        ends = set(accumulate(sizes))
        if min(sizes, default=0) < 1 or max(ends) != num_devices:
            raise InvalidIslands(
                f"islands of {'+'.join(map(str, sizes))} are not the node's {num_devices} devices; the sizes "
                "of each level must be above 0 and add up to them"
            )
        if not outer <= ends:
            raise InvalidIslands(
                f"islands {islands_text(islands)}: an island lies across the border of a larger one; each "
                "level divides the one before it"
            )
        outer = ends
    return islands


def islands_text(islands: Islands) -> str:
    """The short form that `parse_islands` reads; empty if there are none."""
    return "/".join(
        str(sizes[0]) if len(sizes) > 1 and len(set(sizes)) == 1 else "+".join(map(str, sizes))
        for sizes in islands
    )


def remaining(islands: Islands, is_left: Sequence[bool]) -> Islands:
    """Islands of a node that has only those devices left; an island without a device is gone."""
    left = []
    for sizes in islands:
        ends = list(accumulate(sizes))
        counts = [sum(is_left[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
        left.append(tuple(count for count in counts if count))
    return tuple(left) if any(is_left) else ()
