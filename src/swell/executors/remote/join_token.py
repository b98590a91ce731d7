"""What a host needs to join: a secret, and the fingerprint of the certificate to which it may tell it."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from swell.wire.whole_files import write_whole

SCHEME = "swell-join-1"
SECRET_BYTES = FINGERPRINT_BYTES = 32
#: A name is printed, logged, and stands between dots.
NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
#: A file that holds more is not one of ours.
MAX_FILE_BYTES = 1024


class InvalidToken(ValueError):
    """This is no join token, or its file cannot be used; the text names the remedy."""


@dataclass(frozen=True, slots=True)
class JoinToken:
    """One line of text: `swell-join-1.NAME.FINGERPRINT.SECRET`. It holds no address."""

    name: str  #: by which it is revoked
    fingerprint: bytes
    secret: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"{SCHEME}.{self.name}.{_text(self.fingerprint)}.{_text(self.secret)}"


def parse_token(text: str) -> JoinToken:
    """Raises InvalidToken, without the text: it may be a secret of something else."""
    parts = text.strip().split(".")
    if len(parts) != 4 or parts[0] != SCHEME or not NAME.fullmatch(parts[1]):
        raise InvalidToken(
            f"this is no join token; one is a line `{SCHEME}.NAME.FINGERPRINT.SECRET`: "
            "copy the whole line that the head printed"
        )
    fingerprint, secret = _bytes(parts[2]), _bytes(parts[3])
    if len(fingerprint) != FINGERPRINT_BYTES or len(secret) != SECRET_BYTES:
        raise InvalidToken(
            f"join token {parts[1]!r} was cut off or changed; its fingerprint and its secret have "
            f"{FINGERPRINT_BYTES} bytes each: copy the whole line that the head printed"
        )
    return JoinToken(parts[1], fingerprint, secret)


def read_token(path: Path) -> JoinToken:
    """Raises InvalidToken."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            content = file.read(MAX_FILE_BYTES + 1) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise InvalidToken(
            f"join token file {path} cannot be read ({error.strerror}); it must hold the line that the head "
            "printed: write it there"
        ) from error
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise InvalidToken(
            f"join token file {path} is no file that only its owner can read; "
            f"any user who reads it can join: `chmod 600 {path}`"
        )
    try:
        return parse_token(content.decode("ascii"))
    except ValueError as error:
        raise InvalidToken(f"join token file {path}: {error}") from error


def write_token(path: Path, token: JoinToken) -> None:
    """Readable by its owner only. Raises OSError."""
    write_whole(path, f"{token}\n".encode(), mode=0o600)


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """Empty if it is not what `_text` writes."""
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
    return content if _text(content) == text else b""
