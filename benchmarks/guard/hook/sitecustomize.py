"""Counts what a process of `swell` does, where its environment names $GUARD_COUNTERS; it imports nothing.

A process writes to the file of its number in that folder: SQL statements, bytes that its sockets sent and
received, and modules it had at its end, eight bytes each. The guard has this folder in $PYTHONPATH.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FOLDER = os.environ.get("GUARD_COUNTERS", "")
STATEMENTS, SENT, RECEIVED, MODULES = range(4)


def count_in(folder: str) -> None:
    counts = [0, 0, 0, 0]
    file = os.open(f"{folder}/{os.getpid()}", os.O_CREAT | os.O_WRONLY, 0o600)

    def add(kind: int, more: int) -> None:
        counts[kind] += more
        os.pwrite(file, counts[kind].to_bytes(8, "little"), 8 * kind)

    def hear(event: str, _: tuple[Any, ...]) -> None:
        if event in ("import", "sqlite3.connect"):
            count_statements(sys.modules.get("sqlite3.dbapi2"), add)
        elif event == "socket.connect":
            count_bytes(sys.modules["socket"].socket, add)

    sys.addaudithook(hear)
    import atexit

    atexit.register(lambda: add(MODULES, len(sys.modules)))


def count_statements(module: Any, add: Callable[[int, int], None]) -> None:
    """Of the connections that it opens from now on: it has just been imported."""
    connect = getattr(module, "connect", None)
    if connect is None or hasattr(module, "is_counted"):
        return

    def counted_connect(*words: Any, **named: Any) -> Any:
        connection = connect(*words, **named)
        connection.set_trace_callback(lambda _: add(STATEMENTS, 1))
        return connection

    module.is_counted = True
    module.connect = counted_connect
    vars(sys.modules["sqlite3"])["connect"] = counted_connect


def count_bytes(kind: Any, add: Callable[[int, int], None]) -> None:
    """In the class of sockets, once."""
    if "recv" in vars(kind):
        return
    recv, sendall, send = kind.recv, kind.sendall, kind.send

    def counted_recv(self: Any, *words: Any) -> Any:
        data = recv(self, *words)
        add(RECEIVED, len(data))
        return data

    def counted_sendall(self: Any, data: Any, *words: Any) -> Any:
        add(SENT, len(data))
        return sendall(self, data, *words)

    def counted_send(self: Any, data: Any, *words: Any) -> Any:
        num_sent = send(self, data, *words)
        add(SENT, num_sent)
        return num_sent

    kind.recv, kind.sendall, kind.send = counted_recv, counted_sendall, counted_send


if FOLDER:
    count_in(FOLDER)
