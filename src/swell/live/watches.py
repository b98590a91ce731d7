"""What a platform watches beside its head: quotas, jobs that follow others, device demand, disk space."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from swell.model.event import CancelRequested, PredecessorsSucceeded, QuotasSet
from swell.model.job import Phase
from swell.model.quota import Quotas
from swell.model.view import JobView, is_set_aside

#: Topic of the platform's warning that quotas are not as they were set.
ABOUT_QUOTAS = "quotas"
#: More devices than any cluster has, so that a job without an upper bound asks for all there can be.
UNBOUNDED = 1_000_000
#: Whoever asks for free space waits so long at most.
ANSWER_S = 2.0
#: An answer is given again for so long: pages and clients of a platform ask many times a second.
KEPT_S = 1.0

log = logging.getLogger("swell.platform")


class UnknownQuotas(RuntimeError):
    """The quotas that were set cannot be read or kept; the text says why, and names the remedy.

    Args:
        instead: those that hold; None: as the head knows them.
    """

    def __init__(self, why: str, instead: Quotas | None = None) -> None:
        super().__init__(why)
        self.instead = instead


class QuotaWatch:
    """Compares the quotas of tenants that the operator has set with those the head knows.

    Args:
        read: those that were set, as they are now; raises UnknownQuotas.
    """

    def __init__(self, read: Callable[[], Quotas]) -> None:
        self._read = read
        self.why = ""  #: why what was set does not hold; empty: it does

    def look(self, known: Quotas, now_s: float) -> QuotasSet | None:
        """What the head is to hear, if that is not what it knows."""
        why = ""
        try:
            quotas = self._read()
        except UnknownQuotas as error:
            why, quotas = str(error), known if error.instead is None else error.instead
        if why and why != self.why:
            log.warning("%s", why)
        self.why = why
        return None if quotas == known else QuotasSet(at_s=now_s, quotas=dict(quotas))


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

    def look(
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

    def note(self, changed: Iterable[JobView], ended: Iterable[JobView]) -> bool:
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
        self._found: list[Space | OSError] = []
        self._looking: threading.Thread | None = None
        self._begun_s = 0.0

    def look(self) -> Space | None:
        """What there is now, or was in the last second; None: the disk does not answer. Raises OSError."""
        with self._lock:
            now_s = time.monotonic()
            if self._looking is None or not (self._looking.is_alive() or now_s < self._begun_s + KEPT_S):
                self._found, self._begun_s = [], now_s
                self._looking = threading.Thread(target=self._find, args=(self._found,), daemon=True)
                self._looking.start()
            looking, found = self._looking, self._found
        looking.join(ANSWER_S)
        if not found:
            return None
        if isinstance(found[0], OSError):
            raise found[0]
        return found[0]

    def _find(self, found: list[Space | OSError]) -> None:
        try:
            found.append(self._look(self.path))
        except OSError as error:
            found.append(error)
