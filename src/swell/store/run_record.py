"""The record of a simulated run: a folder with a journal a policy, of which only the archive is filled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from swell.model.view import JobView, Story
from swell.store.errors import StateError
from swell.store.journal import SqlJournal

SUFFIX = ".db"


class RunRecord:
    """Making one touches nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def policies(self) -> list[str]:
        """Those that the run was made under, in alphabetical order. Raises StateError if it is no record."""
        found = sorted(file.stem for file in self.folder.glob(f"*{SUFFIX}"))
        if not found:
            raise StateError(
                f"{self.folder} holds no record of a run; write one with "
                "`swell simulate ... --stories FOLDER`"
            )
        return found

    def write(
        self, policy: str, state: bytes, jobs: Sequence[JobView], stories: Sequence[tuple[str, Story]]
    ) -> Path:
        """One policy's, in place of an earlier one. Returns the file. Raises StateError, OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file(policy)
        file.unlink(missing_ok=True)
        with closing(SqlJournal(file)) as journal:
            journal.fold(state)
            journal.keep(jobs, stories)
        return file

    def jobs(self, policy: str) -> list[JobView]:
        """Oldest first. Raises StateError."""
        with closing(self._open(policy)) as journal:
            return journal.archived_jobs()

    def stories(self, policy: str, job_id: str) -> list[Story]:
        """Oldest first; empty if there are none. Raises StateError."""
        with closing(self._open(policy)) as journal:
            return journal.stories(job_id)

    def _open(self, policy: str) -> SqlJournal:
        known = self.policies()
        if policy not in known:
            raise StateError(f"the run in {self.folder} has no policy {policy!r}; it has {', '.join(known)}")
        return SqlJournal(self._file(policy))

    def _file(self, policy: str) -> Path:
        return self.folder / f"{policy}{SUFFIX}"
