"""Requests to the platform of a state folder, over its Unix socket, and what an answer means."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import h11
import msgspec

from swell.api.errors import AccessDenied, ApiError, NoPlatform, PlatformSilent
from swell.api.token_file import read_token_file
from swell.api.unix_socket import Peer, address_of, peer_of
from swell.api.verbs import ANSWER_WITHIN_S, Health, Verb
from swell.executors.local.processes.stopped import is_stopped
from swell.model.coding import decoder, encode
from swell.model.errors import InvalidJob, Unavailable, UnknownJob, UnknownNode
from swell.model.lengths import span
from swell.store.folder import Endpoint, StateFolder

#: Whether it answers at all is known sooner.
HEALTH_WITHIN_S = 5.0

#: What an answer of this status raises; ApiError for any other failure.
FAILURES: Mapping[int, type[Exception]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: UnknownJob,
    422: InvalidJob,
    503: Unavailable,
}

#: Bytes that are read at a time.
CHUNK_BYTES = 1 << 16

Headers = Mapping[str, str]


def open_transport(folder: StateFolder, file: Path | None) -> Transport:
    """Connect to the running platform of the folder; see `client.connect` for what it raises.

    Args:
        file: file with a user's token; None: the caller is the owner.
    """
    if file is None:
        folder.check_owner()
    else:
        folder.check_shared()
    endpoint = folder.read_endpoint()
    if endpoint is None or not endpoint.is_alive:
        raise _no_platform(folder)
    if is_stopped(endpoint.pid):
        raise PlatformSilent(_silent(_platform_of(folder), endpoint.pid, 0.0))
    token = folder.read_token() if file is None else read_token_file(file)
    transport = Transport(folder, endpoint, token, file)
    try:
        transport.health()
    except AccessDenied as error:
        transport.close()
        if file is not None:
            raise
        raise _no_platform(folder) from error  # another one has its socket
    except (NoPlatform, ApiError):
        transport.close()
        raise
    return transport


class Transport:
    """Made by `open_transport`, to be closed."""

    def __init__(
        self, folder: StateFolder, endpoint: Endpoint, token: str, token_file: Path | None = None
    ) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self._token_file = token_file
        self._opened = ExitStack()
        try:
            address = self._opened.enter_context(address_of(folder.socket))
        except OSError as error:
            raise _no_platform(folder) from error
        self._http = UnixHttp(address, {"Authorization": f"Bearer {token}"}, self._check_server)
        self._opened.callback(self._http.close)

    def health(self) -> Health:
        """Raises NoPlatform or ApiError if the platform does not answer as itself."""
        found: Health = decoder(Health).decode(self.call("GET", "/v1/health", within_s=HEALTH_WITHIN_S))
        if found.pid != self.endpoint.pid:
            raise _no_platform(self.folder)
        return found

    def close(self) -> None:
        self._opened.close()

    def find_again(self) -> None:
        """The daemon may have been started again."""
        try:
            found = open_transport(self.folder, self._token_file)
        except (NoPlatform, ApiError):
            return
        self.close()
        self._http, self._opened, self.endpoint = found._http, found._opened, found.endpoint

    def ask(self, verb: Verb, given: Mapping[str, Any]) -> Any:
        """The answer to a verb. `given`: its parameters by name."""
        words: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}, "body": {}}
        for name, value in given.items():
            if value is not None:
                words[verb.place(name)][verb.word(name)] = value
        path = verb.path.format(**{name: quote(value, safe="") for name, value in words["path"].items()})
        query = {word: _query_value(value) for word, value in words["query"].items()}
        body = words["body"].get("body", words["body"]) if verb.has_body else None
        content = None if body is None else encode(body)
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
        try:
            answer = self._http.request(method, target, headers or {}, content, within_s)
        except TimeoutError as error:
            text = _silent(_platform_of(self.folder), self.endpoint.pid, within_s)
            raise PlatformSilent(text) from error
        except NoPlatform:
            raise
        except OSError as error:
            raise _no_platform(self.folder) from error
        if 200 <= answer.status < 300:
            return answer.content
        raise FAILURES.get(answer.status, ApiError)(_error_text(answer))

    def _check_server(self, connection: socket.socket) -> None:
        """Before anything is sent on a new connection, the token above all: is it the daemon that listens?"""
        peer = peer_of(connection)
        if peer != Peer(self.endpoint.pid, self.folder.owner_uid()):
            raise NoPlatform(
                f"process {peer.pid} listens at {self.folder.socket} instead of the "
                f"platform (pid {self.endpoint.pid}); nothing was sent to it; end it, "
                "then run `swell up`"
            )


class HttpAnswer(NamedTuple):
    """What came back, whole."""

    status: int
    content: bytes


class UnixHttp:
    """Connections to one socket; each is used by one call at a time, and kept for the next ones.

    Calls may come from any thread.
    """

    def __init__(self, address: str, headers: Headers, check: Callable[[socket.socket], None]) -> None:
        """Args:
        headers: of every request.
        check: looks at each new connection before anything is sent on it, and raises what is wrong with it.
        """
        self._address, self._check = address, check
        self._headers = {"Host": "localhost", **headers}
        self._idle: list[socket.socket] = []

    def request(
        self, method: str, target: str, headers: Headers, content: bytes | None, within_s: float
    ) -> HttpAnswer:
        """Raises TimeoutError: it has not gone on for that time; OSError: there was no whole answer."""
        lines = list((self._headers | dict(headers)).items())
        if content is not None:
            lines.append(("Content-Length", str(len(content))))
        connection, http = self._usable(within_s), h11.Connection(h11.CLIENT)
        try:
            _send(connection, http, h11.Request(method=method, target=target, headers=lines), content or b"")
            answer = _received(connection, http)
        except h11.ProtocolError as error:
            connection.close()
            raise ConnectionError(str(error)) from error
        except BaseException:
            connection.close()
            raise
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _usable(self, within_s: float) -> socket.socket:
        """One that the server has not closed meanwhile, or a new one."""
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                connection.settimeout(within_s)
                if not _has_news(connection):
                    return connection
                connection.close()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(within_s)
            made.connect(self._address)
            self._check(made)
        except BaseException:
            made.close()
            raise
        return made


def _has_news(connection: socket.socket) -> bool:
    """Between two calls that can only be its end."""
    looker = select.poll()
    looker.register(connection, select.POLLIN)
    return bool(looker.poll(0))


def _send(connection: socket.socket, http: h11.Connection, request: h11.Request, content: bytes) -> None:
    parts = [http.send(one) for one in (request, h11.Data(data=content), h11.EndOfMessage())]
    # A server that refuses a request before it is whole says why in its answer.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(b"".join(filter(None, parts)))


def _received(connection: socket.socket, http: h11.Connection) -> HttpAnswer:
    status, parts = 0, list[bytes]()
    while not isinstance(event := http.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            http.receive_data(connection.recv(CHUNK_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
        elif not isinstance(event, h11.InformationalResponse):
            raise ConnectionError("the connection was closed")
    return HttpAnswer(status, b"".join(parts))


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
    """Error for a platform that does not answer: its last notice, or how far its recovery has got."""
    if (recovery := folder.read_recovery()) is not None:
        who = f"{_platform_of(folder)} (pid {recovery.daemon.pid})"
        return NoPlatform(f"{who} does not answer yet: {recovery}; try again in a while")
    text = f"no platform is running for state folder {folder.path}"
    if (notice := folder.read_notice()) is not None:
        when = datetime.fromtimestamp(notice.at_s).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006 - the user's
        text += f": it stopped at {when} ({notice.message})"
    return NoPlatform(f"{text}: start one with `swell up`")
