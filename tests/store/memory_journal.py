"""A journal that forgets everything when its process ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from swell.model.device_usage import HeldTime
from swell.model.event import AnyEvent, JobSubmitted
from swell.model.job import Phase
from swell.model.job_query import JobQuery, newest
from swell.model.outcome import OutcomeSums, added_up, outcome_of
from swell.model.view import JobView, Story
from swell.store.curve import CurvePoint, absorb
from swell.store.curves import CurveNews, MetricKey, ToldCurves, taken_off
from swell.store.journal import JournalEntry, JournalHistory


class MemoryJournal:
    bytes_on_disk = 0

    def __init__(self) -> None:
        self.last_seq = 0
        self._state: bytes | None = None
        self._folded = 0
        self._entries: dict[int, JournalEntry] = {}
        self.notices: tuple[str, ...] = ()
        self._submitted: dict[str, JobSubmitted] = {}
        self._jobs: dict[str, JobView] = {}
        self._stories: dict[tuple[str, Story], None] = {}
        self._pruned_s: dict[str, float] = {}
        self._pruned_time: list[HeldTime] = []
        self._curves: dict[MetricKey, list[CurvePoint]] = {}
        self._told: list[tuple[int, ToldCurves]] = []

    def append(self, batch: Sequence[AnyEvent]) -> None:
        self.last_seq += 1
        batch, told = taken_off(batch)
        self._told += [(self.last_seq, one) for one in told]
        for one in told:
            for key, point in one.points():
                absorb(self._curves.setdefault(key, []), point)
        self._submitted |= {event.job_id: event for event in batch if isinstance(event, JobSubmitted)}
        self._entries[self.last_seq] = JournalEntry(self.last_seq, batch, None)

    def curves(self, job_id: str, names: Collection[str] = ()) -> dict[str, list[CurvePoint]]:
        return {
            name: points
            for (job, name), points in sorted(self._curves.items())
            if job == job_id and (not names or name in names)
        }

    def curves_told(self, since: int | None, job_ids: Collection[str]) -> CurveNews:
        """All that was told of is to be read whole."""
        again: dict[str, set[str]] = {}
        for seq, one in self._told:
            if since is not None and seq > since and one.job_id in job_ids:
                again.setdefault(one.job_id, set()).update(one.curves)
        return CurveNews(self.last_seq, {}, again)

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
            self._curves = {key: points for key, points in self._curves.items() if key[0] != job_id}
            self._submitted.pop(job_id, None)
            self._pruned_s[job_id] = at_s
        self._stories = {entry: None for entry in self._stories if entry[0] not in job_ids}

    def pruned_s(self, job_id: str) -> float | None:
        return self._pruned_s.get(job_id)

    def close(self) -> None: ...

    def amend(self, seq: int, batch: Sequence[AnyEvent]) -> None:
        self._entries[seq] = JournalEntry(seq, taken_off(batch)[0], None)

    def note_commands(self, seq: int, digest: str) -> None:
        self._entries[seq] = JournalEntry(seq, self._entries[seq].batch, digest)

    def history(self) -> JournalHistory:
        return JournalHistory(self._state, self._folded, list(self._entries.values()))

    def fold(
        self, state: bytes, ended: Sequence[JobView] = (), stories: Sequence[tuple[str, Story]] = ()
    ) -> int:
        self._state, self._folded = state, self.last_seq
        self._entries.clear()
        self._jobs.update({view.id: view for view in ended})
        self.add_stories(stories)
        return self.last_seq

    def add_stories(self, stories: Sequence[tuple[str, Story]]) -> None:
        self._stories.update(dict.fromkeys((job_id, story) for job_id, story in stories))

    def stories(self, job_id: str) -> list[Story]:
        return sorted((story for owner, story in self._stories if owner == job_id), key=lambda s: s.at_s)

    def archived_jobs(self) -> list[JobView]:
        return sorted(self._jobs.values(), key=lambda view: (view.submitted_s, view.id))

    @property
    def archive(self) -> MemoryArchive:
        return MemoryArchive(self._jobs, self._pruned_time)


@dataclass(frozen=True, slots=True)
class MemoryArchive:
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

    def add_up(
        self, query: JobQuery, period_s: float, origin_s: float, without: Sequence[str] = ()
    ) -> dict[int, OutcomeSums]:
        ended = [view for view in self.find(query) if view.id not in without]
        return added_up(
            (int(((view.finished_s or 0.0) - origin_s) / period_s), outcome_of(view)) for view in ended
        )

    def count(self) -> dict[Phase, int]:
        return dict(Counter(view.phase for view in self.jobs.values()))
