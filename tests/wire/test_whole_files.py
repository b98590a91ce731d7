"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from swell.wire.whole_files import write_whole


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_file_is_replaced_with_its_mode_and_no_draft_is_left(tmp_path: Path, is_synced: bool) -> None:
    path = tmp_path / "note"
    path.write_bytes(b"a longer text than the next")
    write_whole(path, b"new", mode=0o400, is_synced=is_synced)
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o400
    assert os.listdir(tmp_path) == ["note"]


def test_what_cannot_be_written_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "note"
    path.write_bytes(b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new", is_synced=True)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["note"]
