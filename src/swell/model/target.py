"""What the head wants a gang to be."""

from __future__ import annotations

import msgspec


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another dimension of a decision is a field here, and a column of `Options`."""

    devices: tuple[str, ...]  #: in rank order, `devices_per_worker` neighbours for each worker
    global_batch: int | None = None  #: samples of a step; None: the job's own batch


#: A gang that is no more.
NOTHING = Target(devices=())
