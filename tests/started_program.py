"""The program `swell` in a process of its own, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def run_program(
    *words: object, environ: Mapping[str, str], timeout_s: float, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """In a folder, the current one if None, with nothing to read. Raises TimeoutExpired."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "swell.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
        env=environ,
        cwd=folder,
        check=False,
    )
