"""Bytes come in pieces, cut anywhere; lines go out whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.wire.lines import LineBuffer, LineTooLong

#: Few different bytes, so that lines are short, empty or just too long.
STREAM = st.lists(st.sampled_from([b"a", b"\r", b"\0", b"\xff", b"\n"]), max_size=40).map(b"".join)


@st.composite
def cut_streams(draw: st.DrawFn) -> list[bytes]:
    stream = draw(STREAM)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    ends = zip([0, *cuts], [*cuts, len(stream)], strict=True)
    return [stream[begin:end] for begin, end in ends]  # some are empty


@pytest.mark.parametrize("limit", [None, 4])
@given(cut_streams())
def test_however_the_bytes_are_cut_the_lines_are_the_same(limit: int | None, pieces: list[bytes]) -> None:
    parts = b"".join(pieces).split(b"\n")
    first_long = next((place for place, part in enumerate(parts) if limit and len(part) > limit), None)
    buffer, lines, is_refused = LineBuffer(limit), list[bytes](), False
    for piece in pieces:
        buffer.feed(piece)
        try:
            for line in buffer.lines():
                lines.append(line)
        except LineTooLong:
            is_refused = True
    assert is_refused == (first_long is not None)
    assert lines == (parts[:-1] if first_long is None else parts[:first_long])
