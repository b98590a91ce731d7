"""Real traces, where they lie beside the repository or $SWELL_DATA says where; without them tests skip."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("SWELL_DATA") or ROOT.parent / "shared" / "data")

Write = Callable[..., Path]


@pytest.fixture
def data() -> Callable[[str], Path]:
    """A file or folder of the real inputs."""

    def find(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"no {name} among the real inputs; say with SWELL_DATA where they are")
        return path

    return find


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file with this text."""

    def make(text: str, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return make
