"""Where a forked process tries some steps of a script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swell.train.runtime.rehearsal_folder import make_folder, remove_folder
from swell.wire import environ

PRINT = "from swell.train.runtime.rehearsal_folder import make_folder; print(repr(make_folder()))"
MOUNT_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0/here" && exec "$@"'


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "data.txt").write_text("1")
    return folder


def test_the_folder_of_a_trial_run_is_copied(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mirror)
    monkeypatch.setenv(environ.TRIAL, "1")
    place = Path(make_folder())
    assert place.parent == mirror.parent and (place / "data.txt").read_text() == "1"
    remove_folder(str(place))
    assert not place.exists() and mirror.exists()


@pytest.mark.slow
def test_a_read_only_folder_as_in_a_container_is_not_copied(mirror: Path) -> None:
    """It takes some seconds: a program of its own imports torch in a mount namespace."""
    words = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        MOUNT_READ_ONLY,
        str(mirror.parent),
    ]
    variables = os.environ | {environ.TRIAL: "1"}
    program = [*words, sys.executable, "-c", PRINT]
    done = subprocess.run(program, env=variables, capture_output=True, text=True, check=False)
    if any(name in done.stderr for name in ("unshare:", "mount:")):
        pytest.skip(f"folders cannot be mounted here: {done.stderr.strip()}")
    assert (done.returncode, done.stdout.strip()) == (0, "''"), done.stderr
