"""What hosts say of the time before this controller: each was told by an earlier one, or is not believed.

The controller seals what a host is to keep, and the host gives the seal back with it. So a host can keep
things to itself, but make up none. Which hosts had something of a job stands in the job's folder.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from swell.executors.gang.records import end_in
from swell.executors.hosts.file_messages import FilesKept, names_folder
from swell.executors.hosts.messages import EndKept, KeepRecord, OpenRun, RunKept, RunSnapshot, ToHost
from swell.model.coding import decoder, encode
from swell.wire.whole_files import write_whole

KEY_FILE = "seal-key"
KEY_BYTES = 32

log = logging.getLogger("swell.hosts")


class Claimant(NamedTuple):
    """A host. Others may have its name later."""

    name: str
    machine: str


def parse_key(data: bytes) -> bytes:
    """Raises ValueError: it is no key of seals."""
    if len(data) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, and this has {len(data)}")
    return data


class Claims:
    """Seals (MACs) with which the hosts of a platform prove what earlier controllers sent them."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError: the key cannot be read or made."""
        self._folder = folder
        path = folder / KEY_FILE
        if not path.exists():
            write_whole(path, secrets.token_bytes(KEY_BYTES), mode=0o600, is_synced=True)
        self._key = path.read_bytes()

    # ------------------------------------------------------------ what a host is told
    def sealed(self, host: Claimant, message: ToHost) -> ToHost:
        """What the host is to be told: it can prove to the next controller that it was."""
        match message:
            case OpenRun():
                self._note(host, message.job_id)
                return msgspec.structs.replace(message, seal=self._of_order(host, message))
            case KeepRecord(run=run, record=record):
                end = end_in(record.gang)
                return msgspec.structs.replace(
                    message,
                    seal=self._of_record(host, run, record),
                    end_seal="" if end is None else self._seal(host, "end", end),
                )
        return message

    # ------------------------------------------------------------ what it says later
    def why_not(self, host: Claimant, kept: RunKept | EndKept) -> str:
        """Why it cannot have been told this; empty: it was."""
        if isinstance(kept, EndKept):
            what, is_told = f"the end of a gang of job {kept.end.job_id[:100]!r}", self._is_end(host, kept)
        else:
            what, is_told = f"run {kept.order.run[:100]!r}", self._is_run(host, kept)
        if not is_told:
            return f"it tells of {what}, and no earlier agent told it that"
        self._note(host, kept.end.job_id if isinstance(kept, EndKept) else kept.order.job_id)
        return ""  # a head that has taken over knows now that the host had it

    def _is_end(self, host: Claimant, kept: EndKept) -> bool:
        return hmac.compare_digest(kept.seal.encode(), self._seal(host, "end", kept.end).encode())

    def _is_run(self, host: Claimant, kept: RunKept) -> bool:
        is_opened = hmac.compare_digest(kept.order.seal.encode(), self._of_order(host, kept.order).encode())
        if not is_opened or kept.record is None:
            return is_opened
        own = self._of_record(host, kept.order.run, kept.record)
        return hmac.compare_digest(kept.seal.encode(), own.encode())

    def true_part(self, host: Claimant, kept: FilesKept) -> FilesKept:
        """Return the kept files of jobs that the host has had. The others may be of another platform."""
        own = {job_id for job_id in kept.jobs if self._has_had(host, job_id)}
        return FilesKept(
            checkpoints=tuple(file for file in kept.checkpoints if file.job_id in own),
            logs=tuple(name for name in kept.logs if name.job_id in own),
        )

    # ------------------------------------------------------------ seals
    def _of_order(self, host: Claimant, order: OpenRun) -> str:
        return self._seal(host, "order", msgspec.structs.replace(order, seal=""))

    def _of_record(self, host: Claimant, run: str, record: RunSnapshot) -> str:
        return self._seal(host, f"record of {run}", record)

    def _seal(self, host: Claimant, what: str, content: msgspec.Struct) -> str:
        whole = encode([*host, what, _as_it_comes_back(content)])
        return hmac.new(self._key, whole, hashlib.sha256).hexdigest()

    # ------------------------------------------------------------ who had what
    def _note(self, host: Claimant, job_id: str) -> None:
        """Not synced: it survives the controller."""
        if not names_folder(job_id) or self._has_had(host, job_id):
            return
        path = self._path(job_id)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="ascii") as file:
                file.write(f"{_digest(host)}\n")
        except OSError as error:
            log.warning("cannot write %s (%s): another agent takes no files of it from there", path, error)

    def _has_had(self, host: Claimant, job_id: str) -> bool:
        if not names_folder(job_id):
            return False
        try:
            return _digest(host) in self._path(job_id).read_text("ascii").split()
        except (OSError, ValueError):
            return False

    def _path(self, job_id: str) -> Path:
        return self._folder / "jobs" / job_id / "hosts"


def _digest(host: Claimant) -> str:
    return hashlib.sha256(encode(host)).hexdigest()


def _as_it_comes_back(content: msgspec.Struct) -> msgspec.Struct:
    """A whole number where a float is declared comes back as a float, for example."""
    came: msgspec.Struct = _decoder_of(type(content)).decode(encode(content))
    return came


@lru_cache
def _decoder_of(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    return decoder(kind)
