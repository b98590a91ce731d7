"""Checkpoints that joined hosts have saved, on their way to the controller's state folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.executors.hosts.file_messages import (
    CheckpointOffered,
    CheckpointTaken,
    FilePart,
    JobCheckpoint,
    NoFile,
    PartRequest,
)
from swell.executors.local.files.background import Background
from swell.executors.local.files.incoming import IncomingFile, TransferFailure
from swell.executors.local.files.places import checkpoint_folder, place_of
from swell.model.sizes import format_bytes
from swell.wire.checkpoint_files import checkpoints_in, order_in

Say = Callable[[PartRequest | CheckpointTaken], None]


class HeadCheckpoints:
    """Takes those that are newer than what is there, and keeps the newest few of each job."""

    def __init__(self, state_dir: Path, num_kept: int, background: Background) -> None:
        self._state_dir, self._num_kept, self._background = state_dir, num_kept, background
        self._copies: dict[tuple[str, JobCheckpoint], _Copy] = {}  #: under way, by host
        self._ending: dict[_Copy, str] = {}  #: given up, but something is still being written; by job
        self._next: dict[tuple[str, str], CheckpointOffered] = {}  #: after what is copied; by host and job
        self._waiting: list[_Waiting] = []

    def take(self, host: str, offer: CheckpointOffered, say: Say) -> None:
        """Take what a host offers: one of a job at a time, and of those that wait only the latest.

        Args:
            say: tells the host; in the end why it was not taken, or that it is safe here, or not needed.
        """
        if self._is_copied(host, offer.job_id):
            overtaken = self._next.get((host, offer.job_id))
            self._next[host, offer.job_id] = offer
            if overtaken is not None:
                say(CheckpointTaken(job_id=overtaken.job_id, name=overtaken.name, is_overtaken=True))
        else:
            self._begin(host, offer, say)

    def _begin(self, host: str, offer: CheckpointOffered, say: Say) -> None:
        file = JobCheckpoint(job_id=offer.job_id, name=offer.name)

        def ended(why_not: str) -> None:
            self._ending.pop(copy, None)
            if self._copies.get((host, file)) is copy:
                del self._copies[host, file]
                if (later := self._next.pop((host, offer.job_id), None)) is not None:
                    self._begin(host, later, say)
            say(CheckpointTaken(job_id=offer.job_id, name=offer.name, why_not=why_not))
            self._go_on()

        copy = _Copy(self._state_dir, self._num_kept, file, offer.num_bytes, say, self._background, ended)
        self._copies[host, file] = copy
        copy.begin()

    def _is_copied(self, host: str, job_id: str) -> bool:
        """Whether a checkpoint of the job is under way from this host."""
        return any(of == host and file.job_id == job_id for of, file in self._copies)

    def hear(self, host: str, part: FilePart | NoFile) -> None:
        """A part, from the host that has it."""
        copy = self._copies.get((host, part.file)) if isinstance(part.file, JobCheckpoint) else None
        if copy is not None:
            copy.hear(part)

    def when_settled(self, host: str, job_id: str, then: Callable[[], None]) -> None:
        """Once no other host is about to send a checkpoint of the job that is offered now. A job that goes on
        elsewhere saves no more; one that grows goes on saving, and would be waited for for ever.
        """
        offered = {offer for offer in self._offered(job_id) if offer[0] != host}
        self._waiting.append(_Waiting(host, job_id, offered, then))
        self._go_on()

    def lose(self, host: str) -> None:
        """What it was about to send does not come; it waits for nothing."""
        self._waiting = [entry for entry in self._waiting if entry.host != host]
        self._next = {key: offer for key, offer in self._next.items() if key[0] != host}
        for of, file in list(self._copies):
            if of == host and (copy := self._copies.pop((of, file), None)) is not None:
                self._ending[copy] = file.job_id
                copy.give_up(f"host {host!r} is gone")
        self._go_on()

    def _go_on(self) -> None:
        due = [entry for entry in self._waiting if not self._is_expected(entry)]
        self._waiting = [entry for entry in self._waiting if entry not in due]
        for entry in due:
            entry.then()

    def _is_expected(self, entry: _Waiting) -> bool:
        is_sent = not entry.offered.isdisjoint(self._offered(entry.job_id))
        return is_sent or entry.job_id in self._ending.values()

    def _offered(self, job_id: str) -> set[tuple[str, str]]:
        """Host and name of each one of the job that is copied, or waits for that."""
        copied = {(host, file.name) for host, file in self._copies if file.job_id == job_id}
        return copied | {(host, offer.name) for (host, job), offer in self._next.items() if job == job_id}


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A host that is to have the newest checkpoint of a job."""

    host: str
    job_id: str
    offered: set[tuple[str, str]]  #: by others when it asked
    then: Callable[[], None]


