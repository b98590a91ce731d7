"""Between what a cluster starts on a machine and the host there: `python -m swell.executors.slices.guard`.

The kernel ends a child with the *thread* that started it, so the guard, which has one, starts the host. It
passes SIGTERM on, kills the host when who has started the guard is gone, and removes the folder of the slice.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from swell.executors.local.processes.parent_death import die_with_parent
from swell.executors.slices.folders import remove_folder

#: What is written to a guard: the host is to get SIGTERM.
TERM = b"T"
STDIN = 0


class GuardOrder(msgspec.Struct, frozen=True, kw_only=True):
    """First line of the standard input of a guard. When that input ends, who has written to it is gone."""

    words: tuple[str, ...]  #: of the host
    token: str
    folder: str  #: of the slice


def guard_host(
    words: Sequence[str], token: str, environ: Mapping[str, str], folder: Path, orders: int
) -> int:
    """Run a host until it has ended, or `orders` has. Returns its exit status.

    Args:
        token: the text of a join token. It is in memory alone, so nothing of it is left by a SIGKILL.
        folder: of the slice, which is removed at the end.
        orders: a descriptor to read from: each byte is a SIGTERM.
    """
    token_fd = _in_memory(token)
    host = subprocess.Popen(
        [*words, "--token-file", f"/proc/self/fd/{token_fd}"],
        env=dict(environ),
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
    remove_folder(folder)
    return status if status >= 0 else 128 - status


def _in_memory(token: str) -> int:
    """Return the descriptor of a file that is on no disk."""
    descriptor = os.memfd_create("join-token")
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, f"{token}\n".encode())
    return descriptor


def _begin_host(guard_pid: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(guard_pid)


def main() -> None:
    order = msgspec.json.decode(_first_line(), type=GuardOrder)
    sys.exit(guard_host(order.words, order.token, os.environ, Path(order.folder), STDIN))


def _first_line() -> bytes:
    """Without a buffer, which would take what comes behind it."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(STDIN, 1)):
        line += byte
    return line


if __name__ == "__main__":
    main()
