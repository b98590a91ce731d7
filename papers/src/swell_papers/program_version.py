"""Which program a figure is of: the version, and the commit where it runs from a clone."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from swell import __version__

#: Characters of a commit.
SHOWN = 10


@cache
def program_version() -> str:
    """`swell 0.1.0, commit 1a2b3c4d5e`, and whether it has uncommitted changes; only in a clone."""
    commit = version_at(Path(__file__).parent)
    return f"swell {__version__}" + (f", {commit}" if commit else "")


def version_at(folder: Path) -> str:
    """The commit of a folder's files; empty if Git does not know them."""
    if not _git(folder, "ls-files", "--error-unmatch", "."):
        return ""
    commit = _git(folder, "rev-parse", f"--short={SHOWN}", "HEAD")
    is_changed = bool(_git(folder, "status", "--porcelain", "--untracked-files=no", ":/src", ":/papers"))
    return f"commit {commit}" + (" with uncommitted changes" if is_changed else "") if commit else ""


def _git(folder: Path, *words: str) -> str:
    """What it prints; empty if it fails, or is not there."""
    if (git := shutil.which("git")) is None:
        return ""
    return subprocess.run([git, "-C", str(folder), *words], capture_output=True, text=True).stdout.strip()
