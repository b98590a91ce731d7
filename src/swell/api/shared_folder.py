"""The folder through which other users of the machine reach a platform: a socket, and who listens there.

The owner of the platform makes it, with the group of those who may connect. They name it with `--state`.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from swell.api.errors import InvalidOption
from swell.api.unix_socket import MAX_ADDRESS_BYTES, listen
from swell.store.errors import StateError
from swell.store.folder import Endpoint, StateFolder
from swell.wire.whole_files import write_whole


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


def announce(path: str, endpoint: Endpoint) -> None:
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
