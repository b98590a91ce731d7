"""Checkpoints that are written while training goes on.

Training stands still while the state is copied, and not while the copy is written, hashed and made durable.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from swell.train.state.checkpoint import Checkpoints, content_of
from swell.train.state.codec import EncodeError
from swell.train.state.staging import Stage, StageError, forms_of
from swell.train.state.train_state import TrainState

#: A save that takes longer is told: its storage is slow, or hangs.
SLOW_S = 60.0


class BackgroundSave:
    """Saves a job while it trains, one save at a time.

    Args:
        tell_slow: called once for a save whose storage seems to hang, with the steps of its state and a text.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        tell_slow: Callable[[int, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpoints = checkpoints
        self._tell_slow = tell_slow
        self._clock = clock
        self._stage = Stage()
        self._thread = ThreadPoolExecutor(1, "swell-save")  # begins with the first work
        self._work: _Work | None = None
        self._lacks_room: StageError | None = None  # for the copy that is due
        self._has_warned = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing was begun whose end has not been taken."""
        return self._work is None

    def begin(self, state: TrainState) -> Path | None:
        """Copy the state, and write the copy in the background: `take` and `wait` tell how that ended.

        Where memory for the copy has to be made first, that alone is begun, and the save stays due. Where the
        host has none, the state is written now, which is warned of once.

        Returns:
            The checkpoint, if it was written now.

        Raises:
            SaveError: an object cannot be saved, or it could not be written now.
        """
        begun_s = self._clock()
        if self._lacks_room is not None:
            return self._save_now(state, self._lacks_room)
        try:
            content = content_of(state)
        except EncodeError as error:
            self._checkpoints.rest(self._clock() - begun_s)
            raise self._checkpoints.save_error(state.steps, error) from error
        tensors = [*content.tensors, *content.trained]
        if not self._stage.has_room(forms := forms_of(tensors)):
            making = self._thread.submit(self._stage.make_room, forms)
            self._work = _Work(state.steps, self._clock(), making)
            return None
        copies = self._stage.copy(tensors)
        split = len(content.tensors)
        copied = replace(content, tensors=copies[:split], trained=copies[split:])

        def write() -> Path:
            self._stage.await_copies()
            return self._checkpoints.write(copied)

        now_s = self._clock()
        self._work = _Work(state.steps, now_s, self._thread.submit(write), pause_s=now_s - begun_s)
        return None

    def take(self) -> Path | None:
        """The checkpoint that was written since `begin`; None if there is none, or none yet.

        Raises:
            SaveError: it could not be written.
        """
        work = self._work
        if work is None:
            return None
        if not work.ends.done():
            if not work.is_told and self._clock() - work.begun_s > SLOW_S:
                work.is_told = True
                self._tell_slow(
                    work.steps,
                    f"the checkpoint of step {work.steps} has been written to {self._checkpoints.folder} for "
                    f"{SLOW_S:g} s and is not complete: the storage is slow or hangs; training goes on",
                )
            return None
        self._work = None
        if work.pause_s is not None:
            self._checkpoints.rest(work.pause_s)
        try:
            return work.ends.result()
        except StageError as error:
            self._lacks_room = error
            return None

    def wait(self) -> Path | None:
        """Wait for what was begun, and return what `take` does then. Raises SaveError as `take` does."""
        if self._work is not None:
            self._work.ends.exception()  # which waits, and raises nothing
        return self.take()

    def _save_now(self, state: TrainState, reason: StageError) -> Path:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(f"training stands still for each checkpoint, for {reason}", stacklevel=3)
        self._lacks_room = None  # there may be room next time
        return self._checkpoints.save(state)


@dataclass(slots=True)
class _Work:
    """What a thread does while training goes on."""

    steps: int
    begun_s: float
    ends: Future[Path] | Future[None]
    pause_s: float | None = None  #: that training stood still for it; None: it is no save
    is_told: bool = False
