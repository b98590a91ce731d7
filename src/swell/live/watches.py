"""Watches of a platform, apart from its head: quotas, faults, followers of jobs, devices, disk space."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.core.platform_core import PlatformCore
from swell.executors.storage import begun
from swell.model.event import (
    AnyEvent,
    CancelRequested,
    NodeJoined,
    NodeWarned,
    PredecessorsSucceeded,
    QuotasSet,
)
from swell.model.job import Phase
from swell.model.node import Node
from swell.model.quota import Claims
from swell.model.usage import TEST_LIMIT_S, DeviceReading
from swell.model.view import JobView, is_set_aside

#: Topic of the platform's warning that quotas are not as they were set.
ABOUT_QUOTAS = "quotas"
#: More devices than any cluster has, so that a job without an upper bound asks for all there can be.
UNBOUNDED = 1_000_000
#: Readings of devices are looked through once in so long.
FAULTS_EVERY_S = 2.0
#: A caller that asks for free space waits so long at most.
ANSWER_S = 2.0
#: An answer is given again for so long: pages and clients of a platform ask many times a second.
KEPT_S = 1.0

log = logging.getLogger("swell.platform")


class UnknownQuotas(RuntimeError):
    """The quotas that were set cannot be read or kept; the text says why, and names the remedy.

    Args:
        instead: those that hold; None: as the head knows them.
    """

    def __init__(self, why: str, instead: Claims | None = None) -> None:
        super().__init__(why)
        self.instead = instead


class QuotaWatch:
    """Compares the quotas and weights of tenants that the operator has set with those the head knows.

    Args:
        read: those that were set, as they are now; raises UnknownQuotas.
    """

    def __init__(self, read: Callable[[], Claims]) -> None:
        self._read = read
        self.why = ""  #: why what was set does not hold; empty: it does

    def find_change(self, known: Claims, now_s: float) -> QuotasSet | None:
        """What the head is to hear, if that is not what it knows."""
        why = ""
        try:
            claims = self._read()
        except UnknownQuotas as error:
            why, claims = str(error), known if error.instead is None else error.instead
        if why and why != self.why:
            log.warning("%s", why)
        self.why = why
        return (
            None
            if claims == known
            else QuotasSet(at_s=now_s, quotas=dict(claims.quotas), weights=dict(claims.weights))
        )


class FaultWatch:
    """Faults of devices, and nodes that are likely to be ill. Each is reported once as long as it lasts."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()  #: devices and nodes, and what is wrong with them
        self._due_s = 0.0

    def find_faults(
        self, read: Callable[[], Mapping[str, DeviceReading]], core: PlatformCore, now_s: float
    ) -> list[NodeWarned]:
        """What the head is to hear of nodes with faults that were not known. Reads seldom, at any rate.

        A device that is not read now, as when its driver hangs, keeps its faults.
        """
        if now_s < self._due_s:
            return []
        self._due_s, node_of = now_s + FAULTS_EVERY_S, core.cluster.node_of
        faults = {device: one.fault for device, one in read().items() if device in node_of} | core.suspects
        found = {(about, fault) for about, fault in faults.items() if fault}
        news = sorted(found - self._known)
        self._known = found | {one for one in self._known if faults.get(one[0], one[1])}
        told = [
            (node_of[about], f"device {about}: {fault}") if about in node_of else (about, fault)
            for about, fault in news
        ]
        for node, why in told:
            log.warning("node %s is ill and gets no more work: %s", node, why)
        return [NodeWarned(at_s=now_s, name=node, why=why, is_ill=True) for node, why in told]


class JoinTests:
    """Tests of the GPUs of machines that join, before jobs may have them.

    A borrowed node is not tested: it may be gone soon, and its owner looks after it.

    Args:
        own: nodes of the platform's own machine, which its owner may test.
    """

    def __init__(self, own: Iterable[Node]) -> None:
        self._own = {node.name for node in own}
        self._asked_s: dict[str, float] = {}  #: by name of the node

    def marked(self, event: AnyEvent) -> AnyEvent:
        """The event as the head is to hear it."""
        if not isinstance(event, NodeJoined) or not event.node.has_gpus:
            return event
        is_untested = not event.node.is_borrowed and event.node.name not in self._own
        return msgspec.structs.replace(event, is_untested=is_untested)

    def due(self, core: PlatformCore, now_s: float) -> list[Node]:
        """Nodes without workers whose test is to begin; again if its result is lost, as with an agent."""
        untested = {node.name: node for node in core.untested}
        late_s = now_s - 2 * TEST_LIMIT_S
        self._asked_s = {
            one: at_s for one, at_s in self._asked_s.items() if one in untested and at_s > late_s
        }
        waiting = [node for name, node in untested.items() if name not in self._asked_s]
        used = {device for one in core.holders() for device in one.gang.held} if waiting else set()
        due = [node for node in waiting if not {*used, *core.unknown_owner}.intersection(node.devices)]
        self._asked_s |= {node.name: now_s for node in due}
        return due


