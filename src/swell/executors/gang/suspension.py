"""How far a suspend is: a gang saves and leaves together, or trains on together."""

from __future__ import annotations

import msgspec


class Suspension(msgspec.Struct, kw_only=True):
    """How far the latest order to suspend is."""

    round: int | None = None  #: the group that it was sent to; None: it is yet to be sent
    is_void: bool = False  #: that group broke
    is_saved: bool = False  #: since it was sent
    has_left: bool = False  #: somebody, so all agreed that it is saved

    @property
    def is_out(self) -> bool:
        """The order holds, and is being carried out."""
        return self.round is not None and not self.is_void

    @property
    def is_safe(self) -> bool:
        """Whether the state is saved, and all agreed that it is: the workers have only to exit."""
        return self.is_saved and self.has_left

    def begin(self, round: int) -> None:
        """It is sent to this group."""
        self.clear()
        self.round = round

    def clear(self) -> None:
        """None is under way."""
        self.round, self.is_void, self.is_saved, self.has_left = None, False, False, False

    def note_save(self) -> None:
        self.is_saved |= self.round is not None

    def note_leave(self, generation: int) -> bool:
        """Whether somebody leaves because of it. Who does knows that all agreed, before the group broke."""
        is_meant = generation == self.round
        self.has_left |= is_meant
        return is_meant
