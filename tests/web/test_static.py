"""What every module of ours keeps to."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.web.assets import asset
from swell.web.bundle import bundle

MODULES = sorted(file.name for file in asset("static").iterdir() if file.name.endswith(".js"))
MOST_LINES = 400


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_short_and_loads_nothing_from_elsewhere(name: str) -> None:
    text = Path(str(asset(f"static/{name}"))).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("name", ["simulation.js"])
def test_modules_of_reports_become_one_script(name: str) -> None:
    assert f'modules["static/{name}"]' in bundle(f"static/{name}")
