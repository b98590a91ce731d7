"""A journal that forgets everything when its process ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from swell.model.device_usage import HeldTime
from swell.model.event import AnyEvent, JobSubmitted
from swell.model.job import Phase
from swell.model.job_query import JobQuery, newest
from swell.model.outcome import OutcomeSums, device_s
from swell.model.view import JobView, Story
from swell.store.archive import Archive
from swell.store.curve import CurvePoint, absorb
from swell.store.curves import taken_off
from swell.store.journal import Delivery, JournalEntry, JournalHistory, SqlJournal


class MemoryJournal(SqlJournal):
    bytes_on_disk = 0
    last_seq = 0
    notices: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.last_seq = 0
        self._state: bytes | None = None
        self._folded = 0
        self._entries: dict[int, JournalEntry] = {}
        self._submitted: dict[str, JobSubmitted] = {}
        self._jobs: dict[str, JobView] = {}
        self._stories: list[tuple[str, Story]] = []
        self._deliveries: dict[str, Delivery | None] = {}  #: by id; None: it is over
        self._told_of: dict[str, str] = {}  #: id -> job
        self._pruned_s: dict[str, float] = {}
        self._pruned_time: list[HeldTime] = []
        self._points: dict[tuple[str, str], list[CurvePoint]] = {}

    def append(self, batch: Sequence[AnyEvent]) -> None:
        self.last_seq += 1
        batch, told = taken_off(batch)
        for one in told:
            for name, point in one.points():
                absorb(self._points.setdefault((one.job_id, name), []), point)
        self._submitted |= {event.job_id: event for event in batch if isinstance(event, JobSubmitted)}
        self._entries[self.last_seq] = JournalEntry(self.last_seq, batch, None)

    def curves(self, job_id: str, names: Collection[str] = ()) -> dict[str, list[CurvePoint]]:
        return {
            name: points
            for (job, name), points in sorted(self._points.items())
            if job == job_id and (not names or name in names)
        }

    def submission(self, job_id: str) -> JobSubmitted | None:
        return self._submitted.get(job_id)

    def submission_of_key(self, key: str) -> JobSubmitted | None:
        return next((event for event in self._submitted.values() if key and event.origin.key == key), None)

    def knows(self, job_id: str) -> bool:
        return job_id in self._submitted or job_id in self._jobs or job_id in self._pruned_s

    def prune(self, job_ids: Sequence[str], at_s: float) -> None:
        for job_id in job_ids:
            if (view := self._jobs.pop(job_id, None)) is not None:
                self._pruned_time.append(msgspec.structs.replace(HeldTime.of(view), id="", name=""))
            self._points = {key: points for key, points in self._points.items() if key[0] != job_id}
            self._submitted.pop(job_id, None)
            self._pruned_s[job_id] = at_s
        self._stories = [entry for entry in self._stories if entry[0] not in job_ids]
        for key in [key for key, job_id in self._told_of.items() if job_id in job_ids]:
            if self._deliveries[key] is None:
                del self._deliveries[key], self._told_of[key]

    def pruned_s(self, job_id: str) -> float | None:
        return self._pruned_s.get(job_id)

    def close(self) -> None: ...

    def amend(self, seq: int, batch: Sequence[AnyEvent]) -> None:
        self._entries[seq] = JournalEntry(seq, taken_off(batch)[0], None)

    def finish(
        self,
        seq: int,
        digest: str,
        ended: Sequence[JobView] = (),
        stories: Sequence[tuple[str, Story]] = (),
        deliveries: Sequence[Delivery] = (),
    ) -> set[str]:
        entry = self._entries[seq]
        if entry.digest is not None:
            return set()
        self._entries[seq] = JournalEntry(seq, entry.batch, digest)
        self.keep(ended, stories)
        return self.put_deliveries(deliveries)

    def put_deliveries(self, deliveries: Sequence[Delivery]) -> set[str]:
        new = {one.id: one for one in deliveries if one.id not in self._deliveries}
        self._deliveries |= new
        self._told_of |= {one.id: one.job_id for one in new.values()}
        return set(new)

    def deliveries(self) -> list[str]:
        return [one.message for one in self._deliveries.values() if one is not None]

    def end_delivery(self, delivery_id: str, job_id: str, story: Story | None) -> None:
        if job_id in self._pruned_s:
            del self._deliveries[delivery_id], self._told_of[delivery_id]
        elif delivery_id in self._deliveries:
            self._deliveries[delivery_id] = None
            self.keep([], [] if story is None else [(job_id, story)])

    def keep(self, ended: Sequence[JobView], stories: Sequence[tuple[str, Story]] = ()) -> None:
        self._jobs.update({view.id: view for view in ended})
        self._stories += stories

    def history(self) -> JournalHistory:
        return JournalHistory(self._state, self._folded, list(self._entries.values()))

    def fold(self, state: bytes) -> int:
        self._state, self._folded = state, self.last_seq
        self._entries.clear()
        return self.last_seq

    def stories(self, job_id: str) -> list[Story]:
        return sorted((story for owner, story in self._stories if owner == job_id), key=lambda s: s.at_s)

    def archived_jobs(self) -> list[JobView]:
        return sorted(self._jobs.values(), key=lambda view: (view.submitted_s, view.id))

    @property
    def archive(self) -> MemoryArchive:
        return MemoryArchive(self._jobs, self._pruned_time)


@dataclass(frozen=True, slots=True)
class MemoryArchive(Archive):
    jobs: Mapping[str, JobView]
    pruned_time: Sequence[HeldTime] = ()

    def device_time(self, since_s: float, until_s: float) -> list[HeldTime]:
        return [*map(HeldTime.of, self.jobs.values()), *self.pruned_time]

    def find(self, query: JobQuery) -> list[JobView]:
        return newest([view for view in self.jobs.values() if query.matches(view)], query.limit)

    def job(self, job_id: str) -> JobView | None:
        return self.jobs.get(job_id)

    def named(self, name: str) -> JobView | None:
        return next(iter(newest([view for view in self.jobs.values() if view.name == name], 1)), None)

    def begun(self, beginning: str, limit: int) -> list[JobView]:
        return [self.jobs[job_id] for job_id in sorted(self.jobs) if job_id.startswith(beginning)][:limit]

    def span(self, query: JobQuery) -> tuple[float, float] | None:
        ends_s = [view.finished_s for view in self.find(query) if view.finished_s is not None]
        return (min(ends_s), max(ends_s)) if ends_s else None

    def add_up(self, query: JobQuery, period_s: float, origin_s: float) -> dict[int, OutcomeSums]:
        return added_up(
            (int(((view.finished_s or 0.0) - origin_s) / period_s), outcome_of(view))
            for view in self.find(query)
        )

    def count(self) -> dict[Phase, int]:
        return dict(Counter(view.phase for view in self.jobs.values()))


def outcome_of(view: JobView) -> OutcomeSums:
    """Outcome of one job that has ended."""
    return OutcomeSums(
        num_jobs=1,
        promises_kept=int(view.is_promised and view.kept is True),
        promises_missed=int(view.is_promised and view.kept is False),
        others_kept=int(not view.is_promised and view.kept is True),
        others_missed=int(not view.is_promised and view.kept is False),
        refused=int(view.phase is Phase.REJECTED),
        failed=int(view.phase is Phase.FAILED),
        device_s=device_s(view),
        resizes=view.resizes,
        pause_s=view.resize_pause_s,
        saved_s=view.resize_saved_s,
    )


def added_up(outcomes: Iterable[tuple[int, OutcomeSums]]) -> dict[int, OutcomeSums]:
    """Outcomes summed up for each period, by the period's number."""
    found: dict[int, OutcomeSums] = {}
    for number, outcome in outcomes:
        found[number] = found.get(number, OutcomeSums()) + outcome
    return found
