"""What a platform needs of its journal and of its executor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from swell.core.ports import Journal
from swell.live.metrics import TimedTally, ToldSince
from swell.live.pruning import EndedJobs
from swell.live.recovery import Entry
from swell.live.submitter import Submissions
from swell.live.world import GangExecutor
from swell.model.device_usage import HeldTime
from swell.model.event import AnyEvent
from swell.model.job import Phase
from swell.model.job_query import JobQuery
from swell.model.outcome import OutcomeSums
from swell.model.running import RunningWork
from swell.model.view import JobView, Story


class History(Protocol):
    """A state, and the batches after it."""

    @property
    def state(self) -> bytes | None:
        """The state of the last fold, as JSON; None before the first fold."""

    @property
    def seq(self) -> int:
        """Number of the last batch in the folded state; 0 before the first fold."""

    @property
    def entries(self) -> Iterable[Entry]:
        """The batches since the last fold, oldest first."""


class EndedJobsByName(EndedJobs, Protocol):
    """Those that can be asked for in all the ways that a user names a job, and added up."""

    def named(self, name: str) -> JobView | None:
        """The newest job with this name; None if there is none."""

    def begun(self, beginning: str, limit: int) -> list[JobView]:
        """Return at most `limit` jobs whose ids start with `beginning`."""

    def span(self, query: JobQuery) -> tuple[float, float] | None:
        """See `history.EndedOutcomes`."""

    def add_up(
        self, query: JobQuery, period_s: float, origin_s: float, without: Sequence[str] = ()
    ) -> dict[int, OutcomeSums]:
        """See `history.EndedOutcomes`."""

    def count(self) -> dict[Phase, int]:
        """Number of jobs in each phase."""

    def device_time(self, since_s: float, until_s: float) -> Sequence[HeldTime]:
        """See `usage.TimeStore`."""


class AmendableJournal(Journal, Protocol):
    """A journal whose batches may still be changed."""

    def amend(self, seq: int, batch: Sequence[AnyEvent]) -> None:
        """Keep this in the place of batch `seq`, which the head could not handle as it was.

        What was noted of its commands is forgotten.
        """


class Store(AmendableJournal, Submissions, Protocol):
    """A journal with an archive."""

    def history(self) -> History:
        """The last fold's state and what came after."""

    def note_commands(self, seq: int, digest: str) -> None:
        """Store the digest of the commands of batch `seq`, which `swell admin replay` compares."""

    def fold(self, state: bytes, ended: Sequence[JobView], stories: Sequence[tuple[str, Story]]) -> int:
        """Replace all batches by this state and archive ended jobs; the number of the last batch."""

    def stories(self, job_id: str) -> list[Story]:
        """Archived lines of the job, oldest first."""

    def add_stories(self, stories: Sequence[tuple[str, Story]]) -> None:
        """Archive (job id, line) pairs; a line that is already archived is not added again."""

    def curves(self, job_id: str, names: Collection[str] = ()) -> Mapping[str, Sequence[TimedTally]]:
        """The metrics of a job by name; `names`: only those, none: all."""

    def curves_told(self, since: int | None, job_ids: Collection[str]) -> ToldSince:
        """What batches after batch `since` told of the metrics of these jobs; None: only where to go on."""

    @property
    def archive(self) -> EndedJobsByName: ...
    def prune(self, job_ids: Sequence[str], at_s: float) -> None:
        """Remove these ended jobs; their ids stay known as pruned at `at_s`."""

    def pruned_s(self, job_id: str) -> float | None:
        """When the job was pruned; None if it was not."""

    def close(self) -> None: ...
    @property
    def last_seq(self) -> int:
        """Number of the last batch appended; 0 before the first."""

    @property
    def bytes_on_disk(self) -> int:
        """Size of the journal, including its write-ahead log."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Warnings about the file for the platform's owner."""


class Executor(GangExecutor, Protocol):
    """Hands that outlive the daemon."""

    def start(self, deliver: Callable[[AnyEvent], None]) -> RunningWork:
        """Begin, or adopt what runs, and tell what that is.

        Events are delivered with CLOCK_BOOTTIME of this machine as `at_s`.
        """

    def acknowledge(self) -> None:
        """All that was delivered and handled so far is in the journal."""

    def remove_host(self, name: str) -> None:
        """Have a host that has joined end its workers and leave; `NodeLost` follows."""

    def want_devices(self, num: int) -> None:
        """Say how many devices open jobs could use together. Called when that number changes."""

    @property
    def lack(self) -> str:
        """What it cannot do of what was asked for, for people; empty: nothing."""

    def shut_down(self) -> None:
        """End every process and wait until all are gone."""
