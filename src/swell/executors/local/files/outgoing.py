"""Files of this machine that another one asks for, part by part."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from swell.executors.hosts.file_messages import PART_BYTES, FilePart, NamedFile, NoFile, PartRequest
from swell.executors.local.files.background import Background
from swell.executors.local.files.places import place_of, shown


class OutgoingFiles:
    """Files of one state folder that one other machine may fetch."""

    def __init__(
        self, state_dir: Path, answer: Callable[[FilePart | NoFile], None], background: Background
    ) -> None:
        """`answer`: tells the other machine."""
        self._state_dir, self._answer, self._background = state_dir, answer, background
        self._held: dict[NamedFile, int] = {}  #: descriptors

    def hold(self, file: NamedFile) -> int:
        """Open a file, which can be read from now on though its name is removed, as an older checkpoint's is.

        Returns its size in bytes. Raises OSError, ValueError.
        """
        if file not in self._held:
            self._held[file] = os.open(place_of(self._state_dir, file), os.O_RDONLY | os.O_CLOEXEC)
        return os.fstat(self._held[file]).st_size

    def release(self, file: NamedFile) -> None:
        """No effect if it is not held."""
        descriptor = self._held.pop(file, None)
        if descriptor is not None:
            os.close(descriptor)

    def hear(self, request: PartRequest) -> None:
        """Answered once, when the part is read."""
        held = self._held.get(request.file)
        own = None if held is None else os.dup(held)  # it may be released meanwhile
        self._background(lambda: _read(self._state_dir, request, own), self._answer)

    def close(self) -> None:
        for file in list(self._held):
            self.release(file)


def _read(state_dir: Path, request: PartRequest, descriptor: int | None) -> FilePart | NoFile:
    file = request.file
    try:
        if descriptor is None:
            descriptor = os.open(place_of(state_dir, file), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        if request.offset < 0:
            raise ValueError(f"a part of {shown(file)} cannot begin at {request.offset}")
        content = os.pread(descriptor, PART_BYTES, request.offset)
        num_bytes = os.fstat(descriptor).st_size
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return NoFile(file=file, why=f"{shown(file)} cannot be read: {reason}")
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    return FilePart(file=file, offset=request.offset, content=content, num_bytes=num_bytes)
