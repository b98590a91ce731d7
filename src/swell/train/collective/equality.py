"""Whether a number is the same on all workers, as a sum over them tells: exact in float32.

A number of 64 bits is cut into pieces of 6. Each worker gives each piece h and its square. For n workers
`n * sum(h * h) == sum(h) ** 2` holds if and only if all h are equal (Cauchy-Schwarz). The sums are whole
numbers up to 2**24, which float32 adds without rounding in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

PIECE_BITS = 6
NUM_PIECES = -(-64 // PIECE_BITS)
#: Numbers that a worker adds to the sum.
NUM_WORDS = 2 * NUM_PIECES
#: With more workers the sums would be rounded.
MAX_WORKERS = 2**24 // (2**PIECE_BITS - 1) ** 2


def to_words(number: torch.Tensor) -> torch.Tensor:
    """What a worker adds to the sum for its number, int64 of shape (): float64, shape (NUM_WORDS,)."""
    shifts = PIECE_BITS * torch.arange(NUM_PIECES, device=number.device)
    pieces = ((number >> shifts) & (2**PIECE_BITS - 1)).double()
    return torch.cat([pieces, pieces * pieces])


def is_same(sums: Sequence[float], num_workers: int) -> bool:
    """Whether all workers had the same number, by the sums over them."""
    for piece, square in zip(sums[:NUM_PIECES], sums[NUM_PIECES:], strict=True):
        if num_workers * square != piece * piece:
            return False
    return True
