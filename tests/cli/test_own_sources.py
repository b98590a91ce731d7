"""The commands that tests start run this tree's code, wherever the program is installed from."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.cli.conftest import FAKES, ROOT
from tests.platform.wall import SITE_AND_SOURCES


@pytest.mark.parametrize("python_path", [FAKES, SITE_AND_SOURCES])
def test_a_command_imports_the_package_of_this_tree(python_path: str) -> None:
    words = [sys.executable, "-S", "-P", "-c", "import swell; print(swell.__file__)"]  # -S: nothing installed
    environ = {**os.environ, "PYTHONPATH": python_path}
    found = subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout.strip()
    assert found == str(ROOT / "src" / "swell" / "__init__.py")
