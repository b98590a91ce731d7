"""Sums that begin while the backward pass is still under way, where the script's loop allows it.

A bucket is begun as soon as its gradients are there. That is too soon if the script changes one of them
later in the step: by another backward pass, by clipping, by hand. So what they were is kept, and compared
with what they are in the end, bit by bit: nothing else notices a change through `.data` or NumPy. Before
anything is begun early, some steps are watched in the same way. A script that fails is not trusted again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import partial

import torch

from swell.train.collective.buckets import Bucket
from swell.train.collective.exchange import Members
from swell.train.collective.packing import FlatBuffer, Packing
from swell.train.collective.real_numbers import bits_of

log = logging.getLogger("swell.train")

#: Steps that are watched before sums begin early.
NUM_WATCHED = 2


class EarlySums:
    """The buckets of a step that are *taken* in its backward pass: each in its turn, once it is complete."""

    def __init__(self, packing: Packing, buckets: Sequence[Bucket]) -> None:
        self._packing = packing
        self._buckets = buckets
        places = {place: number for number, bucket in enumerate(buckets) for place in bucket.parameters}
        self._bucket_of = [places[place] for place in range(len(packing.parameters))]
        self._usual: set[int] = set(places)  # places of parameters that get a gradient
        self._num_passed = 0  # steps in which nothing was changed
        self._is_trusted = True
        self._kept: list[torch.Tensor] = []  # of each parameter, room for its gradient
        self._taking = threading.Lock()  # a script may go backward in several threads
        self._handles = [
            parameter.register_post_accumulate_grad_hook(partial(self._note, place))
            for place, parameter in enumerate(packing.parameters)
            if parameter.requires_grad  # one that was frozen meanwhile has no gradient
        ]
        self.forget()

    @property
    def num_begun(self) -> int:
        """Buckets of this step, the first ones, whose sums are under way."""
        return self._num_taken if self._begins else 0

    def arm(self, flat: FlatBuffer, factor: float, members: Members) -> None:
        """A step begins that has one pass here.

        Args:
            flat: where what is begun is summed.
            factor: of this pass, unless the script gives it a weight.
        """
        if not self._is_trusted:
            return
        if not self._kept:
            self._kept = [torch.empty_like(parameter) for parameter in self._packing.parameters]
        self._flat, self._factor, self._members = flat, factor, members
        self._missing = [len(self._usual.intersection(bucket.parameters)) for bucket in self._buckets]
        self._is_armed, self._begins = True, self._num_passed >= NUM_WATCHED

    def settle(self, factor: float) -> bool:
        """The step's gradients are what they will be: whether something else was begun. The step is over.

        `factor`: of this pass, now that the script may have given it a weight.
        """
        if not self._is_armed:
            return False
        begins, has_changed = self._begins, any(map(self._has_changed, self._taken()))
        if factor != self._factor:
            has_changed = True
            self.distrust("the script gives weights to its passes after their backward pass")
        elif has_changed:
            self.distrust("the script changes gradients that a backward pass has left")
        else:
            self._usual = self._usual | self._had if self._num_passed else self._had
            self._num_passed += 1
        self.forget()
        return begins and has_changed

    def distrust(self, why: str) -> None:
        """Begin nothing early any more."""
        log.info("gradients are summed after the backward pass from here on: %s", why)
        self._is_trusted, self._kept = False, []
        self.forget()
        self.close()

    def close(self) -> None:
        """Leave the model alone."""
        for handle in self._handles:
            handle.remove()

    def forget(self) -> None:
        """No step is under way."""
        self._is_armed = self._begins = False
        self._num_taken = 0
        self._had: set[int] = set()  # places of parameters that have got a gradient
        self._without: set[int] = set()  # of those that had none when their bucket was taken

    def _note(self, place: int, parameter: torch.Tensor) -> None:
        """A backward pass has left a gradient."""
        if not self._is_armed or place in self._had or not _is_dense(parameter.grad):
            return
        with self._taking:
            self._had.add(place)
            if place in self._usual:
                self._missing[self._bucket_of[place]] -= 1
            while self._num_taken < len(self._buckets) and not self._missing[self._num_taken]:
                self._take(self._buckets[self._num_taken])

    @torch.no_grad()
    def _take(self, bucket: Bucket) -> None:
        for place in bucket.parameters:
            gradient = self._packing.parameters[place].grad
            if gradient is None:
                self._without.add(place)
            else:
                self._kept[place].copy_(gradient)
        if self._begins:
            self._packing.write_gradients(self._flat, bucket.parameters, self._factor)
            self._members.begin_sum(self._flat.numbers[bucket.numbers])
        self._num_taken += 1

    def _taken(self) -> list[int]:
        return [place for bucket in self._buckets[: self._num_taken] for place in bucket.parameters]

    def _has_changed(self, place: int) -> bool:
        kept, gradient = self._kept[place], self._packing.parameters[place].grad
        if gradient is None or place in self._without:
            return (gradient is None) != (place in self._without)
        if kept.dtype != gradient.dtype:
            return True
        return not torch.equal(bits_of(kept), bits_of(gradient.detach()))  # for a NaN differs from itself


def _is_dense(gradient: torch.Tensor | None) -> bool:
    """Another one is refused after the backward pass."""
    return gradient is not None and gradient.layout == torch.strided
