"""Where a flat buffer is cut into buckets, which are summed one after the other.

The cuts depend on the model alone. So every worker cuts alike, and each number is added in the same order
whenever its bucket is begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: A bucket is full with this. A smaller one costs a message more, a larger one is on its way for longer
#: after the backward pass is over.
BUCKET_BYTES = 4_000_000


class Bucket(NamedTuple):
    """Neighbours in a flat buffer."""

    parameters: range  #: by their places among the model's
    numbers: slice  #: of the buffer


def cut_buckets(sizes: Sequence[int], full: int) -> list[Bucket]:
    """Cut the buffer into buckets from the last parameter to the first, the usual order of a backward pass.

    Args:
        sizes: numbers of each parameter, as they follow one another in the buffer.
        full: numbers from which on a bucket takes no further parameter.
    """
    buckets: list[Bucket] = []
    end, stop = sum(sizes), len(sizes)
    begin = end
    for place in reversed(range(len(sizes))):
        begin -= sizes[place]
        if end - begin >= full or place == 0:
            if begin == end and buckets:  # nothing is left but parameters without numbers
                last = buckets.pop()
                stop, end = last.parameters.stop, last.numbers.stop
            buckets.append(Bucket(range(place, stop), slice(begin, end)))
            end, stop = begin, place
    return buckets
