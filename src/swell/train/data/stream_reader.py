"""Reads a stream from its beginning, and picks out what one worker wants of each step.

It runs in the loader's processes, each of which reads all of the stream: a step may be asked of any of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader

from swell.train.data.random_streams import Purpose, seed_streams, set_stream_states, stream_states
from swell.train.data.sample_schedule import Pass
from swell.train.data.samples import CoveringDataset, TicketResult
from swell.train.data.stateful import Stateful

_CPU = torch.device("cpu")
#: Steps that a trial run goes back. A stream that goes on from where it is cannot be read anew for that.
NUM_BACK = 3


class Reader(CoveringDataset):
    """Makes batches of a stream, whose samples have no numbers.

    The latest raw samples are kept, so that what was read ahead serves a gang of another size too.
    """

    def __init__(
        self, loader: DataLoader[Any], seed: int, current: torch.Tensor | None, origin: dict[str, Any] | None
    ) -> None:
        """`origin`: to begin there, if it fits the first pass."""
        super().__init__(loader, seed, current)
        self._origin = origin
        self._num_kept_steps = (loader.prefetch_factor or 0) * loader.num_workers + NUM_BACK + 1
        self._states: tuple[Any, ...] | None = None  # of the process's generators, as the stream left them
        self._epoch = -1
        self._samples: Iterator[Any] = iter(())
        self._is_over = False
        self._low = 0  # place in the epoch of the first sample kept
        self._kept: deque[Any] = deque()
        self._origins: dict[int, dict[str, Any]] = {}  # by place in the epoch

    def _serve(self, number: int, part: Pass) -> TicketResult:
        assert part.drawn_from is not None  # noqa: S101 - it is of a stream
        start, num_wanted = part.drawn_from - part.indices[0], part.num_global
        self._read_up_to(part.epoch, start, num_wanted)
        first = start - self._low
        num_found = max(0, min(num_wanted, len(self._kept) - first))
        if num_found < num_wanted:
            return TicketResult(number, num_found=num_found)
        samples = [self._kept[first + place] for place in part.indices]
        spares = (self._kept[place] for place in range(first, first + num_wanted))
        serving = self._serving(number, part, samples, spares)
        return serving._replace(origin=self._origins.get(start + num_wanted))

    def _read_up_to(self, epoch: int, start: int, num_wanted: int) -> None:
        """Have the samples of a step at hand."""
        end, is_elsewhere = start + num_wanted, epoch != self._epoch or start < self._low
        if not is_elsewhere and (self._is_over or self._low + len(self._kept) >= end):
            return  # they were read for another pass of the step
        with self._own_draws():
            if is_elsewhere:
                self._begin(epoch, start)
            while not self._is_over and self._low + len(self._kept) < end:
                self._pull(start, num_wanted)

    @contextmanager
    def _own_draws(self) -> Iterator[None]:
        """What the stream draws from the generators of the process is apart from what others draw."""
        others = stream_states()
        if self._states is not None:
            set_stream_states(self._states)
        try:
            yield
        finally:
            self._states = stream_states()
            set_stream_states(others)

    def _begin(self, epoch: int, start: int) -> None:
        self._epoch, self._is_over = epoch, False
        self._kept.clear()
        self._origins.clear()
        origin, self._origin = self._origin, None
        if origin is not None and origin["epoch"] == epoch and origin["start"] <= start:
            self._low = origin["start"]
            self._samples = resumed(self.dataset, origin["stream"])
            set_stream_states(origin["dice"])
            return
        self._low = 0
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
        seed_streams(_CPU, self._seed, Purpose.SAMPLE, epoch)
        self._samples = iter(self.dataset)

    def _pull(self, start: int, num_wanted: int) -> None:
        try:
            self._kept.append(next(self._samples))
        except StopIteration:
            self._is_over = True
            return
        oldest = start - self._num_kept_steps * num_wanted
        if self._low < oldest:
            self._kept.popleft()
            self._low += 1
        place = self._low + len(self._kept)
        if place > oldest and (place - start) % num_wanted == 0:
            self._note_origin(place)

    def _note_origin(self, place: int) -> None:
        state = state_of(self.dataset, self._samples)
        if state is None:
            return
        self._origins[place] = {
            "epoch": self._epoch,
            "start": place,
            "stream": state,
            "dice": stream_states(),
        }
        for old in [each for each in self._origins if each <= self._low]:
            del self._origins[old]


def state_of(dataset: Any, samples: Iterator[Any]) -> dict[str, Any] | None:
    """Return the state dict of the iterator, else of the dataset; None if neither is `Stateful`.

    torchdata's StatefulDataLoader asks them in the same order.
    """
    for source in (samples, dataset):
        if isinstance(source, Stateful):
            state: dict[str, Any] = source.state_dict()
            return state
    return None


def resumed(dataset: Any, state: dict[str, Any]) -> Iterator[Any]:
    """The rest of the stream from where `state_of` was asked."""
    samples: Iterator[Any] = iter(dataset)
    if isinstance(samples, Stateful):
        samples.load_state_dict(state)
    else:
        dataset.load_state_dict(state)
        samples = iter(dataset)
    return samples
