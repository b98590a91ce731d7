"""The shares of a gang's workers, which follow the time that a sample takes each of them."""

from __future__ import annotations

from collections import deque
from statistics import median

import torch

from swell.train.data.sample_schedule import SampleSchedule, Share, cut
from swell.train.data.unequal_shares import NOTHING_TOLD, SpeedNote, balanced

#: Steps after which all workers tell the median time of the last few, and fewer where the group changes.
WINDOW_STEPS, TIMED_STEPS, LEAST_TIMED = 32, 16, 8
#: The part of a GPU's memory up to which a larger share is expected to fit.
MEMORY_SHARE = 0.85


class ShareBalance:
    """Decides on the shares of coming steps, alike on all workers, by what these tell each other.

    After `WINDOW_STEPS` steps the workers tell one after the other, one in each step, the median time of a
    sample, and how many samples they have room for. These numbers are part of the sum that each step makes.
    When the last worker has told its own, all of them compute the same shares; then a window begins again.
    In a group that has just formed the numbers are those that its members have brought.

    Shares stay equal with `deterministic=True`, whose shards are never cut, and where a worker is several
    processes, which wait for each other within a pass. A script that waits for other workers within a pass,
    as with SyncBatchNorm, has the same time on all of them, so shares stay equal, too.
    """

    def __init__(self, course: SampleSchedule, device: torch.device, is_possible: bool) -> None:
        self._course, self._device = course, device
        self._is_possible = is_possible and course.num_shards is None
        self._rank, self._num_workers, self._is_on = 0, 1, False
        self._max_local_batch: int | None = None
        self._num_local = 0  # samples of this worker in the latest step
        self._timed: deque[float] = deque(maxlen=TIMED_STEPS)  # seconds per sample, with the present shares
        self._sample_s = 0.0  # the latest median; 0: not known
        self._age = 0  # steps of the window that are done
        self.told: list[SpeedNote] = []  #: by rank, in this window, or with which members have come
        self._untold: list[float] = []  # seconds per sample by rank in the latest window, for the agent

    @property
    def own(self) -> SpeedNote:
        """What this worker has measured until now."""
        if len(self._timed) >= LEAST_TIMED:
            self._sample_s = median(self._timed)
        return SpeedNote(self._sample_s, self._room())

    def begin_group(self, rank: int, max_local_batch: int | None) -> None:
        """Set the shares of a group that has formed, by what its members have told.

        Args:
            max_local_batch: samples of a pass of this worker at most.
        """
        self._rank, self._num_workers, self._max_local_batch = rank, len(self.told), max_local_batch
        self._is_on = self._is_possible and self._num_workers > 1
        self._course.shares, self._untold = (), []
        self._timed.clear()
        self._balance()

    @property
    def is_timed(self) -> bool:
        """Whether the time of the step under way counts."""
        return self._is_on and self._age >= WINDOW_STEPS - TIMED_STEPS

    def begin_sum(self, share: Share) -> SpeedNote:
        """The gradients of this worker's share are there. Return what it adds to the sum of the step."""
        self._num_local = share.num_local
        is_turn = self._is_on and self._age - WINDOW_STEPS == self._rank
        return self.own if is_turn else NOTHING_TOLD

    def finish_step(self, compute_s: float, told: SpeedNote) -> bool:
        """A step is done. Return whether the shares of the next ones are others.

        Args:
            compute_s: seconds of this worker in it, without those in which it waited for others.
            told: the sum over all workers of what they told in it.
        """
        if not self._is_on:
            return False
        if self.is_timed and self._num_local:
            self._timed.append(compute_s / self._num_local)
        self._age += 1
        if self._age > WINDOW_STEPS:
            self.told.append(told)
        if len(self.told) < self._num_workers:
            return False
        self._untold = [note.sample_s for note in self.told]
        return self._balance()

    def take_sample_s(self) -> list[float]:
        """Return each worker's seconds per sample in the window that ended since the last call, by rank."""
        taken, self._untold = self._untold, []
        return taken

    def _balance(self) -> bool:
        """Set the shares by what all have told, and begin a window. Return whether they are others now."""
        course, notes, self.told, self._age = self._course, self.told, [], 0
        equal = tuple(len(cut(course.batch, len(notes), rank)) for rank in range(len(notes)))
        present, most = course.shares or equal, [max(*equal, note.most) for note in notes]
        shares = balanced(present, [note.sample_s for note in notes], course.least_share, most)
        if not self._is_on or shares == present:
            return False
        course.shares = shares
        self._timed.clear()
        return True

    def _room(self) -> int:
        """Return how many samples this worker may have; 0: no more than with equal shares.

        It makes no more passes than it would with these, each of samples that are known to fit.
        """
        course, most = self._course, self._max_local_batch
        if most is not None:
            return most * (course.num_passes or -(-course.batch // (self._num_workers * most)))
        if self._device.type != "cuda":
            return course.batch
        free, _ = torch.cuda.mem_get_info(self._device)
        room = free + torch.cuda.memory_reserved(self._device)
        peak = max(1, torch.cuda.max_memory_allocated(self._device))
        return min(course.batch, int(self._num_local * MEMORY_SHARE * room / peak))
