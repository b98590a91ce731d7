"""A few steps of a script in a forked process, which tells its parent what came of them."""

from __future__ import annotations

import ctypes
import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

import torch

from swell.tally import Reduction
from swell.train.collective.gradients import StepTotals, StepVote
from swell.train.collective.group import Group
from swell.train.collective.pieces import bytes_of
from swell.train.collective.real_numbers import as_real
from swell.train.data.sample_schedule import Share
from swell.train.data.stream_schedule import AnyCourse, StreamSchedule
from swell.train.link.code_paths import place_of, snapshotted, submitted
from swell.train.runtime.host import Task
from swell.train.runtime.loop_exits import (
    BestSoFar,
    LoopExit,
    bests_so_far,
    counts_of_next,
    growing_counters,
    loop_exits,
)
from swell.train.runtime.not_finite import LossNotFinite, not_finite
from swell.train.runtime.trial_run import Profiling
from swell.train.runtime.written_files import written
from swell.train.state import codec
from swell.train.state.script_variables import line_of_store
from swell.wire import messages

#: Steps of a whole run, and after how many of them its state is saved: within the first epoch, and half way.
NUM_STEPS = 6
EARLY, HALF_WAY = 1, 3


@dataclass(frozen=True)
class Local:
    """A local of the script that has changed."""

    value: Any
    place: str  #: FILE:LINE where it is set


@dataclass(frozen=True)
class SavedPoint:
    """Where a run may go on in another process."""

    num_steps: int  #: that were made
    state: bytes
    locals: dict[str, Local]  #: by names as `fit().counter`


@dataclass
class RehearsalResult:
    """What a forked process tells."""

    saved: dict[int, SavedPoint] = field(default_factory=dict)  #: by steps
    model: bytes = b""  #: parameters and buffers after `NUM_STEPS`; empty: the script did not get so far
    place: str = ""  #: FILE:LINE of the loop
    line: str = ""  #: what stands there
    counters: set[str] = field(default_factory=set)  #: locals that only grow
    counts: LoopExit | None = None  #: of the loop, if it takes its batches with `next`
    exits: list[LoopExit] = field(default_factory=list)  #: of the loop
    bests: list[BestSoFar] = field(default_factory=list)  #: that are compared in the loop
    is_early: bool = False  #: the script came to its end before `NUM_STEPS`, and did not leave `run.epochs()`
    written: dict[str, str] = field(default_factory=dict)  #: files, with FILE:LINE where they were opened
    error: str = ""  #: the script's own


