"""The worker of a fixed job: it starts the job's command, and ends as that does.

It is not the command itself: a shell that gets SIGTERM ends at once, and what it has started still has the
time that it was given. It imports the standard library only, for any image with a Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import sys
from typing import NoReturn

from swell.executors.local.processes.parent_death import adopt_orphans, die_with_parent
from swell.executors.local.processes.strays import end_children
from swell.wire import environ
from swell.wire.lease_end import LeaseWatch

#: Of the line to the agent, which the command has no part in.
OWN_VARIABLES = (environ.OBSERVER, environ.TOKEN, environ.WORKER, environ.ADDRESS)
#: Exit statuses, as of a shell: the command is there and cannot be run; it is not there.
NOT_EXECUTABLE, NOT_FOUND = 126, 127
CONNECT_TIMEOUT_S = 10.0
LOOK_EVERY_S = 0.5
_WATCHED = (signal.SIGTERM, signal.SIGCHLD)


def run(entry: str, args: list[str]) -> int:
    """Run the command `args` with all that it starts. Returns its exit status, or ends by the same signal.

    SIGTERM is passed on to the whole process group once, and the end of the group is waited for then. What
    has left the group is killed.
    """
    line = say_hello()  # it is open as long as this process lives
    for name in OWN_VARIABLES:
        os.environ.pop(name, None)
    lease = LeaseWatch(os.environ[environ.LEASE]) if environ.LEASE in os.environ else None
    adopt_orphans()
    parent, mask = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    if (pid := os.fork()) == 0:
        become(args, parent, mask)
    is_told, status = False, None
    while status is None or (is_told and _has_group()):
        told = signal.sigtimedwait(_WATCHED, LOOK_EVERY_S)
        if lease is not None and lease.is_over:
            end_children()
            os.killpg(0, signal.SIGKILL)
        if told is not None and told.si_signo == signal.SIGTERM and not is_told:
            is_told = True
            os.killpg(0, signal.SIGTERM)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = os.waitstatus_to_exitcode(ended[1]) if ended[0] == pid else status
    end_children()
    line.close()
    if status < 0:  # this process ends as a signal has ended the command
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
        os.kill(os.getpid(), -status)
    return status if status >= 0 else 128 - status


def say_hello() -> socket.socket:
    """Open the line to the agent: it hears that the worker has come to life, in a container too."""
    names = os.environ
    host, _, port = names[environ.OBSERVER].rpartition(":")
    line = socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S)
    hello = {"type": "Hello", "token": names[environ.TOKEN], "worker": int(names[environ.WORKER])}
    line.sendall(json.dumps({**hello, "pid": os.getpid()}).encode() + b"\n")
    return line


def _has_group() -> bool:
    """Whether any other process of this group lives."""
    try:
        return os.waitpid(0, os.WNOHANG)[0] >= 0
    except ChildProcessError:
        return False


def become(args: list[str], parent: int, mask: set[int]) -> NoReturn:
    """Become the command, in a child of the process `parent`. Ends with 126 or 127 if that cannot be."""
    status = NOT_FOUND
    try:
        die_with_parent(parent)
        # Ignored by Python, or by what has started the platform, and a program would ignore them, too.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.environ.setdefault("PYTHONUNBUFFERED", "1")  # its log is followed while it runs
        os.execvp(args[0], args)  # noqa: S606 - its words are a list
    except FileNotFoundError:
        where = "in its image" if environ.OUTPUT in os.environ else "on this machine"
        why = f"there is no command {args[0]!r} {where}: install it there, or give its full path"
    except OSError as error:
        status = NOT_EXECUTABLE
        why = f"{args[0]!r} cannot be run: {error.strerror}; make it executable, or name its interpreter"
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    os._exit(status)
