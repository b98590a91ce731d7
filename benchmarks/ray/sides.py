"""What both sides offer: a job that trains on the nodes that Ray has, however these come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tests.ray.cluster import RayNode

from benchmarks.training.sides import Run


class Side(Run, Protocol):
    """One run. What is told of nodes, a side that hears it from Ray itself takes no notice of."""

    def start(self, nodes: Sequence[RayNode]) -> None:
        """Begin to train on these."""

    def joined(self, nodes: Sequence[RayNode]) -> None:
        """Ray has them now: train on them, too."""

    def drained(self, node: RayNode) -> None:
        """It will be gone soon: train without it."""

    def lost(self, node: RayNode) -> None:
        """Ray knows that it is dead."""

    def close(self) -> None:
        """End it; its machines end soon after."""
