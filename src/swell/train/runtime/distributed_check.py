"""Whether a script that knows nothing of Swell works with others, or would be so many identical copies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from swell.wire import environ
from swell.wire.library_paths import LAUNCHER_AWARE, is_library, is_standard

#: A script that reads one of these knows which of several workers it is.
PLACE = frozenset({environ.RANK, environ.LOCAL_RANK, environ.WORLD_SIZE})

IDENTICAL = """\
{num} workers run this script, and it formed no process group before its first step: they are identical \
copies that write the same files. Call torch.distributed.init_process_group before the training loop, or \
submit it for one worker with `workers: 1` (`--workers 1`).
"""


class DistributedCheck:
    """Watches what a script does until it has shown that; made before the script runs.

    Args:
        tell: is told True once the script has shown that it works with others, and False if it has not by
            its first step; and whether it is a library alone that has shown it.
    """

    def __init__(self, num_workers: int, tell: Callable[[bool, bool], None]) -> None:
        self._num_workers = num_workers
        self._tell = tell
        self._told: bool | None = None
        self._knows_its_place = False
        self._is_formed = False
        for module in (dist, distributed_c10d):
            module.init_process_group = self._noticing(module.init_process_group)  # type: ignore[attr-defined]
        _watch_environ(self._read)

    def stepped(self) -> None:
        """An optimizer has made a step. Raises SystemExit if the workers are identical copies."""
        if self._told:
            return
        is_by_library = _is_driven_by_library()
        if dist.is_initialized() or is_by_library:
            self._note(True, is_by_library)
        elif self._told is None:
            self._check()
            self._note(False)

    def ended(self) -> None:
        """The script ran to its end. Raises SystemExit as `stepped`.

        A script that was started again is spared: it may have found that all was done.
        """
        if self._told is None and os.environ.get(environ.WORKER) == os.environ.get(environ.RANK):
            self._check()

    def _check(self) -> None:
        knows_others = self._knows_its_place or self._is_formed or dist.is_initialized()
        if self._num_workers > 1 and not knows_others:
            raise SystemExit(IDENTICAL.format(num=self._num_workers))

    def _noticing(self, form: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(form)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            formed = form(*args, **kwargs)
            self._is_formed = True
            if not _is_driven_by_library():
                self._note(True)
            return formed

        return init_process_group

    def _read(self, name: str, reader: FrameType) -> None:
        if name in PLACE and not self._knows_its_place and _is_of_script(reader):
            self._knows_its_place = True
        if name == environ.WORLD_SIZE and not self._told and _is_of_script(reader):
            self._note(True)

    def _note(self, is_so: bool, is_by_library: bool = False) -> None:
        if self._told is not is_so and not (self._told and not is_so):
            self._told = is_so
            self._tell(is_so, is_by_library)


def _watch_environ(read: Callable[[str, FrameType], None]) -> None:
    """`read` is told of each look at a variable of `PLACE`, and by whom; not of copies of all variables."""
    plain = type(os.environ)
    listed: list[str] = []  # by the latest iteration, and not yet read in its order

    class WatchedEnviron(plain):  # type: ignore[valid-type, misc]
        def __iter__(self) -> Iterator[str]:
            listed.clear()
            for name in super().__iter__():
                listed.append(name)
                yield name

        def __getitem__(self, name: str) -> str:
            if listed and listed[0] == name:
                del listed[0]
            elif name in PLACE:
                read(name, sys._getframe(1))
            value: str = super().__getitem__(name)
            return value

    os.environ.__class__ = WatchedEnviron


def _is_of_script(frame: FrameType | None) -> bool:
    """Whether the innermost lines outside of the standard library are the user's own."""
    while frame is not None and is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and not is_library(frame.f_code.co_filename)


def _is_driven_by_library() -> bool:
    return any(name.partition(".")[0] in LAUNCHER_AWARE for name in _calling_modules())


def _calling_modules() -> Iterator[str]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
