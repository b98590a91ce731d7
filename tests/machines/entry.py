"""A program that runs a command in the namespaces of another process, and ends as the command does.

    python -I -S entry.py PID KINDS CWD COMMAND ...

It forwards signals, and SIGKILL of this program kills the command.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

#: Flags of setns(2) by the names under /proc/PID/ns.
FLAGS = {
    "user": 0x10000000,
    "net": 0x40000000,
    "mnt": 0x00020000,
    "pid": 0x20000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "time": 0x00000080,
}
_PR_SET_PDEATHSIG = 1
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_HEARD = {signal.SIGCHLD, *_FORWARDED}
_CANNOT_EXECUTE = 127
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    pid, kinds, cwd, *command = sys.argv[1:]
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    own = os.pidfd_open(os.getpid())
    join_namespaces(int(pid), kinds.split(","))
    child = os.fork()
    if child == 0:
        _execute(own, cwd, command)
    _end_as(_wait(child))


def join_namespaces(pid: int, kinds: tuple[str, ...] | list[str]) -> None:
    """Children of this process are in all of them: a process keeps its own PID namespace."""
    flags = sum(FLAGS[kind] for kind in kinds)
    if _libc.setns(os.pidfd_open(pid), flags):
        number = ctypes.get_errno()
        sys.exit(
            f"the namespaces {', '.join(kinds)} of process {pid} cannot be entered: {os.strerror(number)}"
        )


def _execute(parent: int, cwd: str, command: list[str]) -> None:
    """`parent`: its pidfd, for its number is that of another namespace."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    ended = select.poll()
    ended.register(parent, select.POLLIN)
    if ended.poll(0):
        os._exit(128 + signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
    try:
        os.chdir(cwd)
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run in {cwd}: {error.strerror}\n".encode())
        os._exit(_CANNOT_EXECUTE)


def _wait(child: int) -> int:
    """Forwards signals until the command ends; its status as waitpid(2) has it."""
    while True:
        number = signal.sigwait(_HEARD)
        if number != signal.SIGCHLD:
            os.kill(child, number)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status


def _end_as(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
