"""What a check can say of a script without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.executors.local import script_check
from swell.executors.local.devices import parse_devices
from swell.executors.local.script_sources import may_use_swell


def project(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return str(folder / "train.py")


@pytest.mark.parametrize(
    "files",
    [
        {"train": "from swell import train"},
        {"train": "def main():\n    import swell.train"},
        {"train": "import loops", "loops": "from swell.train import elastic"},
        {"train": "from pkg.loops import fit", "pkg__init": "", "pkg__loops": "import swell"},
        {"train": "from pkg import loops", "pkg__loops": "from . import deep", "pkg__deep": "import swell"},
        {"train": "import importlib; importlib.import_module('sw' + 'ell')"},
        {"train": "this is no Python"},
    ],
)
def test_a_script_that_may_use_swell_is_run(files: dict[str, str], tmp_path: Path) -> None:
    assert may_use_swell(project(tmp_path, **files))


@pytest.mark.parametrize(
    "files",
    [
        {"train": "import torch, numpy as np"},
        {"train": "import loops", "loops": "import train, json"},
        {
            "train": "from pkg.loops import fit",
            "pkg__loops": "from .other import x",
            "pkg__other": "x = 'swells'",
        },
    ],
)
def test_a_script_that_cannot_is_answered_at_once(files: dict[str, str], tmp_path: Path) -> None:
    script = project(tmp_path, **files)
    assert not may_use_swell(script)
    [node, *_] = parse_devices("cpu")
    checked = script_check.check_script(script, [], next(iter(node.bindings.values())), python="/nowhere")
    assert "never calls swell.train.elastic, nor does what it imports" in checked.failure


@pytest.mark.slow
def test_a_script_that_does_not_come_to_its_loop_is_told_of_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_check, "FIRST_TOLD_S", 0.1)
    monkeypatch.setattr(script_check, "LIMIT_S", 1.0)
    script = project(tmp_path, train="import time\nfrom swell import train\nwhile True: time.sleep(1)")
    [node, *_] = parse_devices("cpu")
    told: list[str] = []
    checked = script_check.check_script(script, [], next(iter(node.bindings.values())), tell=told.append)
    assert "has not called swell.train.elastic within 1 s" in checked.failure
    assert "it is waited for 1 s" in told[0]
