"""Note which files a script opens to write to in a trial run, and at which line it does.

A process that only tries some steps writes nothing to files that it finds open. They are the trial run's.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import tempfile
from functools import wraps
from typing import Any

import torch

from swell.train.link.code_paths import place_of
from swell.train.runtime.script_end import flush
from swell.wire.private_files import caches

#: Absolute paths, with FILE:LINE of the script where each was opened last.
_opened: dict[str, str] = {}
_found_open: dict[str, str] = {}  # before this process was forked
_here: list[str] = []  # where the script began, and where this process did
_files: list[Any] = []  # that the script had open then
_sinks: dict[int, str] = {}  # what is written to these instead, by their handles


def watch() -> None:
    """Begin to note what a trial run's script opens; called once, before that runs."""
    _here[:] = [os.getcwd()]
    sys.addaudithook(_note_opened)
    torch.save = _noted(torch.save)


def begin_forked(files: list[Any]) -> None:
    """Forget what was noted, in a process that tries some steps: what it writes from now on counts.

    Args:
        files: that the script has open. To look for them here would copy the memory of the trial run.
    """
    _files[:], _here[1:] = files, [os.getcwd()]
    for name in os.listdir("/proc/self/fd"):
        handle = int(name)
        try:
            is_written = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
            if is_written and stat.S_ISREG(os.fstat(handle).st_mode):
                path = os.readlink(f"/proc/self/fd/{name}")
                sink, _ = tempfile.mkstemp()
                os.dup2(sink, handle)
                os.close(sink)
                _sinks[handle] = path
        except OSError:
            continue  # the handle of the listing itself
    _found_open.update(_opened)
    _opened.clear()


def written() -> dict[str, str]:
    """Return the files that this process has opened to write to since then, or has written to.

    Caches are left out. Paths are as seen from where the process began.
    """
    flush(_files)
    grown = [path for handle, path in _sinks.items() if os.fstat(handle).st_size]
    found = {path: _found_open.get(path, "") for path in grown} | _opened
    left_out = (*(f"{path}/" for path in caches()), f"{tempfile.gettempdir()}/torchinductor", "/proc/")
    return {
        path.removeprefix(f"{_here[0]}/").removeprefix(f"{_here[1]}/"): place
        for path, place in found.items()
        if not path.startswith(left_out) and os.path.dirname(path) not in ("/dev", "/dev/shm")  # noqa: S108
    }


def _note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE != os.O_RDONLY:
        _note(arguments[0])


def _note(path: Any) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
        return
    if place := place_of(sys._getframe(2)):
        _opened[os.path.abspath(os.fsdecode(path))] = place


def _noted(save: Any) -> Any:
    """Have `torch.save` note its path, which torch opens without a word from Python."""

    @wraps(save)
    def noted(thing: Any, f: Any, *more: Any, **named: Any) -> Any:
        _note(f)
        return save(thing, f, *more, **named)

    return noted
