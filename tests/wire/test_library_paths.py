"""A library is known by what was installed, wherever that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.executors.local.zygote import process
from swell.train.runtime import runner
from swell.wire.library_paths import is_library

#: A package that asks how many workers there are, and a script that has it do so.
PACKAGE = 'import os\n\n\ndef num_workers():\n    return os.environ.get("WORLD_SIZE")\n'


def install(folder: Path, package: str, *, is_recorded: bool) -> Path:
    """As `pip install --target` does; or as a copy of a package is made there."""
    (folder / package).mkdir(parents=True)
    file = folder / package / "__init__.py"
    file.write_text(PACKAGE)
    if is_recorded:
        record = folder / f"{package}-1.0.dist-info" / "RECORD"
        record.parent.mkdir()
        record.write_text(f"{package}/__init__.py,sha256=x,90\nsingle.py,sha256=x,1\n../../bin/{package},,\n")
    return file


@pytest.mark.parametrize(
    ("package", "is_recorded", "is_known"),
    [
        ("fancy", True, True),
        ("fancier", False, False),
        ("lightning", False, True),
        ("accelerate", True, True),
    ],
)
def test_a_package_is_a_library_wherever_it_was_installed(
    package: str, is_recorded: bool, is_known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = install(tmp_path, package, is_recorded=is_recorded)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert is_library(str(file)) == is_known
    assert is_library(str(tmp_path / "site-packages" / package / "x.py"))


def test_what_runs_below_a_script_in_a_worker_is_no_part_of_it() -> None:
    assert is_library(process.__file__) and is_library(runner.__file__)
    assert not is_library(__file__)
