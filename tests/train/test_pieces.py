"""Who only receives and drops tensors knows the pieces in which they come."""

from __future__ import annotations

from unittest.mock import patch

import torch
from hypothesis import given
from hypothesis import strategies as st

from swell.train.collective.pieces import Pieces, piece_sizes


@given(sizes=st.lists(st.integers(0, 40), max_size=8), small=st.integers(1, 30), limit=st.integers(1, 30))
def test_sizes_are_those_of_the_pieces(sizes: list[int], small: int, limit: int) -> None:
    device = torch.device("cpu")
    with patch.multiple(Pieces, SMALL_BYTES=small, PIECE_BYTES=limit):
        pieces = Pieces([torch.empty(size, dtype=torch.uint8) for size in sizes], device).pieces
        assert piece_sizes(sizes, device) == [piece.nbytes for piece in pieces]
