"""How files of jobs go between the controller's state folder and that of a host that has another one.

A host that shares the controller's state folder says and hears none of these. The side that lacks a file asks
for its parts, a few at a time, and so decides how much is on its way::

    controller                                  host
                                   <-           JobFilesRequest    before it opens a run
    JobFilesFound                  ->
                                   <-           PartRequest        of the code, of a checkpoint
    FilePart (or NoFile)           ->
                                                                   ... RunOpened
                                   <-           CheckpointsHeld    once in a term, and to each controller
                                   <-           CheckpointOffered  at once when it is saved
    PartRequest                    ->
                                   <-           FilePart (or NoFile)
    CheckpointTaken                ->                              whole and safe there, or not
                                   <-           LogPiece
    LogTaken                       ->                              the next one may come

A host may ask for files of runs that were opened on it, and send such, and no others. What it has yet to send
when another controller comes it says first, in `FilesKept`.
"""

from __future__ import annotations

import msgspec

from swell.executors.hosts.host_message import HostMessage

#: Content of a part. Encoded it is a third longer, and still far below the longest message.
PART_BYTES = 1 << 20


# ---------------------------------------------------------------- names of files
class FileName(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Carries the SHA-256 of the content."""


class CodeManifest(FileName, frozen=True, kw_only=True):
    """The `CodeTree` of a snapshot."""

    digest: str


class CodeContent(FileName, frozen=True, kw_only=True):
    """One or more files of snapshots."""

    digest: str


class JobCheckpoint(FileName, frozen=True, kw_only=True):
    """A checkpoint of a job; its name carries the digest, see `wire/checkpoint_files.py`."""

    job_id: str
    name: str


NamedFile = CodeManifest | CodeContent | JobCheckpoint


def names_folder(job_id: str) -> bool:
    """Whether a job with this id has a folder below that of all jobs, and not elsewhere."""
    return job_id not in ("", ".", "..") and "/" not in job_id and "\0" not in job_id


class FileMessage(HostMessage, frozen=True, kw_only=True):
    """Nothing that a gang would hear of."""


# ---------------------------------------------------------------- in both directions
class PartRequest(FileMessage, frozen=True, kw_only=True):
    """Send `PART_BYTES` from this position on, or what is left. Answered by `FilePart` or `NoFile`."""

    file: NamedFile
    offset: int


class FilePart(FileMessage, frozen=True, kw_only=True):
    file: NamedFile
    offset: int
    content: bytes
    num_bytes: int  #: of the whole file


class NoFile(FileMessage, frozen=True, kw_only=True):
    """It is not there, or cannot be read."""

    file: NamedFile
    why: str


# ---------------------------------------------------------------- controller -> host
class JobFilesFound(FileMessage, frozen=True, kw_only=True):
    """The answer to `JobFilesRequest`."""

    run: str
    checkpoint: str  #: name of the newest one of the job; empty: there is none, or none is wanted
    first_worker: int  #: no worker of this kind is known to have had this number, or a higher one
    why_not: str = ""  #: the state folder cannot be read


class CheckpointTaken(FileMessage, frozen=True, kw_only=True):
    """The answer to `CheckpointOffered`."""

    job_id: str
    name: str
    why_not: str = ""  #: empty: it is safe, or not needed
    is_overtaken: bool = False  #: a later one was offered before its turn came


class LogTaken(FileMessage, frozen=True, kw_only=True):
    """The answer to `LogPiece`."""

    number: int
    end: int  #: of the log there, in bytes


# ---------------------------------------------------------------- host -> controller
class WorkerLog(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker prints."""

    job_id: str
    worker: int
    is_trial: bool


class FilesKept(FileMessage, frozen=True, kw_only=True):
    """List of files that former controllers have not taken, for a controller that is new to the host.

    Their contents are sent from now on.
    """

    checkpoints: tuple[JobCheckpoint, ...]
    logs: tuple[WorkerLog, ...]

    @property
    def jobs(self) -> set[str]:
        """Their ids."""
        return {file.job_id for file in self.checkpoints} | {log.job_id for log in self.logs}


class HeldCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One that lies on the host."""

    job_id: str
    name: str
    num_bytes: int


class CheckpointsHeld(FileMessage, frozen=True, kw_only=True):
    """The newest of each job that was there when the term began; the controller asks for what it lacks."""

    checkpoints: tuple[HeldCheckpoint, ...]


class JobFilesRequest(FileMessage, frozen=True, kw_only=True):
    """Where a checkpoint is wanted, the answer waits for one that another host sends to the controller."""

    run: str
    job_id: str
    is_trial: bool
    wants_checkpoint: bool = True
    damaged: tuple[str, ...] = ()  #: names of checkpoints that came, and were not what their names say


class CheckpointOffered(FileMessage, frozen=True, kw_only=True):
    """A worker has saved it here; it can be read until it is taken."""

    job_id: str
    name: str
    num_bytes: int


class LogPiece(FileMessage, frozen=True, kw_only=True):
    """What a worker has printed, in order. One that is said again has the same place in the log."""

    job_id: str
    worker: int
    is_trial: bool
    number: int = 0  #: in the present term
    at: int = 0  #: its position in all that is said of this log, in bytes
    #: When the controller had taken the log up to the first of these positions, the log there had its end at
    #: the second one: they differ if the disk was full there.
    since: tuple[int, int] = (0, 0)
    content: bytes = b""
    is_leading: bool = False  #: from here on it is the job's, see `logs/files.py`
    is_last: bool = False  #: the worker has ended
