"""Requests to the platform of a state folder, over its Unix socket, and what an answer means."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from swell.api.errors import AccessDenied, ApiError, NoPlatform, PlatformSilent
from swell.api.silence import silent
from swell.api.token_file import read_token_file
from swell.api.unix_http import HttpAnswer, UnixHttp
from swell.api.unix_socket import Peer, address_of, peer_of
from swell.executors.local.processes.stopped import is_stopped
from swell.model.coding import decoder
from swell.model.errors import InvalidJob, Unavailable, UnknownJob
from swell.store.folder import Endpoint, StateFolder

T = TypeVar("T")
#: A parameter may be given several times.
Query = Mapping[str, str | list[str]]

ANSWER_WITHIN_S = 30.0
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
        raise PlatformSilent(silent(_platform_of(folder), endpoint.pid, 0.0))
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

    def health(self) -> None:
        """Raises NoPlatform or ApiError if the platform does not answer as itself."""
        content = self.call("GET", "/v1/health", within_s=HEALTH_WITHIN_S)
        found: dict[str, Any] = decoder(dict[str, Any]).decode(content)
        if found.get("pid") != self.endpoint.pid:
            raise _no_platform(self.folder)

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

    def get(self, path: str, kind: type[T], query: Query | None = None) -> T:
        content: T = decoder(kind).decode(self.call("GET", path, query=query))
        return content

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        within_s: float = ANSWER_WITHIN_S,
    ) -> bytes:
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        try:
            answer = self._http.request(method, target, headers or {}, content, within_s)
        except TimeoutError as error:
            text = silent(_platform_of(self.folder), self.endpoint.pid, within_s)
            raise PlatformSilent(text) from error
        except NoPlatform:
            raise
        except OSError as error:
            raise _no_platform(self.folder) from error
        if answer.is_success:
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


def _error_text(answer: HttpAnswer) -> str:
    try:
        return str(msgspec.json.decode(answer.content)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the platform answered {answer.status} without saying why; see daemon.log"


def _platform_of(folder: StateFolder) -> str:
    return f"the platform of state folder {folder.path}"


def _no_platform(folder: StateFolder) -> NoPlatform:
    """Error for a platform that does not answer: its last notice, or how far its recovery has got."""
    if (recovery := folder.read_recovery()) is not None:
        who = f"the platform of state folder {folder.path} (pid {recovery.daemon.pid})"
        return NoPlatform(f"{who} does not answer yet: {recovery}; try again in a while")
    text = f"no platform is running for state folder {folder.path}"
    if (notice := folder.read_notice()) is not None:
        when = datetime.fromtimestamp(notice.at_s).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006 - the user's
        text += f": it stopped at {when} ({notice.message})"
    return NoPlatform(f"{text}: start one with `swell up`")
