"""Bytes of TCP connections, as the kernel counts them for each process."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.listening import eventually

from swell.executors.local.limits import network_usage
from swell.executors.local.limits.network_usage import Connection, ConnectionTable, NetworkUsage, Traffic

NUM_BYTES = 300_000
#: Sends so many bytes to a port, and keeps the connection until a line comes.
SENDER = (
    "import socket, sys\nline = socket.create_connection(('127.0.0.1', {}))\nline.sendall(b'x' * {})\ninput()"
)


class Told(ConnectionTable):
    """Connections as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.now: dict[int, Connection] = {}

    def read(self) -> dict[int, Connection]:
        return self.now


@pytest.fixture
def own_socket() -> Iterator[int]:
    """The inode of a socket of this process."""
    with socket.socket() as line:
        yield os.fstat(line.fileno()).st_ino


def test_what_another_process_sends_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_usage, "LIST_EVERY_S", 0.0)
    if NetworkUsage(ConnectionTable()).read([os.getpid()]) == (None, None):
        pytest.skip("the kernel lists no connections to this process (sock_diag)")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = SENDER.format(server.getsockname()[1], NUM_BYTES)
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
            line, _ = server.accept()
            rest = NUM_BYTES
            while rest:
                rest -= len(line.recv(1 << 16))
            theirs, ours = NetworkUsage(ConnectionTable()), NetworkUsage(ConnectionTable())
            eventually(lambda: (theirs.read([process.pid])[1] or 0) >= NUM_BYTES)
            assert ours.read([os.getpid()])[0] == NUM_BYTES
            process.communicate(b"\n")
            line.close()
        received, sent = theirs.read([process.pid])
        assert received == 0 and sent is not None and sent >= NUM_BYTES, (
            "it has ended, and has sent all the same"
        )


def test_a_connection_that_has_ended_counts_as_last_read(own_socket: int) -> None:
    table = Told()
    usage = NetworkUsage(table)
    table.now = {own_socket: Connection(b"first", Traffic(10, 1))}
    assert usage.read([os.getpid()]) == (10, 1)
    table.now = {own_socket: Connection(b"other", Traffic(5, 2))}  # the number is used again
    assert usage.read([os.getpid()]) == (15, 3)
    table.now = {}
    assert usage.read([os.getpid()]) == usage.read([]) == (15, 3)


def test_connections_of_other_processes_are_not_counted(own_socket: int) -> None:
    table = Told()
    table.now = {own_socket + 1: Connection(b"theirs", Traffic(10, 1))}
    assert NetworkUsage(table).read([os.getpid(), 2**22 + 1]) == (0, 0)


def test_a_kernel_that_lists_none_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(family: int) -> dict[int, Connection]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(network_usage, "_list", refuse)
    assert NetworkUsage(ConnectionTable()).read([os.getpid()]) == (None, None)


def test_a_short_tcp_info_tells_nothing() -> None:
    """Kernels before 4.1 have no counters of bytes in it."""
    short = struct.pack("=HH", 4 + 100, network_usage.INET_DIAG_INFO) + bytes(100)
    assert network_usage._traffic(bytes(72) + short) is None


def test_of_a_container_all_interfaces_count(tmp_path: Path) -> None:
    from tests.executors.fake_groups import FakeV1

    from swell.executors.local.containers.meter import ContainerMeter
    from swell.executors.local.limits.limiter import CoreSharing

    kernel = FakeV1(tmp_path)
    kernel.boot()
    names = ("cpu,cpuacct", "memory", "blkio")
    for name in names:
        kernel.make(kernel.at(f"/sys/fs/cgroup/{name}/box"))
    kernel.own("3:cpu,cpuacct:/box\n2:memory:/box\n1:blkio:/box\n")
    groups = kernel.at("/proc/7/cgroup")
    groups.parent.mkdir()
    groups.write_text(kernel.at("/proc/self/cgroup").read_text())
    counted = kernel.at("/proc/7/net/dev")
    counted.parent.mkdir()
    counted.write_text(
        "Inter-|   Receive  |  Transmit\n face |bytes packets\n"
        "    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n  eth0: 20 1 0 0 0 0 0 0 3 1 0 0 0 0 0 0\n"
    )
    meter = ContainerMeter(7, CoreSharing(), kernel)
    assert (meter.usage().received_bytes, meter.usage().sent_bytes) == (120, 103)
    counted.unlink()
    assert (meter.usage().received_bytes, meter.usage().sent_bytes) == (120, 103), "the last reading stands"
