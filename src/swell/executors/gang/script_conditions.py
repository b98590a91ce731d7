"""How the script of a trial run runs next: with which batches, in how much memory, compared or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swell.executors.gang.timeouts import half
from swell.model.job import JobSpec
from swell.wire.findings import ScriptFinding, not_compared

#: Local batches over the range of an open batch: each twice the one before, or more if these are too many.
MOST_OF_RANGE = 8


@dataclass(slots=True)
class ScriptConditions:
    """They change where a run of the script has failed for want of memory, or could not be compared.

    The worker keeps as much of a divided state as one of `least_workers`. If that is too much, the next one
    keeps as much as one of twice as many, so that a trial run needs no more than one device. With mirrors,
    one of two workers has everything: from one it goes to one of four.
    """

    spec: JobSpec
    sizes: Sequence[int]  #: worker counts that the job may have
    compares: bool  #: one worker with two, which takes more memory than all that follows
    least_workers: int
    is_raised: bool = False  #: fewer than `least_workers` have too little memory
    num_holders: int = 0  #: workers that have each part; 0: the state is not divided, as far as is known
    max_local_batch: int | None = None  #: samples that fit on a device at once, as far as is known
    why_not_compared: ScriptFinding | None = None
    resumes: bool = True  #: it is tried whether the script can go on from a checkpoint

    @property
    def sizes_in_memory(self) -> tuple[int, ...]:
        """The job's sizes, less those that have too little memory."""
        return tuple(size for size in self.sizes if size >= self.least_workers)

    @property
    def tried_sizes(self) -> tuple[int, ...]:
        """The sizes whose parts of a batch are measured: one, where only that is known to go well."""
        finding, sizes = self.why_not_compared, self.sizes_in_memory
        is_held = finding and finding.holds and finding.name not in self.spec.accept_differences
        return (min(sizes),) if is_held else sizes

    @property
    def batches(self) -> tuple[int, ...]:
        """The local batches that are measured."""
        return local_batches(self.spec, self.tried_sizes, self.max_local_batch)

    def halve(self, num_samples: int) -> bool:
        """So many samples did not fit. Returns whether fewer are left to be tried."""
        bound = half(num_samples, self.max_local_batch)
        is_new, self.max_local_batch = bound != self.max_local_batch, bound
        return is_new

    def do_not_compare(self, why: ScriptFinding) -> None:
        """Leave out the check that the script did not stand.

        That is the comparison or, where none is made any more, whether the script can go on.
        """
        self.resumes = self.resumes and self.compares
        is_first = self.why_not_compared is None or not self.why_not_compared.holds
        self.compares, self.why_not_compared = False, why if is_first else self.why_not_compared

    def take_less(self) -> bool:
        """The process ran out of memory, wherever it was. Returns whether less is left to be tried."""
        if not self.compares:
            return self.divide_more()
        self.do_not_compare(not_compared("there was too little memory for both"))
        return True

    def divide_more(self) -> bool:
        """The script ran out of memory. Returns whether more workers can divide its state."""
        num = min(2 * max(self.least_workers, self.num_holders), max(self.sizes))
        if not self.num_holders or num <= max(self.least_workers, self.num_holders):
            return False  # of so few each has everything
        self.least_workers, self.is_raised = num, True
        self.max_local_batch = None  # there is more room for samples now
        return True

    def describe_lack(self, failure: str) -> str:
        """Why the job fails that needs more memory with any number of workers that was tried."""
        if not self.is_raised:
            return failure
        return (
            f"one of {self.least_workers} workers, the most that the job can have here, has too little "
            "memory for its part of the state: let the job have more workers or add nodes, make the model "
            f"smaller, compute in half precision, or use larger devices; {failure}"
        )


def local_batches(spec: JobSpec, sizes: Sequence[int], max_local_batch: int | None) -> tuple[int, ...]:
    """Samples of one worker, in the order in which they are to be measured.

    A batch that stays is measured as each size divides it, the largest part first: memory runs out early
    if it does. An open batch is measured from the smallest part up, for the largest may take very long.

    Args:
        max_local_batch: samples that fit on a device at once; None: no limit is known.
    """
    if spec.batch_per_worker is not None:
        return (spec.batch_per_worker,)
    own = {-(-spec.global_batch // size) for size in sizes}
    if spec.max_batch is None:
        return tuple(sorted(own, reverse=True))
    return tuple(sorted(own | _over_range(spec.least_batch, spec.max_batch, sizes, max_local_batch)))


def _over_range(least: int, most: int, sizes: Sequence[int], max_local_batch: int | None) -> set[int]:
    """Return local batches, evenly by ratio, from `least` on most workers to `most` on fewest.

    `max_local_batch` bounds the largest, but never below the smallest.
    """
    low, high = -(-least // max(sizes)), -(-most // min(sizes))
    if max_local_batch is not None:
        high = max(low, min(high, max_local_batch))
    num = min(MOST_OF_RANGE, (high // low).bit_length())
    ratio = (high / low) ** (1.0 / max(num - 1, 1))
    return {low, high} | {round(low * ratio**index) for index in range(num)}
