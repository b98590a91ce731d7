"""A few steps of a script in a forked process, which tells its parent what came of them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import torch

from swell.train.collective.pieces import bytes_of
from swell.train.collective.real_numbers import as_real
from swell.train.data.sample_schedule import Share
from swell.train.link.code_paths import place_of
from swell.train.runtime.host import Host, Task
from swell.train.runtime.loop_exits import LoopExit, counts_of_next
from swell.train.runtime.trial_run import Profiling
from swell.train.state import codec
from swell.wire import messages

#: Steps of a whole run, and after how many of them its state is saved.
NUM_STEPS, HALF_WAY = 6, 3


@dataclass
class RehearsalResult:
    """What a forked process tells."""

    saved: bytes = b""  #: the state after `HALF_WAY` steps
    model: bytes = b""  #: parameters and buffers after `NUM_STEPS`; empty: the script did not get so far
    place: str = ""  #: FILE:LINE of the loop
    counts: LoopExit | None = None  #: of the loop, if it takes its batches with `next`
    error: str = ""  #: the script's own


class Rehearsal(Host):
    """The surroundings of a run in such a process: a worker by itself, which tells a story at its end."""

    edition = -1
    is_amid_epoch = False  # its epochs are short

    def __init__(self, trial: Profiling, task: Task, handle: int, is_whole: bool) -> None:
        """
        Args:
            handle: of the file to write the story to.
            is_whole: it does not go on from a saved state.
        """
        super().__init__(trial.welcome, trial.max_local_batch)
        self._terms = trial.terms
        self._task = task  # the run has entered already
        self._handle = handle
        self._is_whole = is_whole
        self._story = RehearsalResult()

    def reach_boundary(self) -> None:
        state = self._task.state
        if not self._story.place and (frames := state.variables.frames()):
            self._story.place = place_of(frames[0])
        if self._is_whole and state.updates == HALF_WAY:
            self._save()
        if state.updates >= NUM_STEPS:
            self._story.model = pickle.dumps(numbers_in(state.model.state_dict()))
            self._tell()

    def _save(self) -> None:
        state, story = self._task.state, self._story
        story.saved = pickle.dumps(codec.decode(*state.encode()))
        story.counts = next(filter(None, map(counts_of_next, state.variables.frames())), None)

    def share(self, step: int) -> Share:
        course, terms = self._task.course, self._terms
        if course.is_stream:
            places = range(terms.size)
            return course.trial_share(step, places, terms.size, terms.num_shards, self.max_local_batch)
        return super().share(step)

    def finish(self, is_early: bool) -> None:
        self._tell()

    def hear(self, message: messages.Message) -> None:
        """Take what would be told to the agent."""
        if isinstance(message, messages.Failed | messages.OutOfMemory):
            self._story.error = message.message
            self._tell()

    def _tell(self) -> NoReturn:
        with os.fdopen(self._handle, "wb") as file:
            file.write(pickle.dumps(self._story))
        os._exit(0)


def numbers_in(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[torch.dtype, bytes]]:
    """What stands in these tensors, apart from where: pickles of tensors have addresses in them."""
    return {
        name: (value.dtype, bytes_of(as_real(value.detach()).cpu()).numpy().tobytes())
        for name, value in tensors.items()
        if _is_number(value)
    }


def _is_number(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and value.numel() > 0
