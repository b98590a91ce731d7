"""What a host keeps on its disk: which machine it is, its latest term, and the storage that it has seen."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from swell.wire.whole_files import write_whole

HOST_FILE = "host.json"
#: Of a platform: jobs, leases and workers of both in one folder would be mixed up.
PLATFORM_FILE = "journal.db"


class HostStateError(ValueError):
    """The folder cannot be used by a host process; the text names the remedy."""


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the next host process of a state folder has to know, and `swell doctor`."""

    machine: str  #: of this folder; no other one has it, except a copy
    term: int = 0  #: the latest
    storage: str = ""  #: of the platform, as the head let this host in with it; empty: it has named none
    mark: str = ""  #: what stood there then, see `storage.why_not_shared`


def read_record(folder: Path) -> HostRecord | None:
    """Return the record of a state folder; None: no host process has run there, or it cannot be read."""
    try:
        return msgspec.json.decode((folder / HOST_FILE).read_bytes(), type=HostRecord)
    except (OSError, msgspec.MsgspecError):
        return None


def make_folder(folder: Path) -> None:
    """Unless it is there. Raises HostStateError: it cannot be made, or is a platform's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_platform = (folder / PLATFORM_FILE).exists()
    except OSError as error:
        raise unusable(folder, error) from error
    if is_platform:
        raise HostStateError(
            f"{folder} is the state folder of a platform; a host has one of its own: "
            "choose another with --state"
        )


class HostState:
    """State of a host in one folder. The process that holds the folder's lock makes it."""

    def __init__(self, folder: Path) -> None:
        """Where the record is lost this is another machine, which has to wait for its name."""
        self.folder = folder
        self._record = read_record(folder) or HostRecord(machine=secrets.token_hex(16))

    @property
    def machine(self) -> str:
        """Which machine this is; written with the first term."""
        return self._record.machine

    def begin_term(self) -> int:
        """Its number, which is above all earlier ones also after a power cut. Raises OSError."""
        self._write(msgspec.structs.replace(self._record, term=self._record.term + 1))
        return self._record.term

    def note_storage(self, path: str, mark: str) -> None:
        """Keep it for `swell doctor`. Raises OSError."""
        if (path, mark) != (self._record.storage, self._record.mark):
            self._write(msgspec.structs.replace(self._record, storage=path, mark=mark))

    def _write(self, record: HostRecord) -> None:
        write_whole(self.folder / HOST_FILE, msgspec.json.encode(record), is_synced=True)
        self._record = record


def unusable(folder: Path, error: OSError) -> HostStateError:
    return HostStateError(
        f"state folder {folder} cannot be used ({error.strerror}); a host writes there: make it writable "
        "for you and make room on its disk, or choose another one with --state"
    )
