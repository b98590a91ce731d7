"""What a job of a script that is written otherwise ends with."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scripts.gang import outcome_at


def refusal_of(script: Path, line: str, other: str, folder: Path) -> str:
    """Why a job of the script fails that has another text in place of a line."""
    text = script.read_text()
    assert line in text
    written = folder / "other.py"
    written.write_text(text.replace(line, other))
    with pytest.raises(AssertionError) as failed:
        outcome_at(written, folder / "job", 1)
    return str(failed.value)
