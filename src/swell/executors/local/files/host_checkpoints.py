"""Checkpoints that workers of this host have saved, offered to the controller at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from swell.executors.hosts.file_messages import CheckpointOffered, CheckpointTaken, JobCheckpoint
from swell.executors.local.files.outgoing import OutgoingFiles
from swell.wire.checkpoint_files import checkpoints_in, digest_in

#: The topic of warnings that end with the next checkpoint that is copied.
COPY = "checkpoint copy"


class HostCheckpoints:
    """An offered one can be read to its end, though later ones push it out of its folder."""

    def __init__(
        self,
        outgoing: OutgoingFiles,
        say: Callable[[CheckpointOffered], None],
        warn: Callable[[str, str, str], None],
    ) -> None:
        """
        Args:
            say: tells the controller.
            warn: tells the owner of a job; see `OwnerWarned`.
        """
        self._outgoing, self._say, self._warn = outgoing, say, warn
        self._offers: dict[str, list[str]] = {}  #: not answered yet, the latest last; by job
        self._warned: set[str] = set()

    def saved(self, job_id: str, path: str) -> None:
        """A worker has saved a checkpoint of its job. Anything else that it may name is not read."""
        name = Path(path).name
        if digest_in(Path(name)) is None:
            return
        if name not in self._offers.get(job_id, ()):
            self._offer(job_id, name)

    def taken(self, message: CheckpointTaken) -> None:
        """The controller has it, or cannot have it, or takes a later one in its place."""
        job_id, offers = message.job_id, self._offers.get(message.job_id, [])
        if message.name not in offers:
            return
        offers.remove(message.name)
        if not offers:
            del self._offers[job_id]
        self._outgoing.release(JobCheckpoint(job_id=job_id, name=message.name))
        if message.is_overtaken:
            return
        if message.why_not or job_id in self._warned:
            (self._warned.add if message.why_not else self._warned.discard)(job_id)
            self._warn(job_id, COPY, message.why_not)

    @property
    def untaken(self) -> tuple[JobCheckpoint, ...]:
        """The latest of each job that was offered and not answered."""
        return tuple(JobCheckpoint(job_id=job_id, name=offers[-1]) for job_id, offers in self._offers.items())

    def restart(self) -> None:
        """Another controller is there now, which knows of no offer."""
        for job_id, offers in list(self._offers.items()):
            del self._offers[job_id]
            for name in offers[:-1]:
                self._outgoing.release(JobCheckpoint(job_id=job_id, name=name))
            self._offer(job_id, offers[-1])

    def _offer(self, job_id: str, name: str) -> None:
        try:
            num_bytes = self._outgoing.hold(JobCheckpoint(job_id=job_id, name=name))
        except FileNotFoundError:
            return  # later ones have pushed it out: the worker tells of them too
        except (OSError, ValueError) as error:
            self._warned.add(job_id)
            self._warn(
                job_id, COPY, f"checkpoint {name} cannot be read, and was not copied to the head: {error}"
            )
            return
        self._offers.setdefault(job_id, []).append(name)
        self._say(CheckpointOffered(job_id=job_id, name=name, num_bytes=num_bytes))


def newest_name(folder: Path) -> str:
    """Return the name of the newest checkpoint in a folder; empty if there is none."""
    return next((path.name for _, path in checkpoints_in(folder)), "")
