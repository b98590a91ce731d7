"""`swell demo` asked for what it cannot do: one line, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.eventually import PATIENCE_S
from tests.started_program import run_program


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--devices", "paced:8"], "devices 'paced:8' are not known"),
        (["--json", "taken/out.json"], "--json: taken is a file"),
        (["--json", "temporary"], "--json: temporary is a folder"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "temporary").mkdir()
    environ = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    done = run_program("demo", *arguments, environ=environ, timeout_s=PATIENCE_S, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"swell: {says}")
    assert len(done.stderr.splitlines()) == 1
    assert list((tmp_path / "temporary").glob("swell-demo-*")) == []
