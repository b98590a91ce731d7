"""The port of the page: the daemon's own one, or one that is opened when the page is first asked for."""

from __future__ import annotations

import logging
import threading

import msgspec

from swell.api.errors import InvalidOption
from swell.api.serving import ApiServer, PortTaken, bind
from swell.model.errors import Unavailable
from swell.store.folder import StateFolder

log = logging.getLogger("swell.page")


class PageDoor:
    """Keeps secret and port in the state folder, so that a page that is open goes on after a restart."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._keys = folder.ensure_page_keys()
        self._lock = threading.Lock()
        self._server: ApiServer | None = None
        self._port: int | None = None

    @property
    def secret(self) -> str:
        """Secret of the page's sessions."""
        return self._keys.secret

    def open(self, server: ApiServer, has_port: bool) -> None:
        """The server has started.

        Args:
            has_port: it listens on a port already, which is the page's too.
        """
        self._server = server
        if has_port:
            self._port = server.port
        elif self._keys.port is not None:
            try:
                self._listen(server, self._keys.port)
            except InvalidOption as error:  # pages that are open cannot go on
                log.warning("the page is not at its port of before: %s", error)

    def port(self) -> int:
        """Any thread but the server's. Raises Unavailable."""
        with self._lock:
            if self._server is None:
                raise Unavailable("the platform is starting; try again")
            if self._port is None:
                self._listen_anywhere(self._server)
            return self._port or 0

    def _listen_anywhere(self, server: ApiServer) -> None:
        """Listen on the port of the former daemon if it is free, else on any other."""
        try:
            self._listen(server, self._keys.port or 0)
        except PortTaken:
            self._listen(server, 0)
        self._keys = msgspec.structs.replace(self._keys, port=self._port)
        self._folder.write_page_keys(self._keys)

    def _listen(self, server: ApiServer, port: int) -> None:
        listener = bind(port)
        server.listen_on(listener)
        self._port = int(listener.getsockname()[1])