class AfterWatch:
    """Jobs that wait for others to succeed, and what they are told once these have ended.

    It compares what is with what was asked for, whenever a job has ended or a follower is new. So an answer
    that was lost with a daemon is found again by the next one.

    Args:
        find: a job that is open or has ended; None: it was pruned.
    """

    def __init__(self, find: Callable[[str], JobView | None]) -> None:
        self._find = find
        self._awaits: dict[str, tuple[str, ...]] = {}  #: by job

    def find_events(
        self, changed: Iterable[JobView], ended: Sequence[JobView], now_s: float
    ) -> list[CancelRequested | PredecessorsSucceeded]:
        """What followers are to hear after a turn of which all predecessors, or one of them, has ended."""
        is_any_news = bool(ended)
        for view in changed:
            if view.awaits != self._awaits.get(view.id, ()):
                self._awaits[view.id] = view.awaits
                is_any_news = True
        for view in ended:
            self._awaits.pop(view.id, None)
        if not is_any_news or not self._awaits:
            return []
        self._awaits = {job_id: awaited for job_id, awaited in self._awaits.items() if awaited}
        return list(self._events(now_s))

    def _events(self, now_s: float) -> Iterator[CancelRequested | PredecessorsSucceeded]:
        for job_id, awaited in self._awaits.items():
            views = {one: self._find(one) for one in awaited}
            if failed := [(one, why) for one, view in views.items() if (why := _failure(view))]:
                why = f"was cancelled: {failed[0][0]}, which it was to follow, {failed[0][1]}"
                yield CancelRequested(at_s=now_s, job_id=job_id, why=why)
            elif all(view is not None and view.phase.is_end for view in views.values()):
                yield PredecessorsSucceeded(at_s=now_s, job_id=job_id)


def _failure(view: JobView | None) -> str:
    """How a job has ended without success; empty: it is open, or has succeeded."""
    if view is None:
        return "was pruned"
    if not view.phase.is_end or view.phase is Phase.SUCCEEDED:
        return ""
    return "has failed" if view.phase is Phase.FAILED else f"was {view.phase}"


class DeviceDemand:
    """How many devices open jobs could use: what an engine that brings machines is told.

    The sum of the largest sizes of all that may run now, kept up to date by what changes: a change of one job
    takes the same time whatever the number of others.
    """

    def __init__(self) -> None:
        self._by_job: dict[str, int] = {}
        self.num_devices = 0

    def update(self, changed: Iterable[JobView], ended: Iterable[JobView]) -> bool:
        """Whether the sum is another one. `changed`: open jobs, also those that are new."""
        before = self.num_devices
        for view in changed:
            self.num_devices -= self._by_job.pop(view.id, 0)
            if not view.phase.is_end and not is_set_aside(view):
                most = view.max_workers
                largest = UNBOUNDED if most is None else most * view.devices_per_worker
                self._by_job[view.id] = largest
                self.num_devices += largest
        for view in ended:
            self.num_devices -= self._by_job.pop(view.id, 0)
        return self.num_devices != before


class Space(NamedTuple):
    """What a disk has, in bytes."""

    free: int
    total: int


def _space_of(path: Path) -> Space:
    usage = shutil.disk_usage(path)
    return Space(usage.free, usage.total)


class SpaceWatch:
    """Free space on the disk of a folder, which may be on a file server that does not answer. Thread-safe.

    One thread looks at a time: others than the first wait for the same answer.
    """

    def __init__(self, path: Path, look: Callable[[Path], Space] = _space_of) -> None:
        self.path = path
        self._look = look
        self._lock = threading.Lock()
        self._answer: Future[Space] | None = None
        self._begun_s = 0.0

    def measure(self) -> Space | None:
        """What there is now, or was in the last second; None: the disk does not answer. Raises OSError."""
        with self._lock:
            now_s = time.monotonic()
            if self._answer is None or (self._answer.done() and now_s >= self._begun_s + KEPT_S):
                self._answer, self._begun_s = begun(lambda: self._look(self.path)), now_s
            answer = self._answer
        return answer.result() if wait([answer], ANSWER_S).done else None
