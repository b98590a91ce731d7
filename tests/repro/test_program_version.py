"""The commit that a page names is that of the files that were run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swell_papers.experiment import version_at


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", "-C", folder, *names, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    source = tmp_path / "src"
    source.mkdir()
    (source / "a.py").write_text("a = 1\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "Begin")
    return source


def test_a_clone_has_its_commit_and_says_what_is_not_committed(clone: Path) -> None:
    commit = git(clone, "rev-parse", "--short=10", "HEAD")
    assert version_at(clone) == f"commit {commit}"
    (clone.parent / "notes.txt").write_text("not of the program")
    assert version_at(clone) == f"commit {commit}"
    (clone / "a.py").write_text("a = 2\n")
    assert version_at(clone) == f"commit {commit} with uncommitted changes"


def test_files_that_git_does_not_know_have_no_commit(clone: Path, tmp_path: Path) -> None:
    installed = clone / "site-packages"
    installed.mkdir()
    (installed / "b.py").write_text("b = 1\n")
    assert version_at(installed) == ""
    assert version_at(tmp_path / "missing") == ""