class Rehearsal:
    """The surroundings of a run in such a process."""

    edition = -1
    is_amid_epoch = False  #: its epochs are short

    def __init__(
        self, trial: Profiling, task: Task, handle: int, num_done: int, values: Mapping[str, Any], rank: int
    ) -> None:
        """
        Args:
            rank: what the script is told; it computes the same as rank 0.
            handle: of the file to write the story to.
            num_done: steps of the saved state that it goes on from; 0 for a whole run.
            values: of locals, to be set before the first batch.
        """
        self.device, self.seed, self.max_local_batch = trial.device, trial.seed, trial.max_local_batch
        self.rank, self.num_workers = rank, rank + 1
        self.members = Group(self.device)  # of one, never formed
        self._terms = trial.terms
        self._task = task
        self._handle = handle
        self._num_done = num_done
        self._values = dict(values)
        self._story = RehearsalResult()

    # ------------------------------------------------------------------ a host, as far as a run asks it
    def global_batch(self, own: int) -> int:
        return own

    def adapt(self, course: AnyCourse) -> AnyCourse:
        return course

    def total_steps(self, own: int | None) -> int:
        return self._task.total_steps

    def end_epoch(self, own: int | None) -> int | None:
        return self._task.end_epoch

    @property
    def measures_noise(self) -> bool:
        return False

    def stops_on_nan(self, own: bool) -> bool:
        return False

    def enter(self, task: Task) -> None:
        """The run has entered already."""

    def reach_boundary(self) -> None:
        state = self._task.state
        frames = state.variables.frames()
        for name in list(self._values):
            function, _, key = name.partition("().")
            for frame in frames:
                if frame.f_code.co_name == function and key in frame.f_locals:
                    set_local(frame, key, self._values.pop(name))
                    break
        if not self._num_done and state.updates in (EARLY, HALF_WAY):
            self._save(frames)
        if state.updates >= NUM_STEPS:
            self._story.model = pickle.dumps(numbers_in(state.model.state_dict()))
            self._tell()

    def _save(self, frames: list[FrameType]) -> None:
        state, story = self._task.state, self._story
        left = locals_of(frames, state.variables.changed_locals())
        encoded = pickle.dumps(codec.decode(*state.encode()))
        story.saved[state.updates] = SavedPoint(state.updates, encoded, left)
        story.counts = next(filter(None, map(counts_of_next, frames)), None)
        story.counters, story.exits = growing_counters(frames), loop_exits(frames)
        if state.updates == EARLY:
            story.bests = bests_so_far(frames)  # at the end of an epoch a number may become a tensor
        if frames:
            story.place = place_of(frames[0])
            story.line = line_at(story.place)

    def leave_batches(self, is_over: bool) -> None:
        """What follows is part of it."""

    def share(self, step: int) -> Share:
        course = self._task.course
        if isinstance(course, StreamSchedule):
            return course.trial_share(step, self._terms.size, self._terms.num_shards, self.max_local_batch)
        return course.share(step, 0, 1, self.max_local_batch)

    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals:
        return self._task.gradients.reduce(share, loss, StepVote(), self.members)

    def finish_step(self, tally: StepTotals) -> None:
        """The next boundary looks at it."""

    def give_up(self, loss: torch.Tensor) -> LossNotFinite:
        return not_finite(float(loss), self._task.state, None, None)

    def keep(self, is_end: bool) -> None:
        """There is nothing worth it."""

    def report(self, metrics: dict[str, float], step: int | None, reduction: Reduction) -> bool:
        return False

    def finish(self, is_early: bool) -> None:
        self._story.is_early = is_early
        self._tell()

    # ------------------------------------------------------------------ the story
    def hear(self, message: messages.Message) -> None:
        """Take what would be told to the agent."""
        if isinstance(message, messages.Failed | messages.OutOfMemory):
            self._story.error = message.message
            self._tell()

    def _tell(self) -> NoReturn:
        self._story.written = written()
        with os.fdopen(self._handle, "wb") as file:
            file.write(pickle.dumps(self._story))
        os._exit(0)


def set_local(frame: FrameType, name: str, value: Any) -> None:
    """Give a local of a function that waits another value."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def locals_of(frames: list[FrameType], changed: Mapping[str, Any]) -> dict[str, Local]:
    """Those of some locals, by names as `fit().counter`, that stand in one of these functions."""
    found = {}
    for name, value in changed.items():
        function, _, key = name.partition("().")
        frame = next((frame for frame in frames if frame.f_code.co_name == function), None)
        if frame is not None and key in frame.f_locals:
            file = submitted(frame.f_code.co_filename)
            line = line_of_store(frame.f_code, key) or frame.f_code.co_firstlineno
            found[name] = Local(value, f"{file}:{line}")
    return found


def line_at(place: str) -> str:
    """What stands at FILE:LINE of the script; empty if that cannot be read."""
    file, _, number = place.rpartition(":")
    try:
        with open(snapshotted(file)) as text:
            return text.read().splitlines()[int(number) - 1].strip()
    except (OSError, IndexError, ValueError):
        return ""


def numbers_in(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[torch.dtype, bytes]]:
    """What stands in these tensors, apart from where: pickles of tensors have addresses in them."""
    return {
        name: (value.dtype, bytes_of(as_real(value.detach()).cpu()).numpy().tobytes())
        for name, value in tensors.items()
        if _is_number(value)
    }


def _is_number(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and value.numel() > 0
