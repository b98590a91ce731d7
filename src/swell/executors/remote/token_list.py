"""The tokens that a controller knows: a digest of each secret, and whether it was revoked."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

import msgspec

from swell.executors.remote.join_token import NAME, SECRET_BYTES, JoinToken
from swell.wire.whole_files import sync, write_whole

TOKENS_FILE = "join-tokens.json"
#: Compared with where no token has the name, so that the answer takes as long.
_OF_NOBODY = "0" * 64


class TokenListError(ValueError):
    """The list is damaged, or what was asked of it cannot be; the text names the remedy."""


class KnownToken(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads the file cannot join with it."""

    sha256: str  #: of the secret, in hexadecimal digits
    is_revoked: bool = False


class TokenList:
    """Join tokens in one file, which only this object writes."""

    def __init__(self, folder: Path) -> None:
        """Raises TokenListError if the file is damaged."""
        self._path = folder / TOKENS_FILE
        self._tokens: dict[str, KnownToken] = {}
        try:
            self._tokens = parse_tokens(self._path.read_bytes())
        except FileNotFoundError:
            pass  # no token was given out yet
        except ValueError as error:
            raise TokenListError(
                f"{self._path} is damaged ({error}); it must be the list of join tokens that Swell wrote: "
                "restore it, or remove it and give every host a new token"
            ) from error

    @property
    def names(self) -> dict[str, bool]:
        """Names of all tokens, each with whether it was revoked."""
        return {name: token.is_revoked for name, token in self._tokens.items()}

    def add(self, name: str, fingerprint: bytes) -> JoinToken:
        """A new token. Only what is returned has its secret. Raises TokenListError, OSError."""
        if not NAME.fullmatch(name):
            raise TokenListError(
                f"join token name {name!r} cannot be used; a name has 1 to 40 letters, digits, `-` and `_`: "
                "choose another one"
            )
        if name in self._tokens:
            raise TokenListError(f"there is a join token {name!r}; names are used once: choose another one")
        token = JoinToken(name, fingerprint, secrets.token_bytes(SECRET_BYTES))
        self._write({**self._tokens, name: KnownToken(sha256=_digest(token.secret))})
        return token

    def revoke(self, name: str) -> None:
        """Revoke a token, which opens nothing from now on. The listener closes lines that it has opened.

        Raises:
            TokenListError: there is no such token.
            OSError: it may be in force still, or after a power cut; revoke it again.
        """
        if name not in self._tokens:
            known = ", ".join(sorted(self._tokens)) or "none"
            raise TokenListError(
                f"there is no join token {name!r}; one that was given out can be revoked: choose of {known}"
            )
        known_token = msgspec.structs.replace(self._tokens[name], is_revoked=True)
        self._write({**self._tokens, name: known_token})

    def why_refused(self, name: str, secret: str) -> str | None:
        """None: it is in force. The time it takes says nothing about the secret. `secret`: in hexadecimal."""
        known = self._tokens.get(name)
        try:
            digest = _digest(bytes.fromhex(secret))
        except ValueError:
            digest = ""
        if not hmac.compare_digest(digest, _OF_NOBODY if known is None else known.sha256) or known is None:
            return (
                f"join token {name[:40]!r} is not known here; a host needs one that this head has given out: "
                "get a new one there"
            )
        if known.is_revoked:
            return revoked(name)
        return None

    def _write(self, tokens: dict[str, KnownToken]) -> None:
        """The file first, so that what is in force is what stands there."""
        write_whole(self._path, msgspec.json.encode(tokens), mode=0o600, is_synced=True)
        self._tokens = tokens
        sync(self._path.parent)


def parse_tokens(text: bytes) -> dict[str, KnownToken]:
    """What such a file says. Raises ValueError."""
    try:
        return msgspec.json.decode(text, type=dict[str, KnownToken])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def revoked(name: str) -> str:
    """What a host with this token is told."""
    return f"join token {name!r} was revoked; it is never valid again: get a new one at the head"


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()
