"""Between what a cluster starts on a machine and the host there: `python -m swell.executors.slices.guard`.

The kernel ends a child with the *thread* that started it, so the guard, which has one, starts the host. It
passes SIGTERM on, kills the host when who has started the guard is gone, and removes the folder of the slice.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec

from swell.executors.local.processes.parent_death import die_with_parent
from swell.executors.local.processes.strays import end_strays
from swell.executors.slices.order import STATE_FOLDER, SliceOrder, host_environ, host_words

#: What is written to a guard: the host is to get SIGTERM.
TERM = b"T"
STDIN = 0


def guard_host(order: SliceOrder, orders: int) -> int:
    """Run a host until it has ended, or `orders` has. Returns its exit status.

    Its join token is in memory alone, so nothing of it is left by a SIGKILL.

    Args:
        orders: a descriptor to read from: each byte is a SIGTERM.
    """
    token_fd = os.memfd_create("join-token")
    os.fchmod(token_fd, 0o600)
    os.write(token_fd, f"{order.token}\n".encode())
    host = subprocess.Popen(
        host_words(order, f"/proc/self/fd/{token_fd}"),
        env=host_environ(order, os.environ),
        cwd=order.folder,
        stdin=subprocess.DEVNULL,
        pass_fds=[token_fd],
        preexec_fn=partial(_begin_host, os.getpid()),
    )
    os.close(token_fd)
    ended = os.pidfd_open(host.pid)
    while ended not in select.select([orders, ended], [], [])[0]:
        told = os.read(orders, 1)
        if host.poll() is None:
            host.send_signal(signal.SIGTERM if told else signal.SIGKILL)
        if not told:
            break
    status = host.wait()
    clean_up(order)
    return status if status >= 0 else 128 - status


def clean_up(order: SliceOrder) -> None:
    """End what the host of a slice has left behind, and remove its folder."""
    end_strays(Path(order.folder, STATE_FOLDER))
    shutil.rmtree(order.folder, ignore_errors=True)


def _begin_host(guard_pid: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(guard_pid)


def main() -> None:
    """The order is a line of the standard input. When that ends, who has written to it is gone."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(STDIN, 1)):  # no buffer takes what comes behind it
        line += byte
    sys.exit(guard_host(msgspec.json.decode(line, type=SliceOrder), STDIN))


if __name__ == "__main__":
    main()
