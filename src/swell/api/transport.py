"""The line from a client to the platform of a state folder: requests over its Unix socket."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import h11
import msgspec

from swell.api.errors import AccessRefused, ApiError, InvalidOption, NoAnswer, NoPlatform
from swell.api.unix_socket import address_of
from swell.api.verbs import ANSWER_WITHIN_S, HEADERS, Health, TerminalAddress, Verb
from swell.executors.local.processes.listing import is_stopped
from swell.model.coding import decoder, encode
from swell.model.errors import InvalidJob, Unavailable, UnknownJob, UnknownNode
from swell.model.quantities import span
from swell.store.folder import ApiAddress, StateFolder
from swell.store.lock import find_holder
from swell.wire.peers import peer_of

if TYPE_CHECKING:
    import asyncio

#: Has the token of a user who is not the owner, for every command and for `connect`.
TOKEN = "SWELL_TOKEN"  # noqa: S105 - a name
#: Whether it answers at all is known sooner.
HEALTH_WITHIN_S = 5.0

#: What an answer of this status raises; ApiError for any other failure.
FAILURES: Mapping[int, type[Exception]] = {
    401: AccessRefused,
    403: AccessRefused,
    404: UnknownJob,
    413: InvalidJob,
    422: InvalidJob,
    503: Unavailable,
}

#: The user has asked for too much, and is to wait.
TOO_MANY = 429
#: A client waits by itself no longer than this: as it is told, or for a line to another machine that broke.
RESUME_WITHIN_S = 60.0
#: Bytes that are read at a time.
CHUNK_BYTES = 1 << 16

Headers = Mapping[str, str]
#: A connection, and what is said on it.
Line = tuple[socket.socket, h11.Connection]


def check_token(token: str) -> None:
    """Raises AccessRefused: it is none of a user."""
    if not re.fullmatch(r"[!-~]+", token):
        raise AccessRefused(f"the token of a user has letters, digits and `_-` only; correct {TOKEN}")


def open_transport(folder: StateFolder, user_token: str) -> Transport:
    """Connect to the running platform of the folder; see `connect` for what it raises.

    Args:
        user_token: empty: the caller is the owner.
    """
    is_shared = bool(user_token) or folder.is_shared_by_another
    if not is_shared:
        folder.check_owner()
    else:
        folder.check_shared()
        check_token(user_token or "-")
    endpoint = folder.read_endpoint()
    if endpoint is None or not endpoint.is_alive:
        raise _no_platform(folder)
    if is_stopped(endpoint.pid):
        raise NoAnswer(_silent(_platform_of(folder), endpoint.pid, 0.0))
    if folder.socket.exists() and not (is_shared or folder.token.exists()):
        raise AccessRefused(  # most likely the owner has named the folder by which the platform is shared
            f"{folder.path} has no token of its owner: if a platform is shared by it, set {TOKEN} to the "
            "token of a user, or name the platform's state folder with --state"
        )
    transport = Transport(folder, endpoint, user_token)
    try:
        transport.health()
    except AccessRefused as error:
        if is_shared:
            raise
        raise _no_platform(folder) from error  # another one has its socket
    return transport


class Transport:
    """Made by `open_transport`. Each request has a connection of its own, in any thread."""

    is_far = False  #: whether the platform is on another machine

    def __init__(self, folder: StateFolder, endpoint: ApiAddress, user_token: str = "") -> None:
        self.folder = folder
        self.endpoint = endpoint
        self._user_token = user_token

    def health(self) -> Health:
        """Raises NoPlatform or ApiError if the platform does not answer as itself."""
        found: Health = decoder(Health).decode(self.call("GET", "/v1/health", within_s=HEALTH_WITHIN_S))
        if not self.is_far and found.pid != self.endpoint.pid:
            raise self._gone()
        return found

    def close(self) -> None:
        """Nothing stays open between two requests."""

    def find_again(self) -> None:
        """The daemon may have been started again. A line to another machine is another one each time."""
        with suppress(NoPlatform, ApiError, InvalidOption):
            self.endpoint = open_transport(self.folder, self._user_token).endpoint

    def ask(self, verb: Verb, given: Mapping[str, Any]) -> Any:
        """The answer to a verb. `given`: its parameters by name."""
        words: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}, "body": {}}
        for name, value in given.items():
            if verb.place(name) == "path" and not (isinstance(value, str) and value and "/" not in value):
                things = verb.path.split("/")[2]
                listing = "book --list" if things == "bookings" else things
                unknown = UnknownNode if things == "nodes" else UnknownJob
                raise unknown(
                    f"there is no {things[:-1]} {value!r:.80}; `swell {listing}` lists all {things}"
                )
            if value is not None:
                words[verb.place(name)][HEADERS.get(name, name)] = value
        path = verb.path.format(**{name: quote(value, safe="") for name, value in words["path"].items()})
        query = {word: _query_value(value) for word, value in words["query"].items()}
        body = words["body"].get("body", words["body"]) if verb.body is not None else None
        content = body if body is None or verb.body is bytes else encode(body)
        try:
            answered = self.call(
                verb.method,
                path,
                query=query,
                content=content,
                headers=words["header"],
                within_s=verb.within_s,
            )
        except UnknownJob as error:
            if verb.path.startswith("/v1/nodes/"):
                raise UnknownNode(*error.args) from error
            raise
        return answered if verb.is_raw else decoder(verb.answer).decode(answered)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        headers: Headers | None = None,
        within_s: float = ANSWER_WITHIN_S,
    ) -> bytes:
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        while True:
            try:
                answer = self._request(method, target, headers or {}, content, within_s)
            except TimeoutError as error:
                raise self._silent(within_s) from error
            except NoPlatform:
                raise
            except OSError as error:
                raise self._gone() from error
            if 200 <= answer.status < 300:
                return answer.content
            if answer.status != TOO_MANY or answer.retry_s > RESUME_WITHIN_S:
                raise FAILURES.get(answer.status, ApiError)(_error_text(answer))
            time.sleep(answer.retry_s)

    def _gone(self) -> NoPlatform:
        """Error that nothing answers."""
        return _no_platform(self.folder)

    def _silent(self, within_s: float) -> NoAnswer:
        """Error that it has not answered within this time."""
        return NoAnswer(_silent(_platform_of(self.folder), self.endpoint.pid, within_s))

    async def open_terminal(
        self, job_id: str, address: TerminalAddress
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A line to a terminal. Raises OSError."""
        import asyncio  # other commands do without these

        from swell.executors.local.terminal import MOST_LINE_BYTES

        return await asyncio.open_connection(address.host, address.port, limit=MOST_LINE_BYTES)

    def _request(
        self, method: str, target: str, headers: Headers, content: bytes | None, within_s: float
    ) -> HttpAnswer:
        """Raises TimeoutError: it has not gone on for that time; OSError: there was no whole answer."""
        lines = {**self._headers(), **headers}
        if content is not None:
            lines["Content-Length"] = str(len(content))
        with self._line(within_s) as (connection, http):
            try:
                asked = h11.Request(method=method, target=target, headers=[*lines.items()])
                _send(connection, http, asked, content or b"")
                return _received(connection, http)
            except h11.ProtocolError as error:
                raise ConnectionError(str(error)) from error

    def _headers(self) -> Headers:
        """Those of each request."""
        lines = {"Host": "localhost", "Connection": "close"}
        if token := self._user_token or self.folder.read_token():  # else the kernel says who it is
            lines["Authorization"] = f"Bearer {token}"
        return lines

    @contextmanager
    def _line(self, within_s: float) -> Iterator[Line]:
        """A connection for one request, to the platform and nothing else. Raises OSError."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(within_s)
            with address_of(self.folder.socket) as address:
                connection.connect(address)
            self._check_server(connection)
            yield connection, h11.Connection(h11.CLIENT)

    def _check_server(self, connection: socket.socket) -> None:
        """Before anything is sent on a new connection, the token above all: is it the daemon that listens?"""
        pid, uid = peer_of(connection)
        if (pid, uid) != (self.endpoint.pid, self.folder.owner_uid()):
            raise NoPlatform(
                f"process {pid} listens at {self.folder.socket} instead of the "
                f"platform (pid {self.endpoint.pid}); nothing was sent to it; end it, "
                "then run `swell up`"
            )


class HttpAnswer(NamedTuple):
    """What came back, whole."""

    status: int
    content: bytes
    retry_s: float = 0.0  #: after which the request may be made again


def _send(connection: socket.socket, http: h11.Connection, request: h11.Request, content: bytes) -> None:
    parts = [http.send(one) for one in (request, h11.Data(data=content), h11.EndOfMessage())]
    # A server that refuses a request before it is whole says why in its answer.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(b"".join(filter(None, parts)))


def _received(connection: socket.socket, http: h11.Connection) -> HttpAnswer:
    status, retry_s, parts = 0, 0.0, list[bytes]()
    while not isinstance(event := http.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            http.receive_data(connection.recv(CHUNK_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
            retry_s = next((float(value) for name, value in event.headers if name == b"retry-after"), 0.0)
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
        elif not isinstance(event, h11.InformationalResponse):
            raise ConnectionError("the connection was closed")
    return HttpAnswer(status, b"".join(parts), retry_s)


def _query_value(value: Any) -> str | list[str]:
    """A value as it stands in a query; several for a parameter that may be given several times."""
    if isinstance(value, Enum | str | bool):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return [str(one) for one in value] if isinstance(value, Sequence) else repr(value)


def _error_text(answer: HttpAnswer) -> str:
    try:
        return str(msgspec.json.decode(answer.content)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the platform answered {answer.status} without saying why; see daemon.log"


def _silent(who: str, pid: int, limit_s: float) -> str:
    """Message that a process has not answered within `limit_s`, or that it is stopped and cannot."""
    if is_stopped(pid):
        return (
            f"{who} (pid {pid}) was stopped by a signal and does not answer: `kill -CONT {pid}` lets it "
            "go on, `swell down --force` ends it"
        )
    return (
        f"{who} (pid {pid}) has not answered for {span(limit_s)}: it is busy or hangs; try again, or end it "
        "with `swell down --force`"
    )


def _platform_of(folder: StateFolder) -> str:
    return f"the platform of state folder {folder.path}"


def _no_platform(folder: StateFolder) -> NoPlatform:
    """Error for a platform that does not answer: something has the folder, or its last notice."""
    if (pid := find_holder(folder.lock)) is not None:
        who = f"{_platform_of(folder)} (pid {pid})"
        return NoPlatform(f"{who} does not answer: it starts or ends, or is restored; try again in a while")
    text = f"no platform is running for state folder {folder.path}"
    if (notice := folder.read_notice()) is not None:
        when = datetime.fromtimestamp(notice.at_s).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006 - the user's
        text += f": it stopped at {when} ({notice.message})"
    return NoPlatform(f"{text}: start one with `swell up`")
