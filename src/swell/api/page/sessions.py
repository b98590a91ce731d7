"""Who has opened the page: one-time codes become signed cookies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse

from swell.api.user_list import ApiUser
from swell.web.templating import render

#: A code that was not used dies after so long.
CODE_S = 60.0
#: A page that is left open need not be opened again for so long.
SESSION_S = 30 * 86400.0
#: Codes of one caller that wait to be used. Beyond it the oldest of these dies.
MAX_CODES = 8

#: Address and name of each view, in the order of the navigation.
VIEWS = (("/", "Now"), ("/history", "History"))

NO_SESSION = (
    "This page opens with `swell page`, run on this machine by the owner of the platform or a user whom the "
    "owner has added."
)
USED = (
    "This link was used before, is older than a minute, or belongs to another user of this machine; "
    "`swell page` opens the page with a new one."
)


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that has exchanged a code."""

    caller: ApiUser
    csrf: str  #: that requests send which change something


#: What a cookie says: whose session it is, when it ends, and a word that no other one has.
_Claims = tuple[ApiUser, float, str]


class SessionList:
    """Sessions outlive the daemon, and end when the owner has a new token. Any thread."""

    def __init__(self, token: str, now_s: Callable[[], float] = time.time) -> None:
        self._key = hmac.digest(token.encode(), b"sessions of the page", "sha256")
        self._now_s = now_s
        self._codes: dict[bytes, tuple[ApiUser, float]] = {}  #: that wait to be used, and when they end

    def invite(self, caller: ApiUser) -> str:
        """A code that is exchanged for a session once, within a minute."""
        code, now_s, waiting = secrets.token_urlsafe(32), self._now_s(), [*self._codes.items()]
        old = [one for one, (_, ends_s) in waiting if ends_s <= now_s]
        own = [one for one, (whose, ends_s) in waiting if whose == caller and ends_s > now_s]
        for one in [*old, *own[: max(0, len(own) + 1 - MAX_CODES)]]:
            self._codes.pop(one, None)
        self._codes[_digest(code)] = caller, now_s + CODE_S
        return code

    def enter(self, code: str) -> str | None:
        """The cookie for a code; None if it was used, is too old or was never given."""
        caller, ends_s = self._codes.pop(_digest(code), (None, 0.0))
        if caller is None or self._now_s() >= ends_s:
            return None
        claims: _Claims = caller, self._now_s() + SESSION_S, secrets.token_urlsafe(16)
        body = _text(msgspec.json.encode(claims))
        return f"{body}.{self._signature('session', body)}"

    def session(self, cookie: str) -> Session | None:
        """None if the cookie is none of ours, or is over."""
        body, _, signature = cookie.partition(".")
        if not cookie.isascii():
            return None
        if not hmac.compare_digest(signature, self._signature("session", body)):
            return None
        try:
            text = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
            caller, ends_s, nonce = msgspec.json.decode(text, type=_Claims)
        except msgspec.MsgspecError:  # signed by another version
            return None
        return None if self._now_s() >= ends_s else Session(caller, self._signature("csrf", nonce))

    def _signature(self, purpose: str, text: str) -> str:
        return _text(hmac.digest(self._key, f"{purpose}:{text}".encode(), "sha256"))


def _digest(code: str) -> bytes:
    """Found by it a code tells nothing of itself by the time that takes."""
    return hashlib.sha256(code.encode()).digest()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def refusal_page(status: int, text: str) -> HTMLResponse:
    """One sentence, and nothing of the platform."""
    return HTMLResponse(render("refused.html", {"text": text}), status)


def base_values(request: Request) -> dict[str, Any]:
    """What `base.html` needs of each request."""
    session: Session | None = request.scope.get("swell.session")
    return {"csrf": "" if session is None else session.csrf, "path": request.url.path, "views": VIEWS}
