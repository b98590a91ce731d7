"""The first moments of a forked worker: from a copy of the zygote to a process of its own."""

from __future__ import annotations

import atexit
import importlib
import os
import random
import signal
import sys
import tempfile
import threading
import traceback
from io import TextIOWrapper
from multiprocessing.process import current_process
from typing import NoReturn

from swell.executors.local.processes.parent_death import die_with_parent
from swell.executors.local.zygote.messages import Fork
from swell.executors.local.zygote.mirror import become_private, mirrored
from swell.wire.environ import EXIT_STOPPED


def become_worker(request: Fork, parent_pid: int, output: int) -> NoReturn:
    """Called in the child, right after the fork. `output` is the pipe for what it prints."""
    status = 1
    try:
        _detach(parent_pid)
        _redirect(output)
        os.environ.update(request.environ)
        os.chdir(request.workdir)
        _settle(request)
        _reseed()
        status = _run(request)
    except BaseException:  # noqa: BLE001 - nothing above us but the zygote's loop; the log has the story
        traceback.print_exc()
    _exit(status)


def _detach(parent_pid: int) -> None:
    os.setpgid(0, 0)
    die_with_parent(parent_pid)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _redirect(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.close(nothing)
    # New ones: those of the zygote believe that they write to a file, which has positions.
    sys.stdout = sys.__stdout__ = _line_buffered(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _line_buffered(2)  # type: ignore[misc]


def _line_buffered(descriptor: int) -> TextIOWrapper:
    encoding = sys.stdout.encoding
    return open(descriptor, "w", buffering=1, encoding=encoding, errors="backslashreplace", closefd=False)


def _settle(request: Fork) -> None:
    """Go where the worker is to write."""
    tempfile.tempdir = None  # the zygote's, if it has asked for one
    if request.sockets:  # what processes of a loader would else make for themselves, and leave when killed
        current_process()._config["tempdir"] = request.sockets  # type: ignore[attr-defined]
    if request.mirror:
        try:
            os.chdir(mirrored(request.workdir, request.mirror))
            become_private(request.mirror)
        except OSError:
            traceback.print_exc()
            _exit(EXIT_STOPPED)  # the script has no part in it


def _reseed() -> None:
    """Siblings share the zygote's random state; fresh interpreters would not."""
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


def _run(request: Fork) -> int:
    module, _, function = request.call.partition(":")
    try:
        status = getattr(importlib.import_module(module), function)(request.entry, list(request.args))
    except SystemExit as stop:
        status = stop.code
    if isinstance(status, str):
        sys.stderr.write(f"{status}\n")
    return 0 if status is None else status if isinstance(status, int) else 1


def _exit(status: int) -> NoReturn:
    """Exit as the interpreter does, but without its teardown, which can crash while other threads run."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status & 0xFF)
