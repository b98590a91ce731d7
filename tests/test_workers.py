"""What `make test-quick` has, and what it leaves out."""

from __future__ import annotations

from pathlib import Path

from tests.workers import COMPUTING, LONG, is_quick

ROOT = Path(__file__).parents[1]


def test_files_that_take_long_are_not_quick_although_their_folders_are() -> None:
    assert all((ROOT / file).is_file() and file.startswith(COMPUTING) for file in LONG)
    assert not any(map(is_quick, LONG))
    assert is_quick("tests/core/test_table.py") and not is_quick("tests/platform/test_faults.py")


def test_folders_on_the_way_to_quick_files_are_quick() -> None:
    assert is_quick("tests") and is_quick("tests/sim") and is_quick("tests/sim/traces")
    assert not is_quick("tests/executors")
