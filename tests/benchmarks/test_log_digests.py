"""Digests of whole logs: what differs is found, and where."""

from __future__ import annotations

import msgspec
from benchmarks.log_digests import BLOCK, LogDigest, cases_of, compared, told

BEFORE = LogDigest(
    case="195",
    jobs=195,
    turns=900,
    num_commands=3 * BLOCK,
    digest="d",
    answers="a",
    deadlines=0.9,
    refused=9,
    late=0,
    cpu_s=4.0,
    blocks=("1", "2", "3"),
)


def test_the_first_block_that_differs_is_told() -> None:
    parted = msgspec.structs.replace(BEFORE, digest="e", blocks=("1", "x", "y"), cpu_s=1.0)
    assert compared(BEFORE, parted) == f"parts between commands {BLOCK + 1} and {2 * BLOCK}"
    assert (
        compared(BEFORE, msgspec.structs.replace(BEFORE, answers="b")) == "the same commands, other answers"
    )
    faster = msgspec.structs.replace(BEFORE, cpu_s=1.0)
    assert told(faster, BEFORE).endswith("1.0 s; before 4.0 s, the same decisions")


def test_rows_are_named_one_by_one_or_by_how_they_begin() -> None:
    assert [case.name for case in cases_of("195,cluster")] == [
        "195",
        *(f"cluster{number:02d}" for number in (1, 2, 4, 5, 7, 8, 10)),
    ]
    assert [case.name for case in cases_of("1000,philly-fifo")] == ["1000", "philly-fifo"]
