"""A journal that forgets everything when its process ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swell.model.event import AnyEvent
from swell.model.view import JobView, Story
from swell.store.journal import Entry, History


class MemoryJournal:
    bytes_on_disk = 0

    def __init__(self) -> None:
        self.last_seq = 0
        self._state: bytes | None = None
        self._folded = 0
        self._entries: dict[int, Entry] = {}
        self._jobs: dict[str, JobView] = {}
        self._stories: dict[tuple[str, Story], None] = {}

    def append(self, batch: Sequence[AnyEvent]) -> None:
        self.last_seq += 1
        self._entries[self.last_seq] = Entry(self.last_seq, list(batch), None)

    def note_commands(self, seq: int, digest: str) -> None:
        self._entries[seq] = Entry(seq, self._entries[seq].batch, digest)

    def replay(self) -> Iterator[Sequence[AnyEvent]]:
        return (entry.batch for entry in self._entries.values())

    def history(self) -> History:
        return History(self._state, self._folded, list(self._entries.values()))

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

    def archived_job(self, job_id: str) -> JobView | None:
        return self._jobs.get(job_id)
