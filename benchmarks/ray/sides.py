"""What both sides offer: a job that trains on the nodes that Ray has, however these come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tests.ray.cluster import RayNode

from benchmarks.training.sides import Run


class Side(Run, Protocol):
    """One run. It hears from Ray itself which nodes are to go, and which are dead."""

    def start(self, nodes: Sequence[RayNode]) -> None:
        """Begin to train on these."""

    def joined(self, nodes: Sequence[RayNode]) -> Mapping[str, float]:
        """Ray has them now: train on them, too.

        Returns what was reached on the way and when, in seconds of the calendar clock, where that is known.
        """

    def close(self) -> None:
        """End it; its machines end soon after."""
