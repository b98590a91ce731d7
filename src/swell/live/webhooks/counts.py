"""How many messages were delivered, and how many wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebhookCounts:
    """Messages since the daemon's start, and those that wait now."""

    num_delivered: int = 0
    num_failed: int = 0  #: tries that were not answered with success
    num_dropped: int = 0  #: given up, refused for good, or one too many
    num_waiting: int = 0
