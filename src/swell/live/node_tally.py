"""Nodes that were lost since the daemon's start, with and without a warning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from swell.live.turns import Turn
from swell.model.event import NodeLost, NodeWarned


class NodeTally:
    """Listens to turns; not thread-safe.

    A node counts as lost with its host and for a cause. One whose devices other users of a cluster took, or
    that its owner has given other devices, does not.
    """

    def __init__(self) -> None:
        self.losses: Counter[bool] = Counter()  #: by whether the node was to be left anyway
        self._warned: set[str] = set()  #: names, after the latest turn

    def begin(self, warned: Iterable[str]) -> None:
        """These nodes are to be left."""
        self._warned = set(warned)

    def hear(self, turn: Turn) -> None:
        for event in turn.batch:
            if isinstance(event, NodeWarned):
                self._warned.add(event.name)
            elif isinstance(event, NodeLost) and event.cause and not event.is_host_kept:
                self.losses[event.name in self._warned] += 1
        self._warned = set(turn.news.warned)
