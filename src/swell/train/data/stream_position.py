"""Where a gang is in its stream, kept in a small file: who joins it can read up to there before it comes.

It is a hint. What counts is the place that travels with the state.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from swell.train.data.place import Place
from swell.wire.whole_files import write_whole

NAME = "stream.json"


class _Note(msgspec.Struct, frozen=True):
    pid: int  #: of the worker that wrote this
    now: Place
    saved: Place | None  #: in the newest checkpoint


class StreamPosition:
    """The file with the stream position of the gang whose checkpoints are in this folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        note = self._read()
        self._saved = None if note is None else note.saved

    def note(self, place: Place, is_saved: bool = False) -> None:
        """Write the position to the file; the leader calls this from time to time.

        Errors such as a full disk are ignored: the position is a hint, and must not end training.

        Args:
            is_saved: the newest checkpoint is of this position.
        """
        now = Place(place.epoch, place.start, place.step)  # that a stream tells more of it is no hint
        if is_saved:
            self._saved = now
        with contextlib.suppress(OSError):
            write_whole(self._path, msgspec.json.encode(_Note(os.getpid(), now, self._saved)))

    def read(self) -> Place | None:
        """Where a worker that begins now will probably be needed; None if that is the beginning.

        If the leader that wrote the file is gone, the gang goes on from its checkpoint.
        """
        if (note := self._read()) is None:
            return None
        place = note.now if Path(f"/proc/{note.pid}").exists() else note.saved
        return place if place is not None and place.start else None

    def _read(self) -> _Note | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Note)
        except (OSError, msgspec.DecodeError):
            return None
