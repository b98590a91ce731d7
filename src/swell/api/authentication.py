"""Who may speak to the API: a program that knows the token, to a loopback name, in small letters."""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from swell.api.answers import failure

#: Longest request body: a job is a few hundred bytes, its arguments may be some thousand.
MAX_BODY_BYTES = 1 << 20

#: Python refuses to read a number of thousands of digits.
MAX_LENGTH_DIGITS = 20

#: A page in a browser can reach a loopback port under a name of its own (DNS rebinding): only these count.
HOSTS = frozenset({b"127.0.0.1", b"localhost", b"[::1]"})

MIN_TOKEN_LENGTH = 32


class TokenMiddleware:
    """Refuses a request before anything else has read it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        if len(token) < MIN_TOKEN_LENGTH:
            raise ValueError(
                f"a token of {len(token)} characters can be guessed; give {MIN_TOKEN_LENGTH} or more"
            )
        self._app = app
        self._bearer = b"Bearer " + token.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await failure(*refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or _without_port(hosts[0]) not in HOSTS:
            return 403, "this API answers to 127.0.0.1 and localhost only; use one of these in the address"
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) != 1 or not hmac.compare_digest(given[0], self._bearer):
            return (
                401,
                "wrong or missing token; send `Authorization: Bearer TOKEN`, see `token` in the state folder",
            )
        length = next((value for name, value in headers if name == b"content-length"), b"0")
        if not length.isdigit() or len(length) > MAX_LENGTH_DIGITS or int(length) > MAX_BODY_BYTES:
            return 413, f"the body is larger than {MAX_BODY_BYTES} bytes; send a smaller one"
        return None


def _without_port(host: bytes) -> bytes:
    name, colon, port = host.lower().rpartition(b":")
    return name if colon and port.isdigit() else host.lower()
