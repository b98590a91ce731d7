"""A job on devices with too little memory for its batch, from its trial run to its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, SCRIPTS, Program, eventually

NARROW = SCRIPTS.parent.parent / "executors" / "narrow.py"


@pytest.mark.slow
def test_a_job_goes_on_with_what_fits_however_little_that_becomes(swell: Program, tmp_path: Path) -> None:
    (tmp_path / "room").write_text("20")
    job = swell.submit(tmp_path, "--epochs", ENDLESS, "--workers", 2, script=NARROW)
    num_tried = len(lines(tmp_path))
    eventually(lambda: len(lines(tmp_path)) > num_tried + 40, "ten steps of two workers")
    assert samples_of(tmp_path) == {16}, "the trial run knows what fits, and the head tells the gang"
    assert not warnings(swell, job)
    set_room(tmp_path, 10)
    eventually(lambda: samples_of(tmp_path) == {16, 8}, "passes of 8 samples")
    swell.finish(job, tmp_path)
    assert samples_of(tmp_path) == {16, 8}
    (told,) = warnings(swell, job)
    assert "ran out of memory with 16 samples at once" in told
    assert "at most 8 go through the model together" in told


def lines(folder: Path) -> list[str]:
    path = folder / "passes"
    return path.read_text().splitlines(keepends=True) if path.exists() else []


def samples_of(folder: Path) -> set[int]:
    return {int(line.split()[1]) for line in lines(folder) if line.endswith("\n")}


def set_room(folder: Path, room: int) -> None:
    """Readers see the old number or the new."""
    draft = folder / "draft"
    draft.write_text(str(room))
    draft.replace(folder / "room")


def warnings(swell: Program, job: str) -> list[str]:
    return [story["text"] for story in swell.json("explain", job) if story["code"] == "warned"]
