"""What a host keeps on its disk: which machine it is, its latest term, and the storage that it has seen."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from swell.wire.whole_files import sync, write_whole

MACHINE_FILE = "machine"
TERM_FILE = "term"
STORAGE_FILE = "storage"
#: Of a platform: jobs, leases and workers of both in one folder would be mixed up.
PLATFORM_FILE = "journal.db"


class UnusableHostState(ValueError):
    """The folder cannot be used by a host process; the text names the remedy."""


def make_folder(folder: Path) -> None:
    """Unless it is there. Raises UnusableHostState: it cannot be made, or is a platform's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, error) from error
    refuse_platform(folder)


def refuse_platform(folder: Path) -> None:
    """Raises UnusableHostState: it cannot be read, or is a platform's."""
    try:
        is_platform = (folder / PLATFORM_FILE).exists()
    except OSError as error:
        raise unusable(folder, error) from error
    if is_platform:
        raise UnusableHostState(
            f"{folder} is the state folder of a platform; a host has one of its own: "
            "choose another with --state"
        )


class SeenStorage(msgspec.Struct, frozen=True, kw_only=True):
    """The storage of the platform, as the head let this host in with it."""

    path: str  #: on this machine
    mark: str  #: see `storage.why_not_shared`


def seen_storage(folder: Path) -> SeenStorage | None:
    """Return the storage that the host of this state folder has seen; None: no head has named one."""
    try:
        return msgspec.json.decode((folder / STORAGE_FILE).read_bytes(), type=SeenStorage)
    except (OSError, msgspec.MsgspecError):
        return None


def known_machine(folder: Path) -> str:
    """Return the id of a state folder in which a host process has run; empty: none has."""
    try:
        return (folder / MACHINE_FILE).read_text("ascii").strip()
    except OSError:
        return ""


class HostState:
    """State of a host in one folder. The process that holds the folder's lock makes it."""

    def __init__(self, folder: Path) -> None:
        """Raises UnusableHostState."""
        self.folder = folder
        try:
            self.machine = self._read_machine()
            self._term = self._read_term()
        except OSError as error:
            raise unusable(folder, error) from error

    def begin_term(self) -> int:
        """Its number, which is above all earlier ones also after a power cut. Raises OSError."""
        write_whole(self.folder / TERM_FILE, f"{self._term + 1}\n".encode(), is_synced=True)
        sync(self.folder)
        self._term += 1
        return self._term

    def note_storage(self, seen: SeenStorage) -> None:
        """Keep it for `swell doctor`. Raises OSError."""
        if seen != seen_storage(self.folder):
            write_whole(self.folder / STORAGE_FILE, msgspec.json.encode(seen))

    def _read_machine(self) -> str:
        """Return the id of this folder, made if there is none. No other folder has it, except a copy."""
        path = self.folder / MACHINE_FILE
        if not path.exists():
            write_whole(path, f"{secrets.token_hex(16)}\n".encode(), is_synced=True)
        return path.read_text("ascii").strip()

    def _read_term(self) -> int:
        path = self.folder / TERM_FILE
        try:
            return int(path.read_text("ascii"))
        except FileNotFoundError:
            return 0
        except ValueError as error:
            raise UnusableHostState(
                f"{path} is damaged ({error}); it must hold the number of the latest term: use a new folder "
                "with --state, and another name with --name if the head refuses this one"
            ) from error


def unusable(folder: Path, error: OSError) -> UnusableHostState:
    return UnusableHostState(
        f"state folder {folder} cannot be used ({error.strerror}); a host writes there: make it writable "
        "for you and make room on its disk, or choose another one with --state"
    )
