"""Count the samples that a `collate_fn` leaves out of a batch, such as those that could not be read.

A loss is a mean over the rows that are there, so a worker counts by its rows and not by its samples. A batch
is looked at where its sizes tell nothing else; only where one is not what it was so far, samples are collated
one by one to see which are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch

#: Parts of a batch that are looked at.
MAX_PARTS = 16
#: Samples that are tried where a batch has none, and how many are wanted: a batch norm needs two.
MAX_SPARES, NUM_SPARES = 64, 2


class CountingCollate:
    """A loader's own collate_fn, with the number of samples that it leaves out."""

    def __init__(self, collate: Callable[[list[Any]], Any], dataset: Any = None) -> None:
        """`dataset`: has samples by number to take in place of those that are all left out."""
        self._collate = collate
        self._dataset = dataset
        #: Parts of a batch that have a row for each sample, as far as is known. Empty: none has.
        self._parts: set[Any] | None = None

    def __call__(self, samples: list[Any], spares: Iterable[Any] | None = None) -> tuple[int, Any]:
        """How many samples the collate_fn has left out, and the batch: of other ones, if that were all.

        `spares`: to be collated where all samples are left out; None: the dataset's.
        """
        spares = self._spares() if spares is None else spares
        try:
            batch = self._collate(samples)
        except Exception:
            if any(map(self._is_kept, samples)) or (spare := self._spare(spares)) is None:
                raise
            return len(samples), spare
        num_dropped = self._num_dropped(samples, batch)
        if num_dropped == len(samples):
            spare = self._spare(spares)
            batch = batch if spare is None else spare
        return num_dropped, batch

    def _num_dropped(self, samples: Sequence[Any], batch: Any) -> int:
        sizes, num = sizes_of(batch), len(samples)
        whole = {part for part, size in sizes.items() if size == num}
        if whole and (self._parts is None or self._parts <= whole):
            self._parts = self._parts or whole
            return 0
        num_none = sum(sample is None for sample in samples)
        if self._parts == set() and not num_none:
            return 0
        num_kept = sum(map(self._is_kept, samples))
        rows = {part for part, size in sizes.items() if size == num_kept}
        if _is_empty(batch) and not num_kept:
            return num
        if 0 < num_kept < num and (rows or num_kept == num - num_none):
            self._parts = rows & (self._parts or rows)
            return num - num_kept
        self._parts = whole & (self._parts or whole)  # what is of another length has no row for each sample
        return 0

    def _is_kept(self, sample: Any) -> bool:
        """Tell whether a batch of this sample alone has anything in it."""
        try:
            return not _is_empty(self._collate([sample]))
        except Exception:  # noqa: BLE001 - of the script's own, to which one sample may be too few
            return False

    def _spare(self, spares: Iterable[Any]) -> Any:
        """Return a batch of other samples, which counts for nothing; None if there is none."""
        chosen = list(islice(filter(self._is_kept, islice(spares, MAX_SPARES)), NUM_SPARES))
        return self._collate(chosen) if chosen else None

    def _spares(self) -> Iterator[Any]:
        for number in range(len(self._dataset)):
            try:
                yield self._dataset[number]
            except (IndexError, KeyError, TypeError):  # its keys are no numbers
                return


def sizes_of(batch: Any) -> dict[Any, int]:
    """Lengths of a batch and of its parts, by their names or places; of the batch itself by ()."""
    sizes = {
        (): _length(batch),
        **{name: _length(part) for name, part in islice(_parts_of(batch), MAX_PARTS)},
    }
    return {name: size for name, size in sizes.items() if size >= 0}


def _parts_of(batch: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(batch, torch.Tensor):
        return ()
    if isinstance(batch, Mapping):
        return batch.items()
    return enumerate(batch) if isinstance(batch, list | tuple) else getattr(batch, "__dict__", {}).items()


def _length(part: Any) -> int:
    """Return the length of a part of a batch; -1 if it has none."""
    if isinstance(part, torch.Tensor):
        return len(part) if part.dim() else -1
    return len(part) if isinstance(part, list | tuple) else -1


def _is_empty(batch: Any) -> bool:
    if batch is None:
        return True
    sizes = sizes_of(batch)
    parts = [size for name, size in sizes.items() if name != ()] or [*sizes.values()]
    return bool(parts) and not any(parts)
