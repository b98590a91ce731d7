"""What an agent asks its helper, the process that has Ray: JSON, a line for each request and answer."""

from __future__ import annotations

import msgspec

from swell.executors.slices.order import SliceOrder
from swell.executors.slices.port import ClusterRead


class RayMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


class Look(RayMessage, frozen=True, kw_only=True):
    """Answered with what there is of this platform's slices."""


class StartSlice(RayMessage, frozen=True, kw_only=True):
    """Have Ray start a slice when it has room. `id`: no other one has it."""

    id: int
    order: SliceOrder  #: its devices are the helper's to fill in


class EndSlices(RayMessage, frozen=True, kw_only=True):
    """They and their hosts are ended."""

    ids: tuple[int, ...]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """An answer has the same number."""

    number: int
    what: Look | StartSlice | EndSlices


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The first one comes unasked, when the helper has connected or cannot."""

    number: int = 0
    address: str = ""  #: of this machine, as Ray knows it; of the first one
    refusal: str = ""  #: why it cannot be; the text names the remedy
    read: ClusterRead | None = None
