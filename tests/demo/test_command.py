"""`swell demo` asked for what it cannot do: one line, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--devices", "paced:8"], "devices 'paced:8' are not known"),
        (["--out", "taken/pictures"], "folder taken/pictures cannot be created"),
        (["--json", "taken/out.json"], "folder taken cannot be created"),
        (["--json", "temporary"], "temporary is a folder"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "swell.cli.main", "demo", *arguments],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "temporary")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"swell: {says}")
    assert len(done.stderr.splitlines()) == 1
    assert list((tmp_path / "temporary").glob("swell-demo-*")) == []
