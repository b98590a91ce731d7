"""What a forked worker does: run the user's script, and tell the agent how it ended."""

from __future__ import annotations

import atexit
import importlib
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

from swell.train import foreign
from swell.train.elastic import started
from swell.train.link import Link, LinkError, exit_now, open_link
from swell.wire import environ, messages

#: The last part of a traceback, where the error itself stands.
MAX_MESSAGE_CHARS = 4000


class NotElasticError(RuntimeError):
    """The script ended without having called `swell.train.elastic`."""


def run_entry(entry: str, args: Sequence[str]) -> NoReturn:
    """Run a script (a path) or a function (`package.module:function`), then end this process.

    Under an agent the line to it is opened first, so that a script that dies while it is imported can
    be told of; without one, as in a job whose elasticity is `restart`, the script just runs, and its steps
    are counted. One that ends well is given the time that its own threads need.
    Exit status: 0; 1 if the script raised; 143 if it was told to stop; its own if it called `sys.exit`.
    """
    signal.signal(signal.SIGTERM, _leave)
    link = _open_link()
    if environ.OBSERVER in os.environ:
        foreign.watch()
    status = 0
    try:
        _run(entry, args)
        if link is not None:
            _close(link, entry)
    except SystemExit as stop:
        _ignore_stops()
        status = _status_of(stop)
        if link is not None and status not in (0, environ.EXIT_STOPPED):
            text = f"{entry} ended with exit status {status}"
            link.send(messages.Failed(message=text, steps=link.pulse.steps))
    except BaseException as error:  # noqa: BLE001 - it is the user's, it is told, and the process ends
        _ignore_stops()
        text = _traceback_of(error)
        sys.stderr.write(text)
        if link is not None:
            link.send(messages.Failed(message=text[-MAX_MESSAGE_CHARS:], steps=link.pulse.steps))
        status = 1
    if status == 0:
        status = _await_threads()
    atexit._run_exitfuncs()
    exit_now(status)


def _await_threads() -> int:
    """Let the script's threads and thread pools finish, as the interpreter does; 143 if told not to wait."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except SystemExit as stop:
        _ignore_stops()
        return _status_of(stop)
    return 0


def _open_link() -> Link | None:
    if environ.AGENT not in os.environ:
        return None
    try:
        return open_link()
    except LinkError as error:
        sys.stderr.write(f"{error}\n")
        exit_now(1)


def _run(entry: str, args: Sequence[str]) -> None:
    sys.argv = [entry, *args]
    module, separator, function = entry.partition(":")
    if separator and not os.path.exists(entry):
        sys.path.insert(0, os.getcwd())
        getattr(importlib.import_module(module), function)()
    else:
        sys.path.insert(0, str(Path(entry).resolve().parent))
        runpy.run_path(entry, run_name="__main__")


def _close(link: Link, entry: str) -> None:
    """The script ended by itself."""
    for run in started:
        run.finish()
    if not link.has_said(messages.Ready):
        raise NotElasticError(
            f"{entry} ended without calling swell.train.elastic, so there is nothing to resize; call it as "
            "docs/how-to/make-a-script-elastic.md shows, or submit the script with `elasticity: restart`"
        )


def _ignore_stops() -> None:
    """The process ends anyway, and says why first: where one worker fails, the others are told to stop."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _leave(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(environ.EXIT_STOPPED)


def _status_of(stop: SystemExit) -> int:
    """As Python itself has it: no code is 0, a text is printed and 1."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    sys.stderr.write(f"{stop.code}\n")
    return 1


def _traceback_of(error: BaseException) -> str:
    """The traceback from the user's first line on, without ours above it."""
    return "".join(traceback.format_exception(type(error), error, _user_part(error.__traceback__)))


def _user_part(frames: TracebackType | None) -> TracebackType | None:
    ours = (__file__, runpy.__file__, "<frozen runpy>", importlib.__file__, "<frozen importlib._bootstrap>")
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    return frames
