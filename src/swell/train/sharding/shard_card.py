"""What the members of a group tell each other of a state that is divided among them."""

from __future__ import annotations

import msgspec

from swell.train.sharding.intervals import Interval, Intervals


class ShardCard(msgspec.Struct, frozen=True):
    """What a member of a group tells the others of its part."""

    owned: Intervals = ()  #: no other has the same
    held: tuple[Interval, ...] = ()  #: its own part and mirrors, cut as they are computed
    is_voting: bool = False  #: it has the gradients of a further step; whether the vote passed is not known
    is_spread: bool = True  #: it has all parameters of its step, and not just those of its part
