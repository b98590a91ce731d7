"""Join tokens: what a host needs to join, and what the controller knows of those that it has given out.

A token is a secret, and the fingerprint of the certificate to which it may be told. The controller keeps a
digest of each secret, and whether it was revoked.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from swell.executors.local.agent.door import DoorError
from swell.model.errors import InvalidOption
from swell.model.names import NAME_RULE, PLAIN_NAME, is_plain_name
from swell.wire.whole_files import write_whole

SCHEME = "swell-join-1"
TOKENS_FILE = "join-tokens.json"
#: Of a fingerprint, and of a secret.
NUM_BYTES = 32
_BASE64 = "[A-Za-z0-9_-]{43}"
_LINE = re.compile(rf"{SCHEME}\.({PLAIN_NAME.pattern})\.({_BASE64})\.({_BASE64})")


class InvalidToken(InvalidOption):
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
    found = _LINE.fullmatch(text.strip())
    if found is None:
        raise InvalidToken(
            f"this is no join token, or a part of one; one is a line `{SCHEME}.NAME.FINGERPRINT.SECRET`: "
            "copy the whole line that the head printed"
        )
    name, fingerprint, secret = found.groups()
    return JoinToken(name, *(base64.urlsafe_b64decode(part + "=") for part in (fingerprint, secret)))


def read_token(path: Path) -> JoinToken:
    """Raises InvalidToken."""
    try:
        mode, content = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        raise InvalidToken(
            f"join token file {path} cannot be read ({error.strerror}); it must hold the line that the head "
            "printed: write it there"
        ) from error
    if mode & 0o077:
        raise InvalidToken(
            f"join token file {path} can be read by others than its owner; "
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


# ---------------------------------------------------------------- those that were given out
class KnownToken(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads the file cannot join with it."""

    sha256: str  #: of the secret, in hexadecimal digits
    is_revoked: bool = False


class TokenList:
    """Join tokens in a file of a state folder: those of one user read and write it, the agent among them."""

    def __init__(self, folder: Path) -> None:
        """Raises DoorError if the file is damaged."""
        self._path = folder / TOKENS_FILE
        self._read()

    @property
    def names(self) -> dict[str, bool]:
        """Names of all tokens, each with whether it was revoked. Raises DoorError: it is damaged."""
        return {name: token.is_revoked for name, token in self._read().items()}

    @property
    def stamp(self) -> int:
        """Another number after each change of the list; 0: no token was given out yet."""
        return self._path.stat().st_mtime_ns if self._path.exists() else 0

    def add(self, name: str, fingerprint: bytes) -> JoinToken:
        """Make a token of this name; its secret is nowhere else.

        Args:
            fingerprint: of the controller's certificate.

        Raises:
            DoorError: there cannot be one of this name.
            OSError: the list cannot be written.
        """
        if not is_plain_name(name):
            raise DoorError(f"token name {name!r} cannot be used; {NAME_RULE}: choose another one")
        token = JoinToken(name, fingerprint, secrets.token_bytes(NUM_BYTES))
        with self._changing() as tokens:
            if name in tokens:
                raise DoorError(f"there is a join token {name!r}; names are used once: choose another one")
            tokens[name] = KnownToken(sha256=_digest(token.secret))
        return token

    def revoke(self, name: str) -> None:
        """Revoke a token, which opens nothing from now on. The agent closes lines that it has opened.

        Raises:
            DoorError: there is no such token.
            OSError: the list cannot be written.
        """
        with self._changing() as tokens:
            if name not in tokens:
                known = ", ".join(sorted(tokens)) or "none"
                raise DoorError(
                    f"there is no join token {name!r}; one that was given out can be revoked: choose of "
                    f"{known}"
                )
            tokens[name] = msgspec.structs.replace(tokens[name], is_revoked=True)

    def why_refused(self, name: str, secret: str) -> str | None:
        """None: it is in force. `secret`: in hexadecimal.

        Raises DoorError: the list is damaged.
        """
        known = self._read().get(name)
        try:
            is_known = known is not None and hmac.compare_digest(_digest(bytes.fromhex(secret)), known.sha256)
        except ValueError:
            is_known = False
        if known is None or not is_known:
            return (
                f"join token {name[:40]!r} is not known here; a host needs one that this head has given out: "
                "get a new one there"
            )
        return revoked(name) if known.is_revoked else None

    @contextmanager
    def _changing(self) -> Iterator[dict[str, KnownToken]]:
        """Yield the tokens, and write them: what is in force is what stands in the file."""
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            tokens = self._read()
            yield tokens
            write_whole(self._path, msgspec.json.encode(tokens), mode=0o600, is_synced=True)
        finally:
            os.close(folder)

    def _read(self) -> dict[str, KnownToken]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, KnownToken])
        except FileNotFoundError:
            return {}
        except msgspec.MsgspecError as error:
            raise DoorError(
                f"{self._path} is damaged ({error}); it must be the list of join tokens that Swell wrote: "
                "restore it, or remove it and give every host a new token"
            ) from error


def revoked(name: str) -> str:
    """What a host with this token is told."""
    return f"join token {name!r} was revoked; it is never valid again: get a new one at the head"


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()
