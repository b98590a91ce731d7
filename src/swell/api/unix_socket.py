"""The platform's Unix socket, which also other users reach where its owner says in which folder."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from swell.api.errors import InvalidOption
from swell.store.errors import StateError
from swell.store.folder import ApiAddress, StateFolder
from swell.wire.whole_files import write_whole

#: An address holds 108 bytes, the last of them a NUL.
MAX_ADDRESS_BYTES = 107

#: Connections that may wait to be accepted: the kernel refuses a client of a Unix socket beyond it.
BACKLOG = 1024


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """A name of the file that fits into an address. It holds inside the context and in this process."""
    if len(os.fsencode(path)) <= MAX_ADDRESS_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def listen(path: Path, group: int | None = None) -> socket.socket:
    """A listening socket that only its owner can open, and the members of a group if one is given.

    It replaces the file that a killed platform has left: call it with the state folder's lock held.

    Raises:
        StateError: the file cannot be made.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        with address_of(path) as address:
            listener.bind(address)
            if group is not None:
                os.chown(address, -1, group)
            os.chmod(address, 0o600 if group is None else 0o660)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise StateError(
            f"cannot listen on {path} ({error.strerror}); remove the file that is there, or "
            "choose a state folder on a local disk with --state"
        ) from error
    return listener


@contextmanager
def shared_socket(path: str) -> Iterator[socket.socket]:
    """A listening socket for the group of a folder; its file is removed in the end.

    Raises:
        InvalidOption: the folder cannot be used.
    """
    folder = StateFolder(path)
    group = _group_of(folder.path)
    if len(os.fsencode(folder.socket)) > MAX_ADDRESS_BYTES:
        raise InvalidOption(
            f"--share {path}: a socket's path has at most {MAX_ADDRESS_BYTES} bytes; choose a shorter one"
        )
    try:
        listener = listen(folder.socket, group)
    except StateError as error:
        raise InvalidOption(
            f"--share {path}: no socket for group {group} can be made there ({error.__cause__}); make the "
            "folder yours, and its group one of which you are a member (`chgrp GROUP FOLDER`)"
        ) from error
    try:
        yield listener
    finally:
        listener.close()
        folder.socket.unlink(missing_ok=True)
        folder.remove_endpoint()


def announce(path: str, endpoint: ApiAddress) -> None:
    """Say in the folder which process listens; who can see the folder may read it. Raises OSError."""
    write_whole(StateFolder(path).endpoint, msgspec.json.encode(endpoint), mode=0o644)


def _group_of(path: Path) -> int:
    """The group whose members may connect. Raises InvalidOption."""
    try:
        status = path.stat()
    except OSError as error:
        raise InvalidOption(
            f"--share {path}: {error.strerror}; make the folder, as with `install -d -g GROUP -m 0750 {path}`"
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise InvalidOption(f"--share {path}: it must be a folder of yours; choose another one")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InvalidOption(
            f"--share {path}: others can write it, and could answer in your place; run `chmod go-w {path}`"
        )
    if (path / "journal.db").exists() or (path / "token").exists():
        raise InvalidOption(
            f"--share {path}: it is a state folder, which is for its owner only; choose another"
        )
    return status.st_gid
