"""What all messages between the controller and a node host have in common."""

from __future__ import annotations

import msgspec


class HostMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass
