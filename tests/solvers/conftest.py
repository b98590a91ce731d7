"""Here tests say themselves which code runs: what a simulation before them has asked for must not."""

from __future__ import annotations

import pytest

from swell import compiled


@pytest.fixture(autouse=True)
def no_simulation_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_always", False)
