"""A check of a script that does not call `elastic`."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.executors.local import script_check
from swell.executors.local.devices import parse_devices


@pytest.mark.slow
def test_a_script_that_does_not_come_to_its_loop_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_check, "LIMIT_S", 1.0)
    script = tmp_path / "train.py"
    script.write_text("import time\nfrom swell import train\nwhile True: time.sleep(1)")
    [node, *_] = parse_devices("cpu")
    checked = script_check.check_script(str(script), [], next(iter(node.bindings.values())))
    assert "has not called swell.train.elastic within 1 s" in checked.failure
