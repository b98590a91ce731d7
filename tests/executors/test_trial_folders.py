"""What a script on trial makes outside of its mirror, and whether its run can make it again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.executors.test_mirror import fork_of

from swell.executors.local.agent.scratch import Scratch
from swell.executors.local.zygote.trial_folders import record_of, remove_noted

#: A worker on trial: notes in its first argument what the second makes of the third.
TRIAL = """
import os, sys
from pathlib import Path
from swell.executors.local.zygote.trial_folders import note_new_folders
record, script, folder = sys.argv[1:]
if record:
    note_new_folders(Path(record))
def ensure():
    os.mkdir(folder)
exec(compile(script, "train.py", "exec"))
"""
NEW = [
    "os.makedirs(folder)",
    "os.makedirs(folder, exist_ok=False)",
    "os.mkdir(folder)",
    "Path(folder).mkdir()",
    "Path(folder).mkdir(parents=True)",
    "os.chdir(os.path.dirname(folder)); os.mkdir(os.path.basename(folder))",
    "os.mkdir(os.fsencode(folder))",
    "os.fork() or (os.mkdir(folder), os._exit(0)); os.wait()",
]
OPTIONAL = [
    "os.makedirs(folder, exist_ok=True)",
    "Path(folder).mkdir(exist_ok=True)",
    "os.path.exists(folder) or os.makedirs(folder)",
    "os.path.isdir(folder) or os.mkdir(folder)",
    "Path(folder).exists() or Path(folder).mkdir()",
    "try: os.makedirs(folder)\nexcept FileExistsError: pass",
    "try: ensure()\nexcept FileExistsError: pass",
    "import contextlib\nwith contextlib.suppress(FileExistsError): Path(folder).mkdir()",
]


def run_on(record: Path | str, script: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", TRIAL, str(record), script, str(folder)], check=True)


@pytest.mark.parametrize("script", NEW)
def test_a_folder_that_must_be_new_is_new_again_in_the_run(script: str, tmp_path: Path) -> None:
    record, folder = tmp_path / "record", tmp_path / "out"
    run_on(record, f"{script}; Path(folder, 'log').write_text('of the trial')", folder)
    assert (folder / "log").exists()
    remove_noted(record)
    run_on("", script, folder)
    assert list(folder.iterdir()) == [] and not record.exists()


@pytest.mark.parametrize("script", OPTIONAL)
def test_a_folder_that_other_jobs_may_share_stays(script: str, tmp_path: Path) -> None:
    record, folder = tmp_path / "record", tmp_path / "shared"
    run_on(record, script, folder)
    remove_noted(record)
    assert folder.is_dir()
    run_on("", script, folder)


def test_a_folder_of_a_library_stays(tmp_path: Path) -> None:
    """It may hold what is downloaded for all jobs."""
    script = "exec(compile('os.mkdir(folder)', '/lib/site-packages/hub.py', 'exec'))"
    run_on(tmp_path / "record", script, tmp_path / "cache")
    remove_noted(tmp_path / "record")
    assert (tmp_path / "cache").is_dir()


def test_folders_above_stay_and_so_does_what_was_there(tmp_path: Path) -> None:
    record, folder = tmp_path / "record", tmp_path / "there"
    folder.mkdir()
    (folder / "data").touch()
    run_on(record, "os.makedirs(folder + '/runs/own')", folder)
    remove_noted(record)
    assert sorted(path.name for path in folder.rglob("*")) == ["data", "runs"]


def test_one_that_is_another_by_then_stays(tmp_path: Path) -> None:
    record, folder = tmp_path / "record", tmp_path / "out"
    run_on(record, "os.mkdir(folder)", folder)
    folder.rename(tmp_path / "moved")
    folder.mkdir()
    remove_noted(record)
    assert folder.is_dir() and (tmp_path / "moved").is_dir()


def test_they_go_before_the_end_of_the_worker_is_told(tmp_path: Path) -> None:
    """The folders of the worker itself go in the background, some time."""
    scratch = Scratch(tmp_path / "state", "boot", lambda work: None)
    scratch.begin()
    trial = scratch.equip(fork_of(tmp_path), is_trial=True)
    run_on(record_of(trial.mirror), "os.mkdir(folder)", tmp_path / "out")
    scratch.drop(trial.key)
    assert not (tmp_path / "out").exists() and Path(trial.mirror).exists()


def test_those_of_a_trial_run_that_was_killed_with_its_agent_go_with_the_next(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "state", "boot", lambda work: None)
    scratch.begin()
    trial = scratch.equip(fork_of(tmp_path), is_trial=True)
    run_on(record_of(trial.mirror), "os.mkdir(folder)", tmp_path / "out")
    Scratch(tmp_path / "state", "next", lambda work: None).begin()
    assert not (tmp_path / "out").exists()


def test_libraries_see_that_the_functions_can_do_what_they_could(tmp_path: Path) -> None:
    able = "assert {os.stat, os.mkdir} <= os.supports_dir_fd and os.stat in os.supports_follow_symlinks"
    run_on(
        tmp_path / "record",
        f"{able}; os.mkdir('x', dir_fd=os.open('.', os.O_RDONLY)); os.rmdir('x')",
        tmp_path,
    )
