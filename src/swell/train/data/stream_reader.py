"""Reads a stream from its beginning, and picks out what one worker wants of each step.

It runs in the loader's processes, each of which reads all of the stream: a step may be asked of any of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils import worker as loader_worker

from swell.train.data.dropped_samples import CountedBatch, CountingCollate
from swell.train.data.random_streams import Purpose, seed_streams, set_stream_states, stream_states
from swell.train.data.sample_schedule import SampleClaim
from swell.train.data.samples import CoveringDataset
from swell.train.data.stateful import Stateful

_CPU = torch.device("cpu")


class Ticket(NamedTuple):
    """A claim, and which round of claims it belongs to: a new round makes those before it void."""

    round: int
    claim: SampleClaim | None  #: None: there is nothing to do


class Serving(NamedTuple):
    """What a claim got."""

    round: int
    num_found: int  #: samples that there were, up to those wanted; 0: the epoch was over before it
    batches: list[CountedBatch]  #: by pass
    origin: dict[str, Any] | None  #: the stream's own account of the place after the step


class Reader(CoveringDataset):
    """What a DataLoader asks for the batches of a `Ticket`.

    The latest raw samples are kept, so that what was read ahead serves a gang of another size too.
    """

    def __init__(
        self,
        dataset: Any,
        collate: Callable[[list[Any]], Any],
        seed: int,
        num_kept_steps: int,
        current: torch.Tensor,
    ) -> None:
        """`current`: () int64, in memory that all processes share: the round of claims that counts."""
        super().__init__(dataset)
        self.origin: dict[str, Any] | None = None  #: to begin there, if it fits the claim
        self._collate, self._counting = collate, CountingCollate(collate)
        self._seed = seed
        self._num_kept_steps = num_kept_steps
        self._current = current
        self._dice = StreamRandomState()
        self._epoch = -1
        self._samples: Iterator[Any] = iter(())
        self._is_over = False
        self._low = 0  # place in the epoch of the first sample kept
        self._kept: deque[Any] = deque()
        self._origins: dict[int, dict[str, Any]] = {}  # by place in the epoch

    def __getitem__(self, ticket: Ticket) -> Serving:
        claim = ticket.claim
        if claim is None or ticket.round < int(self._current):
            return Serving(ticket.round, 0, [], None)
        with self._dice.thrown(), alone():
            self._read_up_to(claim)
        first = claim.start - self._low
        samples = [
            self._kept[place] for place in range(first, min(first + claim.num_wanted, len(self._kept)))
        ]
        num_taken = claim.num_taken(len(samples))
        if not num_taken:
            return Serving(ticket.round, len(samples), [], None)
        batches = []
        for part in claim.share(num_taken).passes:
            own = [samples[place] for place in part.indices]
            if self._collate is default_collate:
                batches.append(CountedBatch(0, default_collate(own)))
                continue
            seed_streams(_CPU, self._seed, Purpose.COLLATE, part.step, part.first)
            batches.append(self._counting(own, samples))
        return Serving(ticket.round, len(samples), batches, self._origins.get(claim.start + num_taken))

    def _read_up_to(self, claim: SampleClaim) -> None:
        """Have the samples of a claim at hand."""
        if claim.epoch != self._epoch or claim.start < self._low:
            self._begin(claim)
        end = claim.start + claim.num_wanted
        while not self._is_over and self._low + len(self._kept) < end:
            self._pull(claim)

    def _begin(self, claim: SampleClaim) -> None:
        self._epoch, self._is_over = claim.epoch, False
        self._kept.clear()
        self._origins.clear()
        origin, self.origin = self.origin, None
        if origin is not None and origin["epoch"] == claim.epoch and origin["start"] <= claim.start:
            self._low = origin["start"]
            self._samples = resumed(self.dataset, origin["stream"])
            self._dice.restore(origin["dice"])
            return
        self._low = 0
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(claim.epoch)
        seed_streams(_CPU, self._seed, Purpose.SAMPLE, claim.epoch)
        self._samples = iter(self.dataset)

    def _pull(self, claim: SampleClaim) -> None:
        try:
            self._kept.append(next(self._samples))
        except StopIteration:
            self._is_over = True
            return
        oldest = claim.start - self._num_kept_steps * claim.num_wanted
        if self._low < oldest:
            self._kept.popleft()
            self._low += 1
        place = self._low + len(self._kept)
        if place > oldest and (place - claim.start) % claim.num_wanted == 0:
            self._note_origin(place)

    def _note_origin(self, place: int) -> None:
        state = state_of(self.dataset, self._samples)
        if state is None:
            return
        self._origins[place] = {
            "epoch": self._epoch,
            "start": place,
            "stream": state,
            "dice": self._dice.now(),
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


@contextmanager
def alone() -> Iterator[None]:
    """A dataset that cuts itself up among the loader's processes is not to: each of them reads it all."""
    info, loader_worker._worker_info = loader_worker._worker_info, None
    try:
        yield
    finally:
        loader_worker._worker_info = info


class StreamRandomState:
    """Random numbers that the stream draws from the generators of the process, apart from those of others."""

    def __init__(self) -> None:
        self._states: tuple[Any, ...] | None = None

    @contextmanager
    def thrown(self) -> Iterator[None]:
        """The generators are the stream's."""
        others = stream_states()
        if self._states is not None:
            set_stream_states(self._states)
        try:
            yield
        finally:
            self._states = stream_states()
            set_stream_states(others)

    def now(self) -> dict[str, Any]:
        """Within `thrown`: plain values and tensors."""
        of_torch, of_python, (name, keys, *rest) = stream_states()
        return {"torch": of_torch, "python": of_python, "numpy": (name, keys.tolist(), *rest)}

    def restore(self, state: dict[str, Any]) -> None:
        """Within `thrown`."""
        name, keys, *rest = state["numpy"]
        set_stream_states((state["torch"], state["python"], (name, np.array(keys, dtype=np.uint32), *rest)))
