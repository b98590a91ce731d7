"""A line that breaks: a proxy on this machine, which cuts each connection after some bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CuttingProxy:
    """Leads to a port. Each connection is cut once so many bytes have passed in either direction."""

    def __init__(self, port: int, cuts: list[int]) -> None:
        """`cuts`: of each connection in turn; the ones after them are not cut."""
        self._port, self._cuts = port, cuts
        self.num_cut = 0
        self._connections = list[socket.socket]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.break_all()

    def break_all(self) -> None:
        """Cut the connections that are open now."""
        while self._connections:
            with suppress(OSError):
                self._connections.pop().shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                room = [self._cuts.pop(0)] if self._cuts else [1 << 40]
                onward = socket.create_connection(("127.0.0.1", self._port))
                for pair in ((connection, onward), (onward, connection)):
                    threading.Thread(target=self._pass_on, args=(*pair, room), daemon=True).start()

    def _pass_on(self, source: socket.socket, to: socket.socket, room: list[int]) -> None:
        with suppress(OSError):
            while content := source.recv(min(1 << 16, max(1, room[0]))):
                room[0] -= len(content)
                to.sendall(content)
                if room[0] <= 0:
                    self.num_cut += 1
                    break
        for one in (source, to):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting(port: int, cuts: list[int]) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(port, cuts)
    try:
        yield proxy
    finally:
        proxy.close()
