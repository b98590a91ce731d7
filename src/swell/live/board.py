"""What everybody may read while the head works: replaced as a whole after each turn."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from swell.core.core import Core
from swell.model.cluster import Cluster
from swell.model.view import JobView, NodeView, Story


@dataclass(frozen=True, slots=True)
class Posted:
    """One state of the board; never changed after it was posted."""

    active: dict[str, JobView] = field(default_factory=dict)
    cluster: Cluster = field(default_factory=Cluster)
    num_stale: int = 0


class Board:
    """Written by the head's thread, read by any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._posted = Posted()
        self._ended: dict[str, JobView] = {}
        self._stories: defaultdict[str, list[Story]] = defaultdict(list)

    def post(self, core: Core) -> list[JobView]:
        """Show what the head knows after the turn it has just made. Returns the jobs that ended in it."""
        ended = {view.id: view for view in core.ended_views()}
        views = {view.id: view for view in core.views() if view.id not in ended}
        with self._lock:
            self._ended.update(ended)
            for job_id, story in core.stories():
                self._stories[job_id].append(story)
            self._posted = Posted(active=views, cluster=core.cluster, num_stale=core.num_stale)
        return list(ended.values())

    def job(self, job_id: str) -> JobView | None:
        with self._lock:
            return self._find(job_id)

    def jobs(self) -> list[JobView]:
        """Jobs that run, wait, or ended since the last fold."""
        with self._lock:
            return [*self._ended.values(), *self._posted.active.values()]

    def stories(self, job_id: str) -> list[Story]:
        """Since the last fold."""
        with self._lock:
            return list(self._stories.get(job_id, ()))

    def drain(self) -> tuple[list[JobView], list[tuple[str, Story]]]:
        """What a fold of the journal is to keep: ended jobs, and stories. `folded` forgets them here."""
        with self._lock:
            stories = [(job_id, story) for job_id, told in self._stories.items() for story in told]
            return list(self._ended.values()), stories

    def folded(self, ended: Sequence[JobView]) -> None:
        """The journal has them now."""
        with self._lock:
            for view in ended:
                self._ended.pop(view.id, None)
            self._stories.clear()

    @property
    def num_stale(self) -> int:
        return self._posted.num_stale

    def nodes(self) -> tuple[NodeView, ...]:
        posted = self._posted
        owner = {device: view.id for view in posted.active.values() for device in view.devices}
        return tuple(
            NodeView(
                name=node.name,
                rack=node.rack,
                kind=node.kind,
                num_switches=node.num_switches,
                is_borrowed=node.is_borrowed,
                devices={device: owner.get(device) for device in node.devices},
            )
            for node in posted.cluster.nodes
        )

    def _find(self, job_id: str) -> JobView | None:
        return self._posted.active.get(job_id) or self._ended.get(job_id)
