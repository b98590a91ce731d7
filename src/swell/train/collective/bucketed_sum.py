"""Sums of gradients that begin within the backward pass, for workers that a slow network joins.

The gradients of a step lie one after the other in a flat buffer. It is cut into buckets of whole parameters,
from the last parameter to the first, as a backward pass comes to them. A bucket whose gradients are all there
is summed over the workers while the pass goes on.

References: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020,
    section 3.2.3 (buckets in the order of the backward pass, each summed once it is whole).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from swell.train.collective.group import Group, await_all
from swell.train.collective.hierarchical_sum import OneSum
from swell.train.collective.packing import FlatBuffer, write_scaled
from swell.train.collective.pieces import as_real

TWICE = (
    "a parameter got its gradient in two parts of one backward pass, as with a reentrant checkpoint; call "
    "torch.utils.checkpoint with use_reentrant=False"
)
#: Bytes of a bucket, unless a parameter alone is larger: a link is busy for longer than a message takes to
#: arrive. A small model has several, too.
LEAST_BUCKET_BYTES, MOST_BUCKET_BYTES, NUM_BUCKETS = 2**20, 2**22, 4


class BucketedSum:
    """The sum of one step over the workers, bucket by bucket. All workers cut and order them alike."""

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        flat: FlatBuffer,
        group: Group,
        factor: float,
        adds: bool,
        bucket_bytes: int | None = None,
    ) -> None:
        """The step's last backward pass on this worker begins.

        Args:
            flat: holds the sum of the passes before; its gradients are those of `parameters`, in order.
            factor: by which the gradients of this pass count. 0: they are not looked at.
            adds: there were passes before.
        """
        self._parameters, self._flat, self._group = parameters, flat, group
        self._factor, self._adds = factor, adds
        self._buckets = _cut(flat, bucket_bytes or _bucket_bytes(flat))
        self._bucket_of = {
            index: bucket for bucket, (indices, _) in enumerate(self._buckets) for index in indices
        }
        self._num_missing = [len(indices) for indices, _ in self._buckets]
        self._is_there = [False] * len(parameters)
        self._works: list[dist.Work | OneSum] = []
        self._error: RuntimeError | None = None
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._note(index))
            for index, parameter in enumerate(parameters)
            if factor and parameter.requires_grad
        ]

    def _note(self, index: int) -> None:
        """The gradient of a parameter is there, within the backward pass."""
        if self._is_there[index]:  # a backward pass within this one gave a part of it
            self._error = self._error or RuntimeError(TWICE)
            return
        self._write(index)
        bucket = self._bucket_of[index]
        self._num_missing[bucket] -= 1
        while len(self._works) < len(self._buckets) and not self._num_missing[len(self._works)]:
            if not self._begin():
                return

    def _write(self, index: int) -> None:
        self._is_there[index] = True
        gradient, target = self._parameters[index].grad, self._flat.gradients[index]
        source = None if gradient is None or not self._factor else as_real(gradient.data)
        if not self._adds:
            write_scaled([target], [source], self._factor)
        elif source is not None:
            target.add_(source, alpha=self._factor)

    def _begin(self) -> bool:
        """Begin to sum the next bucket. An error is raised at the end, not within the script's own call."""
        if self._error is None:
            try:
                self._works.append(self._group.begin_sum(self._buckets[len(self._works)][1]))
            except RuntimeError as error:
                self._error = error
        return self._error is None

    @property
    def has_begun(self) -> bool:
        """Whether a part of the sum is on its way to the other workers."""
        return bool(self._works)

    def abandon(self) -> None:
        """The pass ended by an error, or its gradients are not wanted."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def end(self) -> None:
        """Sum what is left, the words at the end of the buffer among it. Raises GroupBroken."""
        self.abandon()
        for index, is_there in enumerate(self._is_there):
            if not is_there:
                self._write(index)
        self._group.run(self._end)

    def _end(self) -> None:
        while self._error is None and len(self._works) < len(self._buckets):
            self._begin()
        if self._error is not None:
            raise self._error
        self._works.append(self._group.begin_sum(self._flat.numbers[len(self._flat.all_gradients) :]))
        await_all(self._works)


def _bucket_bytes(flat: FlatBuffer) -> int:
    wanted = flat.numbers.nbytes // NUM_BUCKETS
    return max(LEAST_BUCKET_BYTES, min(MOST_BUCKET_BYTES, wanted))


def _cut(flat: FlatBuffer, bucket_bytes: int) -> list[tuple[range, torch.Tensor]]:
    """Indices of the parameters of each bucket, and their numbers: the last parameters first."""
    buckets, end, stop = [], len(flat.gradients), len(flat.all_gradients)
    begin, start = end, stop
    while begin:
        begin, start = begin - 1, start - flat.gradients[begin - 1].numel()
        if not begin or (stop - start) * flat.numbers.itemsize >= bucket_bytes:
            buckets.append((range(begin, end), flat.numbers[start:stop]))
            end, stop = begin, start
    return buckets
