"""What a CPU share means, on machines and in simulations."""

from __future__ import annotations

from enum import StrEnum

#: Share of a gang for which none was chosen.
FULL_SHARE = 1.0
#: Topic of warnings that shares have no effect, or another one than was asked for.
ABOUT_SHARES = "cpu shares"
#: Of the platform about slots that a promise leaves idle.
ABOUT_PROMISES = "promises"


class ShareMode(StrEnum):
    """What the CPU share of a gang means for its neighbours on a node (`--cpu-shares`)."""

    WEIGHT = "weight"  #: relative to the neighbours; what one gang does not use, others get
    QUOTA = "quota"  #: that part of the node's cores, and no more
    OFF = "off"  #: nothing: cores are not divided, usage is measured
