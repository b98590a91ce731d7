"""A place in the course of a run: how far its samples have been trained on.

What the next step takes follows from the place and from the batch of now, so the batch may be another one at
each step: the next step begins where the one before ended.

That of a gang in a stream is kept in a small file: who joins it can read up to there before it comes. It is a
hint. What counts is the place that travels with the state.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from swell.wire.whole_files import write_whole

#: `total_steps` of a run that ends with an epoch, after as many steps as that turns out to have.
UNBOUNDED = 2**62
NAME = "stream.json"


@dataclass(slots=True)
class Place:
    """Where the next step begins. It travels with the state."""

    epoch: int = 0
    start: int = 0  #: samples of the epoch that were trained on
    step: int = 0  #: that begins here: the updates so far
    order: int | None = None  #: `Share.order` of the step before, in the same epoch
    origin: dict[str, Any] | None = None  #: a stream's own account of a place up to here, if it gives one
    steps_before: int = 0  #: of the own batch, in the epochs before
    samples_before: int = 0  #: in the epochs before

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.order = self.origin = None
        for name, value in state.items():
            setattr(self, name, value)


def num_steps_in(rest: int, batch: int) -> int:
    """Steps that so many samples of an epoch make."""
    return -(-rest // batch)


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
