"""The token of a user other than the owner, in a file of theirs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from swell.store.errors import StateError

#: Names the file, for every command and for `swell.connect()`.
VARIABLE = "SWELL_TOKEN_FILE"
#: More is no token.
MOST_BYTES = 4096


def named_token_file(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The one given, else that of the environment; None: the caller is the owner of the state folder."""
    path = given or os.environ.get(VARIABLE)
    return Path(path).expanduser() if path else None


def read_token_file(path: Path) -> str:
    """Raises StateError: it cannot be read, holds no token, or other users could have read it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            mode, text = os.fstat(descriptor).st_mode, file.read(MOST_BYTES)
    except OSError as error:
        raise StateError(
            f"token file {path} cannot be read ({error.strerror}); name the file that has your token with "
            f"--token-file or {VARIABLE}"
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StateError(f"others can read or change token file {path}; run `chmod 600 {path}`")
    token = text.decode("ascii", "replace").strip()
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise StateError(f"token file {path} holds no token; it must have the one line that you were given")
    return token
