"""Rows of a SQLite file that SQLite itself refuses to read: page by page, without schema or tree.

The format: https://www.sqlite.org/fileformat2.html. A page that says it is a leaf of a table is read for its
cells; what a damaged page held is lost, and so is what continues on one. Free pages may hold rows that were
deleted: who reads these rows must know which count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

Value = int | float | str | bytes | None
#: Row number and columns.
Row = tuple[int, tuple[Value, ...]]

DEFAULT_PAGE = 4096
LEAF = 0x0D
FILE_HEADER, LOG_HEADER, FRAME_HEADER = 100, 32, 24
#: No row of ours is longer: a damaged length must not cost all memory.
MOST_BYTES = 1 << 30


def rows_in(database: bytes, log: bytes = b"") -> Iterator[Row]:
    """Every row that can be read: those of the file, then those that its write-ahead log has instead."""
    size = _page_size(database, log)
    pages = {
        number + 1: database[start : start + size]
        for number, start in enumerate(range(0, len(database), size))
    }
    yield from _rows(pages, pages, size)
    newer = _logged(log, size)
    yield from _rows(newer, pages | newer, size)


def _page_size(database: bytes, log: bytes) -> int:
    found = [int.from_bytes(database[16:18], "big"), int.from_bytes(log[8:12], "big")]
    return next((size for size in found if 512 <= size <= 32768 and size & (size - 1) == 0), DEFAULT_PAGE)


def _logged(log: bytes, size: int) -> dict[int, bytes]:
    """The pages of the log as of its last commit."""
    committed: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    for start in range(LOG_HEADER, len(log) - FRAME_HEADER - size + 1, FRAME_HEADER + size):
        number, num_pages = struct.unpack_from(">II", log, start)
        if log[start + 8 : start + 16] != log[16:24]:  # a rest of before the log began again
            break
        pending[number] = log[start + FRAME_HEADER : start + FRAME_HEADER + size]
        if num_pages:
            committed |= pending
            pending = {}
    return committed


def _rows(leaves: Mapping[int, bytes], pages: Mapping[int, bytes], size: int) -> Iterator[Row]:
    for number, page in leaves.items():
        begin = FILE_HEADER if number == 1 else 0
        if len(page) < size or page[begin] != LEAF:
            continue
        num_cells = int.from_bytes(page[begin + 3 : begin + 5], "big")
        for cell in range(min(num_cells, size // 4)):
            place = int.from_bytes(page[begin + 8 + 2 * cell : begin + 10 + 2 * cell], "big")
            try:
                yield _row(page, place, pages, size)
            except (ValueError, IndexError, KeyError, struct.error):
                continue  # this one is damaged


def _row(page: bytes, place: int, pages: Mapping[int, bytes], size: int) -> Row:
    length, place = _varint(page, place)
    number, place = _varint(page, place)
    return number, _record(_payload(page, place, length, pages, size))


def _payload(page: bytes, place: int, length: int, pages: Mapping[int, bytes], size: int) -> bytes:
    if length > MOST_BYTES:
        raise ValueError(length)
    most, least = size - 35, (size - 12) * 32 // 255 - 23
    if length <= most:
        return page[place : place + length]
    local = least + (length - least) % (size - 4)
    local = local if local <= most else least
    parts, left = [page[place : place + local]], length - local
    following = int.from_bytes(page[place + local : place + local + 4], "big")
    while left > 0:
        more = pages[following]
        following = int.from_bytes(more[:4], "big")
        parts.append(more[4 : 4 + min(left, size - 4)])
        left -= size - 4
    return b"".join(parts)


def _record(payload: bytes) -> tuple[Value, ...]:
    header, place = _varint(payload, 0)
    kinds = []
    while place < header:
        kind, place = _varint(payload, place)
        kinds.append(kind)
    values = []
    for kind in kinds:
        value, place = _value(payload, place, kind)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, place: int, kind: int) -> tuple[Value, int]:
    if kind in (0, 8, 9):
        return (None if kind == 0 else kind - 8), place
    if kind == 7:
        return struct.unpack_from(">d", payload, place)[0], place + 8
    if kind < 7:
        end = place + (1, 2, 3, 4, 6, 8)[kind - 1]
        return int.from_bytes(payload[place:end], "big", signed=True), end
    end = place + (kind - 12) // 2
    if kind < 12 or end > len(payload):
        raise ValueError(kind)
    return (payload[place:end].decode() if kind % 2 else payload[place:end]), end


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Up to nine bytes, seven bits each, the last one eight."""
    value = 0
    for _ in range(8):
        byte = data[place]
        place += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place
    value = value << 8 | data[place]
    return (value - (1 << 64) if value >= 1 << 63 else value), place + 1
