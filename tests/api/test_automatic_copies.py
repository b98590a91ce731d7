"""Copies that a platform makes by itself: whatever happens while one is made, an older one is sound."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.stage import on_stage
from tests.examples import fewer_if_quick
from tests.live.test_platform import until

from swell.assemble import unended_jobs
from swell.model.code import tree_path
from swell.platform_options import PlatformOptions
from swell.store.copies import (
    ABOUT_COPIES,
    NUM_KEPT,
    StateCopyThread,
    found_in,
    make_copy,
    restore_newest,
)
from swell.store.errors import StateError
from swell.store.folder import StateFolder

#: Makes copies until it is killed; says when each begins.
COPIER = """
import sys
from pathlib import Path
from swell.store.copies import make_copy
from swell.store.folder import StateFolder

folder, to = StateFolder(sys.argv[1]), Path(sys.argv[2])
while True:
    print("begins", flush=True)
    make_copy(folder, to)
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> StateFolder:
    """Of a platform that is down, with an open job that has a snapshot of its code."""
    path = tmp_path_factory.mktemp("site") / "state"
    script = path.parent / "train.py"
    script.write_text("")
    with on_stage(path) as stage:
        stage.run(script, name="one", workers=1)
        return stage.folder


@pytest.fixture
def folder(original: StateFolder, tmp_path: Path) -> StateFolder:
    shutil.copytree(original.path, tmp_path / "state", ignore=shutil.ignore_patterns("*.sock"))
    return StateFolder(tmp_path / "state")


def names(folder: StateFolder) -> list[str]:
    return [job.name for job in unended_jobs(folder.path)]


def lose(folder: StateFolder) -> StateFolder:
    """The folder is gone; another one takes its place."""
    shutil.rmtree(folder.path)
    folder.create()
    return folder


def test_the_latest_copies_are_kept_and_the_newest_goes_back_into_an_empty_folder(
    folder: StateFolder, tmp_path: Path
) -> None:
    to = tmp_path / "copies"
    made = [make_copy(folder, to) for _ in range(NUM_KEPT + 2)]
    assert found_in(to) == made[-NUM_KEPT:]
    copy, restored, damaged = restore_newest(lose(folder), to)
    assert (copy, restored.journal, damaged) == (made[-1], None, [])
    assert names(folder) == ["one"]


def test_the_code_of_jobs_comes_back_and_what_no_job_has_goes(folder: StateFolder, tmp_path: Path) -> None:
    to = tmp_path / "copies"
    digests = [f"{number:064x}" for number in range(2)]
    for digest in digests:
        for base in (tree_path(folder.path, digest), folder.path / "code" / "objects" / "ab" / digest):
            base.parent.mkdir(parents=True, exist_ok=True)
            base.write_text("{}")
    make_copy(folder, to)
    tree_path(folder.path, digests[0]).unlink()
    make_copy(folder, to)
    assert [tree_path(to, digest).exists() for digest in digests] == [False, True]
    restore_newest(lose(folder), to)
    assert [tree_path(folder.path, digest).exists() for digest in digests] == [False, True]
    assert (folder.path / "code" / "objects" / "ab" / digests[1]).read_text() == "{}"


def test_a_restored_platform_has_the_storage_of_the_former_one(folder: StateFolder, tmp_path: Path) -> None:
    to, storage = tmp_path / "copies", tmp_path / "storage"
    storage.mkdir()
    for part in (folder.jobs, folder.code):
        if part.exists():
            part.rename(storage / part.name)
    folder.write_options(PlatformOptions(storage=str(storage)))
    folder.use_storage(str(storage))
    (folder.jobs / "one" / "checkpoints").mkdir(parents=True)
    make_copy(folder, to)
    restore_newest(lose(folder), to)
    folder.use_storage(str(storage))
    assert (folder.jobs / "one" / "checkpoints").is_dir()


def test_a_damaged_copy_is_passed_over_for_an_older_one(folder: StateFolder, tmp_path: Path) -> None:
    to = tmp_path / "copies"
    first, second = make_copy(folder, to), make_copy(folder, to)
    second.write_bytes(second.read_bytes()[:5000])
    copy, _, damaged = restore_newest(folder, to)
    assert copy == first and len(damaged) == 1 and f"{second} is no sound copy" in damaged[0]
    with sqlite3.connect(first) as raw:
        raw.execute("PRAGMA user_version=1")
    raw.close()
    told = rf"has no sound copy.*{first} .*\(it was written by another version"
    with pytest.raises(StateError, match=told):
        restore_newest(folder, to)
    assert names(folder) == ["one"]


def test_two_platforms_have_no_folder_together(folder: StateFolder, tmp_path: Path) -> None:
    to, other = tmp_path / "copies", StateFolder(tmp_path / "other")
    make_copy(folder, to)
    shutil.copytree(folder.path, other.path)
    with pytest.raises(StateError, match=r"has the copies of platform .*:.*/state, and this is .*/other"):
        make_copy(other, to)
    restore_newest(other, to)
    make_copy(other, to)
    with pytest.raises(StateError, match=r"has the copies of platform .*/other"):
        make_copy(folder, to)


def test_a_folder_that_is_away_is_warned_of_until_a_copy_was_made(
    folder: StateFolder, tmp_path: Path
) -> None:
    away, to = tmp_path / "away", tmp_path / "away" / "copies"
    warnings: dict[str, str] = {}
    made = StateCopyThread(folder, to, 0.01, warnings)
    made.start()
    try:
        until(lambda: ABOUT_COPIES in warnings)
        assert "none was made yet" in warnings[ABOUT_COPIES] and str(to) in warnings[ABOUT_COPIES]
        away.mkdir()
        until(lambda: not warnings and bool(found_in(to)))
    finally:
        made.stop()


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(8), deadline=None)
@given(after=st.integers(1, 3), wait=st.floats(0.0, 0.05))
def test_a_kill_at_any_moment_of_a_copy_leaves_a_sound_older_one(
    original: StateFolder, tmp_path_factory: pytest.TempPathFactory, after: int, wait: float
) -> None:
    path = tmp_path_factory.mktemp("killed")
    shutil.copytree(original.path, path / "state", ignore=shutil.ignore_patterns("*.sock"))
    folder, to = StateFolder(path / "state"), path / "copies"
    make_copy(folder, to)
    words = [sys.executable, "-c", COPIER, str(folder.path), str(to)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as copier:
        assert copier.stdout is not None
        for _ in range(after):
            assert copier.stdout.readline() == "begins\n"
        try:
            copier.wait(wait)  # the moment within the copy is drawn
        except subprocess.TimeoutExpired:
            os.kill(copier.pid, signal.SIGKILL)
    copy, _, damaged = restore_newest(lose(folder), to)
    assert not damaged and copy == found_in(to)[-1]
    assert names(folder) == ["one"]
    assert found_in(to)[-1] != make_copy(folder, to), "the next one is made"
