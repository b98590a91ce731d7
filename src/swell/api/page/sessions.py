"""Who has opened the page: one-time codes become signed cookies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from swell.api.caller import OWNER, Caller, Role

#: A code that was not used dies after so long.
CODE_S = 60.0
#: A page that is left open need not be opened again for so long.
SESSION_S = 30 * 86400.0
#: Codes that wait to be used. Beyond it the oldest dies.
MAX_CODES = 64


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that has exchanged a code."""

    caller: Caller
    csrf: str  #: that requests send which change something


@dataclass(frozen=True, slots=True)
class _Invitation:
    """A code that waits to be used."""

    caller: Caller
    uid: int | None  #: of the user who has asked for it; None: not known
    ends_s: float

    def is_for(self, uid: int | None) -> bool:
        """Where the kernel names no user, across network namespaces say, the code alone decides."""
        return None in (uid, self.uid) or uid in (0, self.uid)


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    """What a cookie says."""

    name: str
    role: int
    tenant: str
    uid: int | None  #: of the user whose browser it is, as the kernel says; None: not known
    ends_s: float
    nonce: str
    added_s: float = 0.0  #: see `Caller`


class Sessions:
    """Made of a secret, so that a session outlives the daemon. Any thread.

    A browser sends a cookie of 127.0.0.1 to every port there, also to one of another user's program. So a
    session counts only for connections of the user whose browser it began with.
    """

    def __init__(
        self, secret: str, now_s: Callable[[], float] = time.time, owner_uid: int | None = None
    ) -> None:
        """
        Args:
            owner_uid: of the platform's owner; None: of this process.
        """
        self._key = secret.encode()
        self._now_s = now_s
        self._owner_uid = os.geteuid() if owner_uid is None else owner_uid
        self._codes: dict[bytes, _Invitation] = {}

    def invite(self, caller: Caller, uid: int | None = None) -> str:
        """A code that is exchanged for a session once, within a minute, by the user who has asked for it.

        Args:
            uid: of the program that has asked, as the kernel says; None: not known. That of OWNER is.
        """
        invited_uid = self._owner_uid if caller == OWNER else uid
        code = secrets.token_urlsafe(32)
        while len(self._codes) >= MAX_CODES:
            self._codes.pop(next(iter(self._codes)), None)
        self._codes[_digest(code)] = _Invitation(caller, invited_uid, self._now_s() + CODE_S)
        return code

    def enter(self, code: str, uid: int | None) -> str | None:
        """The cookie for a code; None if it was used, is too old, was never given or is another user's.

        Users of the machine see the command line of a browser that is started with the code: so it counts for
        the one who has asked for it only, and for root.
        """
        invitation = self._codes.get(_digest(code))
        if invitation is None or self._now_s() >= invitation.ends_s or not invitation.is_for(uid):
            return None
        if self._codes.pop(_digest(code), None) is None:  # another one was as quick
            return None
        caller = invitation.caller
        claims = _Claims(
            name=caller.name,
            role=int(caller.role),
            tenant=caller.tenant,
            uid=uid,
            ends_s=self._now_s() + SESSION_S,
            nonce=secrets.token_urlsafe(16),
            added_s=caller.added_s,
        )
        body = _text(msgspec.json.encode(claims))
        return f"{body}.{self._signature('session', body)}"

    def session(self, cookie: str, uid: int | None) -> Session | None:
        """None if the cookie is none of ours, is over, or belongs to another user."""
        body, _, signature = cookie.partition(".")
        if not cookie.isascii():
            return None
        if not hmac.compare_digest(signature, self._signature("session", body)):
            return None
        try:
            text = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
            claims = msgspec.json.decode(text, type=_Claims)
        except msgspec.MsgspecError:  # signed by another version
            return None
        if claims.uid != uid or self._now_s() >= claims.ends_s:
            return None
        caller = Caller(claims.name, Role(claims.role), claims.tenant, claims.added_s)
        return Session(caller, self._signature("csrf", claims.nonce))

    def _signature(self, purpose: str, text: str) -> str:
        return _text(hmac.digest(self._key, f"{purpose}:{text}".encode(), "sha256"))


def _digest(code: str) -> bytes:
    """Found by it a code tells nothing of itself by the time that takes."""
    return hashlib.sha256(code.encode()).digest()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
