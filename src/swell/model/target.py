"""What the head wants a gang to be."""

from __future__ import annotations

from enum import StrEnum

import msgspec

#: Share of a gang for which none was chosen.
FULL_SHARE = 1.0
#: Topic of warnings that shares have no effect, or another one than was asked for.
ABOUT_SHARES = "cpu shares"
#: Of the platform about slots that a promise leaves idle.
ABOUT_PROMISES = "promises"


class Configuration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a gang runs, beside where. Another dimension is a field here, and a column of `Options`."""

    global_batch: int | None = None  #: samples of a step; None: the job's own batch
    #: Of the cores of its node, relative to what its neighbours have: in (0, 1]; None: they are not divided.
    share: float | None = None

    @property
    def weight(self) -> float:
        """The share; a gang without one weighs as much as one that has all."""
        return FULL_SHARE if self.share is None else self.share

    def told(self, own_batch: int) -> str:
        """Text for users; `own_batch` is the batch that the job was submitted with."""
        batch = f"{self.global_batch or own_batch} samples in a step"
        return batch if self.share is None else f"{batch} and a CPU share of {100 * self.share:.3g} %"

    def trains_as(self, other: Configuration) -> bool:
        """Whether workers train the same way, so that they need not be told of a change between the two."""
        return self.global_batch == other.global_batch


#: How a gang runs of which nothing else was decided.
PLAIN_CONFIGURATION = Configuration()


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a gang must become: its devices, and how it runs on them."""

    devices: tuple[str, ...]  #: in rank order, `devices_per_worker` neighbours for each worker
    configuration: Configuration = PLAIN_CONFIGURATION
    #: Until training that is not saved is lost, as far as has been seen: by it workers choose how often they
    #: save. None: how often is fixed.
    mean_time_to_loss_s: float | None = None


#: A gang that is no more.
NOTHING = Target(devices=())


class ShareKind(StrEnum):
    """What the CPU share of a gang means for its neighbours on a node (`--cpu-shares`)."""

    WEIGHT = "weight"  #: relative to the neighbours; what one gang does not use, others get
    QUOTA = "quota"  #: that part of the node's cores, and no more
    OFF = "off"  #: nothing: cores are not divided, usage is measured
