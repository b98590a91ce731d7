"""What a replay of the journal found."""

from __future__ import annotations

import msgspec


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """The journal led through a fresh head, beside what the head commanded when it was live."""

    num_batches: int  #: read since the last fold
    num_compared: int  #: of these, batches whose commands had been noted
    difference: str | None = None  #: the first one, in a sentence; None: all equal

    @property
    def is_equal(self) -> bool:
        return self.difference is None
