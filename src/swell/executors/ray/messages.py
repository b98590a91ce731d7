"""What an agent asks its helper, the process that has Ray: JSON, a line for each request and answer."""

from __future__ import annotations

import msgspec

from swell.executors.slices.order import SliceOrder
from swell.executors.slices.port import ClusterRead


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request without `start` and `end` asks what there is of this platform's slices."""

    number: int  #: an answer has the same
    start: SliceOrder | None = None  #: a slice, when Ray has room; its devices are the helper's to fill in
    id: int = 0  #: of that slice; no other one has it
    end: tuple[int, ...] = ()  #: slices, with their hosts


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The first one comes unasked, when the helper has connected or cannot."""

    number: int = 0
    address: str = ""  #: of this machine, as Ray knows it; of the first one
    refusal: str = ""  #: why it cannot be; the text names the remedy
    read: ClusterRead | None = None