class _Copy:
    """Copy of one checkpoint of one host: looked at, fetched, and kept in place of older ones."""

    def __init__(
        self,
        state_dir: Path,
        num_kept: int,
        file: JobCheckpoint,
        num_bytes: int,
        ask: Callable[[PartRequest], None],
        background: Background,
        ended: Callable[[str], None],
    ) -> None:
        self._state_dir, self._num_kept, self._file = state_dir, num_kept, file
        self._num_bytes = num_bytes
        self._ask, self._background, self._ended = ask, background, ended
        self._incoming: IncomingFile | None = None
        self._is_over = False

    def begin(self) -> None:
        self._background(self._look, self._looked)

    def hear(self, part: FilePart | NoFile) -> None:
        if self._incoming is not None:
            self._incoming.hear(part)

    def give_up(self, why: str) -> None:
        """No effect if it is there, and older ones are about to be removed."""
        if self._incoming is not None:
            self._incoming.give_up(why)
        elif not self._is_over:
            self._end(why)

    def _look(self) -> tuple[bool, str]:
        """Whether it is wanted, and if not why it cannot be had; empty: it is not needed."""
        try:
            path = place_of(self._state_dir, self._file)
            if not path.parent.parent.is_dir():
                return False, ""  # the job was pruned
            held = checkpoints_in(path.parent)
            if held and order_in(held[0][1]) >= order_in(path):
                return False, ""
            disk = os.statvfs(path.parent.parent)
        except (OSError, ValueError) as error:
            return False, f"the checkpoint was not copied to the head: {error}"
        if self._num_bytes > disk.f_bavail * disk.f_frsize:
            size = format_bytes(self._num_bytes)
            return False, (
                f"the checkpoint ({size}) was not copied to the head: it does not fit on the disk of "
                f"{path.parent}; make room there"
            )
        return True, ""

    def _looked(self, verdict: tuple[bool, str]) -> None:
        is_wanted, why_not = verdict
        if self._is_over:
            return
        if not is_wanted:
            self._end(why_not)
            return
        path = place_of(self._state_dir, self._file)
        self._incoming = IncomingFile(
            self._file, path, self._ask, self._background, self._came, self._num_bytes
        )
        self._incoming.begin()

    def _came(self, failure: TransferFailure | None) -> None:
        if failure is not None:
            self._end(f"the checkpoint was not copied to the head: {failure.why}")
            return
        folder = checkpoint_folder(self._state_dir, self._file.job_id)
        self._background(lambda: _remove_older(folder, self._num_kept), self._end)

    def _end(self, why_not: str) -> None:
        self._is_over = True
        self._ended(why_not)


def _remove_older(folder: Path, num_kept: int) -> str:
    """All but the newest. Returns why not."""
    try:
        for _, path in checkpoints_in(folder)[num_kept:]:
            path.unlink(missing_ok=True)
    except OSError as error:
        return f"old checkpoints in {folder} cannot be removed: {error.strerror}"
    return ""
